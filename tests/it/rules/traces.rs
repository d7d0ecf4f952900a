//! Each trace that broke a promise of the model while one rule was as first written, and what the rule as it is
//! now makes of it. The groups: R (cpu 8, gpu 4, cash 400), under it A (cpu 4, cash 200) and B (gpu 2); S (cpu 4).

use super::world::{Adm, Dem, Hard, Prop, QSpec, Real, Rec};
use bizrq::domain::{
    admission::Reason,
    book::{Declared, Fault, Frozen, Outcome},
    event::Operation::{self, Create, Delete, Update},
};

/// Tells a trace to the book, one line a step.
struct Trace {
    real: Real,
    rv: u64,
}

/// A change of a workload: `shop(5).was("A", [1, 0]).asks("R", [2, 0])`.
#[derive(Clone)]
struct Asking(Adm);

fn create(uid: u32, name: &'static str, group: &'static str, dem: Dem) -> Asking {
    Asking(Adm { op: Create, uid, name, old_rv: 0, group, dem, old: None, resize: None })
}

/// An update of version `rv`.
fn update(uid: u32, rv: u64, from: (&'static str, Dem), to: (&'static str, Dem)) -> Asking {
    let (group, dem) = to;
    Asking(Adm {
        op: Update,
        uid,
        name: "w0",
        old_rv: rv,
        group,
        dem,
        old: Some(from),
        resize: None,
    })
}

/// A resize of `pod` of workload `uid` in `group`.
fn resize(uid: u32, group: &'static str, pod: u32, rv: u64, from: Dem, to: Dem) -> Asking {
    let resize = Some((pod, from, to));
    Asking(Adm { op: Update, uid, name: "p", old_rv: rv, group, dem: from, old: None, resize })
}

fn quota(op: Operation, name: &'static str, uid: u32, old_rv: u64, spec: Option<QSpec>) -> Prop {
    Prop { op, name, uid, old_rv, spec }
}

const fn hard(cpu: i64, gpu: i64, cash: i64) -> Hard {
    const fn some(n: i64) -> Option<i64> {
        if n < 0 { None } else { Some(n) }
    }
    [some(cpu), some(gpu), some(cash)]
}

const A_HARD: Hard = hard(4, -1, 200);
const B_HARD: Hard = hard(-1, 2, -1);

impl Trace {
    fn new() -> Self {
        let mut trace = Self { real: Real::new(), rv: 0 };
        trace.declared("R", 1, "", hard(8, 4, 400));
        trace.declared("A", 2, "R", A_HARD);
        trace.declared("B", 3, "R", B_HARD);
        trace.declared("S", 4, "", hard(4, -1, -1));
        trace
    }

    fn rv(&mut self) -> u64 {
        self.rv += 1;
        self.rv
    }

    fn declared(
        &mut self,
        name: &'static str,
        uid: u32,
        parent: &'static str,
        hard: Hard,
    ) -> Declared {
        let rv = self.rv();
        self.real.apply(&Rec::Declared { name, uid, rv, spec: (parent, hard) }).unwrap()
    }

    /// Reviewed, allowed, and on the log; returns the position.
    fn admitted(&mut self, asking: &Asking) -> u64 {
        let record = self.real.review(std::slice::from_ref(&asking.0)).remove(0);
        let record = record.expect("allowed").expect("recorded");
        self.real.apply(&Rec::Admitted(vec![record]));
        self.real.position
    }

    fn refused(&mut self, asking: &Asking) -> Reason {
        let verdict = self.real.review(std::slice::from_ref(&asking.0)).remove(0);
        verdict.expect_err("refused").reason
    }

    fn passes_without_a_record(&mut self, asking: &Asking) {
        let verdict = self.real.review(std::slice::from_ref(&asking.0)).remove(0);
        assert_eq!(verdict.expect("allowed"), None);
    }

