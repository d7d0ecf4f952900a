//! Reviews answered by the real decider over a real log: recorded once, not at all, or not now.

use super::{
    client::PATIENCE,
    served::{Ca, Served, limits},
};
use crate::through::{Between, Through};
use axum::{
    Router,
    body::{Body, to_bytes},
};
use bizrq::{
    decider::{self, transport::Alone},
    domain::{
        event::{Data, Event, EventId, Position, QuotaDeclared},
        ident,
        quota::TypedSpec,
        time::ORIGIN,
    },
    event_log::{
        AppendError, Appended, EventLog, NewEvent, Reader,
        codec::{Decoded, Decoder},
        memory::MemoryLog,
    },
    k8s::kinds::Kinds,
    projection::{MemoryStore, Projection, Runner, runner},
    webhook::{
        Options, Unavailable,
        clusters::{Cluster, Clusters},
        metrics::Metrics,
        server::router,
        tls::Current,
    },
};
use hyper::Request;
use prometheus::Registry;
use serde_json::{Value, json};
use std::{
    future::pending,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};
use tokio::{sync::Semaphore, time::Instant};
use tower::ServiceExt;

/// A log that can be out of reach: then nothing is answered.
type Away = Through<Out>;

#[derive(Default)]
struct Out {
    is_away: AtomicBool,
}

impl Between for Out {
    async fn decide(
        &self,
        log: &MemoryLog,
        expected: Position,
        event: NewEvent,
    ) -> Result<Appended, AppendError> {
        if self.is_away.load(Ordering::Relaxed) {
            return pending().await;
        }
        log.decide(expected, event).await
    }
}

/// What answers for `east`, where team-a may have so many cores.
async fn clusters(log: &Arc<Away>, cores: u64, unavailable: Unavailable) -> (Clusters, Projection) {
    log.append(vec![declared(cores)]).await.unwrap();
    let (runner, projection) = Runner::new(MemoryStore::default(), runner::Options::default());
    let (deciding, worker) =
        decider::new(Arc::clone(log), projection.clone(), Alone, decider::Options::default());
    let folded = Arc::clone(log);
    tokio::spawn(async move { runner.run(&*folded, pending::<()>()).await.map(drop).unwrap() });
    tokio::spawn(worker.run(pending::<()>()));
    projection.clone().caught_up().await.unwrap();
    let east = Cluster {
        options: Options { unavailable, ..Options::new("east") },
        context: Arc::default(),
    };
    let kinds = Arc::new(Kinds::builtin().unwrap());
    (Clusters::new(kinds, [east], deciding, projection.clone()), projection)
}

fn declared(cores: u64) -> NewEvent {
    let hard = cores.to_string();
    let hard = vec![("limits.cpu", &*hard)];
    let spec = TypedSpec { parent: "", hard, charge: "", models: "", ..TypedSpec::default() }
        .accept("team-a")
        .unwrap();
    let (uid, version) = ("u".into(), "7".into());
    let data = QuotaDeclared { uid, resource_version: version, generation: 1, spec };
    let data = Data::QuotaDeclared(data);
    let source = "/clusters/east";
    let id = ident::fact(source, ORIGIN, &data).unwrap_or(EventId(1));
    let (subject, time) = ("quotas/team-a".into(), ORIGIN);
    let source = source.into();
    NewEvent::new(&Event { id, source, subject, time, recorded_at: time, data }).unwrap()
}

/// A review of a Deployment that asks for six cores; `change` makes another one of it.
fn review(number: u32, change: impl FnOnce(&mut Value)) -> String {
    let text = include_str!("../../bench/webhook/deployment.json")
        .replace("REVIEW-UID", &format!("{number:08x}-0000-4000-8000-000000000001"))
        .replace("OBJECT-UID", &format!("{number:08x}-0000-4000-8000-000000000002"))
        .replace("NAME", &format!("web-{number}"));
    let mut review: Value = serde_json::from_str(&text).unwrap();
    change(&mut review["request"]);
    review.to_string()
}

