//! Refusals: their order, and their words.

use super::world::{Adm, Dem, Hard, Prop, Real, Rec, object, roles};
use bizrq::domain::{
    admission::{Decision, Fit, MissingGroup, Reason, Review, Undeclared, decide},
    book::{Outcome, Stamp, Trial},
    event::{
        Charge, ModelPolicy,
        Operation::{self, Create, Delete, Update},
        QuotaDeclared, QuotaSpec, Role,
    },
    label_keys::LabelKeys,
    quantity::{Format, Quantity},
    resources::Models,
};

/// dept (cpu 10, gpu 8) with team-a (cpu 10) in it, of which 8 are used.
fn book() -> Real {
    let mut real = Real::new();
    let declare = |real: &mut Real, name, uid, parent, hard: Hard| {
        real.apply(&Rec::Declared { name, uid, rv: u64::from(uid), spec: (parent, hard) });
    };
    declare(&mut real, "dept", 1, "", [Some(12), Some(8), None]);
    declare(&mut real, "team-a", 2, "dept", [Some(10), None, None]);
    real.apply(&Rec::Observed { uid: 5, name: "w0", rv: 9, group: "team-a", dem: [8, 0] });
    real
}

fn create(group: &'static str, dem: Dem) -> Adm {
    Adm { op: Create, uid: 7, name: "w1", old_rv: 0, group, dem, old: None, resize: None }
}

fn refusal(real: &mut Real, asked: &Adm) -> (Reason, String) {
    let refusal = real.review(std::slice::from_ref(asked)).remove(0).expect_err("refused");
    (refusal.reason, refusal.message)
}

#[test]
fn the_words_are_those_of_native_quota() {
    let mut real = book();
    let (reason, message) = refusal(&mut real, &create("team-a", [4, 0]));
    assert_eq!(reason, Reason::QuotaExceeded);
    assert_eq!(
        message,
        "exceeded quota: team-a, requested: limits.cpu=4, used: limits.cpu=8, limited: limits.cpu=10; \
         0 of 1 replicas would fit"
    );
}

#[test]
fn every_failing_key_of_every_group_is_named() {
    let mut real = book();
    let (_, message) = refusal(&mut real, &create("team-a", [5, 9]));
    assert_eq!(
        message,
        "exceeded quota: team-a, requested: limits.cpu=5, used: limits.cpu=8, limited: limits.cpu=10; \
         exceeded quota: dept, requested: limits.cpu=3,limits.nvidia.com/gpu=9, \
         used: limits.cpu=10,limits.nvidia.com/gpu=0, limited: limits.cpu=12,limits.nvidia.com/gpu=8; \
         0 of 1 replicas would fit"
    );
}

