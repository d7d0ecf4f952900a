//! A fold that runs, from outside: what waits is told, what the store holds is compared.

use super::*;
use crate::{
    domain::{
        event::{Data, Event, EventId, PodStarted, PodStopped, StartBasis, StopBasis},
        ledger::state::{RowKey, TableName},
        quantity::Quantity,
        resources::{Models, Resources},
        time::{ORIGIN, Timestamp},
    },
    event_log::{NewEvent, memory::MemoryLog},
    projection::{Batch, MemoryStore},
};
use tokio::sync::oneshot;

fn at(ms: u64) -> Timestamp {
    ORIGIN.shifted(i64::try_from(ms).unwrap())
}

fn event(n: u64, data: Data<'_>) -> NewEvent {
    NewEvent::new(&Event {
        id: EventId(n.into()),
        source: "/clusters/east".into(),
        subject: "pods/ns/p".into(),
        time: at(n),
        recorded_at: at(n),
        data,
    })
    .unwrap()
}

/// Pod `n` starts at `n` ms and holds a core.
fn start(n: u64) -> NewEvent {
    let mut held = Resources::default();
    held.limits.set("cpu", Quantity::parse("1").unwrap());
    let data = PodStarted {
        uid: format!("p-{n}").into(),
        owner: None,
        group: format!("team-{}", n % 3).into(),
        models: Models::default(),
        node: "n".into(),
        held: held.into(),
        reserved: None,
        basis: StartBasis::Bound,
    };
    event(n, Data::PodStarted(data))
}

/// A stop that contradicts its start.
fn early_stop(n: u64) -> NewEvent {
    let time = at(n - 1);
    let basis = StopBasis::TerminalStatus;
    let (earliest, latest, ran) = (time, time, None);
    let (phase, reason) = Default::default();
    let uid = format!("p-{n}").into();
    let data = PodStopped { uid, earliest, latest, basis, phase, reason, ran };
    let stop = Event {
        id: EventId(u128::from(n) << 64),
        source: "/clusters/east".into(),
        subject: "pods/ns/p".into(),
        time,
        recorded_at: time,
        data: Data::PodStopped(data),
    };
    NewEvent::new(&stop).unwrap()
}

/// A record of a type, whatever it is.
fn of_type(type_name: &str) -> NewEvent {
    let line = format!(
        r#"{{"specversion":"1.0","id":"{:032x}","type":"{type_name}","source":"/clusters/east","subject":"x","time":"2026-11-29T16:00:00.000Z","recordedat":"2026-11-29T16:00:00.000Z","data":{{}}}}"#,
        7
    );
    NewEvent::copied(&crate::event_log::codec::scan(line.as_bytes()).unwrap()).unwrap()
}

async fn log_of(events: u64) -> MemoryLog {
    let log = MemoryLog::default();
    log.append((1..=events).map(start).collect()).await.unwrap();
    log
}

/// Folds `log` to its end with `store` and gives what was seen, and the store.
async fn folded(log: &MemoryLog, store: MemoryStore) -> (Status, MemoryStore) {
    let (runner, mut seen) = Runner::new(store, Options::default());
    let (end, ended) = oneshot::channel::<()>();
    let watch = async {
        seen.caught_up().await.unwrap();
        drop(end);
    };
    let (store, ()) = tokio::join!(runner.run(log, ended), watch);
    (seen.status(), store.unwrap().unwrap())
}

#[tokio::test]
async fn what_was_committed_is_borne_out_by_the_log_after_a_restart() {
    let log = log_of(1000).await;
    let (first, store) = folded(&log, MemoryStore::default()).await;
    assert_eq!((first.position, first.committed, first.store), (1000, 1000, Found::Nothing));
    assert_eq!(store.mark().unwrap().unwrap().root(), log.tree().await.unwrap().root());
    log.append((1001..=1500).map(start).collect()).await.unwrap();
    let (second, again) = folded(&log, store).await;
    assert_eq!((second.position, second.committed, second.store), (1500, 1500, Found::Confirmed));
    let (_, fresh) = folded(&log, MemoryStore::default()).await;
    assert_eq!(again, fresh, "folded in two pieces or in one, the rows are the same");
}

