//! Events of notices, as an API server gets them: each once, again after a failure, none for what is refused.

use crate::nats::notices::notice;
use bizrq::{
    clock,
    notify::{
        events,
        notice::{Notice, Told},
    },
};
use hyper::{Method, Request, Response, StatusCode};
use kube::client::Body;
use serde_json::{Value, json};
use std::{
    convert::Infallible,
    sync::{Arc, Mutex},
    time::Duration,
};
use tokio::sync::{oneshot, watch};

/// What was asked to be made, and the codes that are answered first.
#[derive(Clone, Default)]
struct Server(Arc<Mutex<(Vec<Value>, Vec<u16>)>>);

impl Server {
    fn client(&self) -> kube::Client {
        let server = self.clone();
        let answer = move |request: Request<Body>| {
            let server = server.clone();
            async move {
                assert_eq!(request.method(), Method::POST);
                let path = request.uri().path().to_owned();
                assert_eq!(path, "/api/v1/namespaces/default/events");
                let body = request.into_body().collect_bytes().await.unwrap();
                Ok::<_, Infallible>(server.make(serde_json::from_slice(&body).unwrap()))
            }
        };
        kube::Client::new(tower::service_fn(answer), "default")
    }

    fn make(&self, event: Value) -> Response<Body> {
        let mut state = self.0.lock().unwrap();
        let (made, codes) = &mut *state;
        let name = event["metadata"]["name"].clone();
        let stands = made.iter().any(|made| made["metadata"]["name"] == name);
        let code = match codes.is_empty() {
            false => codes.remove(0),
            true if stands => 409,
            true => 201,
        };
        let body = match code {
            201 => {
                made.push(event.clone());
                event
            }
            code => json!({"kind": "Status", "apiVersion": "v1", "status": "Failure",
                "message": format!("answer {code}"), "reason": "x", "code": code}),
        };
        let body = Body::from(body.to_string().into_bytes());
        Response::builder().status(StatusCode::from_u16(code).unwrap()).body(body).unwrap()
    }

    fn reasons(&self) -> Vec<String> {
        let made = &self.0.lock().unwrap().0;
        made.iter().map(|event| event["reason"].as_str().unwrap().to_owned()).collect()
    }
}

/// One that is told now.
fn fresh(percent: u16, number: u64) -> Notice {
    Notice { at: clock::now(), group: "team".to_owned(), ..notice(percent, number) }
}

struct Running {
    told: watch::Sender<Option<Told>>,
    failures: Arc<Mutex<Vec<String>>>,
    end: oneshot::Sender<()>,
    task: tokio::task::JoinHandle<()>,
}

fn start(server: &Server) -> Running {
    let (told, seen) = watch::channel(None);
    let (end, ended) = oneshot::channel();
    let failures = Arc::<Mutex<Vec<String>>>::default();
    let (client, heard) = (server.client(), Arc::clone(&failures));
    let task = tokio::spawn(async move {
        let failed = |why: &str| heard.lock().unwrap().push(why.to_owned());
        events::run(client, "replica".into(), seen, clock::now, ended, failed).await;
    });
    Running { told, failures, end, task }
}

impl Running {
    fn tell(&self, notice: Notice) {
        self.told.send_modify(|told| told.get_or_insert_default().note(notice));
    }

    async fn finish(self) -> Vec<String> {
        self.end.send(()).unwrap();
        self.task.await.unwrap();
        self.failures.lock().unwrap().clone()
    }
}

async fn until(what: &str, is_so: impl Fn() -> bool) {
    for _ in 0..3_000 {
        if is_so() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("not so: {what}");
}

#[tokio::test]
async fn each_notice_is_one_event_whoever_leads() {
    let server = Server::default();
    let first = start(&server);
    // What is told already when it begins, and what comes.
    first.tell(fresh(50, 1));
    until("the first is there", || server.reasons().len() == 1).await;
    first.tell(fresh(80, 1));
    until("the second is there", || server.reasons().len() == 2).await;
    assert!(first.finish().await.is_empty());
    let second = start(&server);
    for notice in [fresh(50, 1), fresh(80, 1), fresh(90, 1)] {
        second.tell(notice);
    }
    let old = Notice { at: clock::now().shifted(-86_400_000), ..fresh(91, 1) };
    second.tell(old);
    until("only what is new", || server.reasons().len() == 3).await;
    assert!(second.finish().await.is_empty(), "that it is there already is no failure");
    assert_eq!(server.reasons(), ["CashThreshold"; 3]);
    let made = server.0.lock().unwrap().0.clone();
    assert_eq!(made[0]["involvedObject"]["name"], "team");
    assert_eq!(made[0]["involvedObject"]["kind"], "BizGroupResourceQuota");
    assert_eq!(made[0]["involvedObject"]["uid"], "uid");
    assert_eq!(made[0]["metadata"]["name"], format!("team.{}", notice(50, 1).id));
}

#[tokio::test]
async fn what_is_refused_holds_up_nothing_and_what_failed_is_tried_again() {
    let server = Server::default();
    server.0.lock().unwrap().1 = vec![403, 500];
    let running = start(&server);
    let mut told = Told::default();
    [fresh(50, 1), fresh(80, 1)].into_iter().for_each(|notice| told.note(notice));
    running.told.send_replace(Some(told));
    until("the second is there", || server.reasons().len() == 1).await;
    let failures = running.finish().await;
    assert_eq!(failures.len(), 2, "{failures:?}");
    assert!(
        failures[0].contains("answer 403") && failures[1].contains("answer 500"),
        "{failures:?}"
    );
}
