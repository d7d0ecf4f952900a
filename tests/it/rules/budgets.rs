//! A spent budget is not regained by any sequence of edits: each sequence ends with the group, and whoever could
//! have taken its place, refused as before. R has 10 core-hours, A 4 of them; one core runs in A for 4 hours.

use super::world::{Adm, CASH, CPU, Hard, Prop, QSpec, Real, Rec};
use bizrq::domain::{
    admission::Reason,
    book::{Declared, Exhaustion, Outcome, Spend},
    event::Operation::{self, Create, Delete, Update},
    names::{GroupId, KeyId},
    time::{HOUR_MS, ORIGIN, Timestamp},
};

struct Budgets {
    real: Real,
    rv: u64,
}

const fn cash(cash: Option<i64>) -> Hard {
    [Some(8), None, cash]
}

impl Budgets {
    /// A has spent its 4 hours, and nothing runs any more.
    fn spent() -> Self {
        let mut b = Self { real: Real::new(), rv: 0 };
        b.say("R", 1, Some(("", cash(Some(10)))));
        b.say("A", 2, Some(("R", [Some(4), None, Some(4)])));
        b.run("A", 6, 4);
        b
    }

    /// The object says this from now on, reviewed or not as it may be.
    fn say(&mut self, name: &'static str, uid: u32, spec: Option<QSpec>) -> Option<Declared> {
        self.rv += 1;
        match spec {
            Some(spec) => self.real.apply(&Rec::Declared { name, uid, rv: self.rv, spec }),
            None => self.real.apply(&Rec::Removed { name, uid }),
        }
    }

    /// A pod of one core runs in `group` for some hours.
    fn run(&mut self, group: &'static str, uid: u32, hours: i64) {
        self.real.apply(&Rec::Pod { uid, top: uid, group, dem: [1, 0], bound: true });
        self.real.now += hours;
        self.real.apply(&Rec::Ended { uid });
    }

    fn review(
        &mut self,
        op: Operation,
        name: &'static str,
        uid: u32,
        spec: Option<QSpec>,
    ) -> Result<(), Reason> {
        let old_rv = if op == Create { 0 } else { 1_000 };
        let asked = Prop { op, name, uid, old_rv, spec };
        self.real.review_quota(&asked, true).map(|_| ()).map_err(|refusal| refusal.reason)
    }

    /// Whether a core may be asked for in `group`.
    fn ask(&mut self, group: &'static str) -> Result<(), Reason> {
        let adm = Adm {
            op: Create,
            uid: 99,
            name: "w9",
            old_rv: 0,
            group,
            dem: [1, 0],
            old: None,
            resize: None,
        };
        let verdict = self.real.review(&[adm]).remove(0);
        verdict.map(|_| ()).map_err(|refusal| refusal.reason)
    }

    /// Hours of R's 10 that are used or given.
    fn used_of_r(&mut self) -> i64 {
        let (r, cpu) = (self.real.group("R"), self.real.names.key(CPU));
        let used = self.real.book.budget_used(r, cpu, &self.real.till, self.real.time());
        i64::try_from(used / i128::from(1000 * HOUR_MS)).unwrap()
    }
}

#[test]
fn a_key_left_out_of_a_child_is_drawn_from_its_parent() {
    let mut b = Budgets::spent();
    assert_eq!(b.ask("A"), Err(Reason::CashExhausted));
    b.say("A", 2, Some(("R", [Some(4), None, None])));
    assert_eq!((b.used_of_r(), b.ask("A")), (4, Ok(())), "now it draws on R's other 6");
    b.run("A", 7, 6);
    assert_eq!(
        (b.used_of_r(), b.ask("A"), b.ask("R")),
        (10, Err(Reason::CashExhausted), Err(Reason::CashExhausted))
    );
    // Listed again, it is as spent as it was.
    b.say("A", 2, Some(("R", [Some(4), None, Some(4)])));
    assert_eq!((b.used_of_r(), b.ask("A")), (10, Err(Reason::CashExhausted)));
}

#[test]
fn lowered_then_raised_is_spent_all_the_same() {
    let mut b = Budgets::spent();
    b.say("A", 2, Some(("R", [Some(4), None, Some(0)])));
    assert_eq!(
        (b.used_of_r(), b.ask("A")),
        (4, Err(Reason::CashExhausted)),
        "what it spent stays given"
    );
    b.say("A", 2, Some(("R", [Some(4), None, Some(4)])));
    assert_eq!((b.used_of_r(), b.ask("A")), (4, Err(Reason::CashExhausted)));
    assert_eq!(
        b.review(Update, "A", 2, Some(("R", [Some(4), None, Some(11)]))),
        Err(Reason::ParentExceeded)
    );
    assert_eq!(b.review(Update, "R", 1, Some(("", cash(Some(3))))), Err(Reason::BelowChildren));
}

