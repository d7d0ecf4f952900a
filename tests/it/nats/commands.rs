//! The commands on a stream say what they say on a folder.

use super::server::{Server, Setup, Version};
use crate::shared;
use serde_json::Value;
use std::process::{Command, Output};
use tempfile::TempDir;

fn bizrq(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_bizrq")).args(args).output().unwrap()
}

/// What a command printed, as JSON, without the place of the log.
fn json(args: &[&str]) -> Value {
    printed(args, bizrq(args))
}

fn printed(args: &[&str], ran: Output) -> Value {
    let said = String::from_utf8_lossy(&ran.stderr);
    assert_eq!(ran.status.code(), Some(0), "{args:?}: {said}");
    let mut value: Value = serde_json::from_slice(&ran.stdout).unwrap();
    if let Some(object) = value.as_object_mut() {
        object.remove("log");
    }
    value
}

#[test]
fn the_demo_on_a_stream_and_what_is_asked_of_it_is_as_on_a_folder() {
    for version in Version::ALL {
        let (server, dir) = (Server::start(version), TempDir::new().unwrap());
        let folder = dir.path().join("log").display().to_string();
        let ask = |log: &str| {
            let at = "2026-11-16T00:00:00Z";
            let mut demo = json(&["demo", "--pods", "300", "--json", "--log", log]);
            // What a record takes and how many roots stand beside it is the provider's.
            demo["verified"]["bytes"].take();
            demo["verified"]["roots"].take();
            [
                demo,
                json(&["meter", "--log", log, "--at", at, "-o", "json"]),
                json(&["meter", "--log", log, "--position", "500", "-o", "json", "--at", at]),
                json(&[
                    "meter",
                    "--log",
                    log,
                    "--as-known-at",
                    "2026-11-08T00:00:00Z",
                    "-o",
                    "json",
                    "--at",
                    at,
                ]),
                json(&["quota", "tree", "--log", log, "--at", at, "-o", "json"]),
            ]
        };
        let (on_stream, on_folder) = (ask(&server.url()), ask(&folder));
        assert!(on_stream[0]["root"].is_string());
        for (stream, folder) in on_stream.iter().zip(&on_folder) {
            assert_eq!(stream, folder);
        }
        let again = bizrq(&["demo", "--log", &server.url()]);
        assert_eq!(again.status.code(), Some(4));
        assert!(String::from_utf8_lossy(&again.stderr).contains("records already"));
    }
}

#[test]
fn the_auditor_says_of_a_stream_what_it_says_of_a_folder() {
    let Some(replay) = shared::replay("nats::commands::the_auditor") else { return };
    let (server, dir) = (Server::start(Version::New), TempDir::new().unwrap());
    let folder = dir.path().join("log").display().to_string();
    let ask = |log: &str| {
        let root = json(&["demo", "--pods", "200", "--json", "--log", log])["root"].clone();
        let run = |args: &[&str]| {
            let args = [&[args[0], "--log", log], &args[1..], &["-o", "json"]].concat();
            printed(&args, Command::new(&replay).args(&args).output().unwrap())
        };
        let mut verified = run(&["verify", "--root", root.as_str().unwrap()]);
        // A stream has neither lines nor recorded roots.
        verified["bytes"].take();
        verified["roots"].take();
        let (at, key) = ("2026-11-09T00:00:00Z", "limits.nvidia.com/gpu");
        let explained = run(&["explain", "--group", "vision", "--key", key, "--to", at]);
        [verified, run(&["state", "--at", at]), explained]
    };
    for (stream, folder) in ask(&server.url()).iter().zip(&ask(&folder)) {
        assert_eq!(stream, folder);
    }
}

#[test]
fn imports_and_quotas_go_into_a_stream_and_again_append_nothing() {
    let server = Server::start(Version::New);
    let log = server.url();
    let fixtures = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/readme/");
    let (map, runs) = (format!("{fixtures}runs.toml"), format!("{fixtures}runs.csv"));
    let import = || {
        json(&[
            "import",
            "csv",
            "--map",
            &map,
            "--cluster",
            "lab",
            "--log",
            &log,
            "-o",
            "json",
            &runs,
        ])
    };
    let first = import();
    let second = import();
    assert_eq!((&first["position"], &first["root"]), (&second["position"], &second["root"]));
    let quotas = format!("{fixtures}quotas.yaml");
    let apply = || json(&["quota", "apply", "--as", "alice", "--log", &log, "-o", "json", &quotas]);
    let (applied, again) = (apply(), apply());
    assert!(applied["position"].as_u64() > second["position"].as_u64());
    assert_eq!((&applied["root"], &again["appended"]), (&again["root"], &Value::from(0)));
}

#[test]
fn a_stream_that_cannot_be_opened_is_exit_code_4_and_no_secret_is_printed() {
    let users = "authorization { users: [{user: bizrq, password: \"open sesame\"}] }";
    let server = Setup::new(Version::New).with(users).start();
    let meter = |password: &str| {
        Command::new(env!("CARGO_BIN_EXE_bizrq"))
            .args(["import", "csv", "--cluster", "lab", "--log", &server.url()])
            .args([
                "--map",
                concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/readme/runs.toml"),
            ])
            .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/readme/runs.csv"))
            .env("BIZRQ_NATS_USER", "bizrq")
            .env("BIZRQ_NATS_PASSWORD", password)
            .output()
            .unwrap()
    };
    assert_eq!(meter("open sesame").status.code(), Some(0));
    let wrong = meter("a wrong secret");
    assert_eq!(wrong.status.code(), Some(4));
    let said = String::from_utf8_lossy(&wrong.stderr);
    assert!(
        said.contains("are address and credentials right") && !said.contains("secret"),
        "{said}"
    );
}

#[test]
fn a_stream_is_archived_put_back_and_rolled_over() {
    for version in Version::ALL {
        let (server, other, dir) =
            (Server::start(version), Server::start(version), TempDir::new().unwrap());
        let (log, copy) = (server.url(), other.url());
        let root = json(&["demo", "--pods", "200", "--json", "--log", &log])["root"].clone();
        let archive = dir.path().join("archive").display().to_string();
        json(&["log", "export", "--log", &log, "-o", "json", &archive]);
        // The same ids within the server's memory of them: a copy is not swallowed by it.
        json(&["log", "import", "--log", &copy, "-o", "json", &archive]);
        let info = |log: &str| json(&["log", "info", "--log", log, "-o", "json"]);
        assert_eq!(info(&copy)["root"], root);

        let next = format!("{log}/BIZRQ-2");
        let roll = |to: &str| bizrq(&["log", "roll", "--as", "ann", "--log", &log, "--to", to]);
        let rolled = roll(&next);
        assert_eq!(rolled.status.code(), Some(0), "{}", String::from_utf8_lossy(&rolled.stderr));
        assert_eq!(roll(&next).status.code(), Some(0), "what was begun is finished");
        let (old, new) = (info(&log), info(&next));
        assert_eq!(old, new, "whichever stream is named, it is one log");
        assert_eq!((&old["base"], &old["types"]["io.bizrq.log.opened.v1"]), (&0.into(), &1.into()));
        let demo = bizrq(&["demo", "--log", &log]);
        assert_eq!(demo.status.code(), Some(4), "it holds records already");
    }
}
