//! Recordings made by hand: each hard case of a pod's life, and every kind of bad input.

use super::*;
use crate::domain::event::{Data, StartBasis, StopBasis};
use serde_json::{Value, json};

const GROUP: &str = "biz.group.resource.quota";

/// `10:MM:SS` of one day.
fn at(minute: u32, second: u32) -> String {
    format!("2026-11-29T10:{minute:02}:{second:02}Z")
}

fn time(minute: u32, second: u32) -> Timestamp {
    Timestamp::parse(&at(minute, second)).unwrap()
}

/// A bound pod at `version`, created at minute 0, whose kubelet wrote at `written` (as 1.36 keeps it).
fn pod(version: u32, written: Option<String>) -> Value {
    let mut fields = vec![json!({"manager": "kcm", "time": at(0, 0)})];
    fields
        .extend(written.map(|t| json!({"manager": "kubelet", "subresource": "status", "time": t})));
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "p", "namespace": "n", "uid": "u", "resourceVersion": version.to_string(),
            "creationTimestamp": at(0, 0), "managedFields": fields},
        "spec": {"nodeName": "n1", "containers": [
            {"name": "a", "resources": {"requests": {"cpu": "1"}}}]},
        "status": {"phase": "Running", "conditions": [
            {"type": "PodScheduled", "status": "True", "lastTransitionTime": at(0, 1)}]},
    })
}

trait Change {
    fn with(self, pointer: &str, value: Value) -> Self;
}

impl Change for Value {
    /// Sets the member that `pointer` names.
    fn with(mut self, pointer: &str, value: Value) -> Self {
        let (parent, name) = pointer.rsplit_once('/').unwrap();
        self.pointer_mut(parent).unwrap()[name] = value;
        self
    }
}

fn running() -> Value {
    json!([{"name": "a", "state": {"running": {"startedAt": at(0, 5)}}}])
}

fn finished(end: Value) -> Value {
    json!([{"name": "a", "state": {"terminated": {"startedAt": at(0, 5), "finishedAt": end}}}])
}

fn waits_after_a_run() -> Value {
    json!([{"name": "a", "state": {"waiting": {"reason": "CrashLoopBackOff"}},
        "lastState": {"terminated": {"startedAt": at(0, 5), "finishedAt": at(1, 0)}}}])
}

fn event(kind: &str, object: &Value) -> Value {
    json!({"type": kind, "object": object})
}

fn record(values: &[Value]) -> Recording {
    let lines: Vec<_> = values.iter().map(Value::to_string).collect();
    let mut recorder = Recorder::new("east");
    recorder.read("w.json", lines.join("\n").as_bytes()).unwrap();
    recorder.finish()
}

/// `(time, basis, earliest, latest)` of the stop.
fn stop(recording: &Recording) -> Option<(Timestamp, StopBasis, Timestamp, Timestamp)> {
    recording.events().find_map(|e| match e.data {
        Data::PodStopped(d) => Some((e.time, d.basis, d.earliest, d.latest)),
        _ => None,
    })
}

fn start(recording: &Recording) -> Option<(Timestamp, StartBasis)> {
    recording.events().find_map(|e| match e.data {
        Data::PodStarted(d) => Some((e.time, d.basis)),
        _ => None,
    })
}

/// Time, group and owner of creation, start and moves.
fn groups(recording: &Recording) -> Vec<(Timestamp, String, String)> {
    let owner = |o: &Option<crate::domain::event::ObjectRef<'_>>| {
        o.as_ref().map(|o| o.name.to_string()).unwrap_or_default()
    };
    let group = |e: crate::domain::event::Event<'_>| match e.data {
        Data::PodCreated(d) => Some((e.time, d.group.to_string(), owner(&d.owner))),
        Data::PodMoved(d) => Some((e.time, d.group.to_string(), owner(&d.owner))),
        _ => None,
    };
    recording.events().filter_map(group).collect()
}

fn error(text: &[u8]) -> RecordingError {
    Recorder::new("east").read("w.json", text).unwrap_err()
}

