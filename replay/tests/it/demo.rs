//! The auditor's program on the log of the simulated fortnight: it finds nothing, and the same root.

use crate::logs::run;
use bizrq::{
    demo::{self, Options},
    event_log::{
        EventLog,
        file::{self, FileLog},
    },
};
use serde_json::Value;

#[test]
fn the_log_of_the_demo_is_what_was_written() {
    let dir = tempfile::tempdir().unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let head = runtime.block_on(async {
        let log = FileLog::open(dir.path(), &file::Options::default()).unwrap();
        demo::play(&log, Options { seed: 6, pods: 400 }, |_| {}).await.unwrap();
        let head = log.head().await.unwrap();
        log.close().unwrap();
        head
    });
    let (log, root) = (dir.path().to_str().unwrap(), head.root().to_string());
    let ran = run(&["verify", "--log", log, "--root", &root, "-o", "json"]);
    let json = ran.json();
    assert_eq!((ran.code, &json["ok"]), (0, &Value::Bool(true)), "{}{}", ran.stdout, ran.stderr);
    assert_eq!((&json["position"], &json["root"]), (&head.position.into(), &root.into()));
    assert_eq!(json["fold"]["quarantined"].as_array().map(Vec::len), Some(0));
    assert_eq!(json["fold"]["repeated"], 0);
    assert_eq!(json["heartbeatGaps"].as_array().map(Vec::len), Some(0), "{}", ran.stdout);
}
