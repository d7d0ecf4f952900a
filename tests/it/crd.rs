//! The definition of quota objects: generated, committed and compared; and what its schema lets through is judged again by
//! bizrq itself, since old servers drop half of it.

use bizrq::k8s::crd::{self, QuotaObject};
use serde_json::{Value, json};
use std::{fs, path::Path};

fn definition() -> Value {
    serde_saphyr::from_str(&crd::definition().unwrap()).unwrap()
}

fn quota(name: &str, spec: Value) -> Value {
    json!({"apiVersion": "bizrq.io/v1", "kind": "BizGroupResourceQuota", "metadata": {"name": name}, "spec": spec})
}

/// Whether bizrq takes it.
fn accepts(quota: &Value) -> bool {
    serde_json::from_value::<QuotaObject>(quota.clone())
        .is_ok_and(|object| object.spec.typed().accept(&object.metadata.name).is_ok())
}

#[test]
fn the_definition_is_generated_from_the_type() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("schemas/crd/bizgroupresourcequota.yaml");
    let expected = crd::definition().unwrap();
    if std::env::var_os("BIZRQ_BLESS").is_some() {
        fs::write(&path, &expected).unwrap();
    }
    let committed = fs::read_to_string(&path).unwrap_or_default();
    assert!(committed == expected, "{} is stale; run `make schemas`", path.display());
}

#[test]
fn without_rules_it_is_the_same_but_for_them() {
    let old = serde_saphyr::from_str::<Value>(&crd::definition_without_rules().unwrap()).unwrap();
    let mut new = definition();
    let schema = new.pointer_mut("/spec/versions/0/schema/openAPIV3Schema").unwrap();
    schema.as_object_mut().unwrap().remove("x-kubernetes-validations").unwrap();
    assert_eq!(old, new);
}

#[test]
fn it_is_cluster_scoped_has_a_short_name_a_status_and_columns() {
    let definition = definition();
    let spec = &definition["spec"];
    assert_eq!(
        (&spec["scope"], &spec["names"]["shortNames"]),
        (&json!("Cluster"), &json!(["bizrq"]))
    );
    let version = &spec["versions"][0];
    assert_eq!(version["subresources"], json!({"status": {}}));
    let columns = version["additionalPrinterColumns"].as_array().unwrap().iter();
    let columns: Vec<_> = columns.map(|c| c["name"].as_str().unwrap()).collect();
    assert_eq!(columns, ["Parent", "CPU", "Memory", "GPU", "Cash left", "Ready", "Age"]);
}

/// API servers warn of others.
#[test]
fn its_formats_are_those_that_kubernetes_knows() {
    fn look(schema: &Value, place: &str) {
        if let Some(format) = schema["format"].as_str() {
            assert!(["int32", "int64", "date-time"].contains(&format), "{place}: {format}");
        }
        let members = schema.as_object().into_iter().flatten();
        members.for_each(|(name, inner)| look(inner, &format!("{place}.{name}")));
    }
    look(&definition()["spec"]["versions"][0]["schema"], "");
}

/// What a structural schema must be: every level has a type, but where an amount may be a number or a text.
#[test]
fn its_schema_is_structural() {
    fn look(schema: &Value, place: &str) {
        let amount = schema["x-kubernetes-int-or-string"] == true;
        assert!(schema["type"].is_string() || amount, "{place} has no type: {schema}");
        for (name, property) in schema["properties"].as_object().into_iter().flatten() {
            look(property, &format!("{place}.{name}"));
        }
        for inner in ["items", "additionalProperties"] {
            if schema[inner].is_object() {
                look(&schema[inner], &format!("{place}.{inner}"));
            }
        }
    }
    look(&definition()["spec"]["versions"][0]["schema"]["openAPIV3Schema"], "");
}

/// The schema as far as a validator without Kubernetes' extensions can judge it, and bizrq's own judgement.
#[test]
fn what_the_schema_refuses_bizrq_refuses_too() {
    let schema = &definition()["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
    let validator = jsonschema::validator_for(schema).unwrap();
    for (spec, by_schema, by_bizrq) in [
        (json!({"hard": {"limits.cpu": "10", "requests.memory": "64Gi", "pods": 5}}), true, true),
        (json!({"parent": "dept", "charge": "Peak", "models": "Required"}), true, true),
        (json!({"hard": {"limits.cpu": 10}}), true, true),
        (json!({"hard": {"limits.cpu": "+1", "requests.cpu": ".5", "pods": "1e3"}}), true, true),
        (json!({"hard": {"limits.cpu": "-1"}}), false, false),
        (json!({"hard": {"limits.cpu": -1}}), false, false),
        (json!({"hard": {"limits.cpu": "1K"}}), false, false),
        (json!({"hard": {"limits.cpu": "Ki"}}), false, false),
        (json!({"hard": {"limits.cpu": ""}}), false, false),
        (json!({"hard": {"limits.cpu": "1e1.5"}}), false, false),
        (json!({"parent": "Dept"}), false, false),
        (json!({"parent": "x".repeat(64)}), false, false),
        (json!({"charge": "steady"}), false, false),
        (json!({"models": "Any"}), false, false),
        (
            json!({"cashPeriod": {"every": "Month", "timeZone": "Europe/Berlin", "anchor": "2026-01-31", "carryOver": "Both", "max": "50%"}}),
            true,
            true,
        ),
        (json!({"cashPeriod": {"every": "Day"}}), true, true),
        // An API server leaves out what is null.
        (
            json!({"cashPeriod": {"every": "Month", "timeZone": null, "anchor": "", "max": ""}}),
            false,
            true,
        ),
        (json!({"cashPeriod": {}}), false, false),
        (json!({"cashPeriod": {"every": "month"}}), false, false),
        (json!({"cashPeriod": {"every": "Day", "carryOver": "All"}}), false, false),
        (json!({"cashPeriod": {"every": "Day", "carryOver": "Both", "max": "50"}}), false, false),
        (json!({"cashPeriod": {"every": "Day", "anchor": "1 May"}}), false, false),
        // What no schema can say.
        (json!({"cashPeriod": {"every": "Day", "anchor": "2026-02-30"}}), true, false),
        (json!({"cashPeriod": {"every": "Day", "timeZone": "Europe/Berln"}}), true, false),
        (json!({"cashPeriod": {"every": "Day", "max": "50%"}}), true, false),
        (json!({"parent": "dept", "cashPeriod": {"every": "Day"}}), true, false),
        (json!({"hard": {"cpus": "1"}}), true, false),
        (json!({"hard": {"nvidia.com/gpu": "1", "requests.nvidia.com/gpu": "1"}}), true, false),
        (json!({"hard": {"limits.cpu": "1e65"}}), true, false),
        (json!({"hard": {"pods": "1500m"}}), true, false),
    ] {
        let quota = quota("team-a", spec);
        assert_eq!(validator.is_valid(&quota), by_schema, "schema: {quota}");
        assert_eq!(accepts(&quota), by_bizrq, "bizrq: {quota}");
    }
}

#[test]
fn names_are_judged_by_the_rules_of_the_definition_and_by_bizrq() {
    let rules = &definition()["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["x-kubernetes-validations"];
    assert_eq!(rules.as_array().unwrap().len(), 3, "{rules}");
    for name in ["a.b", "A", &"x".repeat(64)] {
        assert!(!accepts(&quota(name, json!({}))), "{name}");
    }
}
