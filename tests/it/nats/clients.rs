//! A client that is not ours: the example of the README, run by Python with `nats-py` as a tenant, killed and started
//! again while usage goes on.

use super::{server::Version, tenants::Stage};
use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

/// The interpreter that `tests/servers.sh` gave the client to.
fn python() -> PathBuf {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/servers/nats-py/bin/python");
    let has_client = Command::new(&path).args(["-c", "import nats"]).status();
    assert!(has_client.is_ok_and(|status| status.success()), "no nats-py: run tests/servers.sh");
    path
}

/// The example, as it stands in the README.
fn example() -> String {
    let readme = include_str!("../../../README.md");
    let (_, code) = readme.split_once("```python\n").unwrap();
    code.split_once("```").unwrap().0.to_owned()
}

/// A process that ends with the test.
struct Client(Child);

impl Drop for Client {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// What the example kept.
fn kept(dir: &Path) -> BTreeSet<String> {
    let script = "import sqlite3\nfor row in sqlite3.connect('usage.db').execute('SELECT id FROM usage'): print(row[0])";
    let output = Command::new(python()).args(["-c", script]).current_dir(dir).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let ids: BTreeSet<_> = text.lines().map(str::to_owned).collect();
    assert_eq!(ids.len(), text.lines().count(), "kept twice");
    ids
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_of_python_that_was_away_goes_on_without_a_gap_and_without_a_repeat() {
    for version in Version::ALL {
        let mut stage = Stage::new(version).await;
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("usage.py"), example()).unwrap();
        let start = |url: &str| {
            let mut command = Command::new(python());
            command.arg("usage.py").current_dir(dir.path()).stdout(Stdio::null());
            command.envs([
                ("NATS_URL", url),
                ("NATS_USER", "bizrq-tenant-language"),
                ("NATS_PASSWORD", "of-language"),
            ]);
            Client(command.spawn().unwrap())
        };
        for round in 0..4_u64 {
            let client = start(&stage.server.url());
            stage.uses().await;
            tokio::time::sleep(Duration::from_millis(150 * round)).await;
            drop(client);
            // While it is away.
            stage.uses().await;
        }
        let told = stage.ids(&["language"]).await;
        assert_eq!(told.len(), 2 * 9);
        let _client = start(&stage.server.url());
        let begun = Instant::now();
        while kept(dir.path()) != told {
            assert!(
                begun.elapsed() < Duration::from_secs(90),
                "{:?} of {told:?}",
                kept(dir.path())
            );
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    }
}
