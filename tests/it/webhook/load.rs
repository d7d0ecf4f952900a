//! Many at once; certificates that change meanwhile; an end in stages.

use super::{
    client::{Client, PATIENCE},
    served::{Served, Yes, held_review, limits, review},
};
use bizrq::webhook::server::Limits;
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};
use tokio::time::{sleep, timeout};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rotation_under_load_drops_no_request() {
    let served = Arc::new(Served::start(limits()));
    let (stop, asked) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let mut clients = Vec::new();
    for n in 0..8 {
        let (served, stop, asked) = (Arc::clone(&served), Arc::clone(&stop), Arc::clone(&asked));
        clients.push(tokio::spawn(async move {
            // Half of them keep their connection, half make a new one for each review.
            let mut kept = served.http2().await;
            let mut i = 0;
            while !stop.load(Ordering::Relaxed) {
                let uid = format!("{n}-{i}");
                let answer = match n % 2 {
                    0 => kept.review(review(&uid)).await,
                    _ => served.http1().await.review(review(&uid)).await,
                };
                assert_eq!(answer.expect("a request was dropped").uid(), uid);
                asked.fetch_add(1, Ordering::Relaxed);
                i += 1;
            }
        }));
    }
    for _ in 0..20 {
        let before = asked.load(Ordering::Relaxed);
        served.current.show(served.ca.pair());
        let go_on = async {
            while asked.load(Ordering::Relaxed) < before + 16 {
                sleep(Duration::from_millis(1)).await;
            }
        };
        timeout(PATIENCE, go_on).await.expect("nobody is answered any more");
    }
    stop.store(true, Ordering::Relaxed);
    for client in clients {
        client.await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_end_answers_what_was_asked_and_takes_nothing_new() {
    let yes = Yes::default();
    let limits = Limits { notice: Duration::from_secs(3), ..limits() };
    let served = Served::start_with(yes.clone(), limits);
    let (address, ca) = (served.address, served.ca.0.certificate.clone());
    let mut ready = served.http2().await;
    assert_eq!(ready.get("/readyz").await.unwrap().status.as_u16(), 200);
    let mut waiting = served.http2().await;
    let asked = tokio::spawn(async move { waiting.review(held_review("late")).await });
    yes.holds(1).await;
    let ended = served.begin_to_stop();
    // First it says so, and still answers, until nobody is sent here any more.
    let unready = async {
        while ready.get("/readyz").await.unwrap().status.as_u16() == 200 {
            sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(PATIENCE, unready).await.unwrap();
    assert_eq!(ready.review(review("still")).await.unwrap().uid(), "still");
    let closed = async {
        while Client::connect(address, &ca, b"h2").await.is_ok() {
            sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(PATIENCE, closed).await.expect("newcomers are still taken");
    yes.release(1);
    assert_eq!(asked.await.unwrap().unwrap().uid(), "late");
    timeout(PATIENCE, ended).await.unwrap().unwrap().unwrap();
    assert!(!ready.is_open().await);
}