#[test]
fn a_final_phase_ends_the_pod_when_the_kubelet_wrote_it() {
    let alive = pod(2, Some(at(0, 6))).with("/status/containerStatuses", running());
    let end = pod(3, Some(at(1, 3))).with("/status/containerStatuses", finished(json!(at(1, 1))));
    let end = end.with("/status/phase", json!("Succeeded"));
    let later = end.clone().with("/metadata/resourceVersion", json!("9"));
    let later = later.with("/metadata/managedFields/1/time", json!(at(7, 0)));
    let recording =
        record(&[event("ADDED", &alive), event("MODIFIED", &end), event("MODIFIED", &later)]);
    let t = time(1, 3);
    assert_eq!(
        stop(&recording),
        Some((t, StopBasis::TerminalStatus, t, t)),
        "the first such version"
    );
    let backwards = record(&[event("ADDED", &later), event("ADDED", &end), event("ADDED", &alive)]);
    assert!(recording.events().map(|e| e.id).eq(backwards.events().map(|e| e.id)));
    let ran: Vec<_> = recording.events().filter(|e| matches!(e.data, Data::PodRan(_))).collect();
    assert_eq!((ran.len(), ran[0].time), (1, time(0, 5)));
}

#[test]
fn without_status_writes_the_last_container_ends_the_pod() {
    let end = pod(3, None).with("/status/containerStatuses", finished(json!(at(1, 1))));
    let recording = record(&[event("ADDED", &end.with("/status/phase", json!("Failed")))]);
    let t = time(1, 1);
    assert_eq!(stop(&recording), Some((t, StopBasis::ContainersFinished, t, t)));
}

#[test]
fn an_eviction_that_left_no_times_is_billed_to_the_last_proof_of_life() {
    let alive = pod(2, None).with("/status/containerStatuses", running());
    let alive = alive.with("/metadata/managedFields/0/time", json!(at(2, 0)));
    let evicted = pod(3, None).with("/status/phase", json!("Failed"));
    let evicted = evicted.with("/metadata/managedFields/0/time", json!(at(2, 0)));
    let other = pod(5, None).with("/metadata/uid", json!("v"));
    let other = other.with("/metadata/managedFields/0/time", json!(at(2, 30)));
    let recording = record(&[event("ADDED", &alive), event("MODIFIED", &evicted)]);
    let (t, basis) = (time(2, 0), StopBasis::Received);
    assert_eq!(stop(&recording), Some((t, basis, t, t)));
    let epoch = finished(json!("1970-01-01T00:00:00Z"));
    let evicted = evicted.with("/status/containerStatuses", epoch);
    let moved = evicted.with("/metadata/managedFields/0/time", json!(at(1, 0)));
    let recording =
        record(&[event("ADDED", &alive), event("MODIFIED", &moved), event("ADDED", &other)]);
    assert_eq!(stop(&recording), Some((t, basis, t, time(2, 30))), "1970 is no time");
}

#[test]
fn a_pod_in_a_crash_loop_holds_its_node_until_it_is_deleted() {
    let crashed = pod(2, Some(at(1, 0))).with("/status/containerStatuses", waits_after_a_run());
    let deleting = crashed.clone().with("/metadata/resourceVersion", json!("3"));
    let deleting = deleting.with("/metadata/deletionTimestamp", json!(at(9, 0)));
    let gone = deleting.clone().with("/metadata/resourceVersion", json!("4"));
    let gone = gone.with("/metadata/deletionGracePeriodSeconds", json!(0));
    let recording = record(&[event("ADDED", &crashed)]);
    assert_eq!(stop(&recording), None);
    let recording =
        record(&[event("ADDED", &crashed), event("MODIFIED", &deleting), event("DELETED", &gone)]);
    let t = time(9, 0);
    assert_eq!(stop(&recording), Some((t, StopBasis::Deleted, t, t)));
}

#[test]
fn containers_that_ended_before_the_deletion_do_not_end_the_pod_before_it() {
    let ended = pod(2, Some(at(1, 0))).with("/status/containerStatuses", finished(json!(at(1, 0))));
    let gone = ended.clone().with("/metadata/resourceVersion", json!("4"));
    let gone = gone.with("/metadata/deletionTimestamp", json!(at(9, 0)));
    let gone = gone.with("/metadata/deletionGracePeriodSeconds", json!(0));
    let recording = record(&[event("ADDED", &ended), event("DELETED", &gone)]);
    let t = time(9, 0);
    assert_eq!(stop(&recording), Some((t, StopBasis::TerminalStatus, t, t)));
}

