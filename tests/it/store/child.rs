//! A second process: this test binary again, told by the environment what to do.

use super::log_in;
use bizrq::projection::{Runner, SledStore, runner};
use std::{
    path::Path,
    process::{Command, Stdio},
    time::Duration,
};

const TASK: &str = "BIZRQ_TEST_TASK";
const DIR: &str = "BIZRQ_TEST_DIR";

/// The command of a child that does `task` in `dir`.
pub(super) fn command(task: &str, dir: &Path) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "store::child::the_child", "--ignored", "--nocapture", "-q"]);
    command.env(TASK, task).env(DIR, dir);
    command.stdout(Stdio::piped()).stderr(Stdio::null()).stdin(Stdio::null());
    command
}

#[test]
#[ignore = "the child process of the other tests, started by them"]
fn the_child() {
    let dir = std::env::var(DIR).unwrap();
    let dir = Path::new(&dir);
    match std::env::var(TASK).unwrap().as_str() {
        "project" => project_for_ever(dir),
        "open" => match SledStore::open(&dir.join("store")) {
            Ok(_) => println!("said opened"),
            Err(error) => println!("said {error}"),
        },
        task => panic!("no such task: {task}"),
    }
}

/// Folds the log and commits as often as it can.
fn project_for_ever(dir: &Path) {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let store = SledStore::open(&dir.join("store")).unwrap();
        let options = runner::Options {
            commit_records: 40,
            commit_every: Duration::from_millis(1),
            ..runner::Options::default()
        };
        let (runner, _seen) = Runner::new(store, options);
        println!("said begun");
        runner.run(&log_in(&dir.join("log")), std::future::pending::<()>()).await.unwrap();
    });
}
