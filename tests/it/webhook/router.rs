//! What each request is answered, without a socket.

use super::served::{Ca, Yes, limits, review, slow_review};
use axum::body::{Body, to_bytes};
use bizrq::webhook::{
    metrics::Metrics,
    server::{Limits, Readiness, router},
    tls::Current,
};
use hyper::{Request, StatusCode};
use prometheus::Registry;
use std::{sync::Arc, time::Duration};
use tower::ServiceExt;

struct Asked {
    reviews: Yes,
    limits: Limits,
    has_certificate: bool,
}

impl Default for Asked {
    fn default() -> Self {
        Self { reviews: Yes::default(), limits: limits(), has_certificate: true }
    }
}

impl Asked {
    async fn ask(self, method: &str, path: &str, body: Vec<u8>) -> (StatusCode, String) {
        let current = Arc::new(Current::default());
        if self.has_certificate {
            current.show(Ca::new().pair());
        }
        let metrics = Arc::new(Metrics::new(&Registry::new()).unwrap());
        let router = router(self.reviews, current, metrics, self.limits);
        let request = Request::builder().method(method).uri(path).body(Body::from(body)).unwrap();
        let response = router.oneshot(request).await.unwrap();
        let status = response.status();
        let text = to_bytes(response.into_body(), 1 << 20).await.unwrap();
        (status, String::from_utf8(text.to_vec()).unwrap())
    }
}

#[tokio::test]
async fn every_request_has_its_answer() {
    let deep = "[".repeat(100_000);
    let table: &[(&str, &str, &[u8], u16, &str)] = &[
        ("POST", "/validate/workloads/east", &review("u"), 200, "Workloads of east"),
        ("POST", "/validate/quotas/east?timeout=5s", &review("u"), 200, "Quotas of east"),
        (
            "POST",
            "/validate/workloads/west",
            &review("u"),
            404,
            "cluster `west` is not served here",
        ),
        ("POST", "/validate/workloads/", &review("u"), 404, ""),
        ("POST", "/validate/pods/east", &review("u"), 404, ""),
        ("GET", "/validate/workloads/east", b"", 405, ""),
        ("POST", "/healthz", b"", 405, ""),
        ("POST", "/validate/workloads/east", b"", 400, "this is no AdmissionReview"),
        ("POST", "/validate/workloads/east", b"{\"request\":{}}", 400, "request.uid is missing"),
        ("POST", "/validate/workloads/east", b"\xff\xfe", 400, "this is no AdmissionReview"),
        ("POST", "/validate/workloads/east", deep.as_bytes(), 400, "recursion limit"),
        ("GET", "/healthz", b"", 200, "ok"),
        ("GET", "/readyz", b"", 200, "ready"),
    ];
    for (method, path, body, status, text) in table {
        let (got, said) = Asked::default().ask(method, path, body.to_vec()).await;
        assert_eq!(got.as_u16(), *status, "{method} {path}: {said}");
        assert!(said.contains(text), "{method} {path}: {said}");
    }
}

#[tokio::test]
async fn what_is_larger_than_any_review_is_turned_away() {
    let limits = Limits { body_bytes: 1000, ..limits() };
    let body = vec![b' '; 1001];
    let asked = Asked { limits, ..Asked::default() };
    let (status, text) = asked.ask("POST", "/validate/workloads/east", body).await;
    assert_eq!((status.as_u16(), &*text), (413, "a review has at most 1000 bytes\n"));
}

#[tokio::test]
async fn it_is_ready_when_it_has_caught_up_and_has_a_certificate_whose_time_is_now() {
    let catching_up =
        Yes { readiness: Readiness::CatchingUp("position 7 of 9".into()), ..Yes::default() };
    let asked = Asked { reviews: catching_up.clone(), ..Asked::default() };
    let (status, text) = asked.ask("GET", "/readyz", Vec::new()).await;
    assert_eq!((status.as_u16(), &*text), (503, "not ready: position 7 of 9\n"));

    let asked = Asked { has_certificate: false, ..Asked::default() };
    let (status, text) = asked.ask("GET", "/readyz", Vec::new()).await;
    assert_eq!(status.as_u16(), 503);
    assert!(text.contains("certificate"), "{text}");

    // By a ledger that has not caught up nothing may be decided.
    let asked = Asked { reviews: catching_up, ..Asked::default() };
    let (status, text) = asked.ask("POST", "/validate/workloads/east", review("u")).await;
    assert_eq!(status.as_u16(), 503, "{text}");

    // What needs no decision is answered by a ledger that stopped, too; but others should be asked.
    let stopped = Yes { readiness: Readiness::Stopped("a newer version".into()), ..Yes::default() };
    let asked = Asked { reviews: stopped.clone(), ..Asked::default() };
    assert_eq!(asked.ask("GET", "/readyz", Vec::new()).await.0.as_u16(), 503);
    let asked = Asked { reviews: stopped, ..Asked::default() };
    let (status, _) = asked.ask("POST", "/validate/workloads/east", review("u")).await;
    assert_eq!(status.as_u16(), 200);
}

#[tokio::test(start_paused = true)]
async fn the_api_servers_own_timeout_is_the_deadline() {
    let wait = Duration::from_millis(1700);
    for (timeout, status) in [("2s", 200), ("1.8s", 504), ("1s", 504)] {
        let path = format!("/validate/workloads/east?timeout={timeout}");
        let began = tokio::time::Instant::now();
        let (got, text) = Asked::default().ask("POST", &path, slow_review("u", wait)).await;
        assert_eq!(got.as_u16(), status, "{timeout}: {text}");
        assert!(began.elapsed() <= Duration::from_millis(1800), "{timeout}");
    }
}
