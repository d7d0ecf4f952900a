//! The documents name only what exists: files, commands, flags, verbs of make, event types, exit codes.
//!
//! Write such a name in backticks or in a block of shell, and this looks it up.

mod text;

use super::source::root;
use bizrq::domain::event::Kind;
use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    process::Command,
};
pub(super) use text::{Document, documents};

/// What a path in a document may end with.
const ENDINGS: &[&str] = &[".rs", ".toml", ".md", ".json", ".jsonl", ".yaml", ".csv", ".gz", "/"];

#[test]
fn every_path_exists() {
    let mut wrong = Vec::new();
    for document in documents() {
        for span in document.spans().iter().filter(|s| is_path(s)) {
            let exists = document.folders().iter().any(|f| root().join(f).join(span).exists());
            if !exists {
                wrong.push(format!("{}: {span}", document.path));
            }
        }
    }
    assert!(wrong.is_empty(), "no such file: {wrong:#?}");
}

#[test]
fn every_command_and_flag_exists() {
    let mut wrong = Vec::new();
    for document in documents() {
        for command in document.commands() {
            if let Err(why) = known(&command) {
                wrong.push(format!("{}: `{command}`: {why}", document.path));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_example_of_every_help_can_be_typed() {
    let helps = ["bizrq", "bizrq-replay"].into_iter().filter(|p| *p == "bizrq" || has_replay());
    let mut examples = 0;
    for line in helps.flat_map(helps_of).flat_map(|help| text::typed_lines(&help)) {
        examples += 1;
        assert_eq!(known(&line), Ok(()), "`{line}` in a --help");
    }
    assert!(examples > 15, "{examples}");
}

#[test]
fn every_flag_that_stands_alone_belongs_to_a_command() {
    let mut helps = helps_of("bizrq");
    helps.extend(if has_replay() { helps_of("bizrq-replay") } else { Vec::new() });
    for document in documents() {
        for span in document.spans() {
            let flag = span.split(' ').next().unwrap_or_default();
            if flag.starts_with("--") {
                let known = helps.iter().any(|help| has_flag(help, flag));
                assert!(known || !has_replay(), "{}: no command has {flag}", document.path);
            }
        }
    }
}

#[test]
fn every_event_type_exists() {
    let names: BTreeSet<&str> = Kind::ALL.iter().map(|kind| kind.name()).collect();
    let about: BTreeSet<&str> = names.iter().filter_map(|n| n.split('.').next()).collect();
    for document in documents() {
        for span in document.spans() {
            let short = span.strip_prefix("io.bizrq.").unwrap_or(&span);
            let short = short.strip_suffix(".v1").unwrap_or(short);
            let is_type = short.split_once('.').is_some_and(|(what, happened)| {
                let plain = happened.chars().all(|c| c == '_' || c.is_ascii_lowercase());
                about.contains(what) && plain && !is_path(&span)
            });
            // It follows from the log and is not in it.
            let is_told = bizrq::usage::event::TYPE.contains(short);
            let exists = names.contains(short) || is_told;
            assert!(!is_type || exists, "{}: no event {span}", document.path);
        }
    }
}

#[test]
fn exit_codes_are_told_as_the_program_tells_them() {
    let help = help("bizrq", &[]).unwrap();
    let told: Vec<_> = help
        .lines()
        .skip_while(|line| *line != "Exit codes:")
        .filter_map(|line| line.trim().split_once("  "))
        .map(|(code, means)| format!("| {code} | {} |", means.trim()))
        .collect();
    assert_eq!(told.len(), 6, "{help}");
    let readme = documents().into_iter().find(|d| d.path == "README.md").unwrap();
    for row in told {
        assert!(readme.text.contains(&row), "README.md lacks the row {row}");
    }
}

#[test]
fn the_change_log_knows_this_version() {
    let log = documents().into_iter().find(|d| d.path == "CHANGELOG.md").unwrap();
    let version = env!("CARGO_PKG_VERSION");
    assert!(log.text.contains(&format!("\n## {version}")), "CHANGELOG.md: no {version}");
}

#[test]
fn the_licence_is_the_one_that_is_declared() {
    let licence = fs::read_to_string(root().join("LICENSE")).unwrap();
    assert_eq!(env!("CARGO_PKG_LICENSE"), "Apache-2.0");
    assert!(licence.contains("Apache License") && licence.contains("Version 2.0, January 2004"));
    assert!(licence.contains("END OF TERMS AND CONDITIONS"), "LICENSE is cut off");
}

/// Whether a word in backticks names a file of this project. `pods.json` is anybody's.
fn is_path(span: &str) -> bool {
    let key = ["limits.", "requests.", "cash/", "count/"].iter().any(|k| span.starts_with(k));
    let ours = span.contains('/') || [".rs", ".md", ".toml"].iter().any(|e| span.ends_with(e));
    let whole = !span.contains([' ', '<', '…', '*', '@']) && !span.starts_with(['/', '-', '$']);
    whole && ours && !key && ENDINGS.iter().any(|ending| span.ends_with(ending))
}

/// Whether a command can be typed as it stands.
fn known(command: &str) -> Result<(), String> {
    let command = command.replace("cargo run --release --", "bizrq");
    let words: Vec<&str> = command.split_whitespace().collect();
    match words.split_first() {
        Some((&"make", verbs)) => {
            let makefile = fs::read_to_string(root().join("Makefile")).unwrap();
            let unknown = verbs.iter().find(|v| !makefile.contains(&format!("\n{v}:")));
            unknown.map_or(Ok(()), |verb| Err(format!("no verb {verb} in the Makefile")))
        }
        Some((&"bizrq-replay", _)) if !has_replay() => Ok(()),
        Some((program, arguments)) if program.starts_with("bizrq") => typed(program, arguments),
        _ => Ok(()),
    }
}

/// Walks the subcommands, then looks every flag up in the help of the last.
fn typed(program: &str, arguments: &[&str]) -> Result<(), String> {
    let mut path = Vec::new();
    let mut text = help(program, &path)?;
    for word in arguments {
        if !text.contains("\nCommands:\n") {
            break;
        }
        if word.starts_with('-') {
            return if has_flag(&text, word) { Ok(()) } else { Err(format!("no flag {word}")) };
        }
        path.push(*word);
        text = help(program, &path)?;
    }
    let flags = arguments.iter().filter(|w| w.starts_with('-') && w.len() > 1);
    let mut flags = flags.map(|flag| flag.split('=').next().unwrap_or(flag));
    flags.find(|f| !has_flag(&text, f)).map_or(Ok(()), |flag| Err(format!("no flag {flag}")))
}

fn has_flag(help: &str, flag: &str) -> bool {
    let is_end = |c: char| c != '-' && !c.is_ascii_alphanumeric();
    help.match_indices(flag).any(|(at, _)| {
        let before = help[..at].chars().next_back().is_none_or(|c| c == ' ' || c == '[');
        before && help[at + flag.len()..].chars().next().is_none_or(is_end)
    })
}

/// The folder of the programs that the tests were built with.
pub(super) fn programs() -> PathBuf {
    Path::new(env!("CARGO_BIN_EXE_bizrq")).parent().unwrap().to_owned()
}

/// Whether the auditor's program was built beside ours, as `cargo test --workspace` does.
pub(super) fn has_replay() -> bool {
    programs().join("bizrq-replay").exists()
}

/// What `PROGRAM PATH… --help` says, or why there is no such command.
fn help(program: &str, path: &[&str]) -> Result<String, String> {
    let output = Command::new(programs().join(program)).args(path).arg("--help").output();
    let output = output.map_err(|e| format!("{program}: {e}"))?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    if output.status.success() { Ok(said) } else { Err(format!("no command {path:?}")) }
}

/// The help of every command of a program.
fn helps_of(program: &str) -> Vec<String> {
    let mut all = Vec::new();
    let mut left: Vec<Vec<String>> = vec![Vec::new()];
    while let Some(path) = left.pop() {
        let words: Vec<&str> = path.iter().map(String::as_str).collect();
        let text = help(program, &words).unwrap();
        let commands = text.lines().skip_while(|l| *l != "Commands:").skip(1);
        let names = commands.take_while(|l| !l.is_empty()).filter(|l| !l.starts_with("    "));
        for name in names.filter_map(|l| l.split_whitespace().next()).filter(|n| *n != "help") {
            left.push(path.iter().cloned().chain([name.to_owned()]).collect());
        }
        all.push(text);
    }
    assert!(all.len() > 1, "{program} has no commands: {all:?}");
    all
}
