//! Deployments created through a real API server by 32 clients at once, with `bizrq serve` as its webhook, and beside it
//! with a webhook of the same crates that says yes without a thought, with Kubernetes' own quota
//! (`count/deployments.apps`), and with nothing. Beside each rate stands what a creation took of the CPUs, and of whom; at the
//! end, how long after a creation `kubectl get bizrq` shows it.
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
#[path = "cpu.rs"]
mod cpu;
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
use serde_json::{Value, json};
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
    time::{Duration, Instant},
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
    prepare(&mut plane);
    let yes = Stand::start(Kind::Echo);
    let mut rates = Asked::ALL.map(|_| Vec::new());
    for run in 0..runs {
        for (asked, rates) in Asked::ALL.into_iter().zip(&mut rates) {
            let (rate, spent) = measure(&plane, dir.path(), asked, &yes, run, each);
            println!("run {}: {rate:>6.0} a second, {:<24} {spent}", run + 1, asked.name());
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
    shown(&plane, dir.path(), 20);
    yes.stop();
}

/// Namespaces, a quota of Kubernetes that is never full, one of bizrq's likewise, and nobody who makes anything.
fn prepare(plane: &mut ControlPlane) {
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
    let spec = json!({"parent": "", "hard": {"limits.cpu": "1G"}});
    let quota = json!({"apiVersion": "bizrq.io/v1", "kind": "BizGroupResourceQuota",
        "metadata": {"name": "team-a"}, "spec": spec});
    plane.admin().apply(&quota).succeeds();
}

/// Creations a second, and CPU time of each.
fn measure(
    plane: &ControlPlane,
    dir: &Path,
    asked: Asked,
    yes: &Stand,
    run: usize,
    each: usize,
) -> (f64, String) {
    let bizrq = (asked == Asked::Bizrq).then(|| Bizrq::start(plane, dir));
    let bundle = fs::read_to_string(plane.file("tls/ca.crt")).unwrap();
    let whom = match &bizrq {
        Some(bizrq) => Some((bizrq.port, &*bundle)),
        None => (asked == Asked::Yes).then(|| (yes.address.port(), &*yes.bundle)),
    };
    let client = asks(plane, asked, whom, &format!("warm-{run}"));
    runtime().block_on(create(&client, asked, &format!("first-{run}"), 320));
    let before = reviews(plane);
    let spent = Spent::new(plane, bizrq.as_ref());
    let begun = Instant::now();
    runtime().block_on(create(&client, asked, &format!("run-{run}"), each));
    let rate = each as f64 / begun.elapsed().as_secs_f64();
    let spent = spent.of_each(each);
    let reviewed = if whom.is_some() { each } else { 0 };
    assert_eq!(reviews(plane) - before, reviewed, "{}", asked.name());
    drop(bizrq);
    runtime().block_on(async {
        let (how, all) = (DeleteParams::background(), ListParams::default());
        let _ = of(&client, asked).delete_collection(&how, &all).await.unwrap();
    });
    (rate, spent)
}

/// What the processes had spent of the CPUs at its making.
struct Spent(Vec<(&'static str, String, Duration)>);

impl Spent {
    fn new(plane: &ControlPlane, bizrq: Option<&Bizrq>) -> Self {
        let others = [
            ("API server", plane.api_server.as_ref()),
            ("etcd", plane.etcd.as_ref()),
            ("bizrq", bizrq.map(|bizrq| &bizrq.process)),
        ];
        let others = others.into_iter();
        let others = others.filter_map(|(who, process)| Some((who, process?.id().to_string())));
        let who = others.chain([("this", "self".to_owned())]);
        let spent = who.map(|(who, number)| {
            let so_far = cpu::spent(&number);
            (who, number, so_far)
        });
        Self(spent.collect())
    }

    /// In microseconds of one of so many.
    fn of_each(&self, each: usize) -> String {
        let of_each = self.0.iter().map(|(who, number, before)| {
            let spent = cpu::spent(number).saturating_sub(*before);
            format!("{who} {:.0}", spent.as_secs_f64() * 1e6 / each as f64)
        });
        format!("(CPU us each: {})", of_each.collect::<Vec<_>>().join(", "))
    }
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

/// Has the API server ask at this port, and believe this authority, or ask nobody; a client, once it does so.
fn asks(plane: &ControlPlane, asked: Asked, whom: Option<(u16, &str)>, name: &str) -> Client {
    match whom {
        Some((port, authority)) => {
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
            let mut all = configurations.iter();
            let of_workloads = all.find(|c| c["metadata"]["name"] == "bizrq-workloads");
            plane.admin().apply(of_workloads.unwrap()).succeeds();
        }
        None => drop(plane.admin().run(&format!("delete --ignore-not-found {CONFIGURATION}"))),
    }
    let client = runtime().block_on(nodes::client(&plane.file("kubeconfig"), "admin"));
    // An API server asks only some time after the configuration was stored, and does so some time after it is gone.
    let mut warm = 0..;
    eventually("the API server asks whom it should", || {
        let before = reviews(plane);
        let name = format!("{name}-{}", warm.next().unwrap());
        let (api, object) = (of(&client, asked), object(asked, &name));
        let created = runtime().block_on(api.create(&PostParams::default(), &object));
        created.map_err(|why| why.to_string())?;
        match (reviews(plane) > before) == whom.is_some() {
            true => Ok(()),
            false => Err(format!("a creation was asked about: {}", whom.is_none())),
        }
    });
    client
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
    process: Process,
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
        let bizrq = Self { port, process };
        // Of this one's, since the object keeps what the one before it wrote.
        let before = quota(plane)["status"].take();
        eventually("bizrq is ready, leads, and has written a status", || {
            let ready = get(metrics, "/readyz").starts_with("HTTP/1.1 200");
            let status = quota(plane)["status"].take();
            if ready && status != before { Ok(()) } else { Err(fs::read_to_string(&said).unwrap()) }
        });
        bizrq
    }
}

/// The quota object, as `kubectl get` has it.
fn quota(plane: &ControlPlane) -> Value {
    plane.admin().get("bizrq team-a")
}

/// How long after a Deployment was created `kubectl get bizrq` shows it, so many times.
fn shown(plane: &ControlPlane, dir: &Path, times: usize) {
    let bizrq = Bizrq::start(plane, dir);
    let bundle = fs::read_to_string(plane.file("tls/ca.crt")).unwrap();
    let client = asks(plane, Asked::Bizrq, Some((bizrq.port, &bundle)), "warm-shown");
    let used = || quota(plane)["status"]["used"]["limits.cpu"].take();
    let took = (0..times).map(|n| {
        let before = used();
        let (api, object) =
            (of(&client, Asked::Bizrq), object(Asked::Bizrq, &format!("shown-{n}")));
        runtime().block_on(api.create(&PostParams::default(), &object)).unwrap();
        let created = Instant::now();
        while used() == before {
            assert!(created.elapsed() < control_plane::PATIENCE, "it is shown: {before}");
        }
        created.elapsed()
    });
    let mut took: Vec<_> = took.collect();
    took.sort();
    let (half, most) = (took[times / 2], took[times - 1]);
    println!(
        "kubectl get bizrq shows a Deployment after {half:.1?} (median of {times}), {most:.1?} at most"
    );
}

/// What the port of metrics and health says.
fn get(port: u16, path: &str) -> String {
    server::get(("127.0.0.1", port), path).unwrap_or_default()
}
