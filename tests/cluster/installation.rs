//! bizrq as it is installed: deploy/rendered.yaml applied, two replicas of `bizrq serve` on one NATS server, with the
//! rights of its service account and no others, and certificates of its own.
//!
//! ```text
//!  kube-apiserver ─▶ [balancer, as a Service is one] ─┬─▶ bizrq serve ─┬─▶ nats-server
//!                                                     └─▶ bizrq serve ─┘
//! ```

use super::{
    control_plane::{ControlPlane, eventually, own, runtime},
    kubectl::Said,
    pods::deployment,
    server::{self, Process, Server, Version, free_port},
};
use bizrq::domain::time::Timestamp;
use serde_json::{Value, json};
use std::{
    fs::{self, File},
    io::Write,
    net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket},
    path::Path,
    process::{Command, Output, Stdio},
    sync::{
        Arc, OnceLock, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard,
        atomic::{AtomicUsize, Ordering},
    },
};
use tokio::{io::copy_bidirectional, net::TcpListener};

/// The cluster whose quota objects count, as deploy/rendered.yaml names it in the log.
pub(crate) const QUOTA_CLUSTER: &str = "main";
/// The context of bizrq's service account.
pub(crate) const ACCOUNT: &str = "bizrq";

/// What must be done before anybody asks.
const EXCLUDED_FIRST: &str = "kubectl label namespace kube-system bizrq.io/excluded=true";

/// See the head of this file.
pub(crate) struct Installed {
    pub(crate) plane: ControlPlane,
    /// The cluster's name in the log.
    cluster: &'static str,
    /// Where the log is.
    pub(crate) log: String,
    /// What its processes are told beside what all are.
    flags: &'static [&'static str],
    /// Of the log's server; another's guests have none.
    nats: Option<Server>,
    replicas: [Replica; 2],
}

/// One process of `bizrq serve`.
struct Replica {
    name: &'static str,
    listen: u16,
    metrics: u16,
    api: SocketAddr,
    process: Option<Process>,
}

/// The installation that tests share; `None`, and a line that says why, where there is no API server.
pub(crate) fn installed(test: &str) -> Option<RwLockReadGuard<'static, Installed>> {
    Some(lock(test)?.read().unwrap_or_else(PoisonError::into_inner))
}

/// The same for a test that kills a part of it, while no other runs.
pub(crate) fn installed_alone(test: &str) -> Option<RwLockWriteGuard<'static, Installed>> {
    Some(lock(test)?.write().unwrap_or_else(PoisonError::into_inner))
}

fn lock(test: &str) -> Option<&'static RwLock<Installed>> {
    static INSTALLED: OnceLock<Option<RwLock<Installed>>> = OnceLock::new();
    let start = |plane| RwLock::new(Installed::alone(plane, &quotas()));
    INSTALLED.get_or_init(|| own(test).map(start)).as_ref()
}

pub(crate) fn bizrq(arguments: &[&str], input: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_bizrq"));
    let command = command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    output
}

impl Installed {
    /// With a log of its own, on which these quotas are declared before anybody asks.
    pub(crate) fn alone(plane: ControlPlane, quotas: &[Value]) -> Self {
        let nats = Server::start(Version::New);
        let log = nats.url();
        let file = plane.file("quotas.yaml");
        fs::write(&file, json!({"kind": "List", "items": quotas}).to_string()).unwrap();
        if !quotas.is_empty() {
            bizrq(&["quota", "apply", "--log", &log, file.to_str().unwrap()], "");
        }
        let mut installed = Self::on(plane, QUOTA_CLUSTER, log);
        installed.nats = Some(nats);
        for quota in quotas {
            installed.plane.admin().apply(quota).succeeds();
        }
        installed
    }

    /// Another cluster at the same log; quota objects of [`QUOTA_CLUSTER`] count.
    pub(crate) fn on(plane: ControlPlane, cluster: &'static str, log: String) -> Self {
        Self::told(plane, cluster, log, &[])
    }

    /// The same, with mirrors of them; the rights for that are given before.
    pub(crate) fn mirroring(plane: ControlPlane, cluster: &'static str, log: String) -> Self {
        Self::told(plane, cluster, log, &["--mirrors"])
    }

