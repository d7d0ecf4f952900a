//! `bizrq quota` as people use it: files, a log, exit codes.

use bizrq::{
    clock,
    domain::event::{Data, Event, EventId},
    event_log::{
        EventLog, NewEvent,
        file::{FileLog, Options, control::Control},
    },
};
use serde_json::Value;
use std::{
    fs,
    path::Path,
    process::{Command, Output, Stdio},
    thread,
    time::{Duration, Instant},
};
use tempfile::TempDir;

/// A folder with a log and the files that a test writes.
struct Desk(TempDir);

impl Desk {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> String {
        self.0.path().join(name).to_str().unwrap().to_owned()
    }

    /// Writes one object a group: name, parent, hard.
    fn quotas(&self, groups: &[(&str, &str, &str)]) -> String {
        let object = |(name, parent, hard): &(&str, &str, &str)| {
            format!(
                "apiVersion: bizrq.io/v1\nkind: BizGroupResourceQuota\nmetadata: {{name: {name}}}\n\
                 spec: {{parent: \"{parent}\", hard: {{{hard}}}}}\n"
            )
        };
        let text: Vec<_> = groups.iter().map(object).collect();
        let path = self.path("quotas.yaml");
        fs::write(&path, text.join("---\n")).unwrap();
        path
    }

    fn apply(&self, groups: &[(&str, &str, &str)]) -> (Option<i32>, Value) {
        let file = self.quotas(groups);
        json(&bizrq(&[
            "quota",
            "apply",
            "--as",
            "alice",
            "--log",
            &self.path("log"),
            "-o",
            "json",
            &file,
        ]))
    }

    fn tree(&self, more: &[&str]) -> Value {
        let log = self.path("log");
        let (code, tree) =
            json(&bizrq(&[&["quota", "tree", "--log", &log, "-o", "json"], more].concat()));
        assert_eq!(code, Some(0));
        tree
    }
}

fn bizrq(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_bizrq")).args(args).output().unwrap()
}

fn json(output: &Output) -> (Option<i32>, Value) {
    let value = serde_json::from_slice(&output.stdout);
    let value =
        value.unwrap_or_else(|e| panic!("{e}: {}", String::from_utf8_lossy(&output.stderr)));
    (output.status.code(), value)
}

const TREE: [(&str, &str, &str); 3] = [
    ("team-a", "dept", "cpu: 4"),
    ("dept", "org", "cpu: 10, cash/cpu: 100"),
    ("org", "", "cpu: 10, cash/cpu: 500"),
];

#[test]
fn applying_twice_appends_nothing_and_a_change_is_the_next_generation() {
    let desk = Desk::new();
    let (code, first) = desk.apply(&TREE);
    assert_eq!((code, &first["appended"]), (Some(0), &3.into()));
    let (code, again) = desk.apply(&TREE);
    assert_eq!((code, &again["appended"]), (Some(0), &0.into()));
    assert_eq!((&again["position"], &again["root"]), (&first["position"], &first["root"]));

    let (code, changed) = desk.apply(&[("team-a", "dept", "requests.cpu: 5000m")]);
    assert_eq!((code, &changed["appended"]), (Some(0), &1.into()));
    assert_eq!(changed["groups"][0]["generation"], 2);
    let (_, same) = desk.apply(&[("team-a", "dept", "cpu: 5")]);
    assert_eq!(same["appended"], 0, "another spelling of the same");
    let (_, back) = desk.apply(&[("team-a", "dept", "cpu: 4")]);
    assert_eq!(back["groups"][0]["generation"], 3);
    let shown = desk.tree(&["team-a"]);
    assert_eq!(shown["groups"][0]["keys"][0]["hard"], "4");
}

#[test]
fn what_does_not_fit_the_log_is_refused_and_nothing_is_appended() {
    let desk = Desk::new();
    desk.apply(&TREE);
    for (groups, reason) in [
        (&[("team-b", "dept", "cpu: 7")][..], "ParentExceeded"),
        (&[("dept", "org", "cpu: 3, cash/cpu: 100")], "BelowChildren"),
        (&[("team-b", "dept", "memory: 1Gi")], "KeyNotInParent"),
        (&[("team-b", "nobody", "cpu: 1")], "ParentNotFound"),
        (&[("org", "team-a", "cpu: 1")], "Cycle"),
        (&[("x", "y", ""), ("y", "x", "")], "Cycle"),
        (&[("team-b", "dept", "cpu: -1")], "InvalidQuantity"),
        (&[("team-b", "dept", "cpus: 1")], "InvalidSpec"),
        (&[("team-b", "dept", "cpu: 1"), ("team-c", "dept", "cpu: 9")], "ParentExceeded"),
    ] {
        let (code, refused) = desk.apply(groups);
        assert_eq!(code, Some(1), "{groups:?}");
        assert_eq!(refused["faults"][0]["reason"], reason, "{refused}");
    }
    assert_eq!(desk.tree(&[])["position"], 3);
}