    fn observed(&mut self, uid: u32, group: &'static str, dem: Dem) -> u64 {
        let rv = self.rv();
        self.real.apply(&Rec::Observed { uid, name: "w0", rv, group, dem });
        rv
    }

    fn pod(&mut self, uid: u32, top: u32, group: &'static str, dem: Dem) -> u64 {
        self.real.apply(&Rec::Pod { uid, top, group, dem, bound: true });
        self.rv()
    }

    fn expired(&mut self, position: u64, uid: u32) {
        self.real.apply(&Rec::Expired { position, uid: Some(uid), quota: "" });
    }

    fn proposed(&mut self, proposal: &Prop) -> u64 {
        let proposal = self.real.review_quota(proposal, false).expect("let through");
        self.real.apply(&Rec::Proposed(proposal));
        self.real.position
    }

    fn quota_refused(&mut self, proposal: &Prop) -> Reason {
        self.real.review_quota(proposal, false).expect_err("refused").reason
    }

    fn hours(&mut self, hours: i64) {
        self.real.now += hours;
    }

    fn is_frozen(&mut self, group: &str) -> Option<Frozen> {
        let group = self.real.group(group);
        self.real.book.frozen(group)
    }

    fn open(&self) -> usize {
        self.real.book.reservations().count()
    }
}

#[test]
fn what_asks_for_more_than_the_old_object_is_recorded_though_the_charge_covers_it() {
    let mut t = Trace::new();
    t.admitted(&create(5, "w0", "R", [1, 0]));
    let rv = t.observed(5, "R", [1, 0]);
    let pod_rv = t.pod(6, 5, "R", [1, 0]);
    t.admitted(&resize(5, "R", 6, pod_rv, [1, 0], [4, 0]));
    assert_eq!(t.real.used("R")[0], 8, "4 to A, 1 and the resize");
    // 2 is covered by the 4 that are charged, and would not be when they shrink; so it is checked and refused.
    assert_eq!(t.refused(&update(5, rv, ("R", [1, 0]), ("R", [2, 2]))), Reason::QuotaExceeded);
    assert_eq!(t.real.used("R"), [8, 2]);
}

#[test]
fn growth_is_checked_on_what_the_charge_becomes() {
    let mut t = Trace::new();
    t.admitted(&create(5, "w0", "R", [1, 0]));
    let rv = t.observed(5, "R", [1, 0]);
    // Moving to A adds there, and stays charged in R as well until it is real: 2 + 2 cards and B's 2 are 6 of 4.
    assert_eq!(t.refused(&update(5, rv, ("R", [1, 0]), ("A", [4, 2]))), Reason::QuotaExceeded);
    assert_eq!(t.real.used("R"), [5, 2]);
}

#[test]
fn a_move_asks_for_all_that_is_charged_though_the_new_object_asks_for_nothing() {
    let mut t = Trace::new();
    t.admitted(&create(5, "w0", "R", [1, 0]));
    let rv = t.observed(5, "R", [1, 0]);
    t.admitted(&create(7, "w1", "S", [4, 0]));
    assert_eq!(t.refused(&update(5, rv, ("R", [1, 0]), ("S", [0, 0]))), Reason::QuotaExceeded);
    // With room it is recorded, and the pods count where their workload goes.
    t.pod(6, 5, "R", [1, 0]);
    t.admitted(&update(5, rv, ("R", [1, 0]), ("A", [0, 0])));
    assert_eq!((t.real.own("R")[0], t.real.own("A")[0]), (1, 1));
    let seen = t.observed(5, "A", [0, 0]);
    t.expired(t.real.position, 5);
    assert_eq!((t.real.own("R")[0], t.real.own("A")[0]), (0, 1), "version {seen} is in A");
    t.pod(6, 5, "A", [1, 0]);
    assert_eq!(t.real.own("A")[0], 1);
}

