//! A fold that was written and read again, anywhere, is the fold that was never interrupted.
//!
//! Three folds read the same records: one in a single piece, one that is written into a store now and then (only
//! what changed), and one that is made anew from that store and goes on. All three are asked everything.

use crate::{
    histories::worlds,
    oracle::{fold::by, walk::Basis, world::Dice},
};
use bizrq::{
    domain::{
        book::Spend,
        event::{Data, Event, EventId, ObjectRef, ObserverSynced, PodCreated, WorkloadObserved},
        history::Unit,
        ledger::{Ledger, Options},
        merkle::Hash,
        names::{KeyId, ObjectId, Uid},
        quantity::Quantity,
        resources::{Models, Resources},
        time::{HOUR_MS, ORIGIN, Timestamp},
    },
    projection::{Batch, MemoryStore, Store, checkpoint::Checkpoint},
};
use rand::{RngExt, SeedableRng};
use std::{
    collections::BTreeSet,
    sync::{Arc, PoisonError, RwLock},
};

/// Folds `events` in one piece and in pieces, and compares. `what` names the history when something differs.
pub(crate) fn check(what: &str, options: Options, events: &[Event<'static>], dice: &mut Dice) {
    let mut once = Ledger::new(options);
    let (live, mut checkpoint) = (RwLock::new(Ledger::new(options)), Checkpoint::default());
    let mut store = MemoryStore::default();
    let mut resumed = Ledger::new(options);
    let restarts: BTreeSet<_> = (0..3).map(|_| dice.random_range(0..=events.len())).collect();
    for (n, event) in events.iter().enumerate() {
        if restarts.contains(&n) {
            store.commit(checkpoint.changes(&live).unwrap()).unwrap();
            resumed = read(&store, options);
            alike(&format!("{what}, read at {n}"), &mut once, &mut resumed);
        } else if dice.random_range(0..4) == 0 {
            store.commit(checkpoint.changes(&live).unwrap()).unwrap();
        }
        let applied = apply(&mut once, event);
        assert_eq!(applied, apply(&mut resumed, event), "{what}, record {n}: {event:?}");
        apply(&mut live.write().unwrap_or_else(PoisonError::into_inner), event);
    }
    store.commit(checkpoint.changes(&live).unwrap()).unwrap();
    let mut read = read(&store, options);
    let Batch { rows, mark } = Checkpoint::whole(&mut once).unwrap();
    assert_eq!(store.mark().unwrap().unwrap(), mark, "{what}: changes add up to the whole");
    for (key, bytes) in rows {
        assert_eq!(store.all().get(&key), Some(&bytes), "{what}: {key:?} was not written");
    }
    for other in [&mut resumed, &mut read] {
        alike(&format!("{what}, at its end"), &mut once, other);
    }
}

fn read(store: &MemoryStore, options: Options) -> Ledger {
    Checkpoint::load(store, options).unwrap().map_or_else(|| Ledger::new(options), |(l, _)| l)
}

fn apply(ledger: &mut Ledger, event: &Event<'_>) -> bizrq::domain::ledger::Applied {
    let position = ledger.position() + 1;
    let leaf = Hash([u8::try_from(position % 251).unwrap(); 32]);
    ledger.apply(position, leaf, event).unwrap()
}

/// Fails unless two ledgers have the same rows and give the same answers.
fn alike(what: &str, one: &mut Ledger, other: &mut Ledger) {
    let (rows, others) = (Checkpoint::whole(one).unwrap(), Checkpoint::whole(other).unwrap());
    assert_eq!(rows.mark, others.mark, "{what}");
    for (row, other) in rows.rows.iter().zip(&others.rows) {
        assert_eq!(row, other, "{what}: {:?}", row.0);
    }
    assert_eq!(one.root(), other.root(), "{what}");
    assert_eq!((one.counts(), one.last_decision()), (other.counts(), other.last_decision()));
    assert_eq!(one.quarantined(), other.quarantined(), "{what}");
    for at in instants(one) {
        assert_eq!(one.usage(at), other.usage(at), "{what}: usage at {at}");
    }
    same_meter(what, one, other);
    same_book(what, one, other);
}

fn keys(ledger: &Ledger) -> impl Iterator<Item = KeyId> {
    (0..).map(KeyId).take_while(|key| !ledger.names().key_name(*key).is_empty())
}

/// The newest instant, a whole hour, one inside an hour, the end of time.
fn instants(ledger: &Ledger) -> [Timestamp; 4] {
    let newest = ledger.meter().newest().unwrap_or(Timestamp::MIN);
    let hour = newest.shifted(-newest.millis().rem_euclid(HOUR_MS));
    [newest, hour, hour.shifted(-HOUR_MS - 7), Timestamp::MAX]
}

fn same_meter(what: &str, one: &Ledger, other: &Ledger) {
    let (meter, others) = (one.meter(), other.meter());
    assert_eq!(meter.remembered(), others.remembered(), "{what}");
    let pods = |ledger: &Ledger| {
        let mut pods = Vec::new();
        ledger.meter().each_segment(Timestamp::MAX, |pod, group, measure, segment| {
            pods.push((pod.clone(), group, measure.usage.clone(), segment));
        });
        pods
    };
    assert_eq!(pods(one), pods(other), "{what}: segments");
    for (pod, ..) in pods(one) {
        assert_eq!(meter.pod(pod.id), others.pod(pod.id), "{what}");
    }
    let names = one.names();
    for group in names.groups() {
        for key in keys(one) {
            assert_eq!(meter.pace(group, key), others.pace(group, key), "{what}");
            for at in instants(one) {
                assert_eq!(meter.spent(group, key, at), others.spent(group, key, at), "{what}");
                for unit in [Unit::Hour, Unit::Day, Unit::Month] {
                    let begin = at.shifted(-at.millis().rem_euclid(24 * HOUR_MS));
                    let within = meter.within(group, key, unit, begin);
                    assert_eq!(within, others.within(group, key, unit, begin), "{what}: {unit:?}");
                }
            }
        }
    }
}

fn same_book(what: &str, one: &Ledger, other: &Ledger) {
    let (Some(book), Some(others)) = (one.book(), other.book()) else { return };
    let names = one.names();
    assert_eq!((book.workloads(), book.pods()), (others.workloads(), others.pods()), "{what}");
    assert!(book.accounts().eq(others.accounts()) && book.budgets().eq(others.budgets()), "{what}");
    let open = |ledger: &Ledger| {
        let mut open: Vec<_> = ledger.book().into_iter().flat_map(|b| b.reservations()).collect();
        open.sort_by_key(|item| (item.ticket, item.workload, format!("{:?}", item.what)));
        open
    };
    assert_eq!(open(one), open(other), "{what}");
    for item in open(one) {
        let charge = |book: &bizrq::domain::book::Book| book.charge_of(item.workload);
        assert_eq!(charge(book), charge(others), "{what}");
    }
    for group in names.groups() {
        let name = names.group_name(group);
        assert_eq!(book.declaration(group), others.declaration(group), "{what}: {name}");
        assert_eq!(book.invalid(group), others.invalid(group), "{what}: {name}");
        assert_eq!(book.proposals(group), others.proposals(group), "{what}: {name}");
        assert_eq!(book.opened(group), others.opened(group), "{what}: {name}");
        assert_eq!(book.frozen(group), others.frozen(group), "{what}: {name}");
        assert_eq!(book.parents(group), others.parents(group), "{what}: {name}");
        let children = |book: &bizrq::domain::book::Book| {
            book.children(group).iter().copied().collect::<BTreeSet<_>>()
        };
        assert_eq!(children(book), children(others), "{what}: {name}");
        for key in keys(one) {
            let place = format!("{what}: {name} {}", names.key_name(key));
            assert_eq!(book.line(group, key), others.line(group, key), "{place}");
            assert_eq!(book.unreviewed(group, key), others.unreviewed(group, key), "{place}");
            let (meter, others_meter) = (one.meter(), other.meter());
            // The last of them is thousands of periods away.
            let far = |at: &Timestamp| *at == Timestamp::MAX && book.period(group, *at).is_some();
            for at in instants(one).into_iter().filter(|at| !far(at)) {
                let used = book.budget_used(group, key, meter, at);
                assert_eq!(used, others.budget_used(group, key, others_meter, at), "{place}");
                let out = book.cash_out(group, key, meter, at);
                assert_eq!(out, others.cash_out(group, key, others_meter, at), "{place}");
                let carried = book.carried(group, key, meter, at);
                assert_eq!(carried, others.carried(group, key, others_meter, at), "{place}");
                let ends = book.exhaustion(group, key, meter, at);
                assert_eq!(ends, others.exhaustion(group, key, others_meter, at), "{place}");
            }
        }
    }
}

/// The same history; then forty days pass with heartbeats, so that what ended is forgotten, and a part of it is told
/// again, late.
fn with_forty_days(events: &[Event<'static>], dice: &mut Dice) -> Vec<Event<'static>> {
    let mut all = events.to_vec();
    let end = all.iter().map(|e| e.time).max().unwrap_or(Timestamp::MIN);
    let sources: BTreeSet<_> = all.iter().map(|e| e.source.to_string()).collect();
    let mut id = 1_u128 << 120;
    for (from, to) in [(-1, 1), (1, 24), (24, 40 * 24), (40 * 24, 42 * 24)] {
        for source in &sources {
            id += 1;
            let since = end.shifted(from * HOUR_MS);
            let time = end.shifted(to * HOUR_MS);
            let data = ObserverSynced { resource_versions: Default::default(), since };
            all.push(Event {
                id: EventId(id),
                source: source.clone().into(),
                subject: "observers/x".into(),
                time,
                recorded_at: time,
                data: Data::ObserverSynced(data),
            });
        }
        let again = dice.random_range(0..=events.len());
        all.extend(events.iter().skip(again).take(7).cloned());
    }
    all
}

#[test]
fn a_pod_that_its_workload_left_behind_is_written_although_nothing_was_said_of_it() {
    let owner = |uid: &str| ObjectRef {
        api_version: "apps/v1".into(),
        kind: "Deployment".into(),
        namespace: Some("web".into()),
        name: "shop".into(),
        uid: uid.to_owned().into(),
    };
    let resources = || {
        let mut pod = Resources::default();
        pod.limits.set("cpu", Quantity::parse("2").unwrap());
        Arc::new(pod)
    };
    let created = Data::PodCreated(PodCreated {
        uid: "p".into(),
        owner: Some(owner("w")),
        group: "team-b".into(),
        models: Models::default(),
        reserved: resources(),
    });
    let observed = Data::WorkloadObserved(WorkloadObserved {
        workload: owner("w"),
        resource_version: "7".into(),
        generation: 1,
        group: "team-a".into(),
        roles: vec![],
    });
    let options = Options::default();
    let (live, mut checkpoint) = (RwLock::new(Ledger::new(options)), Checkpoint::default());
    let mut store = MemoryStore::default();
    for (n, data) in [(1, created), (2, observed)] {
        let event = Event {
            id: EventId(n),
            source: "/clusters/east".into(),
            subject: "x".into(),
            time: ORIGIN,
            recorded_at: ORIGIN,
            data,
        };
        apply(&mut live.write().unwrap(), &event);
        store.commit(checkpoint.changes(&live).unwrap()).unwrap();
        let mut live = live.write().unwrap();
        alike(&format!("after {n}"), &mut live, &mut read(&store, options));
        let (cluster, uid) = (live.names().known_cluster("/clusters/east").unwrap(), Uid::of("p"));
        let is_apart = live.book().unwrap().is_apart(ObjectId { cluster, uid });
        assert_eq!(is_apart, n == 2, "its workload was seen elsewhere");
    }
}

#[test]
fn metered_worlds_written_and_read_again_go_on_as_if_nothing_had_happened() {
    for world in worlds(10, 60) {
        let mut dice = world.dice();
        let what = format!("world {}", world.seed);
        for basis in [Basis::Held, Basis::Ran] {
            check(&what, by(basis), &world.events, &mut dice);
        }
        let long = with_forty_days(&world.events, &mut dice);
        check(&what, by(Basis::Held), &long, &mut dice);
        let bare = Options { history: false, quotas: false, ..by(Basis::Held) };
        check(&what, bare, &long, &mut dice);
    }
}

#[test]
fn a_company_s_log_written_and_read_again_goes_on_as_if_nothing_had_happened() {
    for seed in 0..2 {
        let mut dice = Dice::seed_from_u64(seed);
        let events = crate::demo::events_of(seed, 60);
        check(&format!("demo {seed}"), Options::default(), &events, &mut dice);
        let long = with_forty_days(&events, &mut dice);
        check(&format!("demo {seed}, long"), Options::default(), &long, &mut dice);
    }
}
