//! Commands at the folder of a process that serves: it appends for them, and what they say is what it said.

use super::{
    HARD, ask, connect, is_allowed,
    process::{Process, Site},
};
use crate::api::get_with;
use crate::webhook::client::PATIENCE;
use bizrq::{
    domain::{
        event::{Data, Event, EventId, PodStarted, StartBasis},
        quantity::{Format, Quantity},
        resources::{Models, Resources},
        time::Timestamp,
    },
    event_log::{
        EventLog, NewEvent,
        file::{FileLog, Options},
    },
};
use std::{
    fs,
    os::unix::{fs::PermissionsExt, process::CommandExt},
    process::{Command, Output},
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

impl Site {
    fn command_at_log(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_bizrq"));
        command.args(arguments).arg("--log").arg(self.path("log")).env("USER", "alice");
        command
    }

    fn typed(&self, arguments: &[&str]) -> Output {
        self.command_at_log(arguments).output().unwrap()
    }

    /// What a command says that does what it should.
    fn done(&self, arguments: &[&str]) -> String {
        let output = self.typed(arguments);
        assert!(output.status.success(), "{arguments:?}: {output:?}");
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(said.contains("which is asked to append"), "{arguments:?}: {said}");
        String::from_utf8(output.stdout).unwrap()
    }

    fn failed(&self, arguments: &[&str], code: i32) -> String {
        let output = self.typed(arguments);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {output:?}");
        String::from_utf8(output.stderr).unwrap()
    }

    /// Two cores of the group `lab` run in the cluster `west`.
    async fn with_usage(self) -> Self {
        let log = FileLog::open(&self.path("log"), &Options::default()).unwrap();
        let mut held = Resources::default();
        held.limits.set("cpu", Quantity::from_milli(2_000, Format::DecimalSI));
        let started = PodStarted {
            uid: "3e9c0000-0000-4000-8000-000000000001".into(),
            owner: None,
            group: "lab".into(),
            models: Models::default(),
            node: "n1".into(),
            held: Arc::new(held),
            reserved: None,
            basis: StartBasis::Bound,
        };
        let time = Timestamp::parse("2025-12-31T00:00:00Z").unwrap();
        let (source, subject) = ("/clusters/west".into(), "pods/x/one".into());
        let data = Data::PodStarted(started);
        let event = Event { id: EventId(1), source, subject, time, recorded_at: time, data };
        log.append(vec![NewEvent::new(&event).unwrap()]).await.unwrap();
        log.close().unwrap();
        self
    }

    /// A file of one quota object.
    fn quota(&self, name: &str, parent: &str, cores: usize) -> String {
        let path = self.path(&format!("{name}.yaml"));
        let text = format!(
            "apiVersion: bizrq.io/v1\nkind: BizGroupResourceQuota\nmetadata: {{name: {name}}}\n\
             spec: {{parent: '{parent}', hard: {{limits.cpu: '{cores}'}}}}\n"
        );
        fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    }
}

const ADJUST: [&str; 10] = [
    "adjust",
    "--group",
    "lab",
    "--key",
    "limits.cpu",
    "--hours=-2",
    "--from",
    "2026-01-01T00:00:00Z",
    "--to",
    "2026-01-02T00:00:00Z",
];

fn adjust(why: &str) -> Vec<&str> {
    ADJUST.into_iter().chain(["--why", why]).collect()
}

fn position(process: &Process) -> u64 {
    process.metric("bizrq_projection_position ").parse().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_process_that_serves_appends_what_commands_say() {
    let site = Site::new(HARD).with_usage().await;
    let process = site.start_with(&["--api", "127.0.0.1:0"]).await;
    let api = process.address("the API listens");
    let mut client = connect(&site, &process).await;
    assert!(is_allowed(&ask(&mut client, "one").await.unwrap()));

    let said = site.done(&["quota", "apply", &site.quota("team-b", "team-a", 3)]);
    assert!(said.contains("declared") && said.contains("1 events appended"), "{said}");
    process.wait_until("the API shows the group", || {
        let answer = get_with(api, "/v1/quotas/team-b", "");
        answer.status == 200 && answer.body.contains("\"parent\":\"team-a\"")
    });
    // What does not fit is judged by what the running process has, and nothing is appended.
    let before = position(&process);
    let refused = site.typed(&["quota", "apply", &site.quota("team-c", "team-b", 4)]);
    let said = String::from_utf8_lossy(&refused.stdout).into_owned();
    assert!(refused.status.code() == Some(1) && said.contains("ParentExceeded"), "{refused:?}");

    let said = site.done(&adjust("it was faulty"));
    assert!(said.contains("lab limits.cpu: -2.000000000 core-hours"), "{said}");
    let said = site.done(&adjust("it was faulty"));
    assert!(said.contains("nothing was appended"), "{said}");

    let said = site.done(&["close", "2025-12"]);
    assert!(said.contains("2025-12 is closed by record"), "{said}");
    assert!(site.done(&["close", "2025-12"]).contains("nothing was appended"));

    let said = site.done(&["cluster", "rebind", "west"]);
    assert!(said.contains("west stands for no cluster"), "{said}");
    let said = site.done(&["cluster", "retire", "west", "--at", "2026-01-01T00:00:00Z"]);
    assert!(said.contains("west ended at 2026-01-01T00:00:00.000Z, by record"), "{said}");
    assert!(said.contains("pods that still ran: 1"), "{said}");
    let again = site.failed(&["cluster", "retire", "west", "--at", "2026-01-01T00:00:00Z"], 2);
    assert!(again.contains("ended at 2026-01-01T00:00:00.000Z already"), "{again}");

    // The correction, the closing, the cluster let go, the pod's end and the cluster's.
    process.wait_for_metric("bizrq_projection_position ", before + 5);
    assert_eq!(position(&process), before + 5);
    // Decisions go on behind it.
    assert!(is_allowed(&ask(&mut client, "two").await.unwrap()));
    // A whole history needs the folder for itself.
    let archive = site.path("archive").display().to_string();
    let exported = site.typed(&["log", "export", &archive]);
    assert!(exported.status.success(), "{exported:?}");
    let said = site.failed(&["log", "import", &archive], 4);
    assert!(said.contains("is held by another writer") && said.contains("stop it first"), "{said}");
    process.end();
    assert!(!site.path("log/control").exists());
    site.verify();
    assert_eq!(site.admitted().await.len(), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_period_is_closed_while_decisions_come_one_after_another() {
    let site = Site::new(100_000);
    let process = site.start().await;
    let mut client = connect(&site, &process).await;
    let closing = thread::spawn({
        let mut command = site.command_at_log(&["close", "2025-12"]);
        move || command.output().unwrap()
    });
    let mut asked = 0;
    while !closing.is_finished() {
        assert!(is_allowed(&ask(&mut client, &format!("d{asked}")).await.unwrap()));
        asked += 1;
    }
    let output = closing.join().unwrap();
    assert!(output.status.success() && asked > 3, "{asked}: {output:?}");
    process.end();
    site.verify();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_a_process_that_is_killed_in_the_middle_every_command_that_succeeded_is_on_the_log() {
    let site = Site::new(HARD).with_usage().await;
    let process = site.start().await;
    let reasons: Vec<_> = (0..400).map(|n| format!("reason {n}")).collect();
    let (mut succeeded, mut failed) = (Vec::new(), None);
    let mut process = Some(process);
    let begun = Instant::now();
    for why in &reasons {
        if succeeded.len() == 2
            && let Some(process) = process.take()
        {
            // Some time during the next few commands.
            thread::spawn(move || {
                thread::sleep(Duration::from_millis(30));
                process.kill();
            });
        }
        let output = site.typed(&adjust(why));
        let said = String::from_utf8(output.stderr).unwrap();
        match output.status.code() {
            Some(0) => succeeded.push(why),
            Some(4) => {
                failed = Some(said);
                break;
            }
            _ => panic!("{said}"),
        }
        // Nobody holds the folder any more, and no command was in the middle: that is fine, too.
        if process.is_none() && !said.contains("which is asked to append") {
            break;
        }
        assert!(begun.elapsed() < PATIENCE, "{} commands, and no end", succeeded.len());
    }
    if let Some(said) = failed {
        assert!(
            ["nothing was written", "run the command again"].iter().any(|w| said.contains(w)),
            "{said}"
        );
    }
    let log = site.typed(&["log", "tail", "--from", "1", "-o", "lines"]);
    let lines = String::from_utf8(log.stdout).unwrap();
    for why in succeeded {
        assert!(lines.contains(&format!("\"why\":\"{why}\"")), "{why} is lost in\n{lines}");
    }
    // The socket that it left keeps nobody from the folder.
    let process = site.start().await;
    site.done(&adjust("after all"));
    process.end();
    site.verify();
}

/// Whether this user may become another one, as root may; else the test says that it was skipped.
fn is_root() -> bool {
    let id = Command::new("id").arg("-u").output().unwrap();
    let is_root = id.stdout == b"0\n";
    if !is_root {
        println!("SKIPPED another_user_can_append_nothing: only root can become somebody else");
    }
    is_root
}

#[test]
fn another_user_can_append_nothing() {
    if !is_root() {
        return;
    }
    let site = Site::new(HARD);
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let process = runtime.block_on(site.start());
    let before = position(&process);
    // As a careless operator leaves it: everybody may reach the folder, and even the socket.
    let open = |name: &str, mode| {
        fs::set_permissions(site.path(name), fs::Permissions::from_mode(mode)).unwrap();
    };
    for folder in [".", "log"] {
        open(folder, 0o755);
    }
    let head = r#"{"seen":0,"events":1}"#;
    // It may be answered and hung up on before it has said anything.
    let script = "\
import socket, sys
s = socket.socket(socket.AF_UNIX)
try:
    s.connect(sys.argv[1])
    try:
        s.sendall(sys.argv[2].encode() + b'\\n')
    except BrokenPipeError:
        pass
    print(s.recv(4096).decode())
except OSError as error:
    print(error)
";
    let nobody = || {
        let mut python = Command::new("python3");
        python.args(["-c", script]).arg(site.path("log/control")).arg(head);
        let output = python.uid(65534).gid(65534).current_dir("/").output().unwrap();
        String::from_utf8(output.stdout).unwrap() + &String::from_utf8(output.stderr).unwrap()
    };
    let said = nobody();
    assert!(said.contains("Permission denied"), "{said}");
    open("log/control", 0o666);
    let said = nobody();
    assert!(said.contains("user 65534 may not append; user 0 may"), "{said}");
    assert_eq!(position(&process), before);
    process.end();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_folder_that_lost_what_it_held_is_told_by_the_rows_that_were_made_of_it() {
    let site = Site::new(HARD).with_usage().await;
    let (log, kept, store) = (site.path("log"), site.path("kept"), site.path("store"));
    fs::create_dir(&kept).unwrap();
    for entry in fs::read_dir(&log).unwrap().map(Result::unwrap) {
        fs::copy(entry.path(), kept.join(entry.file_name())).unwrap();
    }
    let rows = ["--store", store.to_str().unwrap()];
    let process = site.start_with(&rows).await;
    let before = position(&process);
    site.done(&adjust("it was faulty"));
    process.wait_for_metric("bizrq_projection_position ", before + 1);
    process.end();
    // As from a backup of yesterday.
    fs::remove_dir_all(&log).unwrap();
    fs::rename(&kept, &log).unwrap();
    let process = site.start_with(&rows).await;
    let told = "the rows of the store were thrown away; the log was folded without them";
    process.wait_until(told, || process.says(told));
    assert_eq!(position(&process), before);
    process.end();
}