#[tokio::test]
async fn whoever_waits_for_a_position_sees_it_in_the_ledger() {
    let log = log_of(3).await;
    let (runner, mut seen) = Runner::new(MemoryStore::default(), Options::default());
    let (end, ended) = oneshot::channel::<()>();
    let watch = async {
        seen.wait_for(3).await.unwrap();
        let appended = log.append((4..=600).map(start).collect()).await.unwrap();
        seen.wait_for(appended.last).await.unwrap();
        assert_eq!(seen.ledger().position(), 600);
        let usage = seen.ledger().usage(at(600)).unwrap();
        assert_eq!(usage.iter().map(|u| u.running).sum::<i128>(), 600 * 1000);
        end.send(()).unwrap();
        let why = seen.wait_for(601).await.unwrap_err().why;
        assert_eq!(&*why, "it was shut down");
    };
    let (store, ()) = tokio::join!(runner.run(&log, ended), watch);
    let store = store.unwrap().unwrap();
    assert_eq!(store.mark().unwrap().unwrap().position(), 600, "the end commits");
}

#[tokio::test]
async fn rows_of_another_log_are_thrown_away_and_it_is_said() {
    let (_, store) = folded(&log_of(20).await, MemoryStore::default()).await;
    let all_other = |n| start(n * 2);
    let one_other = |n| start(if n == 7 { 700 } else { n });
    for (length, what) in
        [(20, "has the leaf"), (30, "has the leaf"), (20, "lead to"), (30, "lead to")]
    {
        let other = MemoryLog::default();
        let events = 1..=length;
        let events = match what {
            "lead to" => events.map(one_other).collect(),
            _ => events.map(all_other).collect(),
        };
        other.append(events).await.unwrap();
        let (status, rebuilt) = folded(&other, store.clone()).await;
        let Found::Discarded { why } = &status.store else { panic!("{status:?}") };
        assert!(why.starts_with("it is of another log: its "), "{why}");
        assert!(why.contains("position 20") && why.contains(what), "{why}");
        assert_eq!(rebuilt, folded(&other, MemoryStore::default()).await.1);
    }
}

#[tokio::test]
async fn rows_ahead_of_the_log_are_thrown_away() {
    let (_, store) = folded(&log_of(20).await, MemoryStore::default()).await;
    let (status, rebuilt) = folded(&log_of(19).await, store).await;
    let why = "it stands at position 20, but the log ends at 19".into();
    assert_eq!(status.store, Found::Discarded { why });
    assert_eq!(rebuilt.mark().unwrap().unwrap().position(), 19);
}

#[tokio::test]
async fn a_changed_row_a_missing_row_and_an_old_row_are_found() {
    let log = log_of(20).await;
    let (_, old) = folded(&log, MemoryStore::default()).await;
    log.append((21..=40).map(start).collect()).await.unwrap();
    let (_, store) = folded(&log, old.clone()).await;
    let mark = store.mark().unwrap().unwrap();
    let of = |rows: Vec<_>| {
        let mut store = MemoryStore::default();
        store.commit(Batch { rows, mark: mark.clone() }).unwrap();
        store
    };
    let rows = || store.all().clone().into_iter();
    let pods = |key: &RowKey| key.table == TableName::Pods && key.block == 0;
    let last = |key: &RowKey| key.table == TableName::Pods && key.block == 2;
    let flipped = |(key, mut bytes): (RowKey, Vec<u8>)| {
        if pods(&key) {
            bytes[9] ^= 4;
        }
        (key, bytes)
    };
    let outdated = |(key, bytes): (RowKey, Vec<u8>)| {
        let before = old.all().get(&key).filter(|_| key.table == TableName::Sums);
        (key, before.cloned().unwrap_or(bytes))
    };
    for (what, damaged) in [
        ("Pods", of(rows().map(flipped).collect())),
        ("were committed together", of(rows().filter(|(key, _)| !last(key)).collect())),
        ("were committed together", of(rows().map(outdated).collect())),
    ] {
        let (status, rebuilt) = folded(&log, damaged).await;
        let Found::Discarded { why } = &status.store else { panic!("{what}: {status:?}") };
        assert!(why.contains(what), "{why}");
        assert_eq!(rebuilt, store);
    }
}