#[test]
fn removed_and_created_again_it_resumes_its_account() {
    let mut b = Budgets::spent();
    b.say("A", 2, None);
    assert_eq!(b.used_of_r(), 4, "its spend counts in its parent while it is gone");
    assert_eq!(
        b.review(Create, "B", 8, Some(("R", [Some(4), None, Some(7)]))),
        Err(Reason::ParentExceeded)
    );
    b.say("A", 9, Some(("R", [Some(4), None, Some(4)])));
    assert_eq!((b.used_of_r(), b.ask("A")), (4, Err(Reason::CashExhausted)));
}

#[test]
fn it_is_not_created_again_in_another_tree() {
    let mut b = Budgets::spent();
    b.say("S", 5, Some(("", cash(Some(10)))));
    b.say("A", 2, None);
    for parent in ["S", ""] {
        let spec = (parent, [Some(4), None, Some(4)]);
        assert_eq!(b.review(Create, "A", 9, Some(spec)), Err(Reason::DifferentTree), "`{parent}`");
        let declared = b.say("A", 9, Some(spec)).unwrap();
        assert!(matches!(declared.outcome, Outcome::Invalid(_)), "nor past the webhook");
    }
    assert_eq!(b.used_of_r(), 4);
}

#[test]
fn a_root_that_has_spent_is_not_removed() {
    let mut b = Budgets::spent();
    b.say("A", 2, None);
    assert_eq!(b.review(Delete, "R", 1, None), Err(Reason::HasSpent), "A's spend is R's for ever");
    // Past the webhook it goes, and its account stays.
    b.say("R", 1, None);
    assert_eq!(b.ask("A"), Err(Reason::UnknownGroup));
    b.say("R", 9, Some(("", cash(Some(10)))));
    assert_eq!(b.used_of_r(), 4);
    b.say("S", 5, Some(("", cash(Some(10)))));
    let declared = b.say("R", 9, Some(("S", cash(Some(10))))).unwrap();
    assert!(matches!(declared.outcome, Outcome::Invalid(_)));
}

#[test]
fn what_a_parent_has_given_counts_though_nobody_has_spent_it() {
    let mut b = Budgets::spent();
    b.say("B", 3, Some(("R", [Some(2), None, Some(6)])));
    assert_eq!((b.used_of_r(), b.ask("R"), b.ask("B")), (10, Err(Reason::CashExhausted), Ok(())));
}

#[test]
fn the_exhaustion_instant_is_the_first_millisecond_that_is_spent() {
    let mut b = Budgets::spent();
    let (a, r, cpu) = (b.real.group("A"), b.real.group("R"), b.real.names.key(CPU));
    let at = |b: &Budgets, group| b.real.book.exhaustion(group, cpu, &b.real.till, b.real.time());
    assert_eq!(
        (at(&b, a), at(&b, r)),
        (Some(Exhaustion::At(b.real.time())), Some(Exhaustion::Never))
    );
    // Three cores in R: 6 core-hours are left, which last 2 hours.
    b.real.apply(&Rec::Pod { uid: 7, top: 7, group: "R", dem: [3, 0], bound: true });
    assert_eq!(at(&b, r), Some(Exhaustion::At(ORIGIN.shifted(6 * HOUR_MS))));
    // With A at work again as well, beyond what it was given: 4 cores, 1.5 hours.
    b.real.apply(&Rec::Pod { uid: 8, top: 8, group: "A", dem: [1, 0], bound: true });
    assert_eq!(at(&b, r), Some(Exhaustion::At(ORIGIN.shifted(4 * HOUR_MS + HOUR_MS * 3 / 2))));
    let key = b.real.names.key(CASH);
    assert_eq!(b.real.book.budget_of(cpu), Some(key));
    b.real.now += 3;
    let left = b.real.book.cash_left(r, cpu, &b.real.till, b.real.time()).unwrap();
    assert_eq!(
        left,
        -6 * 1000 * i128::from(HOUR_MS),
        "running work is not stopped: 4 + 3 × 4 of 10"
    );
    assert_eq!(
        b.real.book.consumed(r, cpu, &b.real.till, b.real.time()),
        16 * 1000 * i128::from(HOUR_MS)
    );
}

/// Spend that may not be asked.
struct Mute;

impl Spend for Mute {
    fn spent(&self, group: GroupId, _: KeyId, _: Timestamp) -> i128 {
        panic!("asked what {group:?} spent")
    }
    fn has_spent(&self, _: GroupId, _: Timestamp) -> bool {
        true
    }
}

#[test]
fn whoever_told_its_pace_is_not_asked() {
    let mut b = Budgets::spent();
    let (a, r, cpu) = (b.real.group("A"), b.real.group("R"), b.real.names.key(CPU));
    b.real.apply(&Rec::Pod { uid: 7, top: 7, group: "A", dem: [2, 0], bound: true });
    b.real.now += 2;
    let hours = |n: i128| n * 1000 * i128::from(HOUR_MS);
    let used = |group| b.real.book.budget_used(group, cpu, &Mute, b.real.time());
    assert_eq!((used(a), used(r)), (hours(8), hours(8)), "4 of before, 2 cores for 2 hours");
    assert_eq!(b.real.book.cash_out(a, cpu, &Mute, b.real.time()), Some(a));
}