#[test]
fn a_deletion_stamp_that_went_back_to_the_request_is_no_end() {
    let bound = pod(2, Some(at(0, 6))).with("/status/containerStatuses", running());
    let asked = bound.clone().with("/metadata/resourceVersion", json!("3"));
    let asked = asked.with("/metadata/deletionTimestamp", json!(at(3, 30)));
    let asked = asked.with("/metadata/deletionGracePeriodSeconds", json!(30));
    let gone = asked.clone().with("/metadata/resourceVersion", json!("4"));
    let gone = gone.with("/metadata/deletionTimestamp", json!(at(3, 0)));
    let gone = gone.with("/metadata/deletionGracePeriodSeconds", json!(0));
    let later = workload("Job", "j", 50, None, None);
    let recording = record(&[
        event("ADDED", &bound),
        event("MODIFIED", &asked),
        event("DELETED", &gone),
        later,
    ]);
    let (t, basis) = (time(3, 0), StopBasis::Deleted);
    assert_eq!(stop(&recording), Some((t, basis, t, time(5, 0))));
}

#[test]
fn a_pod_deleted_before_anything_ran_held_its_node_until_then() {
    let bound = pod(2, None).with("/status/phase", json!("Pending"));
    let gone = bound.clone().with("/metadata/resourceVersion", json!("4"));
    let gone = gone.with("/metadata/deletionTimestamp", json!(at(3, 0)));
    let gone = gone.with("/metadata/deletionGracePeriodSeconds", json!(0));
    let recording = record(&[event("ADDED", &bound), event("DELETED", &gone)]);
    assert_eq!(start(&recording), Some((time(0, 1), StartBasis::Bound)));
    assert_eq!(stop(&recording).map(|s| (s.0, s.1)), Some((time(3, 0), StopBasis::Deleted)));
}

#[test]
fn a_pod_that_came_with_its_node_holds_it_from_its_creation() {
    let preset = pod(2, None)
        .with("/metadata/managedFields/0/fieldsV1", json!({"f:spec": {"f:nodeName": {}}}));
    assert_eq!(start(&record(&[event("ADDED", &preset)])), Some((time(0, 0), StartBasis::Created)));
    let unscheduled = pod(2, None).with("/status/conditions", json!([]));
    assert_eq!(start(&record(&[unscheduled])), Some((time(0, 0), StartBasis::Created)));
}

#[test]
fn mirrors_of_one_file_on_two_nodes_are_two_pods() {
    let mirror = |node: &str, version| {
        let pod = pod(version, None).with("/spec/nodeName", json!(node));
        let pod = pod.with("/metadata/annotations", json!({MIRROR: "x"}));
        let owner = json!([{"apiVersion": "v1", "kind": "Node", "name": node, "uid": node, "controller": true}]);
        pod.with("/metadata/ownerReferences", owner)
    };
    let recording = record(&[mirror("n1", 2), mirror("n2", 3)]);
    let uids: Vec<_> = recording
        .events()
        .filter_map(|e| match e.data {
            Data::PodStarted(d) if d.owner.is_none() => Some(d.uid.to_string()),
            _ => None,
        })
        .collect();
    assert_eq!(uids, ["u@n1", "u@n2"]);
}

#[test]
fn a_stop_before_its_start_is_told_as_it_was_recorded() {
    let end = pod(3, None).with("/status/phase", json!("Failed"));
    let early = json!([{"name": "a", "state": {"terminated": {"startedAt": at(0, 0), "finishedAt": at(0, 0)}}}]);
    let recording = record(&[end.with("/status/containerStatuses", early)]);
    assert_eq!(stop(&recording).unwrap().0, time(0, 0));
    assert_eq!(start(&recording).unwrap().0, time(0, 1));
}

/// A workload; `group` labels it, `owner` owns it.
fn workload(
    kind: &str,
    name: &str,
    version: u32,
    group: Option<&str>,
    owner: Option<(&str, &str)>,
) -> Value {
    let owners = owner
        .map(|(kind, name)| json!([{"kind": kind, "name": name, "uid": name, "controller": true}]));
    json!({"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": name, "namespace": "n", "uid": name,
        "resourceVersion": version.to_string(), "creationTimestamp": at(0, 0),
        "labels": group.map(|g| json!({GROUP: g})), "ownerReferences": owners,
        "managedFields": [{"manager": "kubectl", "time": at(version / 10, 0)}]}})
}

