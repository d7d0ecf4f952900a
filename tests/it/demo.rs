//! The simulated fortnight: what it prints is what its log says, the rules held at every decision, and a seed is a seed.

use bizrq::{
    demo::{self, Options, Played},
    domain::{
        event::{Data, Event, Kind},
        ledger::{Applied, Ledger},
        names::{GroupId, KeyId},
        time::Timestamp,
    },
    event_log::{
        EventLog, Reader,
        codec::{Decoded, Decoder},
        file::{self, FileLog},
        memory::MemoryLog,
        records::Raw,
    },
};
use serde_json::Value;
use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
    process::{Command, Output},
    sync::Arc,
};

const END: &str = "2026-11-16T00:00:00.000Z";
/// More than the story alone makes.
const PODS: u64 = 400;

fn bizrq(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_bizrq")).args(args).output().unwrap()
}

fn json(args: &[&str]) -> Value {
    let output = bizrq(args);
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

async fn play(seed: u64, pods: u64) -> (MemoryLog, Played) {
    let log = MemoryLog::default();
    let played = demo::play(&log, Options { seed, pods }, |_| {}).await.unwrap();
    (log, played)
}

/// Every event of a company's log.
pub(crate) fn events_of(seed: u64, pods: u64) -> Vec<Event<'static>> {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let lines: Vec<Vec<u8>> = runtime.block_on(async {
        let (log, _) = play(seed, pods).await;
        let (mut lines, mut reader) = (Vec::new(), log.read(1).unwrap());
        while let Some(records) = reader.next().await.unwrap() {
            lines.extend(records.iter().map(|(_, raw)| match raw {
                Raw::Line(line) => line.to_vec(),
                Raw::Parts(_) => panic!("a memory log has lines"),
            }));
        }
        lines
    });
    let mut decoder = Decoder::default();
    // Events borrow from their lines, which live as long as the tests.
    let lines: &'static [Vec<u8>] = Vec::leak(lines);
    let event =
        |line: &'static Vec<u8>| match decoder.decode(&Raw::Line(line).scan().unwrap()).unwrap() {
            Decoded::Event(event) => event,
            other => panic!("{other:?}"),
        };
    lines.iter().map(event).collect()
}