/// A Deployment of so many cores, as the API server has it.
fn deployment(group: &str, cores: u32) -> NewEvent {
    let text = format!(
        r#"{{"workload":{{"apiVersion":"apps/v1","kind":"Deployment","namespace":"n","name":"web","uid":"w"}},
            "resourceVersion":"7","generation":1,"group":"{group}",
            "roles":[{{"name":"","count":{cores},"peak":{cores},"models":{{}},"pod":{{"requests":{{}},"limits":{{"cpu":"1"}}}}}}]}}"#
    );
    let data = Data::WorkloadObserved(serde_json::from_str(&text).unwrap());
    let (source, subject) = ("/clusters/east".into(), "workloads/apps/Deployment/n/web".into());
    let now = clock::now();
    let event = Event { id: EventId(7), source, subject, time: now, recorded_at: now, data };
    NewEvent::new(&event).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_others_took_while_the_command_looked_is_not_said_to_be_declared() {
    let desk = Desk::new();
    assert_eq!(desk.apply(&[("dept", "", "limits.cpu: 10")]).0, Some(0));
    let log = FileLog::open(Path::new(&desk.path("log")), &Options::default()).unwrap();
    let control = Control::open(log.dir()).unwrap();
    let file = desk.quotas(&[("team", "dept", "limits.cpu: 6")]);
    let mut command = Command::new(env!("CARGO_BIN_EXE_bizrq"));
    command.args(["quota", "apply", "--log", &desk.path("log"), "-o", "json", &file]);
    let command = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // It has read the log and asks: beside the socket that listens there is one that waits to be heard.
    let (socket, begun) = (desk.path("log/control"), Instant::now());
    while fs::read_to_string("/proc/net/unix").unwrap().matches(&socket).count() < 2 {
        assert!(begun.elapsed() < Duration::from_secs(120), "the command asks");
        thread::sleep(Duration::from_millis(5));
    }
    log.append(vec![deployment("dept", 5)]).await.unwrap();
    let ended = tokio::task::spawn_blocking(|| command.wait_with_output().unwrap());
    let mut output = None;
    let ended = async { output = Some(ended.await.unwrap()) };
    control.serve(&log, ended, |_| {}).await;
    let (code, said) = json(&output.unwrap());
    assert_eq!(code, Some(1), "{said}");
    let said = said.to_string();
    assert!(said.contains("ParentExceeded") && said.contains("somebody was faster"), "{said}");
    assert_eq!(log.head().await.unwrap().position, 3, "what was asked for is in the log");
}

#[test]
fn the_tree_counts_what_children_were_given() {
    let desk = Desk::new();
    desk.apply(&TREE);
    let tree = desk.tree(&[]);
    let groups = tree["groups"].as_array().unwrap();
    let names: Vec<_> =
        groups.iter().map(|g| (g["group"].as_str().unwrap(), &g["depth"])).collect();
    assert_eq!(names, [("org", &0.into()), ("dept", &1.into()), ("team-a", &2.into())]);
    let row = |group: usize, key: usize| {
        let row = &groups[group]["keys"][key];
        ["key", "hard", "used", "selfUsed", "left"]
            .map(|field| row[field].as_str().unwrap().to_owned())
    };
    assert_eq!(row(0, 0), ["requests.cpu", "10", "10", "0", "0"]);
    assert_eq!(row(1, 0), ["requests.cpu", "10", "4", "0", "6"]);
    let hours = ["cash/requests.cpu", "500.000000000", "100.000000000", "0", "400.000000000"];
    assert_eq!(row(0, 1), hours);
}

#[test]
fn quotas_of_files_are_drawn_over_an_imported_history() {
    let desk = Desk::new();
    let csv = "name,qos,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,scheduled_time,deletion_time\n\
               a,be,2000,1,0,0,,0,36000\n\
               b,be,1000,1,0,0,,0,\n";
    fs::write(desk.path("t.csv"), csv).unwrap();
    let map = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/openb.toml");
    let import = ["import", "csv", "--cluster", "t", "--map", map, "--log"];
    let output = bizrq(&[&import[..], &[&desk.path("log"), &desk.path("t.csv")]].concat());
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));

    let file = desk.quotas(&[("be", "", "cpu: 4, cash/cpu: 50")]);
    let tree = desk.tree(&["--quotas", &file, "--at", "2026-01-01T20:00:00Z"]);
    let keys = &tree["groups"][0]["keys"];
    let of = |row: usize, field: &str| keys[row][field].as_str().unwrap().to_owned();
    assert_eq!(
        (of(0, "key"), of(0, "used"), of(0, "left")),
        ("requests.cpu".into(), "1".into(), "3".into())
    );
    // 2 cores for 10 hours and 1 for 20; the running core uses up the rest in 10 more.
    assert_eq!(
        (of(1, "consumedHours"), of(1, "left")),
        ("40.000000000".into(), "10.000000000".into())
    );
    assert_eq!(of(1, "exhaustedAt"), "2026-01-02T06:00:00.000Z");
}

