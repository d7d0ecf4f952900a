//! Promises that are kept and those that are not, and the comparison that finds nothing, or what somebody spoiled.
//! Time is the runtime's, which skips what nobody works in.

use super::{
    api::Api,
    facts::{DEPLOYMENTS, QUOTAS, at, told},
    played::{cluster, server},
    stand::{Stand, eventually},
};
use bizrq::{
    decider::{Answer, Ask},
    domain::{
        event::{Data, Event, PodResized, ResizeBasis},
        ident,
        resources::Resources,
    },
    event_log::{EventLog, NewEvent, memory::MemoryLog},
};
use serde_json::{Value, json};
use std::{collections::BTreeSet, sync::Arc, time::Duration};
use tokio::time::{Instant, sleep};

const SHOP: &str = "00000000-0000-4000-8000-00000000000a";

fn quota() -> Value {
    json!({"metadata": {"name": "team-a", "uid": "uid of team-a", "generation": 1,
        "creationTimestamp": "2026-11-29T11:00:00Z"}, "spec": {"hard": {"requests.cpu": "10"}}})
}

/// A Deployment of `replicas` pods of one core.
fn shop(replicas: u32) -> Value {
    json!({"metadata": {"name": "shop", "namespace": "web", "uid": SHOP,
            "creationTimestamp": "2026-11-29T12:00:00Z", "labels": {"biz.group.resource.quota": "team-a"}},
        "spec": {"replicas": replicas, "template": {"spec": {"containers":
            [{"name": "a", "resources": {"requests": {"cpu": "1"}}}]}}}})
}

fn create(request: &str, uid: &str, count: u32) -> Ask {
    let workload = json!({"apiVersion": "apps/v1", "kind": "Deployment", "namespace": "web", "name": "shop", "uid": uid});
    let pod = json!({"requests": {"cpu": "1"}, "limits": {}});
    let roles = json!([{"name": "", "count": count, "peak": count, "models": {}, "pod": pod}]);
    serde_json::from_value(json!({"request": request, "cluster": "east", "what": {"workload":
        {"operation": "CREATE", "workload": workload, "group": "team-a", "roles": roles}}}))
    .unwrap()
}

/// What `team-a` is charged in cores, and how much of it nobody reviewed.
fn charged(stand: &Stand) -> (i128, i128) {
    let ledger = stand.projection.ledger();
    let (names, book) = (ledger.names(), ledger.book().unwrap());
    let known = names.known_group("team-a").zip(names.known_key("requests.cpu"));
    known.map_or((0, 0), |(group, key)| {
        (book.line(group, key).self_used / 1000, book.unreviewed(group, key) / 1000)
    })
}

async fn begin(api: &Api, log: &Arc<MemoryLog>) -> Stand {
    api.put(QUOTAS, quota());
    let mut stand = Stand::new(api.client(), cluster(at("13:00:00")), log, true);
    stand.until(|progress| progress.facts_synced).await;
    eventually("declared", || told_quota(&stand)).await;
    stand
}

fn told_quota(stand: &Stand) -> bool {
    stand.projection.ledger().book().is_some_and(|book| book.quota_objects().count() == 1)
}

async fn admit(stand: &Stand, ask: Ask) {
    let answer = stand.decider.decide(ask, Instant::now() + Duration::from_secs(5)).await;
    assert!(matches!(answer, Answer::Allowed { recorded: Some(_), .. }), "{answer:?}");
}

#[tokio::test(start_paused = true)]
async fn an_admission_that_never_becomes_real_ends_and_not_before_its_time() {
    let (api, log) = (server(), Arc::new(MemoryLog::default()));
    let stand = begin(&api, &log).await;
    admit(&stand, create("r1", SHOP, 4)).await;
    eventually("promised", || charged(&stand).0 == 4).await;
    sleep(Duration::from_secs(70)).await;
    assert_eq!(charged(&stand).0, 4, "its request may still be under way");
    sleep(Duration::from_secs(30)).await;
    eventually("over", || charged(&stand).0 == 0).await;
    assert_eq!(told(&log, "reservation.expired").await.len(), 1);
    stand.close().await;
}

#[tokio::test(start_paused = true)]
async fn an_admission_that_becomes_real_is_confirmed_and_reviewed() {
    let (api, log) = (server(), Arc::new(MemoryLog::default()));
    let stand = begin(&api, &log).await;
    admit(&stand, create("r1", SHOP, 4)).await;
    api.put(DEPLOYMENTS, shop(4));
    eventually("real", || {
        let ledger = stand.projection.ledger();
        let open = ledger.book().unwrap().reservations().count();
        drop(ledger);
        (open, charged(&stand)) == (0, (4, 0))
    })
    .await;
    sleep(Duration::from_secs(200)).await;
    assert_eq!(charged(&stand), (4, 0));
    assert_eq!(told(&log, "reservation.expired").await, Vec::<String>::new());

    // Nobody reviewed this one: it is charged all the same, and shown.
    api.put(DEPLOYMENTS, shop(6));
    eventually("larger", || charged(&stand) == (6, 2)).await;
    // Less: what it was is kept until pods that were admitted against it cannot come any more.
    api.put(DEPLOYMENTS, shop(3));
    sleep(Duration::from_secs(60)).await;
    assert_eq!(charged(&stand).0, 6);
    sleep(Duration::from_secs(60)).await;
    eventually("given back", || charged(&stand).0 == 3).await;
    api.delete(DEPLOYMENTS, SHOP);
    sleep(Duration::from_secs(120)).await;
    eventually("gone", || charged(&stand).0 == 0).await;
    stand.close().await;
}

