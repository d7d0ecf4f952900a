//! A serving process and what it needs: a folder with a log, quotas and certificates.

use crate::{
    nats::server,
    webhook::{client::PATIENCE, served::Ca},
};
use bizrq::{
    clock,
    domain::{event::Data, time::HOUR_MS},
    event_log::{
        EventLog, Reader,
        codec::{Decoded, Decoder},
        file::FileLog,
    },
};
use serde_json::Value;
use std::{
    collections::BTreeSet,
    fs,
    io::{BufRead, BufReader},
    net::SocketAddr,
    path::PathBuf,
    process::{Child, Command, Output, Stdio},
    sync::{Arc, Mutex},
    thread,
    time::{Duration, Instant},
};
use tempfile::TempDir;

/// What outlives a process.
pub(super) struct Site {
    dir: TempDir,
    pub(super) ca: Ca,
}

/// A process that serves.
pub(super) struct Process {
    child: Child,
    /// What it said on stderr, line by line.
    said: Arc<Mutex<Vec<Value>>>,
    pub(super) webhook: SocketAddr,
    metrics: SocketAddr,
}

impl Site {
    /// A folder whose log knows the group `team-a` with so many cores.
    pub(super) fn new(hard: usize) -> Self {
        let site = Self { dir: tempfile::tempdir().unwrap(), ca: Ca::new() };
        let now = clock::now();
        let (certificate, key) = site.ca.issue(now, now.shifted(HOUR_MS));
        fs::create_dir(site.path("tls")).unwrap();
        fs::write(site.path("tls/tls.crt"), certificate).unwrap();
        fs::write(site.path("tls/tls.key"), key).unwrap();
        let quota = format!(
            "apiVersion: bizrq.io/v1\nkind: BizGroupResourceQuota\nmetadata: {{name: team-a}}\n\
             spec: {{parent: '', hard: {{limits.cpu: '{hard}'}}}}\n"
        );
        fs::write(site.path("quotas.yaml"), quota).unwrap();
        let mut apply = Command::new(env!("CARGO_BIN_EXE_bizrq"));
        apply.args(["quota", "apply", "--log"]).arg(site.path("log")).arg(site.path("quotas.yaml"));
        let applied = apply.output().unwrap();
        assert!(applied.status.success(), "{applied:?}");
        site
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_bizrq"));
        let usual = ["--notice", "0", "--log-format", "json", "--cluster", "east"];
        let places = ["--listen", "--metrics"].map(|flag| (flag, "127.0.0.1:0"));
        let folders = [("--log", "log"), ("--store", "store"), ("--tls-dir", "tls")];
        let given = |flag: &str| arguments.contains(&flag);
        command.arg("serve").args(arguments).env("BIZRQ_NATS_TOKEN", "geheim");
        if !given("--config") {
            command.args(usual.chunks(2).filter(|pair| !given(pair[0])).flatten());
            for (flag, place) in places.into_iter().filter(|(flag, _)| !given(flag)) {
                command.args([flag, place]);
            }
            for (flag, name) in folders.into_iter().filter(|(flag, _)| !given(flag)) {
                command.arg(flag).arg(self.path(name));
            }
        }
        command.env("BIZRQ_REPLICA", "replica-of-a-test");
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// A process that is ready.
    pub(super) async fn start(&self) -> Process {
        self.start_with(&[]).await
    }

    pub(super) async fn start_with(&self, arguments: &[&str]) -> Process {
        let command = self.command(arguments);
        let answers = !arguments.contains(&"--roles");
        tokio::task::spawn_blocking(move || Process::start(command, answers)).await.unwrap()
    }

    /// What comes of a process that cannot serve.
    pub(super) fn fail(&self, arguments: &[&str]) -> (Option<i32>, String) {
        let Output { status, stderr, .. } = self.command(arguments).output().unwrap();
        (status.code(), String::from_utf8(stderr).unwrap())
    }

    pub(super) fn print_config(&self, arguments: &[&str]) -> String {
        let output = self.command(arguments).arg("--print-config").output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// The names that the log admits.
    pub(super) async fn admitted(&self) -> BTreeSet<String> {
        let mut names = BTreeSet::new();
        let admits = |data: Data<'_>| {
            if let Data::WorkloadsAdmitted(batch) = data {
                names.extend(batch.admissions.iter().map(|a| a.workload.name.to_string()));
            }
        };
        self.each_event(admits).await;
        names
    }

    /// Workloads that the log says were refused, and how often.
    pub(super) async fn refused(&self) -> Vec<(String, u64)> {
        let mut refused = Vec::new();
        let refuses = |data: Data<'_>| {
            if let Data::WorkloadsRefused(note) = data {
                let each = note.refusals.iter();
                refused.extend(each.map(|r| (r.workload.name.to_string(), r.count)));
            }
        };
        self.each_event(refuses).await;
        refused
    }