/// A review of `w1` in `group`, changed as a test wants it.
fn judge(
    real: &mut Real,
    group: Option<&str>,
    roles: &[Role<'_>],
    change: impl Fn(&mut Review<'_>),
) -> Result<bool, (Reason, String, Option<Fit>)> {
    let workload = object(7, "w1");
    let mut review = Review {
        request: "r",
        cluster: "east",
        operation: Create,
        workload: &workload,
        old_resource_version: None,
        group,
        missing: MissingGroup::Allow,
        labels: &LabelKeys::USUAL,
        roles,
        old: None,
        resize: None,
        undeclared: &[],
        name_is_taken: false,
        draws_on: None,
        drawn: &[],
        makes: &[],
        invalid: None,
    };
    change(&mut review);
    let now = real.time();
    let mut trial = Trial::new(&mut real.book);
    match decide(&mut trial, &mut real.names, &real.till, &review, now).decision {
        Decision::Allowed => Ok(false),
        Decision::Record(_) => Ok(true),
        Decision::Refused(r) => Err((r.reason, r.message, r.fit)),
    }
}

#[test]
fn it_says_how_many_replicas_would_fit() {
    let mut real = book();
    let mut role = roles([1, 0]);
    role[0].count = 5;
    role[0].peak = 6;
    let (reason, message, fit) = judge(&mut real, Some("team-a"), &role, |_| ()).unwrap_err();
    assert_eq!((reason, fit), (Reason::QuotaExceeded, Some(Fit { replicas: 2, of: 5 })));
    assert!(message.ends_with("; 2 of 5 replicas would fit"), "{message}");
    role[0].count = 2;
    assert_eq!(judge(&mut real, Some("team-a"), &role, |_| ()), Ok(true));
}

#[test]
fn a_missing_group_is_allowed_refused_or_replaced() {
    let mut real = book();
    let role = roles([4, 0]);
    assert_eq!(judge(&mut real, None, &role, |_| ()), Ok(true));
    let refuse = judge(&mut real, None, &role, |r| r.missing = MissingGroup::Refuse).unwrap_err();
    assert_eq!(refuse.0, Reason::GroupMissing);
    let replaced =
        judge(&mut real, Some(""), &role, |r| r.missing = MissingGroup::Default("team-a"));
    assert_eq!(replaced.unwrap_err().0, Reason::QuotaExceeded);
}

#[test]
fn what_lets_nothing_grow_needs_no_record() {
    let mut real = book();
    let role = roles([4, 0]);
    assert_eq!(
        judge(&mut real, Some("nowhere"), &role, |r| r.operation = Operation::Delete),
        Ok(false)
    );
    assert_eq!(judge(&mut real, Some("team-a"), &role, |r| r.name_is_taken = true), Ok(false));
    let unknown = judge(&mut real, Some("nowhere"), &role, |_| ()).unwrap_err();
    assert_eq!(unknown.0, Reason::UnknownGroup);
    assert_eq!(real.names.known_group("nowhere"), None, "a review teaches no names");
}

fn declare(
    real: &mut Real,
    name: &str,
    uid: &str,
    hard: &[(&'static str, i64)],
    models: ModelPolicy,
) {
    let hard = hard.iter().map(|(k, n)| {
        ((*k).into(), Quantity::from_milli(i128::from(*n) * 1000, Format::DecimalSI))
    });
    let spec = QuotaSpec {
        parent: "".into(),
        hard: hard.collect(),
        charge: Charge::Peak,
        models,
        ..QuotaSpec::default()
    };
    let fact = QuotaDeclared { uid: uid.into(), resource_version: "".into(), generation: 1, spec };
    let group = real.group(name);
    real.book.quota_declared(&mut real.names, Stamp::default(), group, &fact, &real.till).unwrap();
}

#[test]
fn the_reasons_win_in_their_order() {
    let mut real = book();
    let hard = [
        ("limits.cpu", 1),
        ("limits.cpu.A4", 1),
        ("limits.nvidia.com/gpu.A30", 1),
        ("cash/limits.cpu", 0),
    ];
    declare(&mut real, "strict", "q9", &hard, ModelPolicy::Required);
    const OPEN: [Undeclared<'_>; 1] = [Undeclared { container: "main", key: "limits.cpu" }];
    let mut role = roles([4, 1]);
    let unspecified =
        judge(&mut real, Some("strict"), &role, |r| r.undeclared = &OPEN).unwrap_err();
    assert_eq!(unspecified.0, Reason::UnspecifiedResource);
    assert_eq!(
        unspecified.1,
        "container `main` does not declare limits.cpu, which group `strict` limits; declare it in its resources"
    );
    let untyped = judge(&mut real, Some("strict"), &role, |_| ()).unwrap_err();
    assert_eq!(untyped.0, Reason::ModelRequired);
    role[0].models =
        Models { cpu: Some("A4".into()), gpu: Some("A30".into()), ..Models::default() };
    let spent = judge(&mut real, Some("strict"), &role, |_| ()).unwrap_err();
    assert_eq!(spent.0, Reason::CashExhausted);
    assert_eq!(
        spent.1,
        "exhausted budget: strict, requested: limits.cpu, used: cash/limits.cpu=0, limited: cash/limits.cpu=0; \
         raise the budget, or ask for none of it"
    );
    role = roles([i64::MAX, 0]);
    role[0].count = u64::MAX;
    let huge = judge(&mut real, Some("strict"), &role, |_| ()).unwrap_err();
    assert_eq!(huge.0, Reason::InvalidQuantity);
    assert!(
        [
            Reason::MalformedObject,
            Reason::GroupMissing,
            Reason::UnknownGroup,
            Reason::InvalidQuantity,
            Reason::UnspecifiedResource,
            Reason::ModelRequired,
            Reason::CashExhausted,
            Reason::QuotaExceeded,
            Reason::LogUnavailable
        ]
        .is_sorted()
    );
}

#[test]
fn a_peak_is_charged_where_the_group_says_so() {
    let mut real = book();
    declare(&mut real, "peaky", "q8", &[("limits.cpu", 5)], ModelPolicy::Declared);
    let mut role = roles([1, 0]);
    (role[0].count, role[0].peak) = (5, 6);
    let surge = judge(&mut real, Some("peaky"), &role, |_| ()).unwrap_err();
    assert_eq!(surge.2, Some(Fit { replicas: 4, of: 5 }));
}

#[test]
fn quota_refusals_win_in_their_order_and_say_what_would_do() {
    let mut real = book();
    let mut review = |op, name, uid, old_rv, spec| {
        real.review_quota(&Prop { op, name, uid, old_rv, spec }, false).expect_err("refused")
    };
    let cpu = |n| [Some(n), None, None];
    for (asked, reason, part) in [
        (
            (Create, "x", 9, 0, Some(("nowhere", cpu(1)))),
            Reason::ParentNotFound,
            "`nowhere` is not declared",
        ),
        ((Update, "dept", 1, 1, Some(("team-a", cpu(12)))), Reason::Cycle, "below it"),
        ((Update, "team-a", 2, 2, Some(("", cpu(10)))), Reason::DifferentTree, "`team-a` holds"),
        (
            (Create, "x", 9, 0, Some(("dept", [None, None, Some(1)]))),
            Reason::KeyNotInParent,
            "cash/limits.cpu",
        ),
        (
            (Create, "x", 9, 0, Some(("dept", cpu(3)))),
            Reason::ParentExceeded,
            "exceeded quota: dept, requested: limits.cpu=3, used: limits.cpu=10, limited: limits.cpu=12",
        ),
        (
            (Update, "dept", 1, 1, Some(("", cpu(9)))),
            Reason::BelowChildren,
            "spec.hard[limits.cpu]=9, given: 10",
        ),
        ((Delete, "dept", 1, 1, None), Reason::HasChildren, "team-a"),
        ((Delete, "team-a", 2, 2, None), Reason::HasWorkloads, "bizrq.io/allow-orphans"),
    ] {
        let (op, name, uid, old_rv, spec) = asked;
        let refusal = review(op, name, uid, old_rv, spec);
        assert_eq!(refusal.reason, reason, "{}", refusal.message);
        assert!(refusal.message.contains(part), "{}", refusal.message);
    }
}

#[test]
fn objects_that_are_read_before_their_parents_are_all_in_force_in_the_end() {
    let mut real = Real::new();
    let chain = 600;
    let q = Quantity::from_milli(5000, Format::DecimalSI);
    for i in (0..chain).rev() {
        let parent = if i == 0 { String::new() } else { format!("g{}", i - 1) };
        let hard = [("limits.cpu".into(), q)].into_iter().collect();
        let spec = QuotaSpec { parent: parent.into(), hard, ..QuotaSpec::default() };
        let uid = format!("q{i}");
        let fact =
            QuotaDeclared { uid: (&*uid).into(), resource_version: "".into(), generation: 1, spec };
        let group = real.group(&format!("g{i}"));
        let declared =
            real.book.quota_declared(&mut real.names, Stamp::default(), group, &fact, &real.till);
        assert_eq!(declared.unwrap().outcome == Outcome::InForce, i == 0);
    }
    let groups: Vec<_> = (0..chain).map(|i| real.group(&format!("g{i}"))).collect();
    assert!(groups.iter().all(|g| real.book.declaration(*g).is_some()));
    assert!(groups.iter().all(|g| real.book.invalid(*g).is_none()));
    assert_eq!(real.book.above(groups[chain - 1]).len(), chain);
}