#[test]
fn a_proposal_expires_like_an_admission() {
    let mut t = Trace::new();
    let position = t.proposed(&quota(Delete, "A", 2, 2, None));
    assert_eq!(t.is_frozen("A"), Some(Frozen::Leaving));
    t.real.apply(&Rec::Expired { position, uid: None, quota: "A" });
    assert_eq!(t.is_frozen("A"), None);
}

#[test]
fn a_later_version_ends_every_older_reservation_in_any_order_of_reading() {
    let mut t = Trace::new();
    t.admitted(&create(5, "w0", "R", [2, 0]));
    t.rv = 4;
    t.admitted(&update(5, 5, ("R", [2, 0]), ("A", [0, 0])));
    t.observed(5, "R", [2, 0]);
    t.observed(5, "A", [0, 0]);
    t.admitted(&update(5, 6, ("A", [0, 0]), ("R", [2, 0])));
    t.observed(5, "R", [2, 0]);
    // A second observer tells all of it again.
    for (rv, group, dem) in [(5, "R", [2, 0]), (6, "A", [0, 0]), (7, "R", [2, 0])] {
        t.real.apply(&Rec::Observed { uid: 5, name: "w0", rv, group, dem });
    }
    let kept: Vec<_> = t.real.book.reservations().map(|o| o.ticket.position).collect();
    kept.iter().for_each(|position| t.expired(*position, 5));
    assert_eq!((t.open(), t.real.own("R"), t.real.own("A")), (0, [2, 0], [0, 0]));
}

#[test]
fn while_a_change_of_parent_is_open_both_parents_have_the_child() {
    let mut t = Trace::new();
    t.real.apply(&Rec::Declared { name: "A", uid: 2, rv: 90, spec: ("R", hard(4, 2, 200)) });
    t.proposed(&quota(Update, "B", 3, 3, Some(("A", B_HARD))));
    assert_eq!(t.quota_refused(&quota(Delete, "A", 2, 90, None)), Reason::HasChildren);
    assert_eq!(t.is_frozen("B"), Some(Frozen::Moving));
    assert_eq!(
        (t.real.used("A")[1], t.real.used("R")[1]),
        (2, 4),
        "B's 2 in A and in R, beside A's 2"
    );
    // Nor may A come below B meanwhile.
    assert_eq!(t.quota_refused(&quota(Update, "A", 2, 90, Some(("B", A_HARD)))), Reason::Cycle);
}

#[test]
fn a_group_whose_removal_is_open_is_no_parent() {
    let mut t = Trace::new();
    t.proposed(&quota(Delete, "A", 2, 2, None));
    let to_a = quota(Update, "B", 3, 3, Some(("A", B_HARD)));
    assert_eq!(t.quota_refused(&to_a), Reason::ParentNotFound);
    t.real.apply(&Rec::Removed { name: "A", uid: 2 });
    assert_eq!(t.quota_refused(&to_a), Reason::ParentNotFound);
}

#[test]
fn a_group_that_changes_its_tree_admits_nothing() {
    let mut t = Trace::new();
    t.proposed(&quota(Update, "A", 2, 2, Some(("", A_HARD))));
    assert_eq!(t.refused(&create(5, "w0", "A", [1, 0])), Reason::UnknownGroup);
    assert_eq!(t.declared("A", 2, "", A_HARD).outcome, Outcome::InForce);
    t.admitted(&create(5, "w0", "A", [1, 0]));
}

#[test]
fn a_subtree_that_holds_or_has_spent_stays_in_its_tree_whatever_was_let_through() {
    let mut t = Trace::new();
    let to_root = quota(Update, "B", 3, 3, Some(("", hard(-1, 2, -1))));
    t.proposed(&to_root);
    // Meanwhile something unreviewed came to B.
    t.pod(6, 5, "B", [1, 0]);
    let declared = t.declared("B", 3, "", hard(-1, 2, -1));
    let b = t.real.group("B");
    assert_eq!(declared.outcome, Outcome::Invalid(Fault::DifferentTree(b)));
    let r = t.real.group("R");
    assert_eq!(t.real.book.declaration(b).unwrap().spec.parent, Some(r));
    assert!(t.real.book.invalid(b).is_some(), "shown as Ready=False");
    assert_eq!(t.real.used("R")[0], 5, "the spend of B still counts in R's tree");
}