/// To so many replicas, from three.
fn scaled(number: u32, replicas: u64) -> String {
    review(number, |request| {
        request["operation"] = "UPDATE".into();
        request["object"]["metadata"]["resourceVersion"] = "8".into();
        request["oldObject"] = request["object"].clone();
        request["object"]["spec"]["replicas"] = replicas.into();
    })
}

struct Asking {
    log: Arc<Away>,
    router: Router,
    registry: Registry,
}

impl Asking {
    async fn of(cores: u64, unavailable: Unavailable) -> Self {
        let (log, registry) = (Arc::new(Away::default()), Registry::new());
        let (clusters, _) = clusters(&log, cores, unavailable).await;
        let current = Arc::new(Current::default());
        current.show(Ca::new().pair());
        let metrics = Arc::new(Metrics::new(&registry).unwrap());
        Self { log, router: router(clusters, current, metrics, limits()), registry }
    }

    /// The response to a review that has a second.
    async fn ask(&self, body: String) -> Value {
        let path = "/validate/workloads/east?timeout=1s";
        let request = Request::post(path).body(Body::from(body)).unwrap();
        let response = self.router.clone().oneshot(request).await.unwrap();
        assert_eq!(response.status().as_u16(), 200);
        let text = to_bytes(response.into_body(), 1 << 20).await.unwrap();
        serde_json::from_slice::<Value>(&text).unwrap()["response"].clone()
    }

    /// How many admissions stand in the log.
    async fn admitted(&self) -> usize {
        admitted(&self.log).await
    }
}

async fn admitted(log: &Away) -> usize {
    let (mut reader, mut decoder) = (log.read(1).unwrap(), Decoder::default());
    let mut admitted = 0;
    while let Some(records) = reader.next().await.unwrap() {
        for (_, raw) in records.iter() {
            if let Ok(Decoded::Event(Event { data: Data::WorkloadsAdmitted(batch), .. })) =
                decoder.decode(&raw.scan().unwrap())
            {
                admitted += batch.admissions.len();
            }
        }
    }
    admitted
}

#[tokio::test]
async fn a_review_that_is_asked_again_gets_the_same_answer_and_one_record() {
    let asking = Asking::of(100, Unavailable::Refuse).await;
    let first = asking.ask(review(1, |_| {})).await;
    assert_eq!(first["allowed"], true, "{first}");
    assert_eq!(first["auditAnnotations"]["position"], "2");
    assert_eq!(asking.ask(review(1, |_| {})).await, first);
    assert_eq!(asking.admitted().await, 1);
}

/// Kubernetes 1.20 asks a second time about an update that was refused, under another uid.
#[tokio::test]
async fn the_second_call_after_a_denial_gets_the_same_answer_and_leaves_no_record() {
    let asking = Asking::of(6, Unavailable::Refuse).await;
    let call = |uid: &'static str| {
        let mut review: Value = serde_json::from_str(&scaled(1, 9)).unwrap();
        review["request"]["uid"] = uid.into();
        asking.ask(review.to_string())
    };
    let (first, mut second) = (call("first").await, call("second").await);
    assert_eq!(first["auditAnnotations"]["reason"], "QuotaExceeded", "{first}");
    assert_eq!(first["auditAnnotations"]["group"], "team-a");
    assert_eq!(second["uid"].take(), "second");
    second["uid"] = "first".into();
    assert_eq!(second, first);
    assert_eq!(asking.admitted().await, 0);
}

#[tokio::test]
async fn a_dry_run_is_decided_and_writes_nothing() {
    let asking = Asking::of(6, Unavailable::Refuse).await;
    let dry = |number| review(number, |request| request["dryRun"] = true.into());
    for number in [1, 2] {
        let answer = asking.ask(dry(number)).await;
        assert_eq!((&answer["allowed"], asking.admitted().await), (&json!(true), 0), "{answer}");
    }
    assert_eq!(asking.ask(review(3, |_| {})).await["allowed"], true);
    let answer = asking.ask(dry(4)).await;
    assert_eq!((&answer["allowed"], asking.admitted().await), (&json!(false), 1), "{answer}");
}

