//! The auditor's program needs neither a cluster nor a server to be built or run.

use std::process::Command;

#[test]
fn neither_kube_nor_axum_is_linked() {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    let tree = Command::new(cargo)
        .args(["tree", "--offline", "-p", "bizrq-replay", "-e", "normal", "--prefix", "none"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .unwrap();
    let text = String::from_utf8(tree.stdout).unwrap();
    let error = String::from_utf8_lossy(&tree.stderr);
    assert!(text.contains("blake3 v"), "cargo tree says nothing: {error}");
    for line in text.lines() {
        let name = line.split_whitespace().next().unwrap_or_default();
        let foreign = name == "kube" || name.starts_with("kube-") || name == "k8s-openapi";
        assert!(!foreign && !name.starts_with("axum"), "{line}");
    }
}