#[test]
fn a_group_with_a_busy_child_may_not_leave_its_tree() {
    let mut t = Trace::new();
    t.real.apply(&Rec::Declared { name: "B", uid: 3, rv: 90, spec: ("R", hard(4, 2, 200)) });
    t.proposed(&quota(Update, "A", 2, 2, Some(("B", A_HARD))));
    t.declared("A", 2, "B", A_HARD);
    t.admitted(&create(5, "w0", "A", [1, 0]));
    let leave = quota(Update, "B", 3, 90, Some(("", hard(4, 2, 200))));
    assert_eq!(t.quota_refused(&leave), Reason::DifferentTree);
}

#[test]
fn of_several_creates_of_one_name_the_largest_counts() {
    let mut t = Trace::new();
    t.admitted(&create(5, "w0", "R", [2, 0]));
    // As first written the newer replaced the older, and 3 more were let in on top: 9 of 8.
    assert_eq!(t.refused(&create(6, "w0", "R", [5, 0])), Reason::QuotaExceeded);
    assert_eq!(t.refused(&create(7, "w1", "R", [3, 0])), Reason::QuotaExceeded);
    t.admitted(&create(8, "w0", "R", [1, 0]));
    assert_eq!(t.real.own("R"), [2, 0], "a loop of clashing creates holds one reservation");
    t.admitted(&create(9, "w1", "R", [2, 0]));
    assert_eq!(t.real.own("R"), [4, 0]);
}

#[test]
fn a_smaller_create_of_a_name_does_not_free_the_larger() {
    let mut t = Trace::new();
    t.admitted(&create(5, "w0", "R", [3, 0]));
    t.admitted(&create(6, "w0", "R", [1, 1]));
    assert_eq!(t.real.own("R"), [3, 1]);
    t.observed(6, "R", [1, 1]);
    assert_eq!(t.real.own("R"), [4, 1], "one is real, the other may still be promised to a pod");
    t.expired(5, 5);
    assert_eq!(t.real.own("R"), [1, 1]);
}

#[test]
fn an_old_observation_says_nothing() {
    let mut t = Trace::new();
    t.admitted(&create(5, "w0", "R", [1, 0]));
    t.observed(5, "R", [1, 0]);
    t.real.apply(&Rec::Gone { uid: 5 });
    let kept = t.real.position;
    t.observed(5, "R", [3, 0]);
    assert_eq!(t.real.own("R"), [1, 0], "kept for pods that may still come");
    t.expired(kept, 5);
    t.observed(5, "R", [3, 0]);
    assert_eq!((t.real.own("R"), t.open()), ([0, 0], 0));
}

#[test]
fn what_is_lowered_stays_charged_until_its_end_is_told() {
    let mut t = Trace::new();
    t.admitted(&create(5, "w0", "A", [3, 0]));
    let rv = t.observed(5, "A", [3, 0]);
    t.passes_without_a_record(&update(5, rv, ("A", [3, 0]), ("A", [1, 0])));
    t.observed(5, "A", [1, 0]);
    let kept = t.real.position;
    assert_eq!(t.real.own("A"), [3, 0]);
    // A pod that was admitted against the 3 comes late: nothing grows.
    t.pod(6, 5, "A", [3, 0]);
    assert_eq!((t.real.own("A"), t.real.unreviewed("A")), ([3, 0], [0, 0]));
    t.expired(kept, 5);
    assert_eq!(
        (t.real.own("A"), t.real.unreviewed("A")),
        ([3, 0], [2, 0]),
        "now it is above its workload"
    );
    t.real.apply(&Rec::Ended { uid: 6 });
    assert_eq!((t.real.own("A"), t.real.unreviewed("A")), ([1, 0], [0, 0]));
}