/// What is listed beside a watch that stands was not missed: an auditor would take every heartbeat for a gap.
#[tokio::test(start_paused = true)]
async fn heartbeats_vouch_for_all_the_time_that_the_watch_stood() {
    let (api, log) = (server(), Arc::new(MemoryLog::default()));
    api.world().date = Some("Sun, 29 Nov 2026 12:59:00 GMT".into());
    let stand = begin(&api, &log).await;
    sleep(Duration::from_secs(10)).await;
    let lists = api.lists("/api/v1/pods");
    for minute in [4, 9, 14] {
        api.world().date = Some(format!("Sun, 29 Nov 2026 13:{minute:02}:00 GMT"));
        // Somebody else writes: of pods there is nothing newer to be watched, so they are listed.
        let name = format!("n{minute}");
        api.put(
            "/api/v1/namespaces",
            json!({"metadata": {"name": name, "uid": name,
            "creationTimestamp": format!("2026-11-29T13:{minute:02}:00Z")}}),
        );
        sleep(Duration::from_secs(300)).await;
    }
    assert!(api.lists("/api/v1/pods") > lists, "pods were listed again");
    let beats = told(&log, "observer.synced").await;
    let since: BTreeSet<_> =
        beats.iter().map(|beat| beat.split("\"since\":").nth(1).unwrap()).collect();
    assert!(beats.len() >= 3 && since.len() == 1, "{beats:#?}");
    stand.close().await;

    // Who comes later vouches for nothing before.
    api.world().date = Some("Sun, 29 Nov 2026 13:30:00 GMT".into());
    let stand = begin(&api, &log).await;
    sleep(Duration::from_secs(10)).await;
    let last = told(&log, "observer.synced").await.pop().unwrap();
    assert!(last.contains("\"since\":\"2026-11-29T13:30:00.000Z\""), "{last}");
    stand.close().await;
}

#[tokio::test(start_paused = true)]
async fn comparisons_find_nothing_and_what_somebody_spoiled() {
    let (api, log) = (server(), Arc::new(MemoryLog::default()));
    let uid = "00000000-0000-4000-8000-000000000001";
    let pod = json!({"metadata": {"name": "p", "namespace": "ml", "uid": uid,
            "creationTimestamp": "2026-11-29T11:59:59Z", "labels": {"biz.group.resource.quota": "team-a"}},
        "spec": {"containers": [{"name": "a", "resources": {"requests": {"cpu": "1"}}}]}});
    api.put("/api/v1/pods", pod);
    api.world().date = Some("Sun, 29 Nov 2026 12:59:00 GMT".into());
    let stand = begin(&api, &log).await;
    sleep(Duration::from_secs(1000)).await;
    let beats = told(&log, "observer.synced").await;
    assert!(beats.len() >= 3, "{beats:?}");
    assert!(
        beats[0].contains("\"pods\":") && beats[0].contains("\"deployments.apps\":"),
        "{beats:?}"
    );
    assert!(beats[0].contains("2026-11-29T12:59:00.000Z"), "the API server's clock: {beats:?}");
    assert_eq!(stand.counted("bizrq_observe_drift_total"), 0);
    assert_eq!(charged(&stand).0, 1);

    let held: Arc<Resources> =
        Arc::new(serde_json::from_value(json!({"requests": {"cpu": "3"}, "limits": {}})).unwrap());
    let basis = ResizeBasis::Received;
    let data = Data::PodResized(PodResized { uid: uid.into(), held, reserved: None, basis });
    let (source, time) = ("/clusters/east", at("12:30:00"));
    let id = ident::fact(source, time, &data).unwrap();
    let spoiled = Event {
        id,
        source: source.into(),
        subject: "pods/ml/p".into(),
        time,
        recorded_at: time,
        data,
    };
    log.append(vec![NewEvent::new(&spoiled).unwrap()]).await.unwrap();
    eventually("spoiled", || charged(&stand).0 == 3).await;
    sleep(Duration::from_secs(400)).await;
    eventually("put right", || charged(&stand).0 == 1).await;
    assert_eq!(stand.counted("bizrq_observe_drift_total"), 1);
    stand.close().await;
}
