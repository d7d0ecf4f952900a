//! `bizrq import csv` as people use it: what is told, what is kept, and which exit code says so.

use serde_json::Value;
use std::{
    fs,
    process::{Command, Output, Stdio},
};
use tempfile::TempDir;

const MAP: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/openb.toml");
const HEAD: &str =
    "name,qos,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,scheduled_time,deletion_time\n";

struct Desk(TempDir);

impl Desk {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> String {
        self.0.path().join(name).to_str().unwrap().to_owned()
    }

    fn write(&self, name: &str, bytes: impl AsRef<[u8]>) -> String {
        fs::write(self.path(name), bytes).unwrap();
        self.path(name)
    }

    fn command(&self, more: &[&str]) -> Command {
        self.command_with(MAP, "lab", more)
    }

    fn command_with(&self, map: &str, cluster: &str, more: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_bizrq"));
        command.args(["import", "csv", "--map", map, "--cluster", cluster]);
        command.args(["--log", &self.path("log")]).args(more);
        command
    }

    fn import(&self, body: &str) -> (Option<i32>, Value) {
        let file = self.write("t.csv", format!("{HEAD}{body}"));
        json(&self.command(&["-o", "json", &file]).output().unwrap())
    }
}

fn json(output: &Output) -> (Option<i32>, Value) {
    let value = serde_json::from_slice(&output.stdout);
    let value = value.unwrap_or_else(|e| panic!("{e}: {output:?}"));
    (output.status.code(), value)
}

#[test]
fn rejected_rows_are_listed_and_the_good_ones_are_kept() {
    let desk = Desk::new();
    let body =
        "a,be,1000,1,0,0,,0,9\nb,be,-1,1,0,0,,0,9\nc,be,1000,1,0,0,,9,0\nd,be,1000,1,0,0,,,\n";
    let (code, report) = desk.import(body);
    assert_eq!(code, Some(1));
    let count = |field: &str| report[field].as_u64().unwrap();
    let counts = ["rows", "rejected", "neverRan", "started", "appended", "position"].map(count);
    assert_eq!(counts, [4, 2, 1, 1, 2, 2]);
    let lines: Vec<_> =
        report["rejections"].as_array().unwrap().iter().map(|r| &r["line"]).collect();
    assert_eq!(lines, [&3, &4]);

    let text = desk.command(&[&desk.path("t.csv")]).output().unwrap();
    let text = String::from_utf8(text.stdout).unwrap();
    assert!(
        text.contains("line 3: column `cpu_milli`") && text.contains("line 4: it stops"),
        "{text}"
    );
    let csv = desk.command(&["-o", "csv", &desk.path("t.csv")]).output().unwrap();
    assert_eq!(String::from_utf8(csv.stdout).unwrap().lines().count(), 3);
}

#[test]
fn a_later_export_appends_what_is_new_and_a_changed_past_is_refused() {
    let desk = Desk::new();
    desk.import("a,be,1000,1,0,0,,0,\n");
    let (code, report) = desk.import("a,be,1000,1,0,0,,0,9\n");
    assert_eq!((code, &report["appended"], &report["stopped"]), (Some(0), &1.into(), &1.into()));
    let (code, report) = desk.import("a,be,2000,1,0,0,,0,9\n");
    assert_eq!((code, &report["appended"], &report["position"]), (Some(1), &0.into(), &2.into()));
    let reason = report["rejections"][0]["reason"].as_str().unwrap();
    assert!(reason.contains("`a` was imported before with another content"), "{reason}");
}

#[test]
fn bad_input_makes_no_log_and_says_where_and_why() {
    let desk = Desk::new();
    let good = desk.write("good.csv", HEAD);
    let cases: [(&str, Vec<u8>, &str); 5] = [
        ("empty.csv", Vec::new(), "empty"),
        ("semicolon.csv", HEAD.replace(',', ";").into_bytes(), "delimiter"),
        (
            "latin.csv",
            HEAD.replace("qos", "\u{e9}").chars().map(|c| c as u8).collect(),
            "not UTF-8",
        ),
        ("gzip.csv", b"\x1f\x8b\x08\x00\xff\xff".to_vec(), "line 1"),
        ("long.csv", vec![b'x'; 3 << 20], "longer than 1048576 bytes"),
    ];
    for (name, bytes, told) in cases {
        let output = desk.command(&[&desk.write(name, bytes)]).output().unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(3), "{name}");
        assert!(stderr.contains(name), "{stderr}");
        assert!(stderr.contains(told), "{stderr}");
    }
    let map = desk.write("map.toml", "[columns]\nname = 1\n");
    let (no_map, no_file) = (desk.path("none.toml"), desk.path("none.csv"));
    for (mut command, code) in [
        (desk.command_with(&map, "lab", &[&good]), 3),
        (desk.command_with(&no_map, "lab", &[&good]), 3),
        (desk.command(&[&no_file]), 3),
        (desk.command_with(MAP, "a/b", &[&good]), 2),
        (desk.command(&["--nonsense", &good]), 2),
    ] {
        let output = command.output().unwrap();
        assert_eq!(output.status.code(), Some(code), "{command:?}: {output:?}");
    }
    assert!(!desk.0.path().join("log").exists());
}

