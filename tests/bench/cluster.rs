//! Deployments created through a real API server by 32 clients at once, with `bizrq serve` as its webhook, and beside it
//! with a webhook of the same crates that says yes without a thought, with Kubernetes' own quota
//! (`count/deployments.apps`), and with nothing.
//!
//! ```text
//!  32 clients ─create─▶ kube-apiserver ─▶ etcd
//!                         └─reviews─▶ bizrq serve (which watches the API server, too) │ yes │ nobody
//! ```
//!
//! `make bench-cluster` prints, of alternating runs, medians of creations per second. `--runs N` and `--each N` (behind
//! `--`) make it shorter. Each run is asked for by the counts of the API server itself. No controller runs meanwhile:
//! whoever makes ReplicaSets and pods of the Deployments would be measured with them.
// A bench fails by panicking and tells by printing.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::print_stderr,
    missing_docs
)]
// The harness serves the tests, which use more of it.
#![allow(dead_code)]

#[path = "../it/webhook/answering.rs"]
mod answering;
#[path = "../cluster/control_plane.rs"]
mod control_plane;
#[path = "../cluster/kubectl.rs"]
mod kubectl;
#[path = "../cluster/nodes.rs"]
mod nodes;
#[path = "../it/nats/server.rs"]
mod server;
#[path = "../it/shared.rs"]
mod shared;
#[path = "webhook/stand.rs"]
mod stand;

use bizrq::{
    clock,
    domain::time::HOUR_MS,
    k8s::kinds::Kinds,
    webhook::{
        configuration::{Asking, Reach},
        tls::issue,
    },
};
use control_plane::{ControlPlane, eventually, own, runtime};
use k8s_openapi::api::apps::v1::Deployment;
use kube::{
    Api, Client,
    api::{DeleteParams, ListParams, PostParams},
};
use serde_json::json;
use server::{Process, free_port};
use stand::{Kind, Stand};
use std::{
    env, fs,
    path::Path,
    process::{Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Instant,
};
use tokio::task::JoinSet;

const CLIENTS: usize = 32;
/// The name of the webhook that is asked about Deployments.
const WEBHOOK: &str = "workloads.bizrq.io";
const CONFIGURATION: &str = "validatingwebhookconfiguration bizrq-workloads";

/// Who is asked.
#[derive(Clone, Copy, PartialEq)]
enum Asked {
    Nobody,
    Native,
    Yes,
    Bizrq,
}

impl Asked {
    const ALL: [Self; 4] = [Self::Nobody, Self::Native, Self::Yes, Self::Bizrq];

    const fn name(self) -> &'static str {
        match self {
            Self::Nobody => "no webhook",
            Self::Native => "count/deployments.apps",
            Self::Yes => "always-allow webhook",
            Self::Bizrq => "bizrq",
        }
    }

    /// Where Deployments are created.
    const fn namespace(self) -> &'static str {
        match self {
            Self::Native => "native",
            _ => "free",
        }
    }
}

fn main() {
    let number = |name: &str, otherwise: usize| {
        let mut args = env::args().skip_while(|arg| arg != name).skip(1);
        args.next().map_or(otherwise, |text| text.parse().unwrap())
    };
    let (runs, each) = (number("--runs", 5), number("--each", 4000));
    let Some(mut plane) = own("bench-cluster") else { return };
    // On a disk, as a volume is; the rest of the control plane is where its tests have it, in memory.
    let dir = tempfile::tempdir().unwrap();
    prepare(&mut plane, dir.path());
    let yes = Stand::start(Kind::Echo);
    let mut rates = Asked::ALL.map(|_| Vec::new());
    for run in 0..runs {
        for (asked, rates) in Asked::ALL.into_iter().zip(&mut rates) {
            let rate = measure(&plane, dir.path(), asked, &yes, run, each);
            println!("run {}: {rate:>6.0} a second, {}", run + 1, asked.name());
            rates.push(rate);
        }
    }
    let medians = rates.map(|mut rates| {
        rates.sort_by(f64::total_cmp);
        rates[rates.len() / 2]
    });
    println!("medians of {runs} alternating runs of {each} Deployments, {CLIENTS} clients:");
    for (asked, median) in Asked::ALL.iter().zip(medians) {
        let share = median / medians[2];
        println!("{:>24}: {median:>6.0} a second, {share:.2} of always-allow", asked.name());
    }
    yes.stop();
}

