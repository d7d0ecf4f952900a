//! Data that lies beside the project, not in it: `$BIZRQ_SHARED`, default `../shared`.
//!
//! A test that does not find it says so on a line that `.ci/run` counts.

use std::{
    env, fs,
    io::{self, Write},
    path::{Path, PathBuf},
};

/// The file `name` below the shared folder; `None`, and a line `SKIPPED TEST: reason`, where it is not.
pub(crate) fn find(test: &str, name: &str) -> Option<PathBuf> {
    let root = env::var_os("BIZRQ_SHARED")
        .map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared"), PathBuf::from);
    let path = root.join(name);
    if path.exists() {
        return Some(path);
    }
    skip(test, &format!("no {}; set BIZRQ_SHARED", path.display()));
    None
}

/// The auditor's program, where it was built beside ours; else a line that says that `test` was not run.
pub(crate) fn replay(test: &str) -> Option<PathBuf> {
    let replay = Path::new(env!("CARGO_BIN_EXE_bizrq")).with_file_name("bizrq-replay");
    if replay.exists() {
        return Some(replay);
    }
    skip(test, "no bizrq-replay beside bizrq; run `cargo test --workspace`");
    None
}

/// The Helms that are here, with their names; a line for each that is not.
pub(crate) fn helms(test: &str) -> Vec<(&'static str, PathBuf)> {
    let servers = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/servers");
    let found = ["helm-3", "helm-4"].into_iter().filter_map(|name| {
        if let Ok(reason) = fs::read_to_string(servers.join(format!("{name}.missing"))) {
            skip(test, &format!("no {name}: {}", reason.trim()));
            return None;
        }
        let path = servers.join(name);
        assert!(path.exists(), "{} is missing: run tests/servers.sh", path.display());
        Some((name, path))
    });
    found.collect()
}

/// Says that a test was not run. Written past the harness, which would keep a passing test's words to itself.
pub(crate) fn skip(test: &str, reason: &str) {
    let _ = writeln!(io::stdout().lock(), "SKIPPED {test}: {reason}");
}
