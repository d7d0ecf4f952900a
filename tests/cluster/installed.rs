//! bizrq as it is installed: deploy/rendered.yaml applied, two replicas of `bizrq serve` on one NATS server, with the
//! rights of its service account and no others, and certificates of its own.
//!
//! ```text
//!  kube-apiserver ─▶ [balancer, as a Service is one] ─┬─▶ bizrq serve ─┬─▶ nats-server
//!                                                     └─▶ bizrq serve ─┘
//! ```

use super::{
    control_plane::{ControlPlane, PATIENCE, eventually, own, runtime},
    kubectl::Said,
    nodes::{SECONDS, client},
    pods::{deployment, of_app, template},
    server::{Process, Server, Version, free_port},
};
use k8s_openapi::api::{apps::v1::Deployment, core::v1::Pod};
use kube::{Api, api::PostParams};
use serde_json::{Value, json};
use std::{
    fs::{self, File},
    io::{Read, Write},
    net::TcpStream,
    path::Path,
    process::{Command, Output, Stdio},
    sync::{
        Arc, Mutex, MutexGuard, OnceLock, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
};
use tokio::{io::copy_bidirectional, net::TcpListener};

/// The cluster's name in the log, as deploy/rendered.yaml has it.
const CLUSTER: &str = "main";
/// The context of bizrq's service account.
const ACCOUNT: &str = "bizrq";

/// See the head of this file.
struct Installed {
    plane: ControlPlane,
    nats: Server,
    replicas: [Replica; 2],
}

/// One process of `bizrq serve`.
struct Replica {
    name: &'static str,
    listen: u16,
    metrics: u16,
    process: Option<Process>,
}

/// The installation, for one test at a time, since some kill a part of it; `None`, and a line that says why, where there
/// is no API server.
fn installed(test: &str) -> Option<MutexGuard<'static, Installed>> {
    static INSTALLED: OnceLock<Option<Mutex<Installed>>> = OnceLock::new();
    let one = INSTALLED.get_or_init(|| own(test).map(Installed::start).map(Mutex::new)).as_ref()?;
    // A test that failed leaves an installation that works.
    Some(one.lock().unwrap_or_else(PoisonError::into_inner))
}

fn bizrq(arguments: &[&str], input: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_bizrq"));
    let command = command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    output
}

impl Installed {
    fn start(plane: ControlPlane) -> Self {
        let nats = Server::start(Version::New);
        let log = nats.url();
        let quotas = quotas();
        let file = plane.file("quotas.yaml");
        fs::write(&file, json!({"kind": "List", "items": quotas}).to_string()).unwrap();
        bizrq(&["quota", "apply", "--log", &log, file.to_str().unwrap()], "");
        let manifests = Path::new(env!("CARGO_MANIFEST_DIR")).join("deploy/rendered.yaml");
        // kubectl before 1.25 does not know the rules of the definition, which its API server drops.
        let validate = plane.version() >= (1, 25);
        let apply = format!("apply --validate={validate} -f {}", manifests.display());
        eventually("everything is applied", || plane.admin().run(&apply).done());
        let replicas = ["a", "b"].map(|name| Replica {
            name,
            listen: free_port(),
            metrics: free_port(),
            process: None,
        });
        let port = balance(replicas.each_ref().map(|replica| replica.listen));
        let url = format!("https://127.0.0.1:{port}");
        let asking = ["webhook-config", "--cluster", CLUSTER, "--timeout", "2", "--url", &url];
        let asking = String::from_utf8(bizrq(&asking, "").stdout).unwrap();
        plane.admin().with_input("apply -f -", &asking).succeeds();
        plane.add_user(ACCOUNT, &token(&plane));
        let mut installed = Self { plane, nats, replicas };
        for place in 0..2 {
            installed.run(place);
        }
        installed.wait_until_asked();
        for quota in &quotas {
            installed.plane.admin().apply(quota).succeeds();
        }
        installed
    }