/// Namespaces, a quota of Kubernetes that is never full, one of bizrq's likewise, and nobody who makes anything.
fn prepare(plane: &mut ControlPlane, dir: &Path) {
    let crd = concat!(env!("CARGO_MANIFEST_DIR"), "/schemas/crd/bizgroupresourcequota.yaml");
    let validate = plane.version() >= (1, 25);
    plane.admin().run(&format!("apply --validate={validate} -f {crd}")).succeeds();
    plane.namespace("free", &[]);
    plane.namespace("native", &[]);
    plane.namespace("bizrq", &[]);
    let hard = json!({"count/deployments.apps": "1M"});
    let quota = json!({"apiVersion": "v1", "kind": "ResourceQuota",
        "metadata": {"name": "native", "namespace": "native"}, "spec": {"hard": hard}});
    plane.admin().apply(&quota).succeeds();
    eventually("the quota is in force", || {
        let status = plane.admin().get("resourcequota native -n native")["status"].take();
        if status["hard"] == hard { Ok(()) } else { Err(status.to_string()) }
    });
    plane.without_controllers();
    let now = clock::now();
    let until = now.shifted(24 * HOUR_MS);
    let authority = issue::authority(now, until).unwrap();
    let own = issue::serving(&authority, &["localhost".into()], now, until).unwrap();
    fs::create_dir(plane.file("tls")).unwrap();
    for (name, text) in [
        ("tls/tls.crt", &own.certificate),
        ("tls/tls.key", &own.key),
        ("tls/ca.crt", &authority.certificate),
    ] {
        fs::write(plane.file(name), text).unwrap();
    }
    let quota = json!({"apiVersion": "bizrq.io/v1", "kind": "BizGroupResourceQuota",
        "metadata": {"name": "team-a"}, "spec": {"parent": "", "hard": {"limits.cpu": "1G"}}});
    fs::write(plane.file("quota.yaml"), quota.to_string()).unwrap();
    let mut apply = Command::new(env!("CARGO_BIN_EXE_bizrq"));
    apply.args(["quota", "apply", "--log"]).arg(dir.join("log")).arg(plane.file("quota.yaml"));
    let applied = apply.output().unwrap();
    assert!(applied.status.success(), "{}", String::from_utf8_lossy(&applied.stderr));
}

/// Creations a second.
fn measure(
    plane: &ControlPlane,
    dir: &Path,
    asked: Asked,
    yes: &Stand,
    run: usize,
    each: usize,
) -> f64 {
    let bizrq = (asked == Asked::Bizrq).then(|| Bizrq::start(plane, dir));
    match (&bizrq, asked) {
        (Some(bizrq), _) => {
            let bundle = fs::read_to_string(plane.file("tls/ca.crt")).unwrap();
            ask(plane, bizrq.port, &bundle);
        }
        (None, Asked::Yes) => ask(plane, yes.address.port(), &yes.bundle),
        (None, _) => drop(plane.admin().run(&format!("delete --ignore-not-found {CONFIGURATION}"))),
    }
    let client = runtime().block_on(nodes::client(&plane.file("kubeconfig"), "admin"));
    let is_asked = matches!(asked, Asked::Yes | Asked::Bizrq);
    // An API server asks only some time after the configuration was stored, and does so some time after it is gone.
    let mut warm = 0..;
    eventually("the API server asks whom it should", || {
        let before = reviews(plane);
        let name = format!("warm-{run}-{}", warm.next().unwrap());
        let (api, object) = (of(&client, asked), object(asked, &name));
        let created = runtime().block_on(api.create(&PostParams::default(), &object));
        created.map_err(|why| why.to_string())?;
        match (reviews(plane) > before) == is_asked {
            true => Ok(()),
            false => Err(format!("a creation was asked about: {}", !is_asked)),
        }
    });
    runtime().block_on(create(&client, asked, &format!("first-{run}"), 320));
    let before = reviews(plane);
    let begun = Instant::now();
    runtime().block_on(create(&client, asked, &format!("run-{run}"), each));
    let rate = each as f64 / begun.elapsed().as_secs_f64();
    assert_eq!(reviews(plane) - before, if is_asked { each } else { 0 }, "{}", asked.name());
    drop(bizrq);
    runtime().block_on(async {
        let (how, all) = (DeleteParams::background(), ListParams::default());
        let _ = of(&client, asked).delete_collection(&how, &all).await.unwrap();
    });
    rate
}

