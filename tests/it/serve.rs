//! `bizrq serve` as a process: asked over TLS, killed, started again, told to end.

mod alertmanager;
mod commands;
mod notices;
mod process;
mod tls;
mod usage;

use crate::api::{get_with, send};
use crate::webhook::client::{Client, PATIENCE, request};
use process::{Process, Site};
use serde_json::{Value, json};
use std::{
    collections::BTreeSet,
    io::{BufRead, BufReader},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
};

/// Cores that the group may ask for.
const HARD: usize = 30;

/// The review of a Deployment that asks for a core.
fn deployment(name: &str) -> Vec<u8> {
    let container = json!({"name": "c", "resources": {"limits": {"cpu": "1"}}});
    let object = json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {
            "name": name, "namespace": "web", "uid": format!("uid-of-{name}"),
            "labels": {"biz.group.resource.quota": "team-a"},
        },
        "spec": {"replicas": 1, "template": {"spec": {"containers": [container]}}},
    });
    let request = json!({
        "uid": format!("request-of-{name}"),
        "kind": {"group": "apps", "version": "v1", "kind": "Deployment"},
        "resource": {"group": "apps", "version": "v1", "resource": "deployments"},
        "name": name,
        "namespace": "web",
        "operation": "CREATE",
        "userInfo": {"username": "alice"},
        "object": object,
    });
    let review =
        json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request});
    review.to_string().into_bytes()
}

async fn connect(site: &Site, process: &Process) -> Client {
    Client::connect(process.webhook, &site.ca.0.certificate, b"h2").await.unwrap()
}

/// Whether the Deployment may come; `None`: the process is gone.
async fn ask(client: &mut Client, name: &str) -> Option<Value> {
    let request = request("POST", "/validate/workloads/east?timeout=30s", deployment(name).into());
    let answer = client.send(request).await.ok()?;
    let review: Value = serde_json::from_str(&answer.text).ok()?;
    Some(review["response"].clone())
}

