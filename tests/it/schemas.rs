//! The committed JSON Schemas are what the types say, and the literal lines of every type obey them.

use bizrq::{domain::event::Kind, event_log::schema};
use serde_json::Value;
use std::{fs, path::Path};

const LINES: &str = include_str!("../fixtures/events/v1.jsonl");

fn dir() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("schemas/event/v1")
}

#[test]
fn schemas_are_generated_from_the_types() {
    if std::env::var_os("BIZRQ_BLESS").is_some() {
        schema::write_schemas(&dir()).unwrap();
    }
    for kind in Kind::ALL {
        let path = dir().join(schema::file_name(*kind));
        let committed = fs::read_to_string(&path).unwrap_or_default();
        let expected = schema::file_text(*kind);
        assert!(committed == expected, "{} is stale; run `make schemas`", path.display());
    }
    let files = fs::read_dir(dir()).unwrap().count();
    assert_eq!(files, Kind::ALL.len(), "a schema of no type; remove it");
}

#[test]
fn literal_lines_obey_their_schemas() {
    for line in LINES.lines() {
        let event: Value = serde_json::from_str(line).unwrap();
        let validator = validator(&event);
        let errors: Vec<_> = validator.iter_errors(&event).map(|e| e.to_string()).collect();
        assert!(errors.is_empty(), "{line}: {errors:?}");
    }
}

#[test]
fn schemas_refuse_what_the_types_refuse() {
    for line in LINES.lines() {
        let good: Value = serde_json::from_str(line).unwrap();
        let validator = validator(&good);
        for key in ["id", "time", "leaf", "type"] {
            let mut bad = good.clone();
            bad[key] = "x".into();
            assert!(!validator.is_valid(&bad), "{key} of {line}");
        }
        let mut bad = good.clone();
        bad["data"] = Value::Array(Vec::new());
        assert!(!validator.is_valid(&bad), "data of {line}");
        for key in ["uid", "held", "workload", "admissions", "spec"] {
            let mut bad = good.clone();
            if bad["data"].get(key).is_some() {
                bad["data"][key] = 7.into();
                assert!(!validator.is_valid(&bad), "data.{key} of {line}");
            }
        }
    }
}

/// The committed schema of the event's type.
fn validator(event: &Value) -> jsonschema::Validator {
    let name = event["type"].as_str().unwrap();
    let name = name.strip_prefix("io.bizrq.").and_then(|n| n.strip_suffix(".v1")).unwrap();
    let text = fs::read_to_string(dir().join(format!("{name}.json"))).unwrap();
    jsonschema::validator_for(&serde_json::from_str(&text).unwrap()).unwrap()
}
