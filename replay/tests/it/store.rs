//! A store under the auditor's eyes: every row must be what the log says.

use crate::logs::{TestLog, history};
use bizrq::{
    domain::{event::Position, ledger::Ledger, merkle::LeafHasher},
    event_log::{
        OpenError,
        bulk::{self, Source},
    },
    projection::{Batch, SledStore, Store, checkpoint::Checkpoint, fold::Read},
};
use std::path::Path;

/// The ledger of a log's first records, each but one of them applied as it is.
fn folded(log: &TestLog, limit: Position, unsaid: Position) -> Ledger {
    let (mut ledger, mut hasher) = (Ledger::default(), LeafHasher::default());
    let source = Source::Log { dir: log.path(), limit };
    bulk::read(source, |batch| {
        for ((position, line), (_, decoded)) in batch.iter().zip(batch.events()) {
            let leaf = hasher.leaf(position, &line.unwrap().leaf_input());
            let said =
                if position == unsaid { Read::Undecodable("x".into()) } else { Read::of(decoded) };
            said.apply(&mut ledger, position, leaf).unwrap();
        }
        Ok::<_, OpenError>(())
    })
    .unwrap();
    ledger
}

fn store(dir: &Path, batch: Batch) -> String {
    SledStore::open(dir).unwrap().commit(batch).unwrap();
    dir.to_str().unwrap().to_owned()
}

#[test]
fn a_store_is_what_the_log_says_or_the_first_row_that_differs_is_named() {
    let (log, other) = (TestLog::of(&history(1, 1500)), TestLog::of(&history(2, 1500)));
    let dir = tempfile::tempdir().unwrap();
    let batch = |log, limit, unsaid| Checkpoint::whole(&mut folded(log, limit, unsaid)).unwrap();
    for (name, batch, why) in [
        ("whole", batch(&log, 1500, 0), None),
        ("a while ago", batch(&log, 700, 0), None),
        ("another log's", batch(&other, 1500, 0), Some("differ are among 1 to 1024")),
        ("one record was not taken", batch(&log, 1500, 900), Some("is not what the log says")),
    ] {
        let position = batch.mark.position();
        let path = store(&dir.path().join(name), batch);
        let ran = log.run(&["verify", "--store", &path, "-o", "json"]);
        let json = ran.json();
        assert_eq!(json["store"]["position"], position, "{name}: {}", ran.stdout);
        match why {
            None => assert_eq!((ran.code, &json["ok"]), (0, &true.into()), "{}", ran.stdout),
            Some(why) => {
                let said = json["findings"][0]["why"].as_str().unwrap();
                assert_eq!((ran.code, &json["findings"][0]["what"]), (1, &"store".into()));
                assert!(said.contains(why), "{name}: {said}");
            }
        }
    }
    let table = log.run(&["verify", "--store", dir.path().join("whole").to_str().unwrap()]);
    assert!(table.stdout.contains("rows at position 1500"), "{}", table.stdout);
}

#[test]
fn a_store_that_is_ahead_or_not_there_or_held_is_said() {
    let log = TestLog::of(&history(1, 300));
    let longer = TestLog::of(&history(1, 400));
    let dir = tempfile::tempdir().unwrap();
    let ahead = dir.path().join("ahead");
    let path = store(&ahead, Checkpoint::whole(&mut folded(&longer, 400, 0)).unwrap());
    let ran = log.run(&["verify", "--store", &path]);
    assert_eq!(ran.code, 1);
    assert!(ran.stdout.contains("but the log ends at 300"), "{}", ran.stdout);
    let json = log.run(&["verify", "--store", &path, "-o", "json"]).json();
    let finding = &json["findings"][0];
    assert_eq!((&finding["from"], &finding["to"]), (&301.into(), &400.into()), "{finding}");
    let ran = log.run(&["verify", "--store", "/nowhere"]);
    assert_eq!(ran.code, 4, "{}", ran.stdout);
    let _held = SledStore::open(&ahead).unwrap();
    let ran = log.run(&["verify", "--store", &path]);
    assert_eq!(ran.code, 4);
    assert!(ran.stderr.contains("is held by another process"), "{}", ran.stderr);
}