#[test]
fn pods_count_where_their_workload_is_while_they_move() {
    let mut t = Trace::new();
    t.admitted(&create(5, "w0", "A", [1, 0]));
    let rv = t.observed(5, "A", [1, 0]);
    t.pod(6, 5, "A", [1, 0]);
    t.admitted(&update(5, rv, ("A", [1, 0]), ("R", [1, 0])));
    t.observed(5, "R", [1, 0]);
    let kept = t.real.position;
    assert_eq!((t.real.own("A")[0], t.real.own("R")[0]), (1, 1), "A is kept, R has it");
    t.expired(kept, 5);
    assert_eq!(
        (t.real.own("A")[0], t.real.own("R")[0]),
        (0, 1),
        "though the pod was last recorded in A"
    );
}

#[test]
fn a_pod_in_another_group_than_its_workload_leaves_its_maximum() {
    let mut t = Trace::new();
    t.admitted(&create(5, "w0", "R", [2, 0]));
    let rv = t.observed(5, "R", [2, 0]);
    t.pod(6, 5, "A", [1, 0]);
    t.pod(7, 5, "R", [1, 0]);
    assert_eq!((t.real.own("R")[0], t.real.own("A")[0]), (2, 1));
    // The workload comes to where the pod is: now they count together.
    t.admitted(&update(5, rv, ("R", [2, 0]), ("A", [2, 0])));
    t.observed(5, "A", [2, 0]);
    t.expired(t.real.position, 5);
    assert_eq!((t.real.own("R")[0], t.real.own("A")[0]), (0, 2));
}

#[test]
fn pods_are_charged_from_their_creation() {
    let mut t = Trace::new();
    t.admitted(&create(5, "w0", "R", [1, 0]));
    t.observed(5, "R", [1, 0]);
    t.real.apply(&Rec::Pod { uid: 6, top: 5, group: "R", dem: [1, 0], bound: false });
    t.real.apply(&Rec::Gone { uid: 5 });
    t.expired(t.real.position, 5);
    assert_eq!(t.real.own("R"), [1, 0], "the pod that waits for a node outlives its workload");
}

#[test]
fn a_resize_reserves_inside_its_workload() {
    let mut t = Trace::new();
    t.admitted(&create(5, "w0", "R", [1, 0]));
    t.observed(5, "R", [1, 0]);
    let rv = t.pod(6, 5, "R", [1, 0]);
    t.admitted(&resize(5, "R", 6, rv, [1, 0], [4, 0]));
    assert_eq!(t.real.used("R"), [8, 2], "1 of the pod and 3 more, not 1 and 4");
    t.pod(6, 5, "R", [4, 0]);
    assert_eq!((t.real.used("R"), t.open()), ([8, 2], 0));
    assert_eq!(t.real.unreviewed("R"), [0, 0]);
    assert_eq!(t.refused(&resize(5, "R", 6, rv, [4, 0], [5, 0])), Reason::QuotaExceeded);
}

#[test]
fn a_declaration_whose_proposal_is_open_is_not_judged_a_second_time() {
    let mut t = Trace::new();
    t.proposed(&quota(Update, "A", 2, 2, Some(("R", hard(6, -1, 200)))));
    // Something unreviewed fills R in between.
    t.pod(6, 5, "R", [3, 0]);
    assert_eq!(t.declared("A", 2, "R", hard(6, -1, 200)).outcome, Outcome::InForce);
    assert_eq!((t.real.used("R")[0], t.real.unreviewed("R")[0]), (9, 3));
    // Without a proposal it would have been.
    let outcome = t.declared("A", 2, "R", hard(7, -1, 200)).outcome;
    assert!(matches!(outcome, Outcome::Invalid(Fault::ParentExceeded(_))), "{outcome:?}");
}