fn is_allowed(response: &Value) -> bool {
    response["allowed"].as_bool().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reviews_are_decided_on_the_log_and_a_process_that_was_killed_goes_on_where_it_was() {
    let site = Site::new(HARD);
    let process = site.start().await;
    let mut client = connect(&site, &process).await;
    let mut told = Vec::new();
    for n in 0..20 {
        told.push(ask(&mut client, &format!("d{n}")).await.unwrap());
    }
    assert!(told.iter().all(is_allowed));
    // The quota and twenty admissions: an answer comes before the fold has read its record.
    process.wait_for_metric("bizrq_projection_position", 21);
    let root = process.metric("bizrq_projection_root_info");
    process.kill();

    let process = site.start().await;
    process.wait_for_metric("bizrq_projection_position", 21);
    assert_eq!(process.metric("bizrq_projection_root_info"), root, "the same ledger");
    let mut client = connect(&site, &process).await;
    let again = ask(&mut client, "d3").await.unwrap();
    assert_eq!(again, told[3], "what was decided is not decided again");
    let mut more = Vec::new();
    for n in 20..40 {
        more.push(ask(&mut client, &format!("d{n}")).await.unwrap());
    }
    assert_eq!(more.iter().filter(|said| is_allowed(said)).count(), HARD - 20);
    let refusal = more.last().unwrap();
    let message = refusal["status"]["message"].as_str().unwrap();
    assert!(
        message.starts_with("exceeded quota: team-a, requested: limits.cpu=1, used: limits.cpu=30"),
        "{message}"
    );
    assert_eq!(
        process.metric(
            "bizrq_admission_decisions_total{decision=\"refused\",reason=\"QuotaExceeded\"}"
        ),
        "10"
    );
    process.end();
    assert_eq!(site.admitted().await.len(), HARD);
    // The end tells the log what is not told yet.
    let refused = site.refused().await;
    assert_eq!(refused.iter().map(|(_, count)| count).sum::<u64>(), 10, "{refused:?}");
    assert!(refused.iter().all(|(name, count)| name.starts_with('d') && *count == 1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_was_told_allowed_is_on_the_log_however_the_process_ends() {
    for kills in [true, false] {
        let site = Arc::new(Site::new(100_000));
        let process = site.start().await;
        let stop = Arc::new(AtomicBool::new(false));
        let mut asking = Vec::new();
        for task in 0..4 {
            let mut client = connect(&site, &process).await;
            let stop = Arc::clone(&stop);
            asking.push(tokio::spawn(async move {
                let mut allowed = BTreeSet::new();
                for n in (0..).take_while(|_| !stop.load(Relaxed)) {
                    let name = format!("d{task}-{n}");
                    match ask(&mut client, &name).await {
                        Some(said) if is_allowed(&said) => drop(allowed.insert(name)),
                        Some(_) => {}
                        None => break,
                    }
                }
                allowed
            }));
        }
        process.wait_for_metric("bizrq_decider_batch_items_total", 50);
        // In the middle of it.
        if kills {
            process.kill()
        } else {
            process.end()
        }
        stop.store(true, Relaxed);
        let mut allowed = BTreeSet::new();
        for task in asking {
            allowed.extend(tokio::time::timeout(PATIENCE, task).await.unwrap().unwrap());
        }
        let admitted = site.admitted().await;
        let lost: Vec<_> = allowed.difference(&admitted).collect();
        assert!(lost.is_empty(), "kills {kills}: promised, and not on the log: {lost:?}");
        assert!(allowed.len() >= 50, "{}", allowed.len());
        site.verify();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_end_says_unready_first_and_a_second_start_needs_no_replay() {
    let site = Site::new(HARD);
    let process = site.start_with(&["--notice", "2"]).await;
    let mut client = connect(&site, &process).await;
    assert!(is_allowed(&ask(&mut client, "one").await.unwrap()));
    assert_eq!(process.get("/readyz").0, 200);
    assert_eq!(process.get("/healthz"), (200, "ok\n".to_owned()));
    process.signal("TERM");
    let unready = || process.get("/readyz") == (503, "not ready: shutting down\n".to_owned());
    process.wait_until("it is unready", unready);
    // Until nobody is sent here any more, it answers.
    assert!(is_allowed(&ask(&mut client, "two").await.unwrap()));
    let stages = process.finish();
    let expected = ["Accept", "Watch", "Decide", "Fold", "Lead", "Tell"];
    assert_eq!(stages, expected);

    let process = site.start().await;
    let applied = process.metric("bizrq_projection_position");
    assert_eq!(process.metric("bizrq_projection_committed_position"), applied);
    process.end();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_api_tells_what_was_decided_and_a_stream_holds_no_end_up() {
    let site = Site::new(HARD);
    let process = site.start_with(&["--api", "127.0.0.1:0", "--group-metrics", "10"]).await;
    let api = process.address("the API listens");
    let stream = BufReader::new(send(api, "/v1/events", ""));
    let mut lines = stream.lines().map_while(Result::ok);
    // The answer's head comes when it is known where the stream begins.
    assert!(lines.by_ref().any(|line| line.is_empty()));
    let mut client = connect(&site, &process).await;
    assert!(is_allowed(&ask(&mut client, "one").await.unwrap()));
    let admitted = lines.find(|line| line.contains("workloads.admitted")).unwrap();
    assert!(admitted.starts_with("data: ") && admitted.contains("\"one\""), "{admitted}");
    process.wait_until("the API has the charge", || {
        let answer = get_with(api, "/v1/quotas/team-a", "");
        assert_eq!(answer.status, 200, "{}", answer.body);
        let group: Value = serde_json::from_str(&answer.body).unwrap();
        group["keys"][0]["used"] == "1"
    });
    let shown = ["hard", "used", "left"].map(|number| {
        process.metric(&format!("bizrq_group_{number}{{group=\"team-a\",key=\"limits.cpu\"}}"))
    });
    assert_eq!(shown, ["30", "1", "29"]);
    // What anybody may make up has one name.
    get_with(api, "/v1/quotas/team-a/x", "");
    get_with(api, "/elsewhere", "");
    let answers = |route: &str, status: u16| {
        let labels = format!("{{method=\"GET\",route=\"{route}\",status=\"{status}\"}}");
        process.metric(&format!("bizrq_api_request_duration_seconds_count{labels}"))
    };
    assert_ne!(answers("/v1/quotas/{name}", 200), "0");
    assert_eq!([answers("/v1/events", 200), answers("other", 404)], ["1", "2"]);
    process.end();
    assert!(lines.any(|line| line == "data: the server ends; come again"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_role_api_alone_answers_who_asks_and_no_review() {
    let site = Site::new(HARD);
    let process = site.start_with(&["--roles", "api", "--api", "127.0.0.1:0"]).await;
    let api = process.address("the API listens");
    assert_eq!(get_with(api, "/v1/quotas/team-a", "").status, 200);
    let (_, metrics) = process.get("/metrics");
    assert!(metrics.contains("bizrq_projection_position "), "{metrics}");
    assert!(!metrics.contains("bizrq_webhook_connections"), "nobody answers reviews: {metrics}");
    assert!(!metrics.contains("team-a"), "no group is named unless it is asked for: {metrics}");
    process.end();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_process_goes_by_the_labels_that_it_was_told() {
    let site = Site::new(HARD);
    let labels = ["--label", "group=example.com/team", "--missing-group", "refuse"];
    let process = site.start_with(&labels).await;
    let mut client = connect(&site, &process).await;
    let refused = ask(&mut client, "usual").await.unwrap();
    assert_eq!(
        refused["status"]["message"],
        "Deployment `usual` names no group; label it with example.com/team: GROUP"
    );
    let review = String::from_utf8(deployment("chosen")).unwrap();
    let review = review.replace("biz.group.resource.quota", "example.com/team");
    let answer = client.review(review.into_bytes()).await.unwrap();
    let review: Value = serde_json::from_str(&answer.text).unwrap();
    assert!(is_allowed(&review["response"]), "{review}");
    process.end();
    assert_eq!(site.admitted().await.len(), 1);
}

#[test]
fn a_second_process_on_a_log_in_a_folder_is_told_who_has_it() {
    let site = Site::new(HARD);
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let process = runtime.block_on(site.start());
    let (code, said) = site.fail(&[]);
    assert_eq!(code, Some(4), "{said}");
    assert!(said.contains("is held by another"), "{said}");
    process.end();
}

#[test]
fn what_keeps_it_from_serving_is_said_with_a_remedy() {
    let site = Site::new(HARD);
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = taken.local_addr().unwrap().to_string();
    let cases: [(&[&str], i32, &str); 11] = [
        (&["--tls-dir", "/nowhere"], 3, "--tls-dir: /nowhere/tls.crt: No such file"),
        (&["--listen", &taken], 3, "give another address"),
        (&["--metrics", &taken], 3, "give another address"),
        (&["--api", &taken], 3, "give another address"),
        (&["--api", "0.0.0.0:0"], 3, "on 127.0.0.1 or [::1] only"),
        (&["--label", "cpu=a,gpu=a"], 2, "--label: `cpu=a`: it names gpu, too"),
        (&["--node-label", "group=a"], 2, "--node-label: `group=a`: nodes belong to no group"),
        (&["--node-label", "gpu=a,gpu=b"], 2, "`gpu=b`: is given twice"),
        (&["--alertmanager", "https://a:9093"], 2, "only plain HTTP is spoken to it"),
        (&["--alertmanager", "http://a b"], 2, "it is no address; write http://HOST:PORT"),
        (&["--quota-cluster=-"], 2, "is no name of a cluster"),
    ];
    for (arguments, expected, words) in cases {
        let (code, said) = site.fail(arguments);
        assert_eq!(code, Some(expected), "{arguments:?}: {said}");
        assert!(said.contains(words), "{arguments:?}: {said}");
    }
}

#[test]
fn its_settings_are_printed_as_a_file_that_means_the_same() {
    let site = Site::new(HARD);
    let printed = site.print_config(&["--node-label", "gpu=nvidia.com/gpu.product"]);
    let file = site.path("again.yaml");
    std::fs::write(&file, &printed).unwrap();
    assert_eq!(site.print_config(&["--config", file.to_str().unwrap()]), printed);
    for line in [
        "roles:",
        "- webhook",
        "quotaCluster: east",
        "withoutLog: refuse",
        "- gpu=nvidia.com/gpu.product",
        "- gpu=biz.group.resource.quota/gpu-type",
    ] {
        assert!(printed.lines().any(|l| l.trim() == line), "{line} in\n{printed}");
    }
    assert!(printed.contains("# BIZRQ_NATS_TOKEN is set: ***"), "{printed}");
    assert!(!printed.contains("geheim"), "{printed}");
}
