//! `bizrq serve` beside a large cluster: 150,000 pods are listed, then a thousand changes come each second for a minute,
//! from a server that speaks lists and watches ([served]). The log is in a folder, rows on disk, as the chart has it.
//!
//! ```text
//!  [served] ─lists, watches─▶ bizrq serve ─▶ log in a folder ─▶ this process reads it as it grows
//! ```
//!
//! `cargo bench --bench observe` prints when it is ready, when everything listed is on the log, how long after a change
//! was sent its fact stands there, what memory and CPU `bizrq serve` needs; and it compares the log with what was sent.
//! `--pods N` and `--seconds N` (behind `--`) make it smaller.
// A bench fails by panicking and tells by printing.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    missing_docs
)]
// The harness serves the tests, which use more of it.
#![allow(dead_code)]

#[path = "cpu.rs"]
mod cpu;
#[path = "observe/served.rs"]
mod served;
#[path = "../it/nats/server.rs"]
mod server;

use bizrq::{
    clock,
    domain::{
        event::Data,
        time::{HOUR_MS, Timestamp},
    },
    event_log::{
        EventLog, Reader,
        codec::{Decoded, Decoder},
        file::FileLog,
    },
    webhook::tls::issue,
};
use serde_json::{Value, json};
use served::{GROUPS, Served};
use server::{Process, free_port};
use std::{
    collections::BTreeMap,
    env, fs,
    path::Path,
    process::{Command, Stdio},
    time::{Duration, Instant},
};
use tokio::time::sleep;

/// Nothing takes longer than this.
const PATIENCE: Duration = Duration::from_secs(600);
/// What still runs is metered up to here.
const AT: &str = "2026-11-29T18:00:00.000Z";

fn main() {
    let number = |name: &str, otherwise: usize| {
        let mut args = env::args().skip_while(|arg| arg != name).skip(1);
        args.next().map_or(otherwise, |text| text.parse().unwrap())
    };
    let (pods, seconds) = (number("--pods", 150_000), number("--seconds", 60));
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(observed(pods, Duration::from_secs(seconds as u64)));
}

async fn observed(pods: usize, changing: Duration) {
    let dir = tempfile::tempdir().unwrap();
    let served = Served::start(pods).await;
    let (log, metrics) = (dir.path().join("log"), free_port());
    let begun = Instant::now();
    let mut bizrq = Bizrq::start(dir.path(), served.port(), metrics);
    let mut readiness = None;
    let mut told = Told::open(&log).await;
    while told.started.len() < pods {
        told.read_on().await;
        if readiness.is_none() && get(metrics, "/readyz").starts_with("HTTP/1.1 200") {
            readiness = Some(begun.elapsed());
        }
        let said = || fs::read_to_string(dir.path().join("said")).unwrap();
        assert!(begun.elapsed() < PATIENCE, "{} told; {}", told.started.len(), said());
        sleep(Duration::from_millis(20)).await;
    }
    let listed = begun.elapsed();
    while readiness.is_none() {
        readiness = get(metrics, "/readyz").starts_with("HTTP/1.1 200").then(|| begun.elapsed());
        sleep(Duration::from_millis(20)).await;
    }
    let (now, most, cpu) = bizrq.needs();
    println!(
        "{pods} pods: ready after {:.1?}, all on the log after {listed:.1?}, {cpu:.1?} of CPU; RSS {now} MiB, at most {most} MiB",
        readiness.unwrap()
    );

    let begun = Instant::now();
    served.go(changing);
    let (mut steady, mut last) = (Vec::new(), Instant::now());
    while !(served.is_done()
        && told.started.len() + told.stopped.len() == pods + 2 * served.new_pods())
    {
        told.read_on().await;
        if last.elapsed() >= Duration::from_secs(1) {
            steady.push(bizrq.needs().0);
            last = Instant::now();
        }
        let missing = || (told.started.len(), told.stopped.len(), served.new_pods());
        assert!(begun.elapsed() < changing + PATIENCE, "{:?}", missing());
        sleep(Duration::from_millis(2)).await;
    }
    let took = begun.elapsed();
    let mut lags: Vec<Duration> = Vec::new();
    for n in 0..served.new_pods() {
        lags.push(told.started[&(pods + n)] - served.bound(n));
        lags.push(told.stopped[&n] - served.ended(n));
    }
    lags.sort_unstable();
    let at = |part: f64| lags[((lags.len() - 1) as f64 * part) as usize];
    let (_, most, all) = bizrq.needs();
    steady.sort_unstable();
    println!(
        "{} changes in {took:.1?}, {:.1?} of CPU: on the log after {:.1?} (median), {:.1?} (99 of 100), {:.1?} (at most); RSS {} MiB (median), at most {most} MiB",
        served.sent(),
        all - cpu,
        at(0.5),
        at(0.99),
        at(1.0),
        steady.get(steady.len() / 2).copied().unwrap_or(now),
    );
    bizrq.end();
    compare(&log, &served.truth(Timestamp::parse(AT).unwrap()));
}

/// `bizrq serve`.
struct Bizrq(Process, u32);

