//! The examples of README.md are run as they stand, one after another in one folder, and what it shows of their
//! output is looked up in it.

use super::{
    documents::{Document, documents, has_replay, programs},
    source::root,
};
use crate::shared;
use std::{
    env,
    path::Path,
    process::{Command, Output},
};

#[test]
fn examples_of_the_readme_do_what_they_show() {
    let folder = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink(root().join("tests"), folder.path().join("tests")).unwrap();
    let bin = programs();
    let has_replay = has_replay();
    if !has_replay {
        let why = "no bizrq-replay beside bizrq; run `cargo test --workspace`";
        shared::skip("house::examples::the_commands_of_the_auditor", why);
    }
    let readme = readme();
    let mut said = String::new();
    let mut run = 0;
    for line in readme.blocks("sh").into_iter().flatten() {
        let line = line.replace("cargo run --release --", "bizrq");
        // What needs a cluster or a server, serves for long, or checks the project itself, is not run here.
        let alone = line.starts_with("bizrq")
            && !["://", " --serve", " --context"].iter().any(|what| line.contains(what));
        let ours = alone && (has_replay || !line.starts_with("bizrq-replay"));
        if !ours {
            continue;
        }
        let expected = if line.contains("# exit 1") { 1 } else { 0 };
        let output = typed(&line, folder.path(), &bin);
        let (out, err) = (text(&output.stdout), text(&output.stderr));
        assert_eq!(output.status.code(), Some(expected), "{line}\n{out}\n{err}");
        said.push_str(&out);
        said.push_str(&err);
        run += 1;
    }
    assert!(run >= 6, "only {run} commands in README.md");
    for line in readme.blocks("text").into_iter().flatten().filter(|l| !l.trim().is_empty()) {
        let shown = line.split_whitespace().collect::<Vec<_>>();
        let found = said.lines().any(|l| l.split_whitespace().collect::<Vec<_>>() == shown);
        assert!(found || !has_replay, "README.md shows what nothing said: {line}");
    }
}

fn readme() -> Document {
    documents().into_iter().find(|d| d.path == "README.md").unwrap()
}

fn typed(line: &str, folder: &Path, bin: &Path) -> Output {
    let path = format!("{}:{}", bin.display(), env::var("PATH").unwrap_or_default());
    let mut shell = Command::new("sh");
    shell.args(["-c", line]).current_dir(folder).env("PATH", path).env("NO_COLOR", "1");
    shell.output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
