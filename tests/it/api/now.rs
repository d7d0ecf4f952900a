//! What runs, what is left of budgets, and who was refused where: each beside something that finds the same in another way.

use super::{
    BEGIN, END, get, pages,
    queries::{lines, started, text},
    sums, tenants,
};
use bizrq::domain::{hours::NanoHours, time::Timestamp};
use serde_json::{Value, json};
use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
};

/// Beside what each pod says of itself.
#[test]
fn pods_that_run_are_those_of_which_a_segment_goes_on() {
    let pods: Vec<_> = started().iter().map(|uid| get(&format!("/v1/pods/{uid}"))).collect();
    let (mut most, mut below) = (0, tenants::below("research"));
    for at in ["2026-11-02T00:00:00Z", "2026-11-05T10:00:00.001Z", "2026-11-09T12:00:00Z", END] {
        let instant = |value: &Value| Timestamp::parse(value.as_str().unwrap()).unwrap();
        let when = Timestamp::parse(at).unwrap();
        let mut expected = Vec::new();
        for pod in &pods {
            for segment in pod["segments"].as_array().unwrap() {
                let ends = segment["to"].is_string().then(|| instant(&segment["to"]));
                if instant(&segment["from"]) <= when && ends.is_none_or(|ends| ends > when) {
                    expected.push(json!({
                        "cluster": pod["cluster"], "uid": pod["uid"], "workload": pod["workload"],
                        "group": segment["group"], "from": segment["from"], "held": segment["held"],
                    }));
                }
            }
        }
        expected.sort_by_key(|p| (Reverse(text(&p["from"])), text(&p["cluster"]), text(&p["uid"])));
        let told = get(&format!("/v1/pods?at={at}"));
        assert_eq!(told["pods"], json!(expected), "{at}");
        assert_eq!(pages(&format!("/v1/pods?at={at}&"), "pods", 7), expected, "{at}");
        most = most.max(expected.len());
        let of = |groups: &BTreeSet<String>| {
            let is_of = |pod: &&Value| groups.contains(pod["group"].as_str().unwrap());
            json!(expected.iter().filter(is_of).collect::<Vec<_>>())
        };
        let subtree = get(&format!("/v1/pods?at={at}&group=research&scope=subtree"));
        assert_eq!(subtree["pods"], of(&below), "{at}");
        assert_eq!(
            tenants::as_tenant("research", &format!("/v1/pods?at={at}"))["pods"],
            of(&below)
        );
        let own = BTreeSet::from(["language".to_owned()]);
        assert_eq!(get(&format!("/v1/pods?at={at}&group=language"))["pods"], of(&own), "{at}");
    }
    assert!(most > 20, "{most}");
    below.remove("research");
    assert_eq!(get("/v1/pods")["pods"], get(&format!("/v1/pods?at={END}"))["pods"]);
}

/// Beside the rule as it is written down: own use, and of each child its budget or its use, whichever is more.
#[test]
fn a_budget_burns_down_by_what_was_used() {
    const KEY: &str = "limits.nvidia.com/gpu";
    let tree = get("/v1/quotas")["groups"].as_array().unwrap().clone();
    let hard = |group: &str| {
        let one = tree.iter().find(|one| one["group"] == group).unwrap();
        let row =
            one["keys"].as_array().unwrap().iter().find(|row| row["key"] == format!("cash/{KEY}"));
        row.map(|row| {
            text(&row["hard"]).split('.').next().unwrap().parse::<i128>().unwrap() * 3_600_000_000
        })
    };
    let parents = tenants::parents();
    for (group, to) in [("language", END), ("research", END), ("acme", "2026-11-11T00:00:00.000Z")]
    {
        let path = format!("/v1/burndown?group={group}&key=cash/{KEY}&to={to}");
        let told = get(&path);
        let points = told["points"].as_array().unwrap();
        let opened = &get(&format!("/v1/quotas/{group}"))["opened"];
        assert!(opened.is_string());
        assert_eq!((&points[0]["at"], &points.last().unwrap()["at"]), (opened, &json!(to)));
        assert!(points.len() > 9, "{}", points.len());
        for point in &points[1..] {
            let at = text(&point["at"]);
            let spent =
                sums(&pages(&format!("/v1/usage?from={BEGIN}&to={at}&key={KEY}&"), "lines", 1000));
            let used = used(group, &parents, &|group| hard(group).unwrap_or(0), &|group| {
                spent.get(&(group.to_owned(), KEY.to_owned())).copied().unwrap_or(0)
            });
            let left = hard(group).unwrap() - used;
            let [used, left] = [used, left].map(|exact| NanoHours::of(exact).to_string());
            assert_eq!((text(&point["used"]), text(&point["left"])), (used, left), "{group} {at}");
        }
    }
    let own =
        tenants::as_tenant("language", &format!("/v1/burndown?group=language&key=cash/{KEY}"));
    assert_eq!(
        own["points"],
        get(&format!("/v1/burndown?group=language&key=cash/{KEY}"))["points"]
    );
}

fn used(
    group: &str,
    parents: &BTreeMap<String, Option<String>>,
    hard: &dyn Fn(&str) -> i128,
    spent: &dyn Fn(&str) -> i128,
) -> i128 {
    let children = parents.iter().filter(|(_, parent)| parent.as_deref() == Some(group));
    let given = children.map(|(child, _)| hard(child).max(used(child, parents, hard, spent)));
    spent(group) + given.sum::<i128>()
}

#[test]
fn refusals_are_those_of_a_subtree_and_of_what_was_told_by_then() {
    let whole = get("/v1/refusals?limit=1000")["refusals"].as_array().unwrap().clone();
    let below = tenants::below("research");
    let is_below = |one: &&Value| below.contains(one["group"].as_str().unwrap());
    let expected: Vec<_> = whole.iter().filter(is_below).cloned().collect();
    assert!(!expected.is_empty() && expected.len() < whole.len());
    assert_eq!(pages("/v1/refusals?group=research&scope=subtree&", "refusals", 2), expected);
    let at = "2026-11-10T12:00:00.000Z";
    let published: BTreeMap<u64, String> = (1..)
        .zip(lines())
        .map(|(position, line)| {
            let event: Value = serde_json::from_str(&line).unwrap();
            (position, text(&event["recordedat"]))
        })
        .collect();
    let by_then = |one: &&Value| *published[&one["position"].as_u64().unwrap()] <= *at;
    let expected: Vec<_> = whole.iter().filter(by_then).cloned().collect();
    assert!(!expected.is_empty() && expected.len() < whole.len());
    assert_eq!(pages(&format!("/v1/refusals?at={at}&"), "refusals", 3), expected);
}
