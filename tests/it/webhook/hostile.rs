//! Clients that are slow, silent, greedy or confused, and one beside them that is answered all the same.

use super::{
    client::{PATIENCE, request, tls},
    served::{Served, Yes, held_review, limits, review},
};
use axum::body::Body;
use bizrq::webhook::server::Limits;
use futures_util::{StreamExt, stream};
use std::{convert::Infallible, time::Duration};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::{sleep, timeout},
};

/// A bound that a test waits for.
const SHORT: Duration = Duration::from_millis(300);

/// Another client is answered.
async fn others_are_answered(served: &Served) {
    let answer = served.http2().await.review(review("other")).await.unwrap();
    assert_eq!((answer.status.as_u16(), answer.uid()), (200, "other".to_owned()));
}

/// The server ends the connection.
async fn is_ended(mut stream: impl AsyncReadExt + Unpin) {
    let mut said = Vec::new();
    let ended = timeout(PATIENCE, stream.read_to_end(&mut said)).await;
    assert!(ended.is_ok(), "the server keeps the connection");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_head_that_drips_ends_the_connection_and_holds_nobody_up() {
    let served = Served::start(Limits { head: SHORT, ..limits() });
    let mut slow = tls(served.address, &served.ca.0.certificate, b"http/1.1").await.unwrap();
    slow.write_all(b"POST /validate/workloads/east HTTP/1.1\r\nhost: local").await.unwrap();
    others_are_answered(&served).await;
    let dripping = async {
        while slow.write_all(b"h").await.is_ok() && slow.flush().await.is_ok() {
            sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(PATIENCE, dripping).await.expect("a head that drips is waited for");
    served.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn half_a_body_is_given_up_and_holds_nobody_up() {
    let served = Served::start(Limits { body: SHORT, ..limits() });
    for http in ["1.1", "2"] {
        let mut client = if http == "2" { served.http2().await } else { served.http1().await };
        let half = stream::iter([Ok::<_, Infallible>("{\"request\":")]).chain(stream::pending());
        let asked = request("POST", "/validate/workloads/east", Body::from_stream(half));
        let (answer, ()) = tokio::join!(client.send(asked), others_are_answered(&served));
        assert_eq!(answer.unwrap().status.as_u16(), 408, "HTTP/{http}");
    }
    assert!(served.turned_away("Slow") >= 2.0);
    served.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_giant_body_is_refused_before_it_is_read() {
    let served = Served::start(limits());
    let mut slow = tls(served.address, &served.ca.0.certificate, b"http/1.1").await.unwrap();
    let head = "POST /validate/workloads/east HTTP/1.1\r\nhost: localhost\r\n\
                content-length: 99999999999\r\n\r\n";
    slow.write_all(head.as_bytes()).await.unwrap();
    let mut said = [0; 12];
    timeout(PATIENCE, slow.read_exact(&mut said)).await.unwrap().unwrap();
    assert_eq!(&said, b"HTTP/1.1 413");

    let mut client = served.http2().await;
    let endless = stream::repeat_with(|| Ok::<_, Infallible>(vec![b' '; 64 << 10]));
    let asked = request("POST", "/validate/workloads/east", Body::from_stream(endless));
    let (answer, ()) = tokio::join!(client.send(asked), others_are_answered(&served));
    // The server may end the stream while the client still sends.
    assert!(answer.is_err() || answer.is_ok_and(|answer| answer.status.as_u16() == 413));
    assert!(served.turned_away("TooLarge") >= 2.0);
    served.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn plaintext_and_noise_on_the_tls_port_end_the_connection() {
    let served = Served::start(Limits { handshake: SHORT, ..limits() });
    for said in [
        &b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n"[..],
        b"\x16\x03\x01",
        b"",
        &[0xff; 999],
    ] {
        let mut stream = TcpStream::connect(served.address).await.unwrap();
        stream.write_all(said).await.unwrap();
        is_ended(stream).await;
    }
    others_are_answered(&served).await;
    served.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn idle_connections_keep_no_newcomer_out() {
    let served = Served::start(Limits { connections: 16, ..limits() });
    let mut idle = Vec::new();
    for n in 0..100 {
        // Raw ones that never say a word, and ones that shook hands.
        if n % 2 == 0 {
            idle.push(TcpStream::connect(served.address).await.unwrap());
        } else {
            let shaken = tls(served.address, &served.ca.0.certificate, b"h2").await;
            idle.push(shaken.unwrap().into_inner().0);
        }
        if n % 10 == 0 {
            others_are_answered(&served).await;
        }
    }
    assert!(served.turned_away("Silent") >= 84.0, "{}", served.turned_away("Silent"));
    served.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_waits_for_an_answer_keeps_its_connection() {
    let yes = Yes::default();
    let served = Served::start_with(yes.clone(), Limits { connections: 4, ..limits() });
    let mut waiting = Vec::new();
    for n in 0..4 {
        let mut client = served.http1().await;
        let uid = format!("waits-{n}");
        waiting.push(tokio::spawn(async move {
            let answer = client.review(held_review(&uid)).await;
            (uid, answer)
        }));
        yes.holds(n + 1).await;
    }
    let newcomer = tls(served.address, &served.ca.0.certificate, b"http/1.1").await;
    assert!(newcomer.is_err(), "every place is used");
    yes.release(4);
    for waiting in waiting {
        let (uid, answer) = waiting.await.unwrap();
        assert_eq!(answer.unwrap().uid(), uid);
    }
    assert_eq!(served.turned_away("Full"), 1.0);
    others_are_answered(&served).await;
    served.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn silence_ends_a_connection_of_http_2() {
    let served = Served::start(Limits { silence: SHORT, ..limits() });
    let mut stream = tls(served.address, &served.ca.0.certificate, b"h2").await.unwrap();
    stream.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").await.unwrap();
    is_ended(stream).await;
    others_are_answered(&served).await;
    served.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn too_many_reviews_at_once_are_told_to_come_again() {
    let yes = Yes::default();
    let served = Served::start_with(yes.clone(), Limits { reviews: 1, ..limits() });
    let (mut first, mut second) = (served.http2().await, served.http2().await);
    let waiting = tokio::spawn(async move { first.review(held_review("first")).await });
    yes.holds(1).await;
    let answer = second.review(review("second")).await.unwrap();
    assert_eq!((answer.status.as_u16(), answer.retry_after.as_deref()), (503, Some("1")));
    yes.release(1);
    assert_eq!(waiting.await.unwrap().unwrap().uid(), "first");
    assert_eq!(second.review(review("second")).await.unwrap().uid(), "second");
    served.stop().await;
}