fn owned(version: u32, kind: &str, name: &str) -> Value {
    let owner = json!([{"kind": kind, "name": name, "uid": name, "controller": true}]);
    pod(version, None).with("/metadata/ownerReferences", owner)
}

fn only(recording: &Recording) -> (String, String) {
    let groups = groups(recording);
    assert_eq!(groups.len(), 1, "{groups:?}");
    (groups[0].1.clone(), groups[0].2.clone())
}

#[test]
fn the_label_of_the_top_workload_counts_then_the_pods_then_the_namespaces() {
    let set = workload("ReplicaSet", "rs", 1, Some("wrong"), Some(("Deployment", "d")));
    let own =
        |group: &str| owned(5, "ReplicaSet", "rs").with("/metadata/labels", json!({GROUP: group}));
    let labelled =
        record(&[own("own"), set.clone(), workload("Deployment", "d", 2, Some("top"), None)]);
    assert_eq!(only(&labelled), ("top".into(), "d".into()));
    assert!(
        labelled.notes[0].text.contains("labelled own, its workload top"),
        "{:?}",
        labelled.notes
    );
    let unlabelled = record(&[own("own"), set.clone(), workload("Deployment", "d", 2, None, None)]);
    assert_eq!(only(&unlabelled), ("own".into(), "d".into()));
    let missing = record(&[own("own"), set]);
    assert_eq!(only(&missing), ("own".into(), "d".into()), "named, though never seen");
    let namespace = workload("Namespace", "n", 1, Some("ns"), None);
    assert_eq!(only(&record(&[pod(5, None), namespace])).0, "ns");
}

#[test]
fn a_reference_to_what_is_not_the_object_lends_no_group() {
    let other = workload("ReplicaSet", "rs", 1, Some("rich"), None);
    let foreign = other.clone().with("/metadata/namespace", json!("elsewhere"));
    for fake in [
        foreign,
        other.clone().with("/kind", json!("Job")),
        other.with("/metadata/name", json!("x")),
    ] {
        assert_eq!(only(&record(&[owned(5, "ReplicaSet", "rs"), fake])).0, "");
    }
}

#[test]
fn a_circle_of_owners_ends_after_eight_links() {
    let a = workload("A", "a", 1, Some("ga"), Some(("B", "b")));
    let b = workload("B", "b", 1, Some("gb"), Some(("A", "a")));
    assert_eq!(only(&record(&[owned(5, "A", "a"), a, b])), ("gb".into(), "b".into()));
}

#[test]
fn a_new_label_on_the_workload_moves_its_pods_and_another_order_tells_the_same() {
    let before = workload("ReplicaSet", "rs", 10, Some("a"), None);
    let after = workload("ReplicaSet", "rs", 60, Some("b"), None);
    let pods = owned(50, "ReplicaSet", "rs");
    let moved =
        record(&[event("ADDED", &before), event("MODIFIED", &after), event("ADDED", &pods)]);
    let expected = [(time(0, 0), "a".into(), "rs".into()), (time(6, 0), "b".into(), "rs".into())];
    assert_eq!(groups(&moved), expected);
    let again = record(&[event("ADDED", &pods), event("ADDED", &after), event("ADDED", &before)]);
    assert_eq!(groups(&again), expected);
    let end = pods.clone().with("/metadata/resourceVersion", json!("55"));
    let end = end.with("/status/phase", json!("Failed"));
    let ended = record(&[event("ADDED", &pods), event("ADDED", &end), after, before]);
    assert_eq!(groups(&ended).len(), 1, "what has ended does not move");
}

#[test]
fn models_on_the_pod_overrule_the_workloads_and_texts_that_are_none_are_remarked() {
    let labels = json!({format!("{GROUP}/cpu-type"): "A4", format!("{GROUP}/gpu-type"): "V100|T4"});
    let set = workload("ReplicaSet", "rs", 1, None, None).with("/metadata/annotations", labels);
    let pod = owned(5, "ReplicaSet", "rs")
        .with("/metadata/labels", json!({"biz.group.resource.quota/cpu-type": "B8"}));
    let recording = record(&[pod, set]);
    let models = recording.events().find_map(|e| match e.data {
        Data::PodStarted(d) => Some(d.models),
        _ => None,
    });
    let models = models.unwrap();
    assert_eq!((models.cpu.as_deref(), models.gpu.as_deref()), (Some("B8"), Some("V100|T4")));
    assert!(recording.notes[0].text.contains("V100|T4, which is no model"));
}