    /// Starts a replica, and waits until it is ready.
    fn run(&mut self, place: usize) {
        let replica = &mut self.replicas[place];
        let (listen, metrics) =
            (format!("127.0.0.1:{}", replica.listen), format!("127.0.0.1:{}", replica.metrics));
        let said = self.plane.file(&format!("bizrq-{}.log", replica.name));
        let mut command = Command::new(env!("CARGO_BIN_EXE_bizrq"));
        command
            .args([
                "serve",
                "--cluster",
                &format!("{CLUSTER}={ACCOUNT}"),
                "--log",
                &self.nats.url(),
            ])
            .args(["--listen", &listen, "--metrics", &metrics, "--tls-name", "127.0.0.1"])
            .args(["--namespace", "bizrq", "--replica", replica.name, "--notice", "0"])
            .arg("--store")
            .arg(self.plane.file(&format!("store-{}", replica.name)))
            .env("KUBECONFIG", self.plane.file("kubeconfig"));
        let log = File::options().create(true).append(true).open(&said).unwrap();
        replica.process = Some(Process::spawn(command, Stdio::null(), log.into()));
        eventually(&format!("replica {} is ready", replica.name), || {
            let answer = get(replica.metrics, "/readyz");
            if answer.starts_with("HTTP/1.1 200") {
                return Ok(());
            }
            Err(answer + &fs::read_to_string(&said).unwrap())
        });
    }

    /// As a crash.
    fn kill(&mut self, place: usize) {
        self.replicas[place].process = None;
    }

    /// An API server asks only some time after the configuration was stored, and trusts only once bizrq told it whom.
    fn wait_until_asked(&self) {
        self.plane.namespace("asked", &[]);
        let labels = json!({"biz.group.resource.quota": "nobody"});
        let wrong = deployment("asked", "wrong", &labels, 1, "1").to_string();
        eventually("the API server asks", || {
            let said = self.plane.admin().with_input("create --dry-run=server -f -", &wrong);
            if said.err.contains("group `nobody` is not declared") {
                return Ok(());
            }
            Err(said.out + &said.err)
        });
    }

    /// A Job of two pods with a core each, for so many seconds.
    fn train(&self, name: &str, seconds: u32) {
        let group = json!({"biz.group.resource.quota": "metered"});
        let mut template = template(&json!({"app": name}), "1");
        template["metadata"]["annotations"][SECONDS] = seconds.to_string().into();
        template["spec"]["restartPolicy"] = "Never".into();
        let job = json!({"apiVersion": "batch/v1", "kind": "Job",
            "metadata": {"namespace": "metered", "name": name, "labels": group},
            "spec": {"parallelism": 2, "completions": 2, "template": template}});
        self.plane.alice().apply(&job).succeeds();
    }

    fn wait_for(&self, job: &str) {
        let complete = "--for=condition=Complete --timeout=120s";
        let waiting = format!("wait job/{job} -n metered {complete} --request-timeout=0");
        self.plane.alice().run(&waiting).succeeds();
    }

    /// What the API server says of the pods that were bound.
    fn stories(&self, namespace: &str, app: &str) -> Vec<Story> {
        of_app(&self.plane, namespace, app).iter().filter_map(Story::of).collect()
    }

    /// What the log says of a pod.
    fn facts(&self, uid: &str) -> Vec<Value> {
        let log = self.nats.url();
        let tail =
            ["log", "tail", "--log", &log, "--last", "100000", "--type", "pod", "-o", "lines"];
        let lines = String::from_utf8(bizrq(&tail, "").stdout).unwrap();
        let facts = lines.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        facts.filter(|fact| fact["data"]["uid"] == uid).collect()
    }

    fn apply(&self, namespace: &str, name: &str, group: &str, replicas: u32) -> Said {
        let labels = json!({"biz.group.resource.quota": group});
        self.plane.alice().apply(&paused(namespace, name, &labels, replicas))
    }
}

/// When a pod held what it asked for: from its binding to the end of its container, in whole seconds.
struct Story {
    uid: String,
    bound: String,
    ended: Option<String>,
}

