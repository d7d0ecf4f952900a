//! What a workload's controller makes draws on the workload's reservation, and on nothing else; and what makes
//! workloads one at a time is asked whether one of them could ever fit.

use super::world::{Dem, Real, Rec, object, pod_resize, roles};
use bizrq::domain::{
    admission::{Decision, MissingGroup, Review, decide},
    book::Trial,
    event::{ObjectRef, Operation::Create, WorkloadObserved, WorkloadsAdmitted},
    label_keys::LabelKeys,
};

/// team (cpu 6) with the workload w0 of 4 pods with a core each, of which 3 are there.
fn book() -> Real {
    let mut real = Real::new();
    let spec = ("", [Some(6), None, None]);
    real.apply(&Rec::Declared { name: "team", uid: 1, rv: 1, spec });
    let mut four = roles([1, 0]);
    four[0].count = 4;
    review(&mut real, &object(5, "w0"), &|r, ask| {
        ask(&Review { roles: &four, draws_on: None, ..r });
    })
    .unwrap();
    let observed = WorkloadObserved {
        workload: object(5, "w0"),
        resource_version: "9".into(),
        generation: 1,
        group: "team".into(),
        roles: four,
    };
    let stamp = real.stamp();
    real.book.workload_observed(&mut real.names, stamp, &observed).unwrap();
    for uid in 50..53 {
        real.apply(&Rec::Pod { uid, top: 5, group: "team", dem: [1, 0], bound: true });
    }
    real
}

/// Whether a record was needed, or the refusal. What must be recorded is.
type Answer = Result<bool, String>;

/// What is asked, given the review that most tests start from.
type Change<'c> = &'c dyn Fn(Review<'_>, &mut dyn FnMut(&Review<'_>));

/// The review of an object of w0's, changed as a test wants it.
fn review(real: &mut Real, workload: &ObjectRef<'_>, change: Change<'_>) -> Answer {
    let top = object(5, "w0");
    let review = Review {
        request: "r",
        cluster: "east",
        operation: Create,
        workload,
        old_resource_version: None,
        group: Some("team"),
        missing: MissingGroup::Allow,
        labels: &LabelKeys::USUAL,
        roles: &[],
        old: None,
        resize: None,
        undeclared: &[],
        name_is_taken: false,
        draws_on: Some(&top),
        drawn: &[],
        makes: &[],
        invalid: None,
    };
    let mut answer = Ok(false);
    change(review, &mut |review| {
        let now = real.time();
        let mut trial = Trial::new(&mut real.book);
        let decision = decide(&mut trial, &mut real.names, &real.till, review, now).decision;
        drop(trial);
        answer = match decision {
            Decision::Allowed => Ok(false),
            Decision::Record(admission) => {
                let stamp = real.stamp();
                let batch = WorkloadsAdmitted { seen: 0, admissions: vec![admission] };
                real.book.admitted(&mut real.names, stamp, &batch).unwrap();
                Ok(true)
            }
            Decision::Refused(refusal) => Err(refusal.message),
        };
    });
    answer
}

fn pod(real: &mut Real, uid: u32, dem: Dem) -> Answer {
    let pod = pod_resize(uid, [0, 0], dem);
    review(real, &object(5, "w0"), &|r, ask| ask(&Review { resize: Some(&pod), ..r }))
}

#[test]
fn a_pod_that_its_workload_was_promised_needs_no_record() {
    assert_eq!(pod(&mut book(), 53, [1, 0]), Ok(false));
}

#[test]
fn of_two_pods_on_their_way_only_one_may_have_what_is_left_of_the_promise() {
    let mut real = book();
    let [first, second] = [53, 54].map(|uid| pod_resize(uid, [0, 0], [1, 0]));
    let mut ask = |drawn| {
        review(&mut real, &object(5, "w0"), &|r, ask| {
            ask(&Review { resize: Some(&second), drawn, ..r });
        })
    };
    assert_eq!(ask(&[]), Ok(false), "alone");
    assert_eq!(ask(&[first]), Ok(true), "on top of the promise, while the group has room");
}

#[test]
fn a_pod_above_its_workload_is_promised_on_top_of_it_and_is_reviewed_when_it_comes() {
    let mut real = book();
    assert_eq!(pod(&mut real, 60, [2, 0]), Ok(true));
    assert_eq!(real.used("team"), [6, 0], "4 promised, and 2 on top");
    let full = pod(&mut real, 61, [2, 0]).unwrap_err();
    assert!(full.starts_with("exceeded quota: team, requested: limits.cpu=2"), "{full}");
    assert_eq!(pod(&mut real, 53, [1, 0]), Ok(false), "one core of the promise is free");
    real.apply(&Rec::Pod { uid: 60, top: 5, group: "team", dem: [2, 0], bound: true });
    assert_eq!((real.used("team"), real.unreviewed("team")), ([5, 0], [0, 0]));
}

#[test]
fn a_pod_on_top_is_a_pod_more() {
    let mut real = book();
    pod(&mut real, 60, [2, 0]).unwrap();
    let (key, group) = (real.names.key("pods"), real.group("team"));
    assert_eq!(real.book.line(group, key).self_used, 5000);
}

#[test]
fn a_hundred_pods_that_name_a_real_owner_are_not_covered_by_it() {
    let mut real = book();
    let mut forged = |uid| {
        let pod = pod_resize(uid, [0, 0], [1, 0]);
        let ask = |r: Review<'_>, ask: &mut dyn FnMut(&Review<'_>)| {
            ask(&Review { resize: Some(&pod), draws_on: None, ..r });
        };
        review(&mut real, &object(5, "w0"), &ask)
    };
    let allowed = (100..200).filter(|uid| forged(*uid).is_ok()).count();
    assert_eq!(allowed, 2, "what the quota has left, and no more");
}

#[test]
fn what_lies_between_workload_and_pods_may_ask_for_as_much_as_the_workload() {
    let set = ObjectRef { kind: "ReplicaSet".into(), ..object(7, "w0-abc") };
    let ask = |cpu| {
        let roles = roles([cpu, 0]);
        review(&mut book(), &set, &|r, ask| ask(&Review { roles: &roles, ..r }))
    };
    assert_eq!(ask(4), Ok(false));
    assert!(ask(5).unwrap_err().starts_with("exceeded quota: team"), "on its own it is too much");
}

#[test]
fn what_makes_workloads_is_refused_when_none_of_them_could_ever_run() {
    let cron = ObjectRef {
        kind: "CronJob".into(),
        api_version: "batch/v1".into(),
        ..object(8, "nightly")
    };
    let ask = |cpu| {
        let makes = roles([cpu, 0]);
        review(&mut book(), &cron, &|r, ask| ask(&Review { makes: &makes, draws_on: None, ..r }))
    };
    assert_eq!(ask(6), Ok(true), "alone it fits; the CronJob itself is counted");
    assert_eq!(
        ask(7).unwrap_err(),
        "nothing that CronJob `nightly` makes can ever run: exceeded quota: team, \
         requested: limits.cpu=7, used: limits.cpu=0, limited: limits.cpu=6"
    );
}

#[test]
fn an_amount_that_is_none_is_refused_after_its_group_was_looked_at() {
    let ask = |group: &str| {
        let ask = |r: Review<'_>, ask: &mut dyn FnMut(&Review<'_>)| {
            ask(&Review { group: Some(group), invalid: Some("`1K` is no quantity"), ..r });
        };
        review(&mut book(), &object(9, "w9"), &ask).unwrap_err()
    };
    assert_eq!(ask("team"), "`1K` is no quantity");
    assert!(ask("nowhere").starts_with("group `nowhere` is not declared"));
}