/// Folds a log; `each` sees every event before and after it is applied.
async fn fold(log: &impl EventLog, mut each: impl FnMut(&Ledger, &Event<'_>, bool)) -> Ledger {
    let (mut ledger, mut decoder) = (Ledger::default(), Decoder::default());
    let mut reader = log.read(1).unwrap();
    while let Some(records) = reader.next().await.unwrap() {
        for (position, raw) in records.iter() {
            let scanned = raw.scan().unwrap();
            let Decoded::Event(event) = decoder.decode(&scanned).unwrap() else { panic!() };
            each(&ledger, &event, false);
            let applied = ledger.apply(position, scanned.leaf.unwrap(), &event).unwrap();
            assert!(
                matches!(applied, Applied::Changed | Applied::Ignored),
                "{position}: {event:?}"
            );
            each(&ledger, &event, true);
        }
    }
    ledger
}

/// Used and limit of every group and key but budgets.
fn lines(ledger: &Ledger) -> BTreeMap<(GroupId, KeyId), (i128, Option<i128>)> {
    let (book, names) = (ledger.book().unwrap(), ledger.names());
    let keys = |group| book.keys(group).iter().map(move |key| (group, *key));
    let all = names.groups().flat_map(keys).filter(|(_, key)| names.budgeted(*key).is_none());
    all.map(|(group, key)| {
        let line = book.line(group, key);
        ((group, key), (line.used, line.limit))
    })
    .collect()
}

#[tokio::test]
async fn no_decision_raises_a_charge_above_its_limit() {
    for seed in [1, 2, 3] {
        let (log, played) = play(seed, 900).await;
        let (mut before, mut decisions, mut raised) = (BTreeMap::new(), 0, 0);
        let ledger = fold(&log, |ledger, event, applied| {
            if !event.data.kind().is_some_and(Kind::is_decision) {
                return;
            }
            if !applied {
                before = lines(ledger);
                let seen = match &event.data {
                    Data::WorkloadsAdmitted(d) => d.seen,
                    Data::QuotaProposed(d) => d.seen,
                    _ => ledger.position(),
                };
                assert_eq!(seen, ledger.position(), "nothing came between");
                return;
            }
            decisions += 1;
            for (place, (used, limit)) in lines(ledger) {
                let was = before.get(&place).map_or(0, |(used, _)| *used);
                if used > was {
                    raised += 1;
                    let over = limit.is_some_and(|limit| used > limit);
                    assert!(!over, "{event:?} raises {place:?} to {used} of {limit:?}");
                }
            }
        })
        .await;
        assert!(decisions > 100 && raised > 1000, "{decisions} decisions, {raised} raised charges");
        assert_eq!(demo::difference(&played.ledger, &ledger), None);
        assert!(ledger.quarantined().is_empty());
    }
}

#[tokio::test]
async fn everything_that_a_person_should_see_once_happens() {
    let (log, played) = play(5, PODS).await;
    let (mut kinds, mut started, mut lost) = (BTreeSet::new(), 0_u64, 0);
    fold(&log, |_, event, applied| {
        if applied {
            kinds.insert(event.data.kind().unwrap().name());
            started += u64::from(matches!(event.data, Data::PodStarted(_)));
            lost += u64::from(matches!(&event.data, Data::PodStopped(d) if d.reason == "NodeLost"));
            assert!(event.time <= event.recorded_at, "{event:?}");
            assert!(demo::begin() <= event.time && event.time < demo::end());
        }
    })
    .await;
    for kind in [
        "cluster.bound",
        "node.observed",
        "observer.synced",
        "quota.proposed",
        "quota.declared",
        "workloads.admitted",
        "workloads.refused",
        "workload.observed",
        "workload.gone",
        "reservation.expired",
        "pod.created",
        "pod.started",
        "pod.ran",
        "pod.resized",
        "pod.moved",
        "pod.stopped",
        "pod.stop_withdrawn",
    ] {
        assert!(kinds.contains(kind), "{kind} in {kinds:?}");
    }
    assert_eq!((started, played.pods, lost), (PODS, PODS, 4));
    let reasons: BTreeSet<_> = played.refusals.iter().map(|r| &*r.reason).collect();
    let expected = ["CashExhausted", "ModelRequired", "QuotaExceeded", "UnknownGroup"];
    assert_eq!(reasons, expected.into_iter().collect());
    assert!(played.refusals.is_sorted_by_key(|r| r.time));
    assert!(played.scenes.is_sorted_by_key(|s| s.time));
}

#[tokio::test]
async fn as_many_pods_start_as_were_asked_for() {
    for pods in [250, 1234, 5000] {
        let (log, played) = play(11, pods).await;
        let mut started = 0;
        fold(&log, |_, event, applied| {
            started += u64::from(applied && matches!(event.data, Data::PodStarted(_)));
        })
        .await;
        assert_eq!((started, played.pods), (pods, pods), "{:?}", played.refusals);
    }
}

/// What the webhook says, over HTTPS and through manifests, is what the rules say.
#[tokio::test]
async fn the_webhook_tells_the_story_that_the_rules_tell() {
    let options = Options { seed: 5, pods: PODS };
    let (_, by_rules) = play(options.seed, options.pods).await;
    let log = Arc::new(MemoryLog::default());
    let stage = demo::Stage::open(Arc::clone(&log), &demo::CLUSTERS).unwrap();
    let by_webhook = demo::play_on(stage, options, |_| {}).await.unwrap();
    let scenes = |played: &Played| -> Vec<_> {
        played.scenes.iter().map(|scene| scene.text.clone()).collect()
    };
    assert_eq!(scenes(&by_webhook), scenes(&by_rules));
    let refusals = |played: &Played| -> Vec<_> {
        let told = played.refusals.iter();
        // What is left of a budget depends on how long pods ran, which is chance.
        told.map(|r| (r.workload.clone(), r.reason.clone())).collect()
    };
    assert_eq!(refusals(&by_webhook), refusals(&by_rules));
    let folded = fold(&*log, |_, _, _| {}).await;
    assert_eq!(demo::difference(&by_webhook.ledger, &folded), None);
}

#[tokio::test]
async fn the_same_seed_gives_the_same_bytes_and_another_seed_other_numbers() {
    let dirs = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    for dir in &dirs {
        let log = FileLog::open(dir.path(), &file::Options::default()).unwrap();
        demo::play(&log, Options { seed: 9, pods: PODS }, |_| {}).await.unwrap();
        log.close().unwrap();
    }
    assert_same(&dirs);

    let mut all = Vec::new();
    for seed in [9, 10] {
        let (log, _) = play(seed, PODS).await;
        let ledger = fold(&log, |_, _, _| {}).await;
        let usage = ledger.usage(demo::end()).unwrap().into_iter();
        let usage = usage.filter(|line| line.key == "limits.cpu" && line.group != "tools");
        all.push(usage.map(|line| (line.group, line.exact)).collect::<BTreeMap<_, _>>());
    }
    assert_eq!(all[0].len(), 7);
    for (group, exact) in &all[0] {
        assert_ne!(all[1].get(group), Some(exact), "{group} used the same with another seed");
    }
}

#[tokio::test]
async fn the_same_seed_gives_the_same_bytes_through_the_webhook_too() {
    let dirs = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    for dir in &dirs {
        let log = Arc::new(FileLog::open(dir.path(), &file::Options::default()).unwrap());
        let stage = demo::Stage::open(Arc::clone(&log), &demo::CLUSTERS).unwrap();
        demo::play_on(stage, Options { seed: 9, pods: PODS }, |_| {}).await.unwrap();
        let log = Arc::into_inner(log).expect("a stage that is closed holds no log");
        log.close().unwrap();
    }
    assert_same(&dirs);
}

fn assert_same(dirs: &[tempfile::TempDir; 2]) {
    let [one, two] = dirs.each_ref().map(|dir| files(dir.path()));
    assert!(one.len() >= 3 && one.values().any(|bytes| bytes.len() > 100_000));
    assert!(one == two, "the same seed, other bytes");
}

/// Every file of a log but the lock, which names the process.
fn files(dir: &Path) -> BTreeMap<String, Vec<u8>> {
    let files = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap());
    let named = files.map(|f| (f.file_name().into_string().unwrap(), f.path()));
    named.filter(|(name, _)| name != "lock").map(|(n, path)| (n, fs::read(path).unwrap())).collect()
}

