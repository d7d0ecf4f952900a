//! The demo's log under the auditor's eyes: proved, and every number explained.

use crate::logs::TestLog;
use bizrq::{
    cli::progress::Progress,
    demo,
    domain::{
        event::Position,
        ledger::{Ledger, Options},
        meter::Window,
    },
    event_log::{
        EventLog, OpenError,
        bulk::{self, Source},
        file::{FileLog, Options as FileOptions},
    },
    projection::fold::Read,
};
use tempfile::TempDir;

/// The log of a small fortnight, and its root.
fn played() -> (TestLog, String) {
    let dir = TempDir::new().unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let root = runtime.block_on(async {
        let log = FileLog::open(dir.path(), &FileOptions::default()).unwrap();
        let bar = Progress::items("simulating", None);
        let options = demo::Options { seed: 3, pods: 300 };
        demo::play(&log, options, |done| bar.at(done)).await.unwrap();
        let root = log.tree().await.unwrap().root();
        log.close().unwrap();
        root
    });
    (TestLog { dir }, root.to_string())
}

#[test]
fn the_demo_is_proved_and_every_number_of_it_is_explained() {
    let (log, root) = played();
    let ran = log.run(&["verify", "--root", &root, "-o", "json"]);
    assert_eq!(ran.code, 0, "{}{}", ran.stdout, ran.stderr);
    assert_eq!(ran.json()["root"], root.as_str());
    assert_eq!(ran.json()["fold"]["quarantined"].as_array().unwrap().len(), 0);

    let to = demo::end();
    let window = Window { from: None, to: Some(to) };
    let mut ledger =
        Ledger::new(Options { window, history: false, quotas: false, ..Options::default() });
    let source = Source::Log { dir: log.path(), limit: Position::MAX };
    bulk::read(source, |batch| {
        for (position, decoded) in batch.events() {
            let read = Read::of(decoded);
            ledger.fold(position, &read.record()).unwrap();
        }
        Ok::<_, OpenError>(())
    })
    .unwrap();
    let usage = ledger.usage(to).unwrap();
    assert!(usage.len() > 20);
    let to = to.to_string();
    for line in usage.iter().filter(|line| line.key.starts_with("limits.")) {
        let args = ["explain", "--group", &line.group, "--key", &line.key, "--to", &to];
        let ran = log.run(&[&args[..], &["-o", "json"]].concat());
        assert_eq!(ran.code, 0, "{}", ran.stderr);
        assert_eq!(ran.json()["exact"], line.exact.to_string(), "{} {}", line.group, line.key);
    }
    let state = log.run(&["state", "--at", &to, "-o", "json"]);
    let told = state.json()["usage"].as_array().unwrap().len();
    assert_eq!((state.code, told), (0, usage.len()));
}
