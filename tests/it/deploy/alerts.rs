//! Alert rules, tried by Debian's promtool (`tests/servers.sh`): each is silent while all is well and fires when it is not.

use super::{Chart, of_kind, read};
use serde_json::{Value, json};
use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

/// An alert; series while all is well; series of the trouble; the minute at which it must have fired; its labels.
type Case = (
    &'static str,
    &'static [(&'static str, &'static str)],
    &'static [(&'static str, &'static str)],
    u32,
    &'static [(&'static str, &'static str)],
);

const POD: &[(&str, &str)] = &[("pod", "a")];

const CASES: &[Case] = &[
    (
        "BizrqNothingFolded",
        &[(r#"bizrq_projection_stopped{pod="a"}"#, "0x60")],
        &[(r#"bizrq_projection_stopped{pod="a"}"#, "0x5 1x60")],
        10,
        POD,
    ),
    (
        "BizrqBehind",
        // A start reads the whole log.
        &[(r#"bizrq_projection_lag_events{pod="a"}"#, "900000 500000 0x60")],
        &[(r#"bizrq_projection_lag_events{pod="a"}"#, "20000x60")],
        10,
        POD,
    ),
    (
        "BizrqQuarantined",
        &[(r#"bizrq_projection_quarantined_events{pod="a"}"#, "3x60")],
        &[(r#"bizrq_projection_quarantined_events{pod="a"}"#, "3x5 4x60")],
        10,
        POD,
    ),
    (
        "BizrqRowsNotKept",
        &[(r#"bizrq_projection_store_failed{pod="a"}"#, "0x60")],
        &[(r#"bizrq_projection_store_failed{pod="a"}"#, "1x60")],
        10,
        POD,
    ),
    (
        "BizrqUnreviewed",
        &[(r#"bizrq_admission_decisions_total{reason="QuotaExceeded"}"#, "0+5x60")],
        &[(r#"bizrq_admission_decisions_total{reason="Unreviewed"}"#, "0x5 3x60")],
        8,
        &[("reason", "Unreviewed")],
    ),
    (
        "BizrqLogUnavailable",
        &[(r#"bizrq_admission_decisions_total{reason="LogUnavailable"}"#, "0+1x60")],
        &[(r#"bizrq_admission_decisions_total{reason="LogUnavailable"}"#, "0+10x60")],
        8,
        &[("reason", "LogUnavailable")],
    ),
    (
        "BizrqSlow",
        &[
            (r#"bizrq_admission_seconds_bucket{le="1"}"#, "0+600x60"),
            (r#"bizrq_admission_seconds_bucket{le="5"}"#, "0+601x60"),
            (r#"bizrq_admission_seconds_bucket{le="+Inf"}"#, "0+601x60"),
        ],
        &[
            (r#"bizrq_admission_seconds_bucket{le="1"}"#, "0+500x60"),
            (r#"bizrq_admission_seconds_bucket{le="5"}"#, "0+600x60"),
            (r#"bizrq_admission_seconds_bucket{le="+Inf"}"#, "0+600x60"),
        ],
        15,
        &[],
    ),
    (
        "BizrqTurnsAway",
        &[(r#"bizrq_webhook_turned_away_total{pod="a"}"#, "0x10 500x60")],
        &[(r#"bizrq_webhook_turned_away_total{pod="a"}"#, "0+120x60")],
        15,
        POD,
    ),
    (
        "BizrqStatusNotWritten",
        &[(r#"bizrq_status_patches_total{outcome="applied"}"#, "0+50x60")],
        &[(r#"bizrq_status_patches_total{outcome="away"}"#, "0+5x60")],
        25,
        &[("outcome", "away")],
    ),
    (
        "BizrqModelMismatch",
        &[(r#"bizrq_notices_standing{alert="BizrqModelMismatch",pod="a"}"#, "1x10 0x60")],
        &[
            (r#"bizrq_notices_standing{alert="BizrqModelMismatch",pod="a"}"#, "0x5 2x60"),
            (r#"bizrq_notices_standing{alert="BizrqLimitFull",pod="a"}"#, "0x60"),
        ],
        25,
        &[],
    ),
    (
        "BizrqNoticesWait",
        &[(r#"bizrq_notices_waiting{pod="a"}"#, "1x2 0x60")],
        &[(r#"bizrq_notices_waiting{pod="a"}"#, "1x60")],
        10,
        POD,
    ),
    (
        "BizrqDrift",
        &[(r#"bizrq_observe_drift_total{cluster="east"}"#, "2x60")],
        &[(r#"bizrq_observe_drift_total{cluster="east"}"#, "0x5 2x60")],
        10,
        &[("cluster", "east")],
    ),
    (
        "BizrqUnreviewedCharges",
        &[("bizrq_projection_unreviewed_groups", "0x20 2x30 0x60")],
        &[("bizrq_projection_unreviewed_groups", "2x120")],
        90,
        &[],
    ),
    (
        "BizrqUncovered",
        &[(r#"bizrq_observe_uncovered_pods{cluster="east"}"#, "3x10 0x60")],
        &[(r#"bizrq_observe_uncovered_pods{cluster="east"}"#, "3x60")],
        20,
        &[("cluster", "east")],
    ),
    (
        "BizrqClocks",
        &[(r#"bizrq_observe_skewed_nodes{cluster="east"}"#, "0x60")],
        &[(r#"bizrq_observe_skewed_nodes{cluster="east"}"#, "1x60")],
        40,
        &[("cluster", "east")],
    ),
    (
        "BizrqGroupsLeftOut",
        &[(r#"bizrq_group_rows_left_out{pod="a"}"#, "0x60")],
        &[(r#"bizrq_group_rows_left_out{pod="a"}"#, "3x60")],
        20,
        POD,
    ),
    (
        "BizrqCertificateExpires",
        // Renewed when a third of its time was left.
        &[
            (r#"bizrq_certificate_not_before_timestamp_seconds{server="api"}"#, "0x40 2400x60"),
            (r#"bizrq_certificate_expiration_timestamp_seconds{server="api"}"#, "3600x40 6000x60"),
        ],
        &[
            (r#"bizrq_certificate_not_before_timestamp_seconds{server="api"}"#, "0x60"),
            (r#"bizrq_certificate_expiration_timestamp_seconds{server="api"}"#, "3600x60"),
        ],
        59,
        &[("server", "api")],
    ),
    ("BizrqDown", &[("bizrq_projection_position", "1x60")], &[], 10, &[]),
];

/// Where `tests/servers.sh` puts it.
pub(super) fn promtool() -> PathBuf {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/servers/promtool");
    assert!(path.exists(), "{} is missing: run tests/servers.sh", path.display());
    path
}

fn alerts() -> Vec<Value> {
    let text = Chart::read().with("monitoring", json!(true)).render();
    let rule = of_kind(&text, "PrometheusRule").remove(0);
    rule["spec"]["groups"][0]["rules"].as_array().unwrap().clone()
}

/// The names of bizrq's metrics in an expression.
pub(super) fn names(expression: &str) -> Vec<&str> {
    let words = expression.split(|c: char| c != '_' && !c.is_ascii_alphanumeric());
    words.filter(|word| word.starts_with("bizrq_")).collect()
}

/// Whether some part of the program counts this.
pub(super) fn is_counted(name: &str) -> bool {
    let sources: String = [
        "src/observe/metrics.rs",
        "src/projection/metrics.rs",
        "src/webhook/metrics.rs",
        "src/status/metrics.rs",
        "src/notify/metrics.rs",
        "src/api/metrics.rs",
        "src/webhook/tls/metrics.rs",
        "src/metrics/decider.rs",
        "src/metrics/groups.rs",
    ]
    .map(read)
    .concat();
    let name = ["_bucket", "_sum", "_count"]
        .into_iter()
        .find_map(|part| name.strip_suffix(part))
        .unwrap_or(name);
    sources.contains(&format!("\"{name}\""))
}

#[test]
fn every_alert_is_about_something_that_is_counted() {
    for alert in alerts() {
        let names = names(alert["expr"].as_str().unwrap());
        assert!(!names.is_empty(), "{alert}");
        for name in names {
            assert!(is_counted(name), "{name} is not counted");
        }
    }
}

#[test]
fn every_alert_fires_when_it_must_and_only_then() {
    let alerts = alerts();
    let named: BTreeSet<_> = alerts.iter().map(|a| a["alert"].as_str().unwrap()).collect();
    let tried: BTreeSet<_> = CASES.iter().map(|case| case.0).collect();
    assert_eq!(named, tried, "every alert has a case here");
    let dir = tempfile::tempdir().unwrap();
    let series = |series: &[(&str, &str)]| {
        let each =
            series.iter().map(|(series, values)| json!({"series": series, "values": values}));
        Value::Array(each.collect())
    };
    let mut tests = Vec::new();
    for (name, well, trouble, minute, labels) in CASES {
        let alert = alerts.iter().find(|alert| alert["alert"] == *name).unwrap();
        let mut expected = alert["labels"].clone();
        for (label, value) in *labels {
            expected[*label] = json!(value);
        }
        let fires = json!([{"exp_labels": expected, "exp_annotations": alert["annotations"]}]);
        for (input, fires) in [(well, json!([])), (trouble, fires)] {
            tests.push(json!({
                "interval": "1m",
                "input_series": series(input),
                "alert_rule_test": [{
                    "eval_time": format!("{minute}m"), "alertname": name, "exp_alerts": fires,
                }],
            }));
        }
    }
    let rules = json!({"groups": [{"name": "bizrq", "rules": alerts}]});
    let file = json!({"rule_files": ["rules.yaml"], "evaluation_interval": "1m", "tests": tests});
    fs::write(dir.path().join("rules.yaml"), rules.to_string()).unwrap();
    fs::write(dir.path().join("tests.yaml"), file.to_string()).unwrap();
    let mut tool = Command::new(promtool());
    let output = tool.current_dir(&dir).args(["test", "rules", "tests.yaml"]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
}