#[test]
fn lists_and_pretty_printed_objects_are_read_as_well() {
    let list = json!({"apiVersion": "v1", "kind": "List", "items": [pod(2, None), workload("Job", "j", 1, None, None)]});
    let text = format!("{list:#}\n{:#}", event("MODIFIED", &pod(3, None)));
    let mut recorder = Recorder::new("east");
    recorder.read("w.json", text.as_bytes()).unwrap();
    assert!(start(&recorder.finish()).is_some());
    let mut bare = pod(2, None);
    bare.as_object_mut().unwrap().remove("kind");
    let mut recorder = Recorder::new("east");
    let text = format!(r#"{{"kind":"PodList","items":[{bare}]}}"#);
    recorder.read("w.json", text.as_bytes()).unwrap();
    assert!(start(&recorder.finish()).is_some(), "a raw list names the kind of its items itself");
}

#[test]
fn what_cannot_be_counted_is_set_aside_with_file_line_and_reason() {
    let bad = [
        (
            pod(2, None).with("/spec/containers/0/resources", json!({"limits": {"cpu": "1K"}})),
            "container a, `cpu`: `1K`",
        ),
        (pod(2, None).with("/metadata", json!(null)), "no metadata.uid"),
        (
            pod(2, None).with("/metadata/resourceVersion", json!("99999999999999999999999")),
            "resourceVersion",
        ),
        (
            json!({"kind": "Job", "metadata": {"uid": "j", "resourceVersion": "1"}}),
            "creationTimestamp",
        ),
    ];
    for (object, reason) in bad {
        let recording =
            record(&[event("BOOKMARK", &json!({"kind": "Pod"})), event("ADDED", &object)]);
        assert_eq!((recording.quarantined, recording.events().count()), (1, 0));
        let note = &recording.notes[0];
        assert_eq!((&*note.file, note.line), ("w.json", 2));
        assert!(note.text.contains(reason), "{}", note.text);
    }
    let elsewhere = pod(3, None).with("/spec/nodeName", json!("n2"));
    let recording = record(&[pod(2, None), elsewhere]);
    assert!(
        recording.quarantined == 1 && recording.notes[0].text.contains("on node n2, but was on n1")
    );
}

#[test]
fn a_watch_that_broke_off_is_remarked() {
    let recording = record(&[event("ERROR", &json!({"kind": "Status", "code": 410}))]);
    assert!(recording.notes[0].text.contains("broke off") && recording.newest.is_none());
}

#[test]
fn bad_json_is_refused_with_file_line_and_remedy() {
    let good = event("ADDED", &pod(2, None)).to_string();
    let cases: [(String, &str); 9] = [
        (good[..good.len() - 2].to_owned(), "the text ends within the object"),
        (good.replace("\"phase\":\"Running\"", "\"phase\":7"), "invalid type: integer `7`"),
        (good.replace("\"containers\":[", "\"containers\":[0,"), "invalid type: integer `0`"),
        (good.replace("\"Running\"", "\"a\0b\""), "control character"),
        (
            good.replace("\"2026-11-29T10:00:00Z\"", "\"9999-01-01T00:00:00Z\""),
            "outside 1970-01-01 to 2199",
        ),
        (good.replace("\"2026-11-29T10:00:00Z\"", "\"yesterday\""), "no RFC 3339 time"),
        (good.replace("\"ADDED\"", "\"GROWN\""), "`type` is none of ADDED"),
        (good.replace("\"kind\":\"Pod\"", "\"kind\":1"), "invalid type: integer `1`"),
        (r#"{"specversion":"1.0"}"#.to_owned(), "an event of a bizrq log"),
    ];
    for (text, message) in cases {
        let error = error(format!("{{\"kind\":\"X\"}}\n\n{text}").as_bytes());
        assert_eq!((&*error.file, error.line), ("w.json", 3), "{error}");
        assert!(error.to_string().starts_with("w.json, line 3: "), "{error}");
        assert!(error.to_string().contains(message), "{error}");
        assert!(!error.to_string().contains(" column "), "{error}");
    }
    let mut bytes = good.into_bytes();
    let at = bytes.windows(7).position(|w| w == b"Running").unwrap();
    bytes[at] = 0xff;
    assert!(error(&bytes).to_string().contains("unicode"), "{}", error(&bytes));
}

#[test]
fn an_error_within_an_event_of_many_lines_names_the_very_line() {
    let text = format!("{:#}", event("ADDED", &pod(2, None).with("/status/phase", json!(7))));
    let line = text.lines().position(|l| l.contains("\"phase\": 7")).unwrap() + 1;
    assert_eq!(error(text.as_bytes()).line, line as u64);
}

#[test]
fn nesting_without_end_and_numbers_beyond_all_bounds_do_no_harm() {
    let deep = |n| format!("{}{}", "[".repeat(n), "]".repeat(n));
    let with = |place: &str, value: &str| {
        event("ADDED", &pod(2, None).with(place, json!("HERE")))
            .to_string()
            .replace("\"HERE\"", value)
    };
    let read = |text: &str| Recorder::new("east").read("w.json", text.as_bytes());
    assert!(
        read(&with("/spec/unknown", &deep(1_000_000))).is_ok(),
        "what is not looked at is read over"
    );
    assert!(read(&with("/status/phase", &deep(1_000_000))).is_err());
    assert!(read(&with("/spec/containers", &deep(1_000_000))).is_err());
    assert!(read(&with("/spec/unknown", &"9".repeat(100_000))).is_ok());
    assert!(read(&with("/metadata/generation", &"9".repeat(100_000))).is_err());
    assert!(read(&with("/metadata/deletionGracePeriodSeconds", "9223372036854775807")).is_ok());
    assert!(read(&with("/metadata/deletionGracePeriodSeconds", "-9223372036854775808")).is_ok());
    let many = format!("[{}{{}}]", "{},".repeat(20_000));
    let refused = read(&with("/spec/containers", &many)).unwrap_err().to_string();
    assert!(refused.contains("more than 10000 entries"), "{refused}");
}

#[test]
fn a_recording_of_endless_pods_is_refused_and_not_kept() {
    let mut recorder = Recorder::with_limit("east", 1 << 20);
    let lines = (0..100_000_u32).map(|n| {
        let pod = r#"{"kind":"Pod","metadata":{"uid":"UID","resourceVersion":"1","creationTimestamp":"2026-11-29T10:00:00Z"}}"#;
        pod.replace("UID", &n.to_string())
    });
    let text = lines.collect::<Vec<_>>().join("\n");
    let error = recorder.read("w.json", text.as_bytes()).unwrap_err();
    assert!(error.to_string().contains("more pods than fit into 1 MiB"), "{error}");
    assert!(recorder.pods.len() > 500 && recorder.pods.len() < 5000, "{}", recorder.pods.len());
}

#[test]
fn events_of_a_relist_are_the_same_events() {
    let first = record(&[event("ADDED", &pod(2, None))]);
    let again =
        record(&[event("ADDED", &pod(2, None)), event("ADDED", &pod(2, None)), pod(7, None)]);
    assert!(first.events().map(|e| e.id).eq(again.events().map(|e| e.id)));
}

#[test]
fn a_label_that_flips_over_many_pods_does_not_fill_the_memory() {
    let count = 520;
    let mut recorder = Recorder::new("east");
    let pods =
        (0..count).map(|n| owned(n + 1, "J", "j").with("/metadata/uid", json!(n.to_string())));
    let flip = |n: u32| workload("J", "j", n, Some(&n.to_string()), None);
    let flips = (0..count)
        .map(|n| flip(n).with("/metadata/managedFields", json!([])))
        .enumerate()
        .map(|(n, o)| {
            o.with("/metadata/resourceVersion", json!((count as usize + n + 1).to_string()))
        });
    let lines: Vec<_> = pods.chain(flips).map(|o| o.to_string()).collect();
    recorder.read("w.json", lines.join("\n").as_bytes()).unwrap();
    let recording = recorder.finish();
    let moves = recording.events().filter(|e| matches!(e.data, Data::PodMoved(_))).count();
    assert_eq!(moves, 1 << 18);
    assert!(recording.quarantined > 0 && recording.notes[0].text.contains("no room for its moves"));
}