/// So many Deployments, by all clients together.
async fn create(client: &Client, asked: Asked, name: &str, each: usize) {
    let next = Arc::new(AtomicUsize::new(0));
    let mut clients = JoinSet::new();
    for _ in 0..CLIENTS {
        let (api, next, name) = (of(client, asked), Arc::clone(&next), name.to_owned());
        clients.spawn(async move {
            loop {
                let n = next.fetch_add(1, Ordering::Relaxed);
                if n >= each {
                    return;
                }
                let object = object(asked, &format!("{name}-{n}"));
                api.create(&PostParams::default(), &object).await.unwrap();
            }
        });
    }
    clients.join_all().await;
}

fn of(client: &Client, asked: Asked) -> Api<Deployment> {
    Api::namespaced(client.clone(), asked.namespace())
}

/// As people write them, of two containers.
fn object(asked: Asked, name: &str) -> Deployment {
    let container = |name: &str, cpu: &str| {
        json!({"name": name, "image": "registry/web:1", "ports": [{"containerPort": 8080}],
            "env": [{"name": "MODE", "value": "production"}],
            "readinessProbe": {"httpGet": {"path": "/ready", "port": 8080}},
            "resources": {"requests": {"cpu": cpu, "memory": "256Mi"}, "limits": {"cpu": cpu, "memory": "256Mi"}}})
    };
    let labels = json!({"app": name, "biz.group.resource.quota": "team-a"});
    let containers = [container("web", "500m"), container("proxy", "100m")];
    let object = json!({"metadata": {"name": name, "namespace": asked.namespace(), "labels": labels},
        "spec": {"replicas": 2, "selector": {"matchLabels": {"app": name}},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": containers}}}});
    serde_json::from_value(object).unwrap()
}

/// Has the API server ask at this port, and believe this authority.
fn ask(plane: &ControlPlane, port: u16, authority: &str) {
    let asking = Asking {
        cluster: "east".into(),
        reach: Reach::Url(format!("https://localhost:{port}")),
        timeout_seconds: 5,
        excluded: vec!["kube-system".into()],
        inject_ca_from: None,
        authority: Some(authority.to_owned()),
        conditions: false,
    };
    let configurations = asking.configurations(&Kinds::builtin().unwrap());
    let of_workloads = configurations.iter().find(|c| c["metadata"]["name"] == "bizrq-workloads");
    plane.admin().apply(of_workloads.unwrap()).succeeds();
}

/// How often the API server has asked, by itself.
fn reviews(plane: &ControlPlane) -> usize {
    let said = plane.admin().run("get --raw /metrics").succeeds().out;
    let counts = said.lines().filter(|line| {
        line.starts_with("apiserver_admission_webhook_admission_duration_seconds_count{")
            && line.contains(&format!("name=\"{WEBHOOK}\""))
    });
    counts.map(|line| line.rsplit_once(' ').unwrap().1.parse::<usize>().unwrap()).sum()
}

/// `bizrq serve` on its log in a folder, leading.
struct Bizrq {
    port: u16,
    _process: Process,
}

impl Bizrq {
    fn start(plane: &ControlPlane, dir: &Path) -> Self {
        let (port, metrics) = (free_port(), free_port());
        let mut command = Command::new(env!("CARGO_BIN_EXE_bizrq"));
        command.args([
            "serve",
            "--cluster",
            "east=admin",
            "--replica",
            "a",
            "--namespace",
            "bizrq",
        ]);
        command.args(["--listen", &format!("127.0.0.1:{port}"), "--notice", "0"]);
        command.args(["--metrics", &format!("127.0.0.1:{metrics}")]);
        command.arg("--log").arg(dir.join("log")).arg("--store").arg(dir.join("store"));
        command.arg("--tls-dir").arg(plane.file("tls"));
        command.env("KUBECONFIG", plane.file("kubeconfig"));
        let said = plane.file("bizrq.log");
        let log = fs::File::options().create(true).append(true).open(&said).unwrap();
        let process = Process::spawn(command, Stdio::null(), log.into());
        eventually("bizrq is ready, and leads", || {
            let ready = get(metrics, "/readyz").starts_with("HTTP/1.1 200");
            let told = get(metrics, "/metrics").contains("bizrq_observe_events_total{");
            if ready && told { Ok(()) } else { Err(fs::read_to_string(&said).unwrap()) }
        });
        Self { port, _process: process }
    }
}

/// What the port of metrics and health says.
fn get(port: u16, path: &str) -> String {
    server::get(("127.0.0.1", port), path).unwrap_or_default()
}
