//! Quota objects in YAML, through the program itself: `bizrq quota validate -o json -`.

use super::Target;
use crate::corpus;
use std::{
    io::Write,
    process::{Command, Stdio},
};

/// YAML files of quota objects.
pub(super) const YAML: Target = Target {
    name: "quota",
    corpus: || corpus::files("corpus/quota"),
    tokens: &[
        "---\n",
        "...\n",
        "- ",
        ": ",
        "&a ",
        "*a",
        "<<: *a",
        "!!binary ",
        "!!float ",
        "? ",
        "|\n  ",
        ">-\n",
        "{",
        "}",
        "[",
        "]",
        "\"",
        "'",
        "\n  ",
        "\t",
        "#",
        "name: ",
        "parent: ",
        "hard:\n    ",
        "limits.cpu: ",
        "cash/limits.cpu: 1",
        "kind: BizGroupResourceQuota",
        "apiVersion: bizrq.io/v1",
        "items:\n",
        "null",
        "~",
        "yes",
        ".inf",
        "0x1F",
        "%YAML 1.2",
    ],
    parser: || Box::new(yaml),
};

/// The answer is yes, no with a fault for each reason, or an input error with its place; never anything else.
fn yaml(input: &[u8]) -> bool {
    let mut child = Command::new(env!("CARGO_BIN_EXE_bizrq"))
        .args(["quota", "validate", "-o", "json", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts");
    // It may have seen enough before it has read everything.
    let _ = child.stdin.take().expect("its input").write_all(input);
    let output = child.wait_with_output().expect("the program ends");
    let stderr = String::from_utf8(output.stderr).expect("UTF-8");
    let report = || -> serde_json::Value {
        serde_json::from_slice(&output.stdout).expect("the report is JSON")
    };
    match output.status.code() {
        Some(0) => {
            assert_eq!(report()["valid"], true);
            true
        }
        Some(1) => {
            let report = report();
            assert_eq!(report["valid"], false);
            let faults = report["faults"].as_array().expect("faults");
            assert!(!faults.is_empty());
            for fault in faults {
                assert!(fault["place"].as_str().is_some_and(|p| p.starts_with('-')), "{fault}");
                assert!(fault["message"].as_str().is_some_and(|m| !m.is_empty()), "{fault}");
            }
            false
        }
        Some(3) => {
            assert!(!stderr.trim().is_empty(), "an error says what is wrong");
            false
        }
        other => panic!("exit code {other:?}: {stderr}"),
    }
}
