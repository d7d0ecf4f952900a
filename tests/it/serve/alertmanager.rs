//! A serving process and Debian's real Alertmanager (`tests/servers.sh`): what stands is an alert there, and is none when
//! it is over.

use super::{notices::append, process::Site};
use crate::{
    api::get_with,
    nats::server::{Server, Version, free_port},
    webhook::client::PATIENCE,
};
use bizrq::{
    clock,
    domain::{
        event::Data,
        time::{HOUR_MS, Timestamp},
    },
    event_log::jetstream::{JetStreamLog, Options},
};
use serde_json::Value;
use std::{
    fs,
    net::{SocketAddr, TcpStream},
    os::unix::fs::symlink,
    path::Path,
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};
use tempfile::TempDir;

struct Alertmanager {
    child: Child,
    address: SocketAddr,
    _dir: TempDir,
}

impl Alertmanager {
    fn start() -> Self {
        let unpacked = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/servers/alertmanager");
        let path = unpacked.join("bin/prometheus-alertmanager");
        assert!(path.exists(), "{} is missing: run tests/servers.sh", path.display());
        let dir = tempfile::tempdir().unwrap();
        symlink(unpacked.join("share"), dir.path().join("share")).unwrap();
        let config = "route: {receiver: nobody}\nreceivers: [{name: nobody}]\n";
        fs::write(dir.path().join("config.yml"), config).unwrap();
        let address = SocketAddr::from(([127, 0, 0, 1], free_port()));
        let child = Command::new(path)
            .current_dir(&dir)
            .args(["--config.file=config.yml", "--storage.path=data", "--cluster.listen-address="])
            .arg(format!("--web.listen-address={address}"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let begun = Instant::now();
        while TcpStream::connect(address).is_err() {
            assert!(begun.elapsed() < PATIENCE, "the Alertmanager does not listen");
            thread::sleep(Duration::from_millis(20));
        }
        Self { child, address, _dir: dir }
    }

    /// The alerts of a name that it holds for firing.
    fn firing(&self, name: &str) -> Vec<Value> {
        let answer = get_with(self.address, "/api/v2/alerts?active=true", "");
        assert_eq!(answer.status, 200, "{}", answer.body);
        // Chunked, if it is long.
        let (from, to) = (answer.body.find('['), answer.body.rfind(']'));
        let body = &answer.body[from.unwrap()..=to.unwrap()];
        let Ok(alerts) = serde_json::from_str::<Vec<Value>>(body) else { return Vec::new() };
        alerts.into_iter().filter(|alert| alert["labels"]["alertname"] == name).collect()
    }
}

impl Drop for Alertmanager {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn quota(generation: u32, cash: &str) -> String {
    format!(
        r#"{{"uid":"5f0c6f0e-0000-4000-8000-000000000001","resourceVersion":"{generation}",
            "generation":{generation},"spec":{{"hard":{{"cash/limits.cpu":"{cash}"}}}}}}"#
    )
}

async fn declare(log: &JetStreamLog, at: Timestamp, generation: u32, cash: &str) {
    let text = quota(generation, cash);
    let data = Data::QuotaDeclared(serde_json::from_str(&text).unwrap());
    append(log, u128::from(generation), at, "quotas/team", data).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_stands_is_an_alert_and_what_is_over_is_none() {
    let (server, site) = (Server::start(Version::New), Site::new(30));
    let alertmanager = Alertmanager::start();
    let log = JetStreamLog::open(Options::new(&server.url())).await.unwrap();
    let begin = clock::now().shifted(-2 * HOUR_MS);
    declare(&log, begin, 1, "1").await;
    let pod = r#"{"uid":"p","group":"team","models":{},"node":"n",
        "held":{"requests":{},"limits":{"cpu":"1"}},"basis":"Bound"}"#;
    append(&log, 77, begin, "pods/n/p", Data::PodStarted(serde_json::from_str(pod).unwrap())).await;
    let url = format!("http://{}", alertmanager.address);
    let process = site.start_with(&["--log", &server.url(), "--alertmanager", &url]).await;
    process.wait_until("the end of the cash is an alert", || {
        !alertmanager.firing("BizrqCashExhausted").is_empty()
    });
    let alert = alertmanager.firing("BizrqCashExhausted").remove(0);
    let labels = &alert["labels"];
    let said =
        ["group", "key", "threshold", "severity"].map(|label| labels[label].as_str().unwrap());
    assert_eq!(said, ["team", "cash/limits.cpu", "100", "critical"]);
    assert_eq!(alert["startsAt"], begin.shifted(HOUR_MS).to_string());
    let summary = alert["annotations"]["summary"].as_str().unwrap();
    assert_eq!(summary, "team spent 100 % of its own 1 of cash/limits.cpu");
    assert_eq!(process.metric(r#"bizrq_notices_standing{alert="BizrqCashExhausted"}"#), "1");
    assert_eq!(alertmanager.firing("BizrqCashThreshold").len(), 3);

    declare(&log, clock::now(), 2, "100").await;
    process.wait_until("it is none any more", || {
        alertmanager.firing("BizrqCashExhausted").is_empty()
            && alertmanager.firing("BizrqCashThreshold").is_empty()
    });
    process.end();
}