#[test]
fn exit_codes_say_what_went_wrong() {
    let desk = Desk::new();
    let good = desk.quotas(&TREE);
    let bad = desk.path("bad.yaml");
    fs::write(&bad, "kind: \"open").unwrap();
    let file = desk.path("quotas.yaml");
    for (args, code) in [
        (&["quota", "validate", &good][..], 0),
        (&["quota", "validate", &bad], 3),
        (&["quota", "validate", &desk.path("none.yaml")], 3),
        (&["quota", "validate"], 2),
        (&["quota", "tree"], 2),
        (&["quota", "tree", "--log", &desk.path("nolog")], 4),
        (&["quota", "tree", "--quotas", &good, "nobody"], 2),
        (&["quota", "apply", "--log", &file, &good], 4),
        (&["quota", "apply", "--log", "nats://x", &good], 4),
        (&["quota", "tree", "--quotas", &good, "--at", "soon"], 2),
    ] {
        let output = bizrq(args);
        assert_eq!(output.status.code(), Some(code), "{args:?}: {output:?}");
        assert!(code == 0 || !output.stderr.is_empty(), "{args:?} says why");
    }
    assert!(!Path::new(&desk.path("nolog")).exists(), "reading makes no log");
}

#[test]
fn a_reader_that_has_seen_enough_is_no_error() {
    let desk = Desk::new();
    let many: Vec<String> = (0..3000).map(|i| format!("g{i}")).collect();
    let groups: Vec<_> = many.iter().map(|name| (&**name, "", "cpu: 1, memory: 1Gi")).collect();
    let file = desk.quotas(&groups);
    let mut child = Command::new(env!("CARGO_BIN_EXE_bizrq"))
        .args(["quota", "tree", "--quotas", &file])
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn no_command_goes_by_a_log_that_was_changed() {
    let desk = Desk::new();
    let log = desk.path("log");
    assert_eq!(desk.apply(&TREE).0, Some(0));
    let segment = Path::new(&log).join("00000000000000000001.jsonl");
    let text = fs::read_to_string(&segment).unwrap();
    let readme = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/readme");
    let (map, runs) = (readme.join("runs.toml"), readme.join("runs.csv"));
    let (map, runs) = (map.to_str().unwrap(), runs.to_str().unwrap());
    let (quotas, at) = (desk.quotas(&TREE), "2026-11-30T00:00:00Z");
    let commands: [&[&str]; 4] = [
        &["quota", "tree", "--log", &log],
        &["quota", "apply", "--log", &log, &quotas],
        &["import", "csv", "--map", map, "--cluster", "lab", "--log", &log, runs],
        &["meter", "--log", &log, "--at", at],
    ];
    // A larger budget, in a line that is whole otherwise; and a line that is none any more.
    let richer = text.replacen("\"500\"", "\"900\"", 1);
    let garbled = text.replacen("{\"specversion\"", "x\"specversion\"", 1);
    for (forged, why) in [(richer, "was changed or moved"), (garbled, "no event")] {
        assert_ne!(forged, text);
        fs::write(&segment, &forged).unwrap();
        for command in commands {
            let output = bizrq(command);
            let complaint = String::from_utf8_lossy(&output.stderr);
            assert_eq!((output.status.code(), &*output.stdout), (Some(4), &b""[..]), "{command:?}");
            assert!(complaint.contains("jsonl, line 1: "), "{command:?}: {complaint}");
            assert!(complaint.contains(why), "{command:?}: {complaint}");
        }
        assert_eq!(fs::read_to_string(&segment).unwrap(), forged, "nothing was appended");
    }
}

#[test]
fn half_a_line_that_is_cut_off_is_told() {
    let desk = Desk::new();
    assert_eq!(desk.apply(&TREE).0, Some(0));
    let segment = Path::new(&desk.path("log")).join("00000000000000000001.jsonl");
    let whole = fs::read(&segment).unwrap();
    fs::write(&segment, [&whole[..], b"{\"half"].concat()).unwrap();
    let again = || bizrq(&["quota", "apply", "--log", &desk.path("log"), &desk.quotas(&TREE)]);
    let output = again();
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(0), "{told}");
    assert!(told.contains("jsonl: 6 bytes of a half-written line"), "{told}");
    assert_eq!(fs::read(&segment).unwrap(), whole);
    assert!(again().stderr.is_empty());
}
