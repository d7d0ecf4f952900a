//! What stands, told to Alertmanagers by their API v2: all of it again every minute, since an Alertmanager forgets what
//! is not repeated; and what is over, once. Whoever leads does it, and stops when another does.

use super::notice::{Notice, Told, Topic};
use axum::body::{Body, to_bytes};
use hyper::{Request, Uri, client::conn::http1, header};
use hyper_util::rt::TokioIo;
use serde::Serialize;
use std::{
    collections::{BTreeMap, BTreeSet},
    future::Future,
    pin::pin,
    time::Duration,
};
use tokio::{
    net::TcpStream,
    sync::watch,
    time::{sleep, timeout},
};

/// What stands is told again this often.
const REPEAT: Duration = Duration::from_secs(60);
/// An Alertmanager that hears nothing for so many milliseconds takes an alert for over: four repetitions.
const HOLDS: i64 = 4 * 60_000;
/// What comes within this time is told together.
const GATHER: Duration = Duration::from_millis(200);
/// An answer that takes longer does not come.
const PATIENCE: Duration = Duration::from_secs(10);
/// Alerts of one request: about half a megabyte.
const BATCH: usize = 1_000;
/// Bytes of an answer that are read.
const ANSWER: usize = 4_096;

/// An alert as the API wants it.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Alert {
    labels: BTreeMap<&'static str, String>,
    annotations: BTreeMap<&'static str, String>,
    starts_at: String,
    ends_at: String,
}

/// Tells the Alertmanagers at `urls` what `told` says stands, until `end` comes true. `failed` hears what went wrong.
pub async fn run(
    urls: Vec<Uri>,
    told: watch::Receiver<Option<Told>>,
    now: fn() -> crate::domain::time::Timestamp,
    end: impl Future,
    failed: impl Fn(&str),
) {
    let mut end = pin!(end);
    let each = urls.iter().map(|url| one(url, told.clone(), now, &failed));
    let all = futures_util::future::join_all(each);
    tokio::select! {
        _ = &mut end => {}
        _ = all => {}
    }
}

/// One of them: those of a cluster tell each other, but not what they were never told.
async fn one(
    url: &Uri,
    mut told: watch::Receiver<Option<Told>>,
    now: fn() -> crate::domain::time::Timestamp,
    failed: &impl Fn(&str),
) {
    let (mut open, mut failing) = (BTreeSet::new(), String::new());
    loop {
        let alerts = {
            let told = told.borrow_and_update();
            told.as_ref().map(|told| alerts(told, &mut open, now()))
        };
        // Who does not lead tells nothing, and knows nothing of what was told.
        let Some(alerts) = alerts else {
            open.clear();
            if told.changed().await.is_err() {
                return std::future::pending().await;
            }
            continue;
        };
        let mut is_told = true;
        for batch in alerts.chunks(BATCH) {
            let posted = timeout(PATIENCE, post(url, batch)).await;
            if let Err(why) = posted.unwrap_or_else(|_| Err("no answer in time".to_owned())) {
                is_told = false;
                if why != failing {
                    failed(&format!("{url}: {why}"));
                    failing = why;
                }
                break;
            }
        }
        if is_told {
            failing.clear();
        }
        tokio::select! {
            changed = told.changed() => match changed {
                Ok(()) => sleep(GATHER).await,
                Err(_) => return std::future::pending().await,
            },
            () = sleep(REPEAT) => {}
        }
    }
}

/// What stands, and what of `open` (told before as standing) is over; `open` is what stands from now on.
fn alerts(
    told: &Told,
    open: &mut BTreeSet<Topic>,
    now: crate::domain::time::Timestamp,
) -> Vec<Alert> {
    let standing: BTreeMap<_, _> = told.standing().map(|(_, n)| (n.topic, n)).collect();
    let over = open.iter().filter(|topic| !standing.contains_key(topic));
    let over = over.filter_map(|topic| told.of(topic.scope)?.get(&topic.what));
    let mut alerts: Vec<_> = over.map(|notice| alert(notice, now.to_string())).collect();
    let until = now.shifted(HOLDS).to_string();
    alerts.extend(standing.values().map(|notice| alert(notice, until.clone())));
    // What could not be told as over runs out by itself.
    *open = standing.into_keys().collect();
    alerts
}

fn alert(notice: &Notice, ends_at: String) -> Alert {
    let name = notice.topic.what.alert();
    let mut labels = BTreeMap::from([
        ("alertname", name.to_owned()),
        ("severity", notice.topic.what.severity().to_owned()),
        ("topic", notice.topic.to_string()),
    ]);
    let threshold = notice.threshold.map(|threshold| threshold.to_string()).unwrap_or_default();
    let named = [("group", &notice.group), ("key", &notice.key), ("threshold", &threshold)];
    labels.extend(named.into_iter().filter(|(_, v)| !v.is_empty()).map(|(k, v)| (k, v.clone())));
    Alert {
        labels,
        annotations: BTreeMap::from([
            ("summary", notice.message.clone()),
            ("position", notice.position.to_string()),
        ]),
        starts_at: notice.at.to_string(),
        ends_at,
    }
}

async fn post(url: &Uri, alerts: &[Alert]) -> Result<(), String> {
    let authority = url.authority().ok_or("the address names no host")?;
    let port = authority.port_u16().unwrap_or(80);
    let host = authority.host().trim_matches(['[', ']']);
    let stream = TcpStream::connect((host, port)).await.map_err(|error| error.to_string())?;
    let connected = http1::handshake(TokioIo::new(stream)).await;
    let (mut sender, connection) = connected.map_err(|error| error.to_string())?;
    let body = serde_json::to_vec(alerts).map_err(|error| error.to_string())?;
    let path = format!("{}/api/v2/alerts", url.path().trim_end_matches('/'));
    let request = Request::post(path)
        .header(header::HOST, authority.as_str())
        .header(header::CONTENT_TYPE, "application/json")
        .header(header::CONNECTION, "close")
        .body(Body::from(body))
        .map_err(|error| error.to_string())?;
    let asking = async {
        let response = sender.send_request(request).await.map_err(|error| error.to_string())?;
        let status = response.status();
        if status.is_success() {
            return Ok(());
        }
        let said = to_bytes(Body::new(response.into_body()), ANSWER).await.unwrap_or_default();
        Err(format!("{status}: {}", String::from_utf8_lossy(&said).trim()))
    };
    // The connection moves only while somebody looks after it.
    let (mut asking, mut connection) = (pin!(asking), pin!(connection));
    tokio::select! {
        answer = &mut asking => answer,
        ended = &mut connection => match ended {
            Ok(()) => asking.await,
            Err(error) => Err(error.to_string()),
        },
    }
}