#[tokio::test]
async fn rows_of_other_options_are_thrown_away() {
    let log = log_of(20).await;
    let (_, store) = folded(&log, MemoryStore::default()).await;
    let ledger = ledger::Options { history: false, ..ledger::Options::default() };
    let (runner, mut seen) = Runner::new(store, Options { ledger, ..Options::default() });
    let (end, ended) = oneshot::channel::<()>();
    let watch = async {
        seen.caught_up().await.unwrap();
        drop(end);
    };
    let (ended, ()) = tokio::join!(runner.run(&log, ended), watch);
    ended.unwrap();
    let status = seen.status();
    let Found::Discarded { why } = &status.store else { panic!("{status:?}") };
    assert!(why.contains("history: true") && why.contains("history: false"), "{why}");
}

#[tokio::test]
async fn a_newer_version_stops_the_fold_and_everybody_is_told() {
    let log = log_of(5).await;
    log.append(vec![of_type("io.bizrq.pod.started.v2"), start(7)]).await.unwrap();
    let (runner, mut seen) = Runner::new(MemoryStore::default(), Options::default());
    let watch = async { seen.wait_for(7).await.unwrap_err() };
    let (ended, told) = tokio::join!(runner.run(&log, std::future::pending::<()>()), watch);
    let stopped = ended.unwrap_err().to_string();
    assert!(stopped.starts_with("position 6 is `pod.started` version 2"), "{stopped}");
    assert_eq!((told.position, &*told.why), (5, stopped.as_str()));
    assert!(seen.status().stopped.is_some());
}

#[tokio::test]
async fn what_contradicts_or_says_nothing_is_counted_and_does_not_stop() {
    let log = log_of(5).await;
    let events = vec![
        early_stop(3),
        of_type("io.bizrq.pod.started.v1"),
        of_type("io.bizrq.future.v9"),
        start(1),
        start(6),
    ];
    log.append(events).await.unwrap();
    let (status, store) = folded(&log, MemoryStore::default()).await;
    assert_eq!((status.position, status.quarantined, status.repeated), (10, 2, 1));
    let (ledger, _) = Checkpoint::load(&store, ledger::Options::default()).unwrap().unwrap();
    let quarantined = ledger.quarantined();
    assert_eq!(quarantined.iter().map(|q| q.position).collect::<Vec<_>>(), [6, 7]);
    assert!(quarantined[1].reason.contains("missing field"), "{quarantined:?}");
}

#[tokio::test]
async fn rows_are_committed_while_the_log_stands_still() {
    let log = log_of(5).await;
    let options = Options { commit_every: Duration::from_millis(20), ..Options::default() };
    let (runner, mut seen) = Runner::new(MemoryStore::default(), options);
    let (end, ended) = oneshot::channel::<()>();
    let watch = async {
        seen.wait(|status| status.committed == 5).await.unwrap();
        end.send(()).unwrap();
    };
    let (store, ()) = tokio::join!(runner.run(&log, ended), watch);
    store.unwrap();
}

#[tokio::test(start_paused = true)]
async fn the_daily_snapshot_is_written_by_the_one_that_should_and_a_new_replica_starts_from_it() {
    use crate::projection::{Snapshots, daily::daily};
    use std::cell::Cell;
    let dir = tempfile::tempdir().unwrap();
    let snapshots = Snapshots::new(dir.path().join("snapshots"), 2);
    let log = log_of(5).await;
    let (runner, mut seen) = Runner::new(MemoryStore::default(), Options::default());
    let (end, ended) = oneshot::channel::<()>();
    let (asked, leads) = (Cell::new(0), Cell::new(false));
    let day = Duration::from_secs(24 * 3600);
    let watch = async {
        seen.caught_up().await.unwrap();
        let every_day = seen.clone();
        let is_due = || {
            asked.set(asked.get() + 1);
            leads.get()
        };
        let story = async {
            tokio::time::sleep(day * 3 + day / 2).await;
            assert_eq!((asked.get(), seen.status().snapshot), (3, 0), "another one leads");
            leads.set(true);
            for days in 4..=7 {
                log.append(vec![start(days + 100)]).await.unwrap();
                let last = log.head().await.unwrap().position;
                seen.wait(|status| status.snapshot == last).await.unwrap();
                assert_eq!(asked.get(), days);
            }
        };
        tokio::select! {
            () = daily(&every_day, day, day, is_due) => {}
            () = story => {}
        }
        drop(end);
    };
    let (ended, ()) =
        tokio::join!(runner.with_snapshots(snapshots.clone()).run(&log, ended), watch);
    let kept = ended.unwrap().unwrap();
    let found: Vec<_> = snapshots.list().unwrap().into_iter().map(|(at, _)| at).collect();
    assert_eq!(found, [8, 9], "the newest few are kept");
    // A new replica, with no store.
    let (runner, mut seen) = Runner::new(MemoryStore::default(), Options::default());
    let (end, ended) = oneshot::channel::<()>();
    let watch = async {
        seen.caught_up().await.unwrap();
        drop(end);
    };
    let (ended, ()) =
        tokio::join!(runner.with_snapshots(snapshots.clone()).run(&log, ended), watch);
    assert_eq!(ended.unwrap().unwrap(), kept, "and its store gets every row");
    assert_eq!((seen.status().began, seen.status().store), (9, Found::Nothing));
    // One of another log is passed over.
    let other = MemoryLog::default();
    other.append((1..=12).map(|n| start(n * 3)).collect()).await.unwrap();
    let (runner, mut seen) = Runner::new(MemoryStore::default(), Options::default());
    let (end, ended) = oneshot::channel::<()>();
    let watch = async {
        seen.caught_up().await.unwrap();
        drop(end);
    };
    let (ended, ()) = tokio::join!(runner.with_snapshots(snapshots).run(&other, ended), watch);
    assert_eq!(ended.unwrap().unwrap(), folded(&other, MemoryStore::default()).await.1);
    assert_eq!(seen.status().began, 0);
}

