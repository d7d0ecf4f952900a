//! A running workload whose label goes there and back: its pod is billed where the workload was at each instant.

use super::{
    control_plane::eventually,
    installation::{installed, quota},
    pods::{deployment, runs},
};
use bizrq::{clock, domain::time::Timestamp};
use serde_json::{Value, json};
use std::{thread::sleep, time::Duration};

const GROUPS: [&str; 2] = ["there", "back"];
const LABEL: &str = "biz.group.resource.quota";

#[test]
fn a_label_that_goes_there_and_back_is_followed_each_time() {
    let Some(installed) = installed("a_label_that_goes_there_and_back") else { return };
    installed.plane.namespace("moves", &[]);
    for group in GROUPS {
        installed.plane.admin().apply(&quota(group, "", 10)).succeeds();
    }
    let object = deployment("moves", "d", &json!({LABEL: GROUPS[1]}), 1, "1");
    eventually("its group is known", || installed.plane.alice().apply(&object).done().map(drop));
    runs(&installed.plane, "moves", "d", 1);

    // By one manager, whose instant 1.20 leaves as it was; some within one second.
    let mut labelled = Vec::new();
    for n in 0..9 {
        let (group, from) = (GROUPS[n % 2], clock::now());
        let label = format!("label deployment d -n moves --overwrite {LABEL}={group}");
        installed.plane.alice().run(&label).succeeds();
        labelled.push((group, from));
        if n == 4 {
            sleep(Duration::from_secs(3));
        }
    }
    let moves = eventually("each was told", || {
        let all = installed.tail("pod.moved");
        let ours =
            |fact: &&Value| fact["event"]["subject"].as_str().unwrap().starts_with("pods/moves/");
        let ours: Vec<_> = all.iter().filter(ours).map(|fact| fact["event"].clone()).collect();
        if ours.len() == labelled.len() { Ok(ours) } else { Err(format!("{ours:#?}")) }
    });
    let instant =
        |event: &Value, name: &str| Timestamp::parse(event[name].as_str().unwrap()).unwrap();
    let mut before = Timestamp::MIN;
    for (event, (group, from)) in moves.iter().zip(&labelled) {
        let time = instant(event, "time");
        assert_eq!(event["data"]["group"], *group, "{moves:#?}");
        // Instants of the API server are whole seconds.
        assert!(time > before && time >= from.shifted(-1000), "labelled at {from}: {event}");
        assert!(time <= instant(event, "recordedat").max(before.shifted(1)), "{event}");
        before = time;
    }
    let running = GROUPS.map(|group| installed.used(group, clock::now())["running"].clone());
    assert_eq!(running, ["1", "0"]);
}