/// Card-milliseconds of language up to an instant, from the records alone.
fn spent(runs: &BTreeMap<String, (Timestamp, Timestamp, i128)>, at: Timestamp) -> i128 {
    let run = |(from, to, cards): &(Timestamp, Timestamp, i128)| {
        cards * i128::from((*to.min(&at)).since(*from).max(0))
    };
    runs.values().map(run).sum()
}

#[tokio::test]
async fn the_instant_of_exhaustion_is_exact() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path().join("log");
    let report = json(&["demo", "--pods", "300", "--json", "--log", dir.to_str().unwrap()]);
    let exhausted = report["exhausted"].as_array().unwrap();
    assert_eq!(exhausted.len(), 1, "{exhausted:?}");
    assert_eq!(exhausted[0]["group"], "language");
    let at = Timestamp::parse(exhausted[0]["at"].as_str().unwrap()).unwrap();

    let mut runs = BTreeMap::new();
    let log = FileLog::open_read(&dir).unwrap();
    fold(&log, |_, event, applied| match &event.data {
        Data::PodStarted(d) if applied && d.group == "language" => {
            let cards = d.held.limits.get("nvidia.com/gpu").unwrap().milli() / 1000;
            runs.insert(d.uid.to_string(), (event.time, Timestamp::MAX, cards));
        }
        Data::PodStopped(d) if applied => {
            if let Some(run) = runs.get_mut(d.uid.as_str()) {
                run.1 = event.time;
            }
        }
        _ => {}
    })
    .await;
    let budget = 3000 * 3_600_000;
    assert!(spent(&runs, at) >= budget);
    assert!(spent(&runs, at.shifted(-1)) < budget);

    let refused: Vec<_> = report["refusals"].as_array().unwrap().iter().collect();
    let broke = refused.iter().filter(|r| r["reason"] == "CashExhausted");
    assert!(broke.clone().count() >= 2);
    for refusal in broke {
        assert!(Timestamp::parse(refusal["time"].as_str().unwrap()).unwrap() >= at);
    }
    // Nobody is stopped by an empty purse.
    assert!(runs.values().any(|(from, to, _)| *from < at && *to > at.shifted(24 * 3_600_000)));
}