#[test]
fn a_file_that_breaks_off_keeps_what_came_before() {
    let desk = Desk::new();
    let body = format!("{HEAD}a,be,1000,1,0,0,,0,9\n\"{}", "b\n".repeat(1 << 20));
    let file = desk.write("t.csv", body);
    let output = desk.command(&["-o", "json", &file]).output().unwrap();
    let (code, report) = json(&output);
    assert_eq!((code, &report["appended"], &report["position"]), (Some(3), &2.into(), &2.into()));
    assert!(String::from_utf8(output.stderr).unwrap().contains("line 3: the record is longer"));
}

/// A disk that is full, by a limit on what a file may hold.
#[test]
fn an_import_onto_a_full_disk_claims_nothing_and_goes_on_with_room() {
    let desk = Desk::new();
    let rows: String = (0..5000).map(|i| format!("run{i},be,1000,1,0,0,,0,9\n")).collect();
    let file = desk.write("t.csv", HEAD.to_owned() + &rows);
    let whole = desk.command(&["-o", "json", &file]);
    let mut limited = Command::new("sh");
    limited.args(["-c", "trap '' XFSZ; ulimit -f 1000; exec \"$0\" \"$@\""]);
    limited.arg(whole.get_program()).args(whole.get_args());
    let output = limited.output().unwrap();
    let (code, report) = json(&output);
    assert_eq!(code, Some(4), "{output:?}");
    let said = ["appended", "position", "root"].map(|name| &report[name]);
    assert_eq!(said, [&Value::Null; 3], "{report}");
    let (code, again) = json(&desk.command(&["-o", "json", &file]).output().unwrap());
    assert_eq!((code, &again["position"]), (Some(0), &10_000.into()), "{again}");
    assert!(again["known"].as_u64().unwrap() > 0, "what was there is known: {again}");
}

#[test]
fn an_import_goes_on_when_nobody_reads_its_report() {
    let desk = Desk::new();
    let mut body = HEAD.to_owned();
    for i in 0..20_000 {
        body.push_str(&format!("bad{i},be,-1,1,0,0,,0,9\n"));
    }
    body.push_str("good,be,1000,1,0,0,,0,9\n");
    let file = desk.write("t.csv", body);
    let mut child =
        desk.command(&[&file]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), output.stderr.is_empty()), (Some(0), true));
    let (_, again) = desk.import("good,be,1000,1,0,0,,0,9\n");
    assert_eq!((&again["known"], &again["position"]), (&1.into(), &2.into()));
}

#[test]
fn a_compressed_export_is_read_and_a_bomb_is_not() {
    use std::io::Write;
    let gzip = |parts: &[&[u8]]| {
        let mut gz = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        parts.iter().for_each(|part| gz.write_all(part).unwrap());
        gz.finish().unwrap()
    };
    let desk = Desk::new();
    let row = b"a,be,1000,1,0,0,,0,9\n";
    let file = desk.write("t.csv.gz", gzip(&[HEAD.as_bytes(), row]));
    let (code, report) = json(&desk.command(&["-o", "json", &file]).output().unwrap());
    assert_eq!((code, &report["appended"]), (Some(0), &2.into()));

    let zeros = vec![0; 1 << 20];
    let bomb =
        desk.write("bomb.gz", gzip(&[&[HEAD.as_bytes(), row][..], &vec![&zeros[..]; 64]].concat()));
    let output = desk.command(&[&bomb]).output().unwrap();
    assert_eq!(output.status.code(), Some(3));
    assert!(String::from_utf8(output.stderr).unwrap().contains("line 3: the record is longer"));
}

#[test]
fn standard_input_is_read_as_well() {
    let desk = Desk::new();
    let file = desk.write("t.csv", format!("{HEAD}a,be,1000,1,0,0,,0,9\n"));
    let stdin = fs::File::open(file).unwrap();
    let output = desk.command(&["-o", "json", "-"]).stdin(stdin).output().unwrap();
    let (code, report) = json(&output);
    assert_eq!((code, &report["appended"]), (Some(0), &2.into()));
}