impl Story {
    fn of(pod: &Pod) -> Option<Self> {
        let pod = serde_json::to_value(pod).unwrap();
        let status = &pod["status"];
        let mut conditions = status["conditions"].as_array()?.iter();
        let scheduled = conditions.find(|condition| condition["type"] == "PodScheduled");
        let text = |value: &Value| value.as_str().map(|text| text[..19].to_owned());
        Some(Self {
            uid: pod["metadata"]["uid"].as_str()?.to_owned(),
            bound: scheduled.and_then(|condition| text(&condition["lastTransitionTime"]))?,
            ended: text(&status["containerStatuses"][0]["state"]["terminated"]["finishedAt"]),
        })
    }
}

/// A Deployment whose pods nobody makes, so that nothing but itself is asked about.
fn paused(namespace: &str, name: &str, labels: &Value, replicas: u32) -> Value {
    let mut object = deployment(namespace, name, labels, replicas, "1");
    object["spec"]["paused"] = true.into();
    object
}

/// A group with so many cores.
fn quota(name: &str, parent: &str, cpu: u32) -> Value {
    super::definition::quota(name, json!({"parent": parent, "hard": {"limits.cpu": cpu}}))
}

/// The departments of one company, which has 466 cores left to give; a group for each test.
fn quotas() -> [Value; 7] {
    [
        quota("company", "", 1000),
        quota("small", "company", 10),
        quota("shown", "company", 8),
        quota("held", "company", 8),
        quota("metered", "company", 8),
        quota("left", "company", 300),
        quota("right", "company", 200),
    ]
}

/// What proves bizrq's service account to the API server.
fn token(plane: &ControlPlane) -> String {
    let request =
        json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}});
    let path = "/api/v1/namespaces/bizrq/serviceaccounts/bizrq/token";
    let said = plane.admin().with_input(&format!("create --raw {path} -f -"), &request.to_string());
    let answer: Value = serde_json::from_str(&said.succeeds().out).unwrap();
    answer["status"]["token"].as_str().unwrap().to_owned()
}

/// Takes each connection to the next server, as a Service does; one that does not answer is passed over.
fn balance(ports: [u16; 2]) -> u16 {
    let listener = runtime().block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
    let port = listener.local_addr().unwrap().port();
    let next = Arc::new(AtomicUsize::new(0));
    runtime().spawn(async move {
        while let Ok((mut client, _)) = listener.accept().await {
            let next = Arc::clone(&next);
            tokio::spawn(async move {
                let first = next.fetch_add(1, Ordering::Relaxed);
                for port in [first, first + 1].map(|n| ports[n % 2]) {
                    if let Ok(mut server) =
                        tokio::net::TcpStream::connect(("127.0.0.1", port)).await
                    {
                        let _ = copy_bidirectional(&mut client, &mut server).await;
                        return;
                    }
                }
            });
        }
    });
    port
}