#[test]
fn the_log_that_stays_says_what_the_demo_said() {
    let dir = tempfile::tempdir().unwrap();
    let log = dir.path().join("log");
    let log = log.to_str().unwrap();
    let report = json(&["demo", "--seed", "4", "--pods", "300", "--json", "--log", log]);
    assert_eq!((&report["seed"], &report["pods"]), (&4.into(), &300.into()));
    assert_eq!(report["verified"]["sameQuotas"], true);
    assert_eq!(report["verified"]["rootRecorded"], true);
    assert_eq!(report["quarantined"], 0);
    let tree = json(&["quota", "tree", "--log", log, "--at", END, "-o", "json"]);
    assert_eq!(tree, report["groups"]);
    assert!(tree["groups"].as_array().unwrap().len() >= 12);

    let meter = json(&["meter", "--log", log, "--at", END, "-o", "json"]);
    for part in ["usage", "position", "root", "quarantined", "to"] {
        assert_eq!(meter[part], report[part], "{part}");
    }
    assert!(meter["usage"].as_array().unwrap().len() > 30);

    let second = bizrq(&["demo", "--log", log]);
    assert_eq!(second.status.code(), Some(4));
    let why = String::from_utf8_lossy(&second.stderr).into_owned();
    assert!(why.contains("already") && why.contains("give a new"), "{why}");
}

#[test]
fn the_demo_for_people_shows_everything_and_leaves_nothing_behind() {
    let tmp = tempfile::tempdir().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_bizrq"));
    let output =
        command.args(["demo", "--pods", "250"]).env("TMPDIR", tmp.path()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    for part in [
        "A simulated fortnight of acme",
        "├─ research", // one of the departments
        "█",
        "core-hours",
        "exceeded quota: search, requested: limits.cpu=34",
        "exhausted budget: language",
        "cash/limits.nvidia.com/gpu  2026-11-1",
        "each is given again",
        "What to try next",
    ] {
        assert!(text.contains(part) || text.contains(&part.replace('├', "└")), "{part}:\n{text}");
    }
    assert!(!text.contains('✗'), "{text}");
    assert_eq!(fs::read_dir(tmp.path()).unwrap().count(), 0, "the temporary log is still there");
}

#[test]
fn the_trees_of_the_log_and_of_the_same_quotas_from_files_agree() {
    let dir = tempfile::tempdir().unwrap();
    let log = dir.path().join("log");
    let log = log.to_str().unwrap();
    json(&["demo", "--seed", "5", "--pods", "300", "--json", "--log", log]);
    let mut declared = BTreeMap::new();
    let lines = fs::read_to_string(Path::new(log).join("00000000000000000001.jsonl")).unwrap();
    for event in lines.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()) {
        if event["type"] == "io.bizrq.quota.declared.v1" {
            declared.insert(event["subject"].to_string(), event);
        }
    }
    let object = |event: &Value| {
        let name = event["subject"].as_str().unwrap().trim_start_matches("quotas/");
        let spec = &event["data"]["spec"];
        format!(
            "apiVersion: bizrq.io/v1\nkind: BizGroupResourceQuota\nmetadata: {{name: {name}}}\nspec: {spec}\n"
        )
    };
    let objects: Vec<_> = declared.values().map(object).collect();
    let quotas = dir.path().join("quotas.yaml");
    fs::write(&quotas, objects.join("---\n")).unwrap();
    let tree = ["quota", "tree", "--log", log, "--at", END, "-o", "json"];
    let planned = json(&[&tree[..], &["--quotas", quotas.to_str().unwrap()]].concat());
    let told = json(&tree);
    assert_eq!(planned["position"], told["position"]);
    let rows = |tree: &Value| {
        let groups = tree["groups"].as_array().unwrap().iter();
        let rows = groups.flat_map(|g| g["keys"].as_array().unwrap().iter().map(move |k| (g, k)));
        let what = ["key", "hard", "used", "selfUsed", "left", "consumedExact"];
        rows.map(|(g, k)| format!("{} {:?}", g["group"], what.map(|w| k[w].to_string())))
            .collect::<Vec<_>>()
    };
    assert!(rows(&told).len() > 20);
    assert_eq!(rows(&planned), rows(&told));
}
