//! The Grafana dashboard: its queries name what is counted, and Prometheus can read them.

use super::{
    alerts::{is_counted, names, promtool},
    read,
};
use serde_json::{Value, json};
use std::{collections::BTreeSet, fs, process::Command};

fn panels() -> Vec<Value> {
    let dashboard: Value = serde_json::from_str(&read("deploy/grafana.json")).unwrap();
    dashboard["panels"].as_array().unwrap().clone()
}

fn queries(panel: &Value) -> Vec<&str> {
    let targets = panel["targets"].as_array().into_iter().flatten();
    targets.map(|target| target["expr"].as_str().unwrap()).collect()
}

#[test]
fn every_query_names_what_is_counted_and_can_be_read() {
    let mut rules = Vec::new();
    for panel in panels().iter().filter(|panel| panel["type"] != "row") {
        let queries = queries(panel);
        assert!(!queries.is_empty(), "{panel}");
        for query in queries {
            assert!(!names(query).is_empty(), "{query}");
            for name in names(query) {
                assert!(is_counted(name), "{name} is not counted");
            }
            // What Grafana puts in.
            let expr = query.replace("$__rate_interval", "5m");
            rules.push(json!({"record": format!("query:{}", rules.len()), "expr": expr}));
        }
    }
    assert!(rules.len() >= 12, "{}", rules.len());
    let dir = tempfile::tempdir().unwrap();
    let file = json!({"groups": [{"name": "dashboard", "rules": rules}]});
    fs::write(dir.path().join("rules.yaml"), file.to_string()).unwrap();
    let mut tool = Command::new(promtool());
    let output = tool.current_dir(&dir).args(["check", "rules", "rules.yaml"]).output().unwrap();
    assert!(output.status.success(), "{output:?}");
}

#[test]
fn panels_have_titles_and_places_of_their_own() {
    let (mut ids, mut places) = (BTreeSet::new(), BTreeSet::new());
    for panel in panels() {
        assert!(ids.insert(panel["id"].as_u64().unwrap()), "{panel}");
        assert!(panel["title"].as_str().is_some_and(|title| !title.is_empty()), "{panel}");
        let place = &panel["gridPos"];
        let number = |name: &str| place[name].as_u64().unwrap();
        let (x, y, w, h) = (number("x"), number("y"), number("w"), number("h"));
        assert!(x + w <= 24, "{panel}");
        for cell in (x..x + w).flat_map(|x| (y..y + h).map(move |y| (x, y))) {
            assert!(places.insert(cell), "two panels at {cell:?}: {}", panel["title"]);
        }
    }
}