impl Bizrq {
    fn start(dir: &Path, port: u16, metrics: u16) -> Self {
        let now = clock::now();
        let authority = issue::authority(now, now.shifted(24 * HOUR_MS)).unwrap();
        let names = ["localhost".to_owned()];
        let own = issue::serving(&authority, &names, now, now.shifted(24 * HOUR_MS)).unwrap();
        fs::create_dir(dir.join("tls")).unwrap();
        fs::write(dir.join("tls/tls.crt"), own.certificate).unwrap();
        fs::write(dir.join("tls/tls.key"), own.key).unwrap();
        let config = json!({"apiVersion": "v1", "kind": "Config", "current-context": "served",
            "clusters": [{"name": "served", "cluster": {"server": format!("http://127.0.0.1:{port}")}}],
            "users": [{"name": "bizrq", "user": {}}],
            "contexts": [{"name": "served", "context": {"cluster": "served", "user": "bizrq"}}]});
        fs::write(dir.join("kubeconfig"), config.to_string()).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_bizrq"));
        command.args(["serve", "--cluster", "east=served", "--listen", "127.0.0.1:0"]);
        command.args(["--metrics", &format!("127.0.0.1:{metrics}"), "--replica", "a"]);
        for (flag, name) in [("--log", "log"), ("--store", "store"), ("--tls-dir", "tls")] {
            command.arg(flag).arg(dir.join(name));
        }
        command.args(["--namespace", "bizrq", "--notice", "0"]);
        command.env("KUBECONFIG", dir.join("kubeconfig"));
        let said = fs::File::create(dir.join("said")).unwrap();
        let process = Process::spawn(command, Stdio::null(), said.into());
        let id = process.id();
        Self(process, id)
    }

    /// Memory now and at most, in MiB, and what was spent of CPUs.
    fn needs(&self) -> (u64, u64, Duration) {
        let status = fs::read_to_string(format!("/proc/{}/status", self.1)).unwrap();
        let of = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
            line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() / 1024
        };
        (of("VmRSS:"), of("VmHWM:"), cpu::spent(&self.1.to_string()))
    }

    fn end(&mut self) {
        self.0.signal("TERM");
        let begun = Instant::now();
        while self.0.ended().is_none() {
            assert!(begun.elapsed() < PATIENCE, "bizrq does not end");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

/// What the log has of each pod, by its number, and since when this process has read it.
struct Told {
    reader: <FileLog as EventLog>::Reader,
    decoder: Decoder,
    started: BTreeMap<usize, Instant>,
    stopped: BTreeMap<usize, Instant>,
}

impl Told {
    async fn open(log: &Path) -> Self {
        let begun = Instant::now();
        let log = loop {
            match FileLog::open_read(log) {
                Ok(log) => break log,
                Err(why) => assert!(begun.elapsed() < PATIENCE, "{why}"),
            }
            sleep(Duration::from_millis(20)).await;
        };
        let (reader, decoder) = (log.read(1).unwrap(), Decoder::default());
        Self { reader, decoder, started: BTreeMap::new(), stopped: BTreeMap::new() }
    }

    /// Reads what is there.
    async fn read_on(&mut self) {
        while let Some(records) = self.reader.next().await.unwrap() {
            let now = Instant::now();
            for (_, raw) in records.iter() {
                let scanned = raw.scan().unwrap();
                let Ok(Decoded::Event(event)) = self.decoder.decode(&scanned) else {
                    panic!("{scanned:?}")
                };
                let (uid, told) = match &event.data {
                    Data::PodStarted(data) => (&data.uid, &mut self.started),
                    Data::PodStopped(data) => (&data.uid, &mut self.stopped),
                    _ => continue,
                };
                let number = usize::from_str_radix(uid.rsplit_once('-').unwrap().1, 16).unwrap();
                assert!(told.insert(number, now).is_none(), "told twice: {uid}");
            }
        }
    }
}

/// Every group's use, by the log and by what was sent.
fn compare(log: &Path, truth: &BTreeMap<String, i128>) {
    let mut meter = Command::new(env!("CARGO_BIN_EXE_bizrq"));
    let output =
        meter.args(["meter", "--at", AT, "-o", "json", "--log"]).arg(log).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let lines = report["usage"].as_array().unwrap().iter();
    let cores = lines.filter(|line| line["key"] == "limits.cpu");
    let found: BTreeMap<String, i128> = cores
        .map(|line| {
            let text = |name: &str| line[name].as_str().unwrap();
            (text("group").to_owned(), text("exact").parse().unwrap())
        })
        .collect();
    let differ = truth.iter().find(|(group, exact)| found.get(*group) != Some(exact));
    if let Some((group, exact)) = differ {
        panic!("{group}: the log says {:?}, the truth is {exact}", found.get(group));
    }
    assert_eq!(found.len(), truth.len());
    println!("the log agrees with what was sent, in each of {GROUPS} groups");
}

/// What the port of metrics and health says.
fn get(port: u16, path: &str) -> String {
    server::get(("127.0.0.1", port), path).unwrap_or_default()
}
