//! Candidates for one Lease, with an API server that is slow, silent or away, in simulated time.

use super::{Candidate, Timing};
use crate::domain::time::ORIGIN;
use hyper::{Method, Request, Response};
use kube::{Client, client::Body};
use serde_json::{Value, json};
use std::{
    convert::Infallible,
    sync::{Arc, Mutex},
    time::Duration,
};
use tokio::{
    sync::{oneshot, watch},
    time::{Instant, sleep},
};

/// One Lease, and whether anybody is answered.
#[derive(Clone, Default)]
struct Api(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    lease: Option<Value>,
    version: u64,
    /// Requests of these are never answered.
    silent_for: Vec<String>,
}

impl Api {
    fn client(&self, who: &str) -> Client {
        let (api, who) = (self.clone(), who.to_owned());
        let service = tower::service_fn(move |request: Request<Body>| {
            let (api, who) = (api.clone(), who.clone());
            async move {
                let (head, body) = request.into_parts();
                let body = http_body_util::BodyExt::collect(body).await.unwrap().to_bytes();
                if api.0.lock().unwrap().silent_for.contains(&who) {
                    std::future::pending::<()>().await;
                }
                let body = serde_json::from_slice(&body).unwrap_or(Value::Null);
                let (status, said) = api.0.lock().unwrap().answer(&head.method, body);
                let said = Body::from(said.to_string().into_bytes());
                Ok::<_, Infallible>(Response::builder().status(status).body(said).unwrap())
            }
        });
        Client::new(service, "bizrq")
    }

    fn holder(&self) -> String {
        let state = self.0.lock().unwrap();
        let lease = state.lease.as_ref();
        lease.map_or("", |l| l["spec"]["holderIdentity"].as_str().unwrap()).to_owned()
    }

    fn silence(&self, who: &[&str]) {
        self.0.lock().unwrap().silent_for = who.iter().map(|w| (*w).to_owned()).collect();
    }

    fn candidate(&self, who: &'static str) -> Running {
        let candidate =
            Candidate::new(self.client(who), "bizrq", "east", who, Timing::default(), || ORIGIN);
        let (sender, leads) = watch::channel(false);
        let (end, ended) = oneshot::channel::<()>();
        tokio::spawn(async move { candidate.run(&sender, ended, |_| {}).await });
        Running { leads, end }
    }
}

impl State {
    fn answer(&mut self, method: &Method, mut body: Value) -> (u16, Value) {
        let no = |code: u16, reason: &str| {
            (code, json!({"kind": "Status", "status": "Failure", "reason": reason, "code": code}))
        };
        match (method.as_str(), &self.lease) {
            ("GET", Some(lease)) => return (200, lease.clone()),
            ("GET", None) => return no(404, "NotFound"),
            ("POST", Some(_)) => return no(409, "Conflict"),
            ("PUT", Some(lease))
                if lease["metadata"]["resourceVersion"] != body["metadata"]["resourceVersion"] =>
            {
                return no(409, "Conflict");
            }
            _ => {}
        }
        self.version += 1;
        body["metadata"]["resourceVersion"] = self.version.to_string().into();
        self.lease = Some(body.clone());
        (200, body)
    }
}

struct Running {
    leads: watch::Receiver<bool>,
    end: oneshot::Sender<()>,
}

impl Running {
    fn leads(&self) -> bool {
        *self.leads.borrow()
    }

    async fn until(&mut self, leads: bool) -> Duration {
        let begun = Instant::now();
        self.leads.wait_for(|now| *now == leads).await.unwrap();
        begun.elapsed()
    }
}

const SECOND: Duration = Duration::from_secs(1);

#[tokio::test(start_paused = true)]
async fn one_of_several_leads_and_goes_on_leading() {
    let api = Api::default();
    let all = ["a", "b", "c"].map(|who| api.candidate(who));
    for _ in 0..300 {
        sleep(SECOND).await;
        assert_eq!(all.iter().filter(|one| one.leads()).count(), 1);
    }
    let lease = api.0.lock().unwrap().lease.clone().unwrap();
    assert_eq!(lease["spec"]["leaseTransitions"], 1);
    assert_eq!(lease["spec"]["leaseDurationSeconds"], 15);
}

#[tokio::test(start_paused = true)]
async fn whoever_ends_gives_the_lease_back_at_once() {
    let api = Api::default();
    let mut first = api.candidate("a");
    first.until(true).await;
    let mut second = api.candidate("b");
    sleep(20 * SECOND).await;
    assert!(!second.leads());
    first.end.send(()).unwrap();
    assert!(second.until(true).await <= 3 * SECOND);
    assert_eq!(api.holder(), "b");
    let lease = api.0.lock().unwrap().lease.clone().unwrap();
    assert_eq!(lease["spec"]["leaseTransitions"], 2);
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_is_cut_off_stops_before_anybody_follows() {
    let api = Api::default();
    let mut first = api.candidate("a");
    first.until(true).await;
    let mut second = api.candidate("b");
    sleep(20 * SECOND).await;
    api.silence(&["a"]);
    let stopped = first.until(false).await;
    assert!(stopped <= 10 * SECOND, "{stopped:?}");
    assert!(!second.leads(), "nobody follows yet");
    let followed = second.until(true).await;
    assert!(followed >= 2 * SECOND, "{followed:?}");
    // Back again, it waits its turn.
    api.silence(&[]);
    sleep(60 * SECOND).await;
    assert!(!first.leads() && second.leads());
}

#[tokio::test(start_paused = true)]
async fn an_api_server_that_is_away_for_a_moment_changes_nothing() {
    let api = Api::default();
    let mut first = api.candidate("a");
    first.until(true).await;
    let second = api.candidate("b");
    for _ in 0..5 {
        api.silence(&["a", "b"]);
        sleep(5 * SECOND).await;
        assert!(first.leads());
        api.silence(&[]);
        sleep(5 * SECOND).await;
        assert!(first.leads() && !second.leads());
    }
}

#[tokio::test(start_paused = true)]
async fn a_lease_whose_holder_is_gone_is_free_once_it_stood_still_before_our_eyes() {
    let api = Api::default();
    // By its own words it was renewed long ago, or far ahead: no word of it counts.
    for renewed in ["1999-01-01T00:00:00.000000Z", "2099-01-01T00:00:00.000000Z"] {
        api.0.lock().unwrap().lease = Some(json!({
            "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
            "metadata": {"name": "east", "resourceVersion": "old"},
            "spec": {"holderIdentity": "gone", "leaseDurationSeconds": 20, "renewTime": renewed},
        }));
        let mut first = api.candidate("a");
        let waited = first.until(true).await;
        assert!((20 * SECOND..=24 * SECOND).contains(&waited), "{waited:?}");
        first.end.send(()).unwrap();
        sleep(SECOND).await;
    }
}