/// A store that takes a few commits and then fails.
struct Failing(MemoryStore, u32);

impl Store for Failing {
    fn mark(&self) -> Result<Option<crate::projection::Mark>, store::Error> {
        self.0.mark()
    }
    fn rows(&self, each: &mut store::EachRow<'_>) -> Result<(), store::Error> {
        self.0.rows(each)
    }
    fn commit(&mut self, batch: Batch) -> Result<(), store::Error> {
        self.1 = self.1.checked_sub(1).ok_or_else(|| store::Error::damaged("the disk is full"))?;
        self.0.commit(batch)
    }
    fn discard(&mut self) -> Result<(), store::Error> {
        self.0.discard()
    }
}

#[tokio::test]
async fn a_store_that_fails_does_not_stop_the_fold() {
    let log = log_of(3).await;
    let options = Options { commit_every: Duration::from_millis(5), ..Options::default() };
    let (runner, mut seen) = Runner::new(Failing(MemoryStore::default(), 1), options);
    let (end, ended) = oneshot::channel::<()>();
    let watch = async {
        seen.wait(|status| status.committed == 3).await.unwrap();
        log.append(vec![start(4)]).await.unwrap();
        seen.wait(|status| status.unkept.is_some()).await.unwrap();
        log.append((5..=9).map(start).collect()).await.unwrap();
        seen.wait_for(9).await.unwrap();
        drop(end);
    };
    let (ended, ()) = tokio::join!(runner.run(&log, ended), watch);
    assert!(ended.unwrap().is_none(), "there is no store to give back");
    let status = seen.status();
    assert_eq!((status.position, status.committed), (9, 3));
    assert!(status.unkept.unwrap().contains("the disk is full"));
}

#[cfg(feature = "service")]
#[tokio::test]
async fn what_the_fold_shows_is_what_it_is() {
    use prometheus::{Registry, TextEncoder};
    let log = log_of(5).await;
    log.append(vec![early_stop(3), start(1)]).await.unwrap();
    let (runner, mut seen) = Runner::new(MemoryStore::default(), Options::default());
    let registry = Registry::new();
    crate::projection::metrics::register(&registry, seen.clone()).unwrap();
    let (end, ended) = oneshot::channel::<()>();
    let watch = async {
        seen.caught_up().await.unwrap();
        drop(end);
    };
    let (ended, ()) = tokio::join!(runner.run(&log, ended), watch);
    ended.unwrap();
    let text = TextEncoder::new().encode_to_string(&registry.gather()).unwrap();
    let root = log.tree().await.unwrap().root();
    for line in [
        "bizrq_projection_position 7",
        "bizrq_projection_committed_position 7",
        "bizrq_projection_lag_events 0",
        "bizrq_projection_stopped 1",
        "bizrq_projection_quarantined_events 1",
        "bizrq_projection_repeated_events 1",
        "bizrq_projection_store_failed 0",
        &format!("bizrq_projection_root_info{{root=\"{root}\"}} 1"),
    ] {
        assert!(text.lines().any(|found| found == line), "{line} in\n{text}");
    }
}
