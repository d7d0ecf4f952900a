//! Deciding leaves the ledger as it was: names, rows, sums, everything. What only a review has named is forgotten,
//! so that numbers of names and places of rows follow from the log and from nothing else.

use super::replica::{cores, declared, object, observed, roles};
use bizrq::{
    domain::{
        admission::{Decision, MissingGroup, QuotaReview, Review, decide, decide_quota},
        book::Stamp,
        event::{
            Admission, ObjectRef, Operation, QuotaProposed, QuotaSpec, ReservationExpired, Role,
            WorkloadsAdmitted,
        },
        label_keys::LabelKeys,
        ledger::Ledger,
        merkle::Hash,
        resources::{Models, ResourceList, Resources},
        time::ORIGIN,
    },
    event_log::{
        NewEvent,
        codec::{Decoder, scan},
    },
    projection::fold::Read,
};
use std::sync::Arc;

fn tell(ledger: &mut Ledger, event: &NewEvent) {
    let position = ledger.position() + 1;
    let mut line = Vec::new();
    event.write_line(position, &mut Default::default(), &mut line);
    let scanned = scan(line.strip_suffix(b"\n").unwrap()).unwrap();
    let read = Read::new(&mut Decoder::default(), &scanned);
    read.apply(ledger, position, Hash::default()).unwrap();
}

/// Everything that a ledger holds, whatever the order in its tables.
fn whole(ledger: &Ledger) -> Vec<String> {
    let text = format!("{ledger:#?}");
    let mut lines: Vec<_> = text.lines().map(str::to_owned).collect();
    lines.sort();
    lines
}

fn assert_same(one: &[String], other: &[String]) {
    let differs = one.iter().zip(other).find(|(one, other)| one != other);
    assert!(one == other, "{} and {} lines, first {differs:?}", one.len(), other.len());
}

/// Cards of a model that nobody has heard of.
fn unheard(count: u64) -> Vec<Role<'static>> {
    let limits = ResourceList::from_iter([("example.com/tpu", cores(2)), ("cpu", cores(1))]);
    let pod = Arc::new(Resources { requests: ResourceList::default(), limits });
    let models = Models { gpu: Some("T9".into()), ..Models::default() };
    vec![Role { name: "".into(), count, peak: count, models, pod }]
}

fn review<'r>(
    operation: Operation,
    workload: &'r ObjectRef<'r>,
    group: &'r str,
    roles: &'r [Role<'r>],
) -> Review<'r> {
    Review {
        request: "r",
        cluster: "a cluster that never spoke",
        operation,
        workload,
        old_resource_version: None,
        group: Some(group),
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
    }
}

fn small_company() -> Ledger {
    let mut ledger = Ledger::default();
    for event in [
        declared("dept", "", 20),
        declared("team", "dept", 8),
        declared("other", "dept", 4),
        observed("w1", "team", 3),
        observed("w2", "other", 2),
    ] {
        tell(&mut ledger, &event);
    }
    assert_eq!(ledger.quarantined(), []);
    ledger
}

/// Every kind of review that names something new; says how many were let through.
fn attempts(ledger: &mut Ledger) -> u32 {
    let seen = ledger.position();
    let known = object("w1");
    let new = object("never seen");
    let (plain, unheard) = (roles(2), unheard(2));
    let huge = roles(1000);
    let reviews = [
        review(Operation::Create, &new, "team", &plain),
        review(Operation::Create, &new, "team", &unheard),
        review(Operation::Create, &new, "nobody's group", &unheard),
        review(Operation::Update, &known, "other", &unheard),
        review(Operation::Create, &new, "team", &huge),
    ];
    let hard = [("cash/requests.unheard", 5), ("limits.cpu", 2), ("limits.unheard", 1)];
    let spec = |parent: &'static str, take: usize| {
        let hard = hard.into_iter().take(take).map(|(key, n)| (key.into(), cores(n))).collect();
        QuotaSpec { parent: parent.into(), hard, ..QuotaSpec::default() }
    };
    let specs = [spec("dept", 2), spec("team", 2), spec("", 3), spec("nobody", 1)];
    ledger
        .decide(|trial, names, meter| {
            let mut allowed = 0;
            let cluster = names.cluster("/clusters/also never");
            let stamp = Stamp { position: seen + 1, time: ORIGIN, cluster };
            let mut admissions: Vec<Admission<'static>> = Vec::new();
            for review in &reviews {
                let verdict = decide(trial, names, meter, review, ORIGIN);
                allowed += u32::from(verdict.is_allowed());
                if let Decision::Record(admission) = verdict.decision {
                    admissions.push(admission.into_owned());
                }
            }
            for (name, spec) in ["new", "other", "team", "newer"].iter().zip(&specs) {
                let uid = format!("quota-{name}");
                let review = QuotaReview {
                    seen,
                    request: Some("r"),
                    operation: Operation::Update,
                    name,
                    uid: &uid,
                    old_resource_version: Some("7"),
                    spec: Some(spec),
                    allow_orphans: false,
                };
                let verdict = decide_quota(trial, names, meter, &review, ORIGIN);
                allowed += u32::from(verdict.is_allowed());
            }
            // What an overlay does.
            let batch = WorkloadsAdmitted { seen, admissions };
            trial.admitted(names, stamp, &batch).unwrap();
            let group = names.group("newest");
            let proposal = QuotaProposed {
                seen,
                operation: Operation::Create,
                uid: "quota-newest".into(),
                old_resource_version: None,
                spec: Some(spec("team", 2)),
                request: None,
            };
            trial.proposed(names, stamp, group, &proposal).unwrap();
            let over = ReservationExpired {
                position: seen + 1,
                workload: Some(object("never seen")),
                cluster: "a cluster that never spoke".into(),
            };
            trial.expired(names, stamp, group, &over);
            allowed
        })
        .unwrap()
}

#[test]
fn a_ledger_is_the_same_before_and_after_decisions() {
    let mut ledger = small_company();
    let before = whole(&ledger);
    let allowed = attempts(&mut ledger);
    assert!((3..9).contains(&allowed), "{allowed} of 9: both kinds must be there");
    assert_same(&before, &whole(&ledger));
}

#[test]
fn names_have_the_numbers_that_the_log_gives_them() {
    let (mut asked, mut never) = (small_company(), small_company());
    for _ in 0..10 {
        attempts(&mut asked);
    }
    for event in [declared("late", "dept", 1), observed("w9", "late", 1)] {
        tell(&mut asked, &event);
        tell(&mut never, &event);
    }
    for name in ["dept", "late", "nobody's group", "newest"] {
        assert_eq!(asked.names().known_group(name), never.names().known_group(name), "{name}");
    }
    assert_eq!(asked.names().groups().count(), never.names().groups().count());
    assert_same(&whole(&asked), &whole(&never));
}
