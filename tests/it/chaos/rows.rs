//! A store on disk and a log on a server that do not belong together: the start succeeds, on the log's records alone,
//! and says why.

use super::{new_events, open, pod, server};
use crate::{nats::server::Version, store::caught_up};
use bizrq::{
    event_log::EventLog,
    projection::{
        keys,
        runner::{Found, Status},
    },
};
use std::{fs, path::Path};

async fn start(url: &str, store: &Path) -> Status {
    caught_up(&open(url).await, store).await
}

async fn tell(url: &str, pods: std::ops::Range<u64>) {
    let events: Vec<_> = pods.flat_map(pod).collect();
    open(url).await.append(new_events(&events)).await.unwrap();
}

/// The format's byte of the mark, as a newer build would write it.
fn write_as_another_version(store: &Path) {
    let rows = sled::open(store.join("rows")).unwrap();
    let mut mark = rows.get(keys::MARK_KEY).unwrap().unwrap().to_vec();
    mark[0] += 1;
    rows.insert(keys::MARK_KEY, mark).unwrap();
    rows.flush().unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_that_does_not_fit_is_made_anew_and_it_is_said() {
    for version in Version::ALL {
        let (long, short, other) = (server(version), server(version), server(version));
        tell(&long.url(), 0..20).await;
        tell(&short.url(), 0..10).await;
        tell(&other.url(), 100..130).await;
        let dir = tempfile::tempdir().unwrap();
        let store = dir.path().join("store");
        let first = start(&long.url(), &store).await;
        assert_eq!((first.store, first.began), (Found::Nothing, 0));
        let again = start(&long.url(), &store).await;
        assert_eq!((again.store, again.began), (Found::Confirmed, first.position));
        // Each finds the rows that the one before it left.
        for (log, why) in [
            (&short, "ahead: it stands at position"),
            (&other, "another log: its last record"),
            (&long, "ahead: it stands at position"),
        ] {
            let (_, said) = why.split_once(": ").unwrap();
            let status = start(&log.url(), &store).await;
            let Found::Discarded { why } = &status.store else { panic!("{status:?}") };
            assert!(why.contains(said), "{why}");
            assert_eq!(status.began, 0);
            assert_eq!(start(&log.url(), &store).await.store, Found::Confirmed);
        }
        write_as_another_version(&store);
        let status = start(&long.url(), &store).await;
        let Found::Discarded { why } = &status.store else { panic!("{status:?}") };
        let formats = format!("its format is {}, this build's {}", keys::FORMAT + 1, keys::FORMAT);
        assert!(why.contains(&formats), "{why}");
        assert_eq!((status.began, status.position), (0, first.position));
        fs::remove_dir_all(&store).unwrap();
        let status = start(&long.url(), &store).await;
        assert_eq!((status.store, status.position), (Found::Nothing, first.position));
    }
}