#[test]
fn an_expiry_of_what_was_observed_has_no_effect() {
    let mut t = Trace::new();
    let position = t.admitted(&create(5, "w0", "R", [2, 0]));
    t.observed(5, "R", [2, 0]);
    t.expired(position, 5);
    assert_eq!((t.real.own("R"), t.real.unreviewed("R")), ([2, 0], [0, 0]));
}

#[test]
fn what_is_seen_after_its_expiry_is_charged_and_unreviewed() {
    let mut t = Trace::new();
    let position = t.admitted(&create(5, "w0", "R", [2, 0]));
    t.expired(position, 5);
    assert_eq!(t.real.own("R"), [0, 0]);
    t.observed(5, "R", [2, 0]);
    assert_eq!((t.real.own("R"), t.real.unreviewed("R")), ([2, 0], [2, 0]));
}

#[test]
fn a_kept_reservation_holds_only_what_grows() {
    let mut t = Trace::new();
    t.admitted(&create(5, "w0", "R", [3, 0]));
    let rv = t.observed(5, "R", [3, 0]);
    t.admitted(&update(5, rv, ("R", [3, 0]), ("R", [1, 2])));
    assert_eq!(t.real.own("R"), [3, 2]);
    t.observed(5, "R", [1, 2]);
    t.expired(t.real.position, 5);
    assert_eq!((t.real.own("R"), t.open()), ([1, 2], 0));
}

#[test]
fn a_child_declared_before_its_parent_comes_into_force_with_it() {
    let mut t = Trace::new();
    let outcome = t.declared("D", 9, "E", hard(1, -1, -1)).outcome;
    assert!(matches!(outcome, Outcome::Invalid(Fault::ParentNotFound(_))));
    assert_eq!(t.refused(&create(5, "w0", "D", [1, 0])), Reason::UnknownGroup);
    assert_eq!(t.declared("E", 10, "R", hard(2, -1, -1)).outcome, Outcome::InForce);
    t.admitted(&create(5, "w0", "D", [1, 0]));
    assert_eq!(t.real.used("R")[0], 6, "4 to A, 2 to E, of which 1 to D");
}

#[test]
fn what_was_not_in_force_is_tried_again_when_room_was_made_and_any_quota_changes() {
    let mut t = Trace::new();
    t.admitted(&create(5, "w0", "R", [3, 0]));
    let outcome = t.declared("E", 9, "R", hard(2, -1, -1)).outcome;
    assert!(matches!(outcome, Outcome::Invalid(Fault::ParentExceeded(_))), "{outcome:?}");
    t.real.apply(&Rec::Gone { uid: 5 });
    t.expired(t.real.position - 2, 5);
    let e = t.real.names.known_group("E").unwrap();
    assert!(t.real.book.invalid(e).is_some());
    t.declared("S", 4, "", hard(5, -1, -1));
    assert_eq!((t.real.book.invalid(e), t.real.used("R")[0]), (None, 6), "4 to A, 2 to E");
}

#[test]
fn a_limit_that_was_lowered_below_use_stops_growth_and_nothing_else() {
    let mut t = Trace::new();
    t.admitted(&create(5, "w0", "S", [3, 0]));
    let rv = t.observed(5, "S", [3, 0]);
    t.proposed(&quota(Update, "S", 4, 4, Some(("", hard(2, -1, -1)))));
    t.declared("S", 4, "", hard(2, -1, -1));
    assert_eq!(t.real.unreviewed("S"), [1, 0]);
    t.passes_without_a_record(&update(5, rv, ("S", [3, 0]), ("S", [3, 0])));
    t.passes_without_a_record(&update(5, rv, ("S", [3, 0]), ("S", [2, 0])));
    assert_eq!(t.refused(&update(5, rv, ("S", [3, 0]), ("S", [4, 0]))), Reason::QuotaExceeded);
    t.hours(1);
    assert_eq!(t.refused(&create(6, "w1", "S", [1, 0])), Reason::QuotaExceeded);
}
