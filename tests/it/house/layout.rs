//! How the house is laid out: what lies at the top, how files begin, how large they are, and the order of reading.

use super::source::{Source, root, sources};
use std::fs;

/// What the top level may hold, and nothing else.
const TOP: &[&str] = &[
    "CHANGELOG.md",
    "Cargo.lock",
    "Cargo.toml",
    "LICENSE",
    "Makefile",
    "README.md",
    "deploy",
    "replay",
    "schemas",
    "src",
    "target",
    "tests",
];

/// Files above [`PAUSE`] lines, and why they are not two.
const LONG: &[(&str, &str)] = &[
    (
        "src/domain/book/quotas.rs",
        "declared, proposed and in force: one account, and none makes sense alone",
    ),
    ("tests/it/rules/histories.rs", "one simulation: its moves, and what must hold after each"),
    ("tests/it/rules/model.rs", "the rules of quotas read a second time, beside each other"),
];

/// Lines of code in a file after which one pauses.
const PAUSE: usize = 500;

/// The rooms, as one reads them: the core, what stores and folds, what comes in, the tools, the surface.
const READING: &[&str] = &[
    "domain",
    "event_log",
    "projection",
    "decider",
    "k8s",
    "observe",
    "webhook",
    "status",
    "api",
    "notify",
    "usage",
    "import",
    "input",
    "demo",
    "clock",
    "telemetry",
    "metrics",
    "shutdown",
    "config",
    "run",
    "cli",
];

/// The rooms of a process that serves: what they are built on is not there without the feature.
const SERVING: &[&str] =
    &["status", "api", "notify", "usage", "telemetry", "metrics", "shutdown", "config", "run"];

#[test]
fn the_top_level_holds_what_was_agreed() {
    for entry in fs::read_dir(root()).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let known = name.starts_with('.') || TOP.contains(&name.as_str());
        assert!(known, "{name} at the top level; put it below src, tests or deploy");
    }
}

#[test]
fn every_file_opens_with_what_it_is_for() {
    let silent = |source: &Source| {
        let first = source.text.lines().next().unwrap_or_default();
        first.strip_prefix("//! ").is_none_or(|words| words.len() <= 10)
    };
    let silent: Vec<_> = all().into_iter().filter(silent).map(|s| s.path).collect();
    assert!(silent.is_empty(), "open with `//!` and what the file is for: {silent:#?}");
}

#[test]
fn a_room_is_a_file_beside_its_folder() {
    for source in all() {
        let old = source.path.ends_with("/mod.rs");
        assert!(!old, "{}: name it after its folder and put it beside", source.path);
    }
}

#[test]
fn long_files_have_a_reason() {
    let long: Vec<_> = all()
        .into_iter()
        .filter(|source| source.text.lines().count() > PAUSE)
        .map(|source| source.path)
        .collect();
    let reasoned = |path: &&String| LONG.iter().any(|(listed, _)| listed == path);
    let unreasoned: Vec<_> = long.iter().filter(|path| !reasoned(path)).collect();
    assert!(unreasoned.is_empty(), "above {PAUSE} lines; two files each? {unreasoned:#?}");
    for (path, why) in LONG {
        let is_long = long.iter().any(|p| p == path);
        assert!(is_long, "{path} is short or gone; take it out of the list ({why})");
    }
}

#[test]
fn the_library_reads_in_order_and_says_what_needs_what() {
    let library = sources("src").into_iter().find(|s| s.path == "src/lib.rs").unwrap();
    assert!(library.text.contains("#![doc = include_str!(\"ARCHITECTURE.md\")]"));
    let mut rooms = Vec::new();
    let mut gate = None;
    for line in library.text.lines().map(str::trim) {
        if let Some(room) = line.strip_prefix("pub mod ").and_then(|l| l.strip_suffix(';')) {
            let needed = match room {
                "domain" => None,
                _ if SERVING.contains(&room) => Some("#[cfg(feature = \"service\")]"),
                _ => Some("#[cfg(feature = \"cli\")]"),
            };
            assert_eq!(gate.take(), needed, "the gate of {room}");
            rooms.push(room);
        } else if line.starts_with("#[") {
            gate = Some(line);
        } else {
            let is_prose = line.is_empty() || line.starts_with("//") || line.starts_with("#!");
            assert!(is_prose, "src/lib.rs holds rooms and their gates, no `{line}`");
        }
    }
    assert_eq!(rooms, READING, "src/lib.rs is the table of contents");
}

fn all() -> Vec<Source> {
    ["src", "replay", "tests"].into_iter().flat_map(sources).collect()
}