    fn told(
        plane: ControlPlane,
        cluster: &'static str,
        log: String,
        flags: &'static [&'static str],
    ) -> Self {
        let manifests = Path::new(env!("CARGO_MANIFEST_DIR")).join("deploy/rendered.yaml");
        // kubectl before 1.25 does not know the rules of the definition, which its API server drops.
        let validate = plane.version() >= (1, 25);
        // As README has it: first bizrq, then who asks it.
        let bizrq_alone = "-l app.kubernetes.io/component!=admission";
        let apply = format!("apply --validate={validate} {bizrq_alone} -f {}", manifests.display());
        eventually("bizrq is applied", || plane.admin().run(&apply).done());
        let excluded = "label namespace kube-system kube-node-lease bizrq.io/excluded=true";
        let replicas = ["a", "b"].map(|name| Replica {
            name,
            listen: free_port(),
            metrics: free_port(),
            api: SocketAddr::new(own_address(), free_port()),
            process: None,
        });
        let port = balance(replicas.each_ref().map(|replica| replica.listen));
        plane.add_user(ACCOUNT, &token(&plane, "bizrq", ACCOUNT));
        let mut installed = Self { plane, cluster, log, flags, nats: None, replicas };
        for place in 0..2 {
            installed.run(place);
        }
        let unlabelled = installed.asking(port);
        let refused = String::from_utf8_lossy(&unlabelled.stderr);
        assert!(!unlabelled.status.success() && refused.contains(EXCLUDED_FIRST), "{refused}");
        installed.plane.admin().run(excluded).succeeds();
        let asking = installed.asking(port);
        assert!(asking.status.success(), "{}", String::from_utf8_lossy(&asking.stderr));
        let asking = String::from_utf8(asking.stdout).unwrap();
        installed.plane.admin().with_input("apply -f -", &asking).succeeds();
        installed.wait_until_asked();
        installed
    }

    /// What an installer is told to apply, so that this API server asks at `port`.
    fn asking(&self, port: u16) -> Output {
        let url = format!("https://127.0.0.1:{port}");
        Command::new(env!("CARGO_BIN_EXE_bizrq"))
            .args([
                "webhook-config",
                "--cluster",
                self.cluster,
                "--context",
                "admin",
                "--url",
                &url,
            ])
            .env("KUBECONFIG", self.plane.file("kubeconfig"))
            .output()
            .unwrap()
    }

    /// Starts a replica, and waits until it is ready.
    pub(crate) fn run(&mut self, place: usize) {
        let replica = &mut self.replicas[place];
        let (listen, metrics) =
            (format!("127.0.0.1:{}", replica.listen), format!("127.0.0.1:{}", replica.metrics));
        let said = self.plane.file(&format!("bizrq-{}.log", replica.name));
        let mut command = Command::new(env!("CARGO_BIN_EXE_bizrq"));
        command
            .args([
                "serve",
                "--cluster",
                &format!("{}={ACCOUNT}", self.cluster),
                "--log",
                &self.log,
                "--quota-cluster",
                QUOTA_CLUSTER,
            ])
            .args(["--listen", &listen, "--metrics", &metrics, "--tls-name", "127.0.0.1"])
            .args(self.flags)
            .args(["--api", &replica.api.to_string(), "--api-cluster", self.cluster])
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

    /// Where the replicas' query API is.
    pub(crate) fn api(&self) -> [SocketAddr; 2] {
        self.replicas.each_ref().map(|replica| replica.api)
    }

    /// As a crash.
    pub(crate) fn kill(&mut self, place: usize) {
        self.replicas[place].process = None;
    }

    /// An API server asks only some time after the configuration was stored, and trusts only once bizrq told it whom.
    pub(crate) fn wait_until_asked(&self) {
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

    /// As an operator's orderly end.
    pub(crate) fn terminate(&mut self, place: usize) {
        let mut process = self.replicas[place].process.take().unwrap();
        process.signal("TERM");
        eventually("a replica ends", || process.ended().ok_or_else(|| "it runs".to_owned()));
    }

    /// The place of the replica that leads.
    pub(crate) fn leader(&self) -> usize {
        eventually("somebody leads", || {
            let lease = self.plane.admin().run("get lease bizrq-leader -n bizrq -o json").done()?;
            let lease: Value = serde_json::from_str(&lease.out).unwrap();
            let holder = &lease["spec"]["holderIdentity"];
            let place = self.replicas.iter().position(|replica| *holder == replica.name);
            place
                .filter(|place| self.replicas[*place].process.is_some())
                .ok_or_else(|| lease.to_string())
        })
    }

    /// The leader ends as an operator would end it. Whoever follows lists everything and compares it with the log.
    pub(crate) fn hand_over(&mut self) {
        let leader = self.leader();
        self.terminate(leader);
        self.run(leader);
    }

    /// The position of the newest heartbeat of this cluster, which comes after everything was compared.
    pub(crate) fn last_comparison(&self) -> u64 {
        let source = format!("/clusters/{}", self.cluster);
        let beats = self.tail("observer.synced");
        let own = beats.iter().rfind(|beat| beat["event"]["source"] == source);
        own.map_or(0, |beat| beat["position"].as_u64().unwrap())
    }

    /// The server of the log, to be killed and restarted.
    pub(crate) const fn nats(&mut self) -> &mut Server {
        self.nats.as_mut().expect("another's guest has no server")
    }

    /// What both replicas said.
    pub(crate) fn said(&self) -> String {
        self.replicas.iter().map(|replica| self.said_by(replica)).collect()
    }

    fn said_by(&self, replica: &Replica) -> String {
        let path = self.plane.file(&format!("bizrq-{}.log", replica.name));
        fs::read_to_string(path).unwrap_or_default()
    }

    /// What a counter says of this cluster, over both replicas.
    pub(crate) fn counted(&self, counter: &str) -> u64 {
        let of = format!("{counter}{{cluster=\"{}\"}} ", self.cluster);
        let said = self.replicas.iter().map(|replica| get(replica.metrics, "/metrics"));
        said.map(|text| {
            let mut numbers = text.lines().filter_map(|line| line.strip_prefix(&of));
            numbers.next().map_or(0, |number| number.parse().unwrap())
        })
        .sum()
    }

    /// What a group held of cores until `at`, as `bizrq meter` prints it.
    pub(crate) fn used(&self, group: &str, at: Timestamp) -> Value {
        let meter = ["meter", "--log", &self.log, "--at", &at.to_string(), "-o", "json"];
        let mut report: Value = serde_json::from_slice(&bizrq(&meter, "").stdout).unwrap();
        assert_eq!(report["quarantined"], 0, "{report}");
        let lines = report["usage"].as_array_mut().unwrap();
        lines.retain(|line| line["group"] == group && line["key"] == "limits.cpu");
        lines.pop().unwrap_or_default()
    }

    /// Cores that a group is charged, as its status shows them.
    pub(crate) fn used_now(&self, group: &str) -> usize {
        let status = self.plane.admin().get(&format!("bizrq {group}"))["status"].take();
        let used = status["used"]["limits.cpu"].as_str().map(|text| text.parse::<usize>());
        used.map_or(0, Result::unwrap)
    }

    /// Deployments of a group, each of one core, that the API server has.
    pub(crate) fn there(&self, group: &str) -> usize {
        let label = format!("deployments -A -l biz.group.resource.quota={group}");
        self.plane.admin().get(&label)["items"].as_array().unwrap().len()
    }

    /// The API server has so many Deployments of a group, and in the end bizrq charges for these and no others.
    pub(crate) fn counts(&self, group: &str, deployments: usize) {
        assert_eq!(self.there(group), deployments, "{group}");
        eventually(&format!("{group} is charged for what is there"), || {
            let used = self.used_now(group);
            if used == deployments { Ok(()) } else { Err(used.to_string()) }
        });
    }

    /// Records of these types, with their positions; the oldest first.
    pub(crate) fn tail(&self, types: &str) -> Vec<Value> {
        let tail = ["log", "tail", "--log", &self.log, "--last", "100000", "--type", types];
        let lines = bizrq(&[&tail[..], &["-o", "json"]].concat(), "").stdout;
        let lines = String::from_utf8(lines).unwrap();
        lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    pub(crate) fn apply(&self, namespace: &str, name: &str, group: &str, replicas: u32) -> Said {
        let labels = json!({"biz.group.resource.quota": group});
        self.plane.alice().apply(&paused(namespace, name, &labels, replicas))
    }
}

/// A Deployment whose pods nobody makes, so that nothing but itself is asked about.
pub(crate) fn paused(namespace: &str, name: &str, labels: &Value, replicas: u32) -> Value {
    let mut object = deployment(namespace, name, labels, replicas, "1");
    object["spec"]["paused"] = true.into();
    object
}

/// A group with so many cores.
pub(crate) fn quota(name: &str, parent: &str, cpu: u32) -> Value {
    super::definition::quota(name, json!({"parent": parent, "hard": {"limits.cpu": cpu}}))
}

/// The departments of one company, which has 466 cores left to give, and groups of others; one for each test.
fn quotas() -> [Value; 20] {
    [
        quota("company", "", 1000),
        quota("small", "company", 10),
        quota("shown", "company", 8),
        quota("held", "company", 8),
        quota("metered", "company", 8),
        quota("left", "company", 300),
        quota("right", "company", 200),
        quota("replicas-away", "", 20),
        quota("leader-killed", "", 20),
        quota("log-restarted", "", 20),
        quota("api-restarted", "", 20),
        quota("both", "", 10),
        quota("restored", "", 20),
        quota("autoscaled", "", 10),
        quota("thirds", "", 300),
        quota("others", "", 200),
        quota("cold", "", 10),
        quota("rolled", "", 10),
        quota("going", "", 10),
        quota("told", "", 2),
    ]
}

/// What proves a service account to the API server.
pub(crate) fn token(plane: &ControlPlane, namespace: &str, account: &str) -> String {
    let request =
        json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}});
    let path = format!("/api/v1/namespaces/{namespace}/serviceaccounts/{account}/token");
    let said = plane.admin().with_input(&format!("create --raw {path} -f -"), &request.to_string());
    let answer: Value = serde_json::from_str(&said.succeeds().out).unwrap();
    answer["status"]["token"].as_str().unwrap().to_owned()
}

/// An address of this host that an API server takes for a pod's, which one of the loopback is not; where there is no
/// other, that.
fn own_address() -> IpAddr {
    // Nothing is sent: that is how the host would begin.
    let socket = UdpSocket::bind("0.0.0.0:0");
    let found = socket.and_then(|socket| {
        socket.connect("198.51.100.1:9")?;
        socket.local_addr()
    });
    found.map_or_else(|_| Ipv4Addr::LOCALHOST.into(), |address| address.ip())
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
    server::get(("127.0.0.1", port), path).unwrap_or_else(|error| error.to_string())
}