/// What the port of metrics and health says.
fn get(port: u16, path: &str) -> String {
    let Ok(mut stream) = TcpStream::connect(("127.0.0.1", port)) else { return String::new() };
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut said = String::new();
    let asked = write!(stream, "GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
    match asked.and_then(|()| stream.read_to_string(&mut said)) {
        Ok(_) => said,
        Err(error) => error.to_string(),
    }
}

#[test]
fn certificates_of_its_own_are_kept_in_a_secret_and_trusted_by_both_configurations() {
    let Some(installed) = installed("certificates_of_its_own") else { return };
    let admin = installed.plane.admin();
    let bundle = admin.get("secret bizrq-webhook-tls -n bizrq")["data"]["ca.crt"].clone();
    for name in ["bizrq-workloads", "bizrq-quotas"] {
        let configuration = admin.get(&format!("validatingwebhookconfiguration {name}"));
        for webhook in configuration["webhooks"].as_array().unwrap() {
            assert_eq!(webhook["clientConfig"]["caBundle"], bundle, "{name}");
        }
    }
}

#[test]
fn its_service_account_can_read_no_other_secret_and_change_no_workload() {
    let Some(installed) = installed("its_service_account_can_read_no_other_secret") else { return };
    for what in [
        "get secrets -n kube-system",
        "list secrets -n bizrq",
        "create deployments -n default",
        "patch bizgroupresourcequotas",
        "delete validatingwebhookconfigurations",
        "update validatingwebhookconfigurations/another",
    ] {
        let may = installed.plane.kubectl(ACCOUNT).run(&format!("auth can-i {what}"));
        assert!(!may.ok && may.out.trim() == "no", "{what}: {}{}", may.out, may.err);
    }
}

#[test]
fn two_replicas_refuse_and_admit_as_one() {
    let Some(installed) = installed("two_replicas_refuse_and_admit_as_one") else { return };
    installed.plane.namespace("as-one", &[]);
    installed.apply("as-one", "large", "small", 11).fails_with(&[
        "exceeded quota: small, requested: limits.cpu=11, used: limits.cpu=0, limited: limits.cpu=10; \
         10 of 11 replicas would fit",
    ]);
    for n in 0..10 {
        installed.apply("as-one", &format!("one-{n}"), "small", 1).succeeds();
    }
    let full = ["exceeded quota: small, requested: limits.cpu=1, used: limits.cpu=10"];
    installed.apply("as-one", "eleventh", "small", 1).fails_with(&full);
}

#[test]
fn the_tree_shows_what_is_used() {
    let Some(installed) = installed("the_tree_shows_what_is_used") else { return };
    installed.plane.namespace("shown", &[]);
    installed.apply("shown", "four", "shown", 4).succeeds();
    eventually("`kubectl get bizrq` shows 4 of 8", || {
        let shown = installed.plane.admin().run("get bizrq shown").succeeds().out;
        let words: Vec<_> = shown.lines().last().unwrap().split_whitespace().collect();
        let is_right = words[..3] == ["shown", "company", "4/8"] && words.contains(&"True");
        if is_right { Ok(()) } else { Err(shown) }
    });
}

#[test]
fn a_parent_is_neither_removed_nor_made_smaller_than_what_it_gave() {
    let Some(installed) = installed("a_parent_is_neither_removed_nor_made_smaller") else { return };
    let admin = installed.plane.admin();
    admin.run("delete bizrq company").fails_with(&["groups count in `company`: "]);
    let smaller = ["groups below `company` have been given more: spec.hard[limits.cpu]=500"];
    admin.apply(&quota("company", "", 500)).fails_with(&smaller);
    assert_eq!(admin.get("bizrq company")["spec"]["hard"]["limits.cpu"], 1000);
    admin.apply(&quota("orphan", "nobody", 1)).fails_with(&["`nobody` is not declared"]);
}

#[test]
fn a_group_in_which_workloads_run_is_not_removed() {
    let Some(installed) = installed("a_group_in_which_workloads_run_is_not_removed") else {
        return;
    };
    installed.plane.namespace("held", &[]);
    installed.apply("held", "one", "held", 1).succeeds();
    let refused = ["workloads are charged in `held`"];
    installed.plane.admin().run("delete bizrq held").fails_with(&refused);
}

/// Each of them would fit alone.
#[test]
fn of_two_children_created_at_once_that_together_exceed_their_parent_one_passes() {
    let Some(installed) = installed("of_two_children_created_at_once") else { return };
    let admin = installed.plane.admin();
    let create = &|name| admin.create(&quota(name, "company", 300));
    let said = std::thread::scope(|scope| {
        let both = ["first", "second"].map(|name| scope.spawn(move || create(name)));
        both.map(|one| one.join().unwrap())
    });
    let passed = said.iter().filter(|said| said.ok).count();
    assert_eq!(passed, 1, "{said:?}");
    assert!(said.iter().any(|said| said.err.contains("limits.cpu")), "{said:?}");
}

/// Each from its binding to its end, by what the stand-in made the API server say; also what nobody was there to see.
#[test]
fn pods_are_metered_as_their_statuses_say_also_while_nobody_looked() {
    let Some(mut installed) = installed("pods_are_metered_as_their_statuses_say") else { return };
    installed.plane.namespace("metered", &[("bizrq.io/managed", "true")]);
    installed.train("seen", 2);
    installed.wait_for("seen");
    installed.train("across", 12);
    eventually("both are bound", || match installed.stories("metered", "across").len() {
        2 => Ok(()),
        bound => Err(format!("{bound} are")),
    });
    for place in 0..2 {
        installed.kill(place);
    }
    installed.wait_for("across");
    for place in 0..2 {
        installed.run(place);
    }
    for job in ["seen", "across"] {
        for Story { uid, bound, ended } in installed.stories("metered", job) {
            let ended = ended.unwrap();
            let (started, stopped) = eventually("start and stop are on the log", || {
                let log = installed.facts(&uid);
                let of = |kind: &str| log.iter().find(|fact| fact["type"] == kind).cloned();
                let both = of("io.bizrq.pod.started.v1").zip(of("io.bizrq.pod.stopped.v1"));
                both.ok_or_else(|| format!("{log:?}"))
            });
            let seconds = |fact: &Value| fact["time"].as_str().unwrap()[..19].to_owned();
            assert_eq!((seconds(&started), &started["data"]["basis"]), (bound, &json!("Bound")));
            // An end that was watched is billed when it arrived, one that was listed as the containers say.
            let basis = stopped["data"]["basis"].as_str().unwrap();
            match basis {
                "ContainersFinished" => assert_eq!(seconds(&stopped), ended),
                "Received" | "TerminalStatus" => assert!(seconds(&stopped) >= ended, "{stopped}"),
                _ => panic!("{stopped}"),
            }
        }
    }
}

/// 20 clients, 2,000 Deployments of one core each, groups with room for 300 and 200; one replica is killed on the way.
#[test]
fn of_two_thousand_deployments_at_once_exactly_as_many_are_admitted_as_fit() {
    let Some(mut installed) = installed("of_two_thousand_deployments_at_once") else { return };
    installed.plane.namespace("crowd", &[]);
    let kubeconfig = installed.plane.file("kubeconfig");
    let refused = Arc::new(AtomicUsize::new(0));
    let crowd = async {
        let client = client(&kubeconfig, "alice").await;
        let api: Api<Deployment> = Api::namespaced(client, "crowd");
        let mut clients = tokio::task::JoinSet::new();
        for one in 0..20 {
            let (api, refused) = (api.clone(), Arc::clone(&refused));
            clients.spawn(async move {
                for n in 0..100 {
                    let group = ["left", "right"][n % 2];
                    let labels = json!({"biz.group.resource.quota": group});
                    let object = paused("crowd", &format!("d-{one}-{n}"), &labels, 1);
                    let object = serde_json::from_value(object).unwrap();
                    create(&api, &object, &refused).await;
                }
            });
        }
        clients.join_all().await;
    };
    std::thread::scope(|scope| {
        let crowd = scope.spawn(|| runtime().block_on(crowd));
        eventually("some were refused", || match refused.load(Ordering::Relaxed) {
            0..50 => Err("too few".to_owned()),
            _ => Ok(()),
        });
        installed.kill(0);
        installed.run(0);
        crowd.join().unwrap();
    });
    for (group, fit) in [("left", 300), ("right", 200)] {
        let label = format!("deployments -n crowd -l biz.group.resource.quota={group}");
        let items = installed.plane.admin().get(&label)["items"].as_array().unwrap().len();
        assert_eq!(items, fit, "{group}");
    }
    assert_eq!(refused.load(Ordering::Relaxed), 1500);
}

/// Creates it, or is refused; what fails for another reason (its replica was killed) is tried again.
async fn create(api: &Api<Deployment>, object: &Deployment, refused: &AtomicUsize) {
    loop {
        match api.create(&PostParams::default(), object).await {
            Ok(_) => return,
            Err(kube::Error::Api(status)) if status.message.contains("exceeded quota: ") => {
                refused.fetch_add(1, Ordering::Relaxed);
                return;
            }
            Err(kube::Error::Api(status)) if status.code == 409 => return,
            Err(_) => tokio::time::sleep(std::time::Duration::from_millis(200)).await,
        }
    }
}