    /// Hands over what each event of the log says.
    async fn each_event(&self, mut seen: impl FnMut(Data<'_>)) {
        let mut decoder = Decoder::default();
        let log = FileLog::open_read(&self.path("log")).unwrap();
        let mut reader = log.read(1).unwrap();
        while let Some(records) = reader.next().await.unwrap() {
            for (_, raw) in records.iter() {
                let scanned = raw.scan().unwrap();
                if let Ok(Decoded::Event(event)) = decoder.decode(&scanned) {
                    seen(event.data);
                }
            }
        }
    }

    /// Compares the log's records with its roots.
    pub(super) fn verify(&self) {
        let mut info = Command::new(env!("CARGO_BIN_EXE_bizrq"));
        let info = info.args(["log", "info", "--log"]).arg(self.path("log")).output().unwrap();
        assert!(info.status.success(), "{info:?}");
    }
}

impl Process {
    /// `answers`: reviews, too.
    fn start(mut command: Command, answers: bool) -> Self {
        let mut child = command.spawn().unwrap();
        let said = Arc::<Mutex<Vec<Value>>>::default();
        let (lines, keeping) = (BufReader::new(child.stderr.take().unwrap()), Arc::clone(&said));
        thread::spawn(move || {
            for line in lines.lines().map_while(Result::ok) {
                let line = serde_json::from_str(&line).unwrap_or(Value::String(line));
                keeping.lock().unwrap().push(line);
            }
        });
        let nowhere = SocketAddr::from(([127, 0, 0, 1], 0));
        let mut process = Self { child, said, webhook: nowhere, metrics: nowhere };
        process.metrics = process.address("metrics and health");
        if answers {
            process.webhook = process.address("the webhook listens");
        }
        process.wait_until("it is ready", || process.get("/readyz").0 == 200);
        process
    }

    /// The address in the message.
    pub(super) fn address(&self, message: &str) -> SocketAddr {
        let mut found = None;
        self.wait_until(message, || {
            let said = self.said.lock().unwrap();
            let line = said.iter().find(|line| line["message"] == message);
            found = line.map(|line| line["address"].as_str().unwrap().parse().unwrap());
            found.is_some()
        });
        found.unwrap()
    }

    /// Whether it said so.
    pub(super) fn says(&self, message: &str) -> bool {
        self.said.lock().unwrap().iter().any(|line| line["message"] == message)
    }

    pub(super) fn wait_until(&self, what: &str, mut is_so: impl FnMut() -> bool) {
        let begun = Instant::now();
        while !is_so() {
            let said = || format!("{:#?}", self.said.lock().unwrap());
            assert!(begun.elapsed() < PATIENCE, "not so: {what}\n{}", said());
            thread::sleep(Duration::from_millis(10));
        }
    }

    /// Status and body of what the port of metrics and health says.
    pub(super) fn get(&self, path: &str) -> (u16, String) {
        let Ok(text) = server::get(self.metrics, path) else { return (0, String::new()) };
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
        let status = head.split(' ').nth(1).and_then(|code| code.parse().ok()).unwrap_or(0);
        (status, body.to_owned())
    }

    /// What stands behind the name of a metric.
    pub(super) fn metric(&self, name: &str) -> String {
        let (status, text) = self.get("/metrics");
        assert_eq!(status, 200, "{text}");
        let line = text.lines().find(|line| line.starts_with(name));
        let line = line.unwrap_or_else(|| panic!("no {name} in\n{text}"));
        line[name.len()..].trim().to_owned()
    }

    pub(super) fn wait_for_metric(&self, name: &str, least: u64) {
        self.wait_until(name, || self.metric(name).parse::<u64>().unwrap() >= least);
    }

    pub(super) fn signal(&self, name: &str) {
        let pid = self.child.id().to_string();
        let sent = Command::new("kill").args([&format!("-{name}"), &pid]).status();
        assert!(sent.unwrap().success(), "kill -{name} {pid}");
    }

    /// As a crash.
    pub(super) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// As an operator ends it.
    pub(super) fn end(self) {
        self.signal("TERM");
        self.finish();
    }

    /// Waits for the end that it was told to come to; gives the stages.
    pub(super) fn finish(mut self) -> Vec<String> {
        let begun = Instant::now();
        let status = loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                break status;
            }
            assert!(begun.elapsed() < PATIENCE, "it does not end: {:#?}", self.said.lock());
            thread::sleep(Duration::from_millis(10));
        };
        let said = self.said.lock().unwrap();
        assert!(status.success(), "{status}: {said:#?}");
        let wrong = |line: &&Value| line["level"] == "ERROR";
        assert!(said.iter().find(wrong).is_none(), "{said:#?}");
        let stages = said.iter().filter(|line| line["message"] == "ending");
        stages.map(|line| line["stage"].as_str().unwrap().to_owned()).collect()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