#[tokio::test]
async fn without_the_log_what_lets_nothing_grow_is_allowed_and_growth_is_refused_in_time() {
    let asking = Asking::of(100, Unavailable::Refuse).await;
    asking.log.is_away.store(true, Ordering::Relaxed);
    let began = Instant::now();
    for body in [
        scaled(1, 1),
        scaled(1, 3),
        review(1, |request| {
            request["operation"] = "DELETE".into();
            request["oldObject"] = request["object"].take();
        }),
    ] {
        let answer = asking.ask(body).await;
        assert_eq!(answer["allowed"], true, "{answer}");
    }
    for body in [review(2, |_| {}), scaled(3, 4)] {
        let answer = asking.ask(body).await;
        assert_eq!(answer["allowed"], false, "{answer}");
        assert_eq!(answer["status"]["code"], 503);
        assert_eq!(answer["auditAnnotations"]["reason"], "LogUnavailable");
    }
    assert!(began.elapsed() < PATIENCE);
    assert_eq!(asking.admitted().await, 0);
}

#[tokio::test]
async fn without_the_log_growth_is_admitted_unreviewed_where_the_operator_says_so() {
    let asking = Asking::of(100, Unavailable::Admit).await;
    asking.log.is_away.store(true, Ordering::Relaxed);
    let answer = asking.ask(review(1, |_| {})).await;
    assert_eq!(answer["allowed"], true, "{answer}");
    assert_eq!(answer["auditAnnotations"]["reason"], "Unreviewed");
    let warning = answer["warnings"][0].as_str().unwrap();
    assert!(warning.contains("without a review"), "{warning}");
    let families = asking.registry.gather();
    let counted = families.iter().flat_map(|f| f.get_metric()).any(|metric| {
        let is = metric.get_label().iter().any(|label| label.value() == "Unreviewed");
        is && metric.get_counter().get_value() == 1.0
    });
    assert!(counted, "nobody can see that it was admitted unreviewed");
}

#[tokio::test]
async fn what_is_no_review_is_told_so() {
    let asking = Asking::of(100, Unavailable::Refuse).await;
    for body in ["", "{}", "[]", "{\"kind\":\"AdmissionReview\"}", &"{\"request\":".repeat(9999)] {
        let request = Request::post("/validate/workloads/east").body(Body::from(body.to_owned()));
        let response = asking.router.clone().oneshot(request.unwrap()).await.unwrap();
        assert_eq!(response.status().as_u16(), 400, "{:.40}", body);
    }
}

/// As many are admitted as fit, however they arrive, and each is told what is true.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_reviews_at_once_are_all_answered_in_time_and_none_is_wrong() {
    const FIT: usize = 600;
    let log = Arc::new(Away::default());
    let (clusters, _) = clusters(&log, 6 * FIT as u64, Unavailable::Refuse).await;
    let served = Served::start_with(clusters, limits());
    let gate = Arc::new(Semaphore::new(0));
    let mut asked = Vec::new();
    for connection in 0..20 {
        // Clones of a client share its connection: fifty reviews are on their way on each.
        let client = served.http2().await;
        for n in 0..50 {
            let (mut client, gate) = (client.clone_http2(), Arc::clone(&gate));
            asked.push(tokio::spawn(async move {
                let number = connection * 50 + n;
                let body = review(number, |_| {});
                let _open = gate.acquire().await.unwrap();
                let answer = client.review(body.into_bytes()).await.unwrap();
                assert_eq!(answer.status.as_u16(), 200, "{}", answer.text);
                assert!(answer.uid().starts_with(&format!("{number:08x}")), "{}", answer.text);
                serde_json::from_str::<Value>(&answer.text).unwrap()["response"].clone()
            }));
        }
    }
    gate.add_permits(1000);
    let mut allowed = 0;
    for asked in asked {
        let answer = tokio::time::timeout(PATIENCE, asked).await.unwrap().unwrap();
        if answer["allowed"] == true {
            allowed += 1;
        } else {
            assert_eq!(answer["auditAnnotations"]["reason"], "QuotaExceeded", "{answer}");
        }
    }
    assert_eq!((allowed, admitted(&log).await), (FIT, FIT));
    served.stop().await;
}
