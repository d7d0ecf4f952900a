//! etcd, kube-apiserver and kube-controller-manager on free ports of this host, with one folder for all three.
//!
//! Who asks says so by a token; roles are Kubernetes' own. The controllers have their own service accounts, as bizrq
//! expects it of them. Nodes have no heartbeats here, so nobody watches for those.

use super::{
    kubectl::Kubectl,
    nodes::Nodes,
    server::{Process, free_port, scratch},
    shared::skip,
};
use bizrq::{
    clock,
    domain::time::HOUR_MS,
    webhook::tls::{issue, rotation::Authority},
};
use serde_json::{Value, json};
use std::{
    fs::{self, File},
    io::Read,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::{OnceLock, RwLock, RwLockReadGuard},
    time::{Duration, Instant},
};
use tempfile::TempDir;
use tokio::runtime::Runtime;

/// How long anything may take: it runs beside compilers.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);

/// Autoscalers may begin at zero.
const SCALE_TO_ZERO: &str = "--feature-gates=HPAScaleToZero=true";

/// Users and their groups. Each has its name as its token.
const USERS: &[(&str, &str)] = &[
    ("admin", "system:masters"),
    ("alice", "people"),
    ("system:kube-controller-manager", ""),
    ("system:node:n1", "system:masters"),
];

/// See the head of this file.
pub(crate) struct ControlPlane {
    pub(crate) nodes: Nodes,
    // Who depends on others ends first, so that nobody complains.
    controllers: Option<Process>,
    pub(crate) api_server: Option<Process>,
    pub(crate) etcd: Option<Process>,
    ports: Ports,
    place: Place,
}

/// Where they listen, also after they were started again.
#[derive(Clone, Copy)]
struct Ports {
    etcd: u16,
    api_server: u16,
}

/// The programs, and a folder for what they write.
struct Place {
    programs: PathBuf,
    dir: TempDir,
}

/// Everything that tests do beside waiting for `kubectl`.
pub(crate) fn runtime() -> &'static Runtime {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    RUNTIME.get_or_init(|| Runtime::new().unwrap())
}

/// The control plane that tests share; `None`, and a line that says why, where none can be had.
pub(crate) fn shared(test: &str) -> Option<RwLockReadGuard<'static, ControlPlane>> {
    static SHARED: OnceLock<RwLock<ControlPlane>> = OnceLock::new();
    let programs = programs(test)?;
    Some(SHARED.get_or_init(|| RwLock::new(ControlPlane::start(programs))).read().unwrap())
}

/// A control plane of one's own, or a line that says why not.
pub(crate) fn own(test: &str) -> Option<ControlPlane> {
    programs(test).map(ControlPlane::start)
}

/// Where the programs are, or a line that says why not.
fn programs(test: &str) -> Option<PathBuf> {
    let servers = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/servers");
    if let Ok(reason) = fs::read_to_string(servers.join("kubernetes.missing")) {
        skip(test, &format!("no kube-apiserver: {}", reason.trim()));
        return None;
    }
    let programs = servers.join("kubernetes");
    assert!(programs.exists(), "target/servers/kubernetes is missing: run tests/cluster/fetch.sh");
    Some(programs)
}

impl ControlPlane {
    fn start(programs: PathBuf) -> Self {
        let place = Place { programs, dir: scratch() };
        let ports = Ports { etcd: free_port(), api_server: free_port() };
        place.write_credentials(ports.api_server);
        let etcd = Some(place.etcd(ports.etcd));
        let api_server = Some(place.api_server(ports));
        let controllers = Some(place.controllers());
        let kubeconfig = place.path("kubeconfig");
        let nodes = runtime().block_on(Nodes::start(&kubeconfig));
        let plane = Self { nodes, controllers, api_server, etcd, ports, place };
        let role = "create clusterrolebinding people --clusterrole=edit --group=people";
        plane.admin().run(role).succeeds();
        plane
    }

    /// Nobody makes anything of objects any more: they stay as they were created.
    pub(crate) fn without_controllers(&mut self) {
        self.controllers = None;
    }

    /// The API server dies, is away for a moment, and comes back.
    pub(crate) fn restart_api_server(&mut self, meanwhile: impl FnOnce()) {
        self.api_server = None;
        meanwhile();
        self.api_server = Some(self.place.api_server(self.ports));
    }

    /// Keeps what the API server knows now, for [`Self::restore`].
    pub(crate) fn back_up(&mut self) {
        self.stop();
        copy(&self.file("etcd"), &self.file("etcd.kept"));
        self.go_on();
    }

    /// The API server knows what it knew when [`Self::back_up`] was called, and nothing since.
    pub(crate) fn restore(&mut self) {
        self.stop();
        fs::remove_dir_all(self.file("etcd")).unwrap();
        copy(&self.file("etcd.kept"), &self.file("etcd"));
        self.go_on();
    }

    fn stop(&mut self) {
        self.without_controllers();
        self.api_server = None;
        self.etcd = None;
    }

    /// Those who watched an API server that knew more must begin anew, too.
    fn go_on(&mut self) {
        self.etcd = Some(self.place.etcd(self.ports.etcd));
        self.api_server = Some(self.place.api_server(self.ports));
        self.controllers = Some(self.place.controllers());
        self.nodes.begin_anew();
    }

    /// `kubectl` as the user who may do everything.
    pub(crate) fn admin(&self) -> Kubectl {
        self.kubectl("admin")
    }

    /// `kubectl` as somebody who works in namespaces.
    pub(crate) fn alice(&self) -> Kubectl {
        self.kubectl("alice")
    }

    /// `kubectl` as this user.
    pub(crate) fn kubectl(&self, user: &str) -> Kubectl {
        self.place.kubectl(user)
    }

    /// A file in the folder of this control plane; `kubeconfig` has a context for each user.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.place.path(name)
    }

    /// A further user of the kubeconfig, known to the API server by this token.
    pub(crate) fn add_user(&self, name: &str, token: &str) {
        self.add_to_kubeconfig(|_| {
            let context = json!({"name": name, "context": {"cluster": "e2e", "user": name}});
            [("users", json!({"name": name, "user": {"token": token}})), ("contexts", context)]
        });
    }

    /// Further items of its lists.
    fn add_to_kubeconfig(&self, items: impl FnOnce(&Value) -> [(&'static str, Value); 2]) {
        let path = self.file("kubeconfig");
        let mut config: Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
        for (list, item) in items(&config) {
            config[list].as_array_mut().unwrap().push(item);
        }
        fs::write(path, config.to_string()).unwrap();
    }

    /// A newer server of custom resources alone (`tests/cluster/definitions.sh`), which asks this one who may do what: the
    /// context `definitions` leads there. `None`, and a line that says why, where none can be had.
    pub(crate) fn definitions(&self, test: &str) -> Option<Process> {
        let servers = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/servers");
        if let Ok(reason) = fs::read_to_string(servers.join("apiextensions.missing")) {
            skip(test, &format!("no apiextensions-apiserver: {}", reason.trim()));
            return None;
        }
        let port = free_port();
        self.add_to_kubeconfig(|config| {
            let mut cluster = config["clusters"][0].clone();
            cluster["name"] = "definitions".into();
            cluster["cluster"]["server"] = format!("https://127.0.0.1:{port}").into();
            let context = json!({"name": "definitions",
                "context": {"cluster": "definitions", "user": "admin"}});
            [("clusters", cluster), ("contexts", context)]
        });
        let file = |flag: &str, name: &str| format!("--{flag}={}", self.file(name).display());
        let mut process = self.place.spawn(
            servers.join("apiextensions"),
            &[
                &format!("--etcd-servers={}", url(self.ports.etcd)),
                "--etcd-prefix=/definitions",
                &format!("--secure-port={port}"),
                "--bind-address=127.0.0.1",
                &file("kubeconfig", "kubeconfig"),
                &file("authentication-kubeconfig", "kubeconfig"),
                &file("authorization-kubeconfig", "kubeconfig"),
                "--authentication-tolerate-lookup-failure=true",
                &file("tls-cert-file", "server.crt"),
                &file("tls-private-key-file", "server.key"),
                // Their objects are unknown to an older API server, and would be waited for.
                "--disable-admission-plugins=ValidatingAdmissionPolicy,MutatingAdmissionPolicy",
            ],
        );
        // Ready it never is: it waits for flow schemas, which an older API server has under another version.
        self.place.wait_until_healthy(&mut process, "definitions", "apiextensions", "livez");
        Some(process)
    }

    /// Major and minor.
    pub(crate) fn version(&self) -> (u32, u32) {
        self.place.version()
    }

    /// A namespace with labels, ready for pods.
    pub(crate) fn namespace(&self, name: &str, labels: &[(&str, &str)]) {
        let labels: serde_json::Map<_, _> =
            labels.iter().map(|(key, value)| ((*key).to_owned(), json!(value))).collect();
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace",
            "metadata": {"name": name, "labels": labels}});
        self.admin().apply(&namespace).succeeds();
        // No pod is admitted before.
        let account = format!("get serviceaccount default -n {name}");
        eventually("a service account", || self.admin().run(&account).done());
    }
}

/// What `look` finds, as soon as it finds it; until then it says what it sees instead.
pub(crate) fn eventually<T>(what: &str, mut look: impl FnMut() -> Result<T, String>) -> T {
    let begun = Instant::now();
    loop {
        match look() {
            Ok(found) => return found,
            Err(seen) => {
                let late = begun.elapsed() > PATIENCE;
                assert!(!late, "{what}: not within {PATIENCE:?}, but: {seen}");
            }
        }
        std::thread::sleep(Duration::from_millis(100));
    }
}

impl Place {
    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn kubectl(&self, user: &str) -> Kubectl {
        Kubectl::new(self.programs.join("kubectl"), self.dir.path(), user)
    }

    /// Certificates, keys, tokens, and a kubeconfig with a context for each user.
    fn write_credentials(&self, port: u16) {
        let now = clock::now();
        let until = now.shifted(24 * HOUR_MS);
        let authority: Authority = issue::authority(now, until).unwrap();
        let names = ["127.0.0.1", "localhost"].map(str::to_owned);
        let serving = issue::serving(&authority, &names, now, until).unwrap();
        let write = |name: &str, text: &str| fs::write(self.path(name), text).unwrap();
        write("ca.crt", &authority.certificate);
        write("server.crt", &serving.certificate);
        write("server.key", &serving.key);
        // Any pair of keys will do to sign the tokens of service accounts; a certificate is a public key, too.
        let accounts = issue::authority(now, until).unwrap();
        write("accounts.key", &accounts.key);
        write("accounts.crt", &accounts.certificate);
        let tokens = USERS.iter().map(|(user, group)| format!("{user},{user},{user},{group}\n"));
        write("tokens.csv", &tokens.collect::<String>());
        let users = USERS.iter().map(|(user, _)| json!({"name": user, "user": {"token": user}}));
        let contexts = USERS
            .iter()
            .map(|(user, _)| json!({"name": user, "context": {"cluster": "e2e", "user": user}}));
        let cluster = json!({"server": format!("https://127.0.0.1:{port}"),
            "certificate-authority": self.path("ca.crt")});
        let config = json!({"apiVersion": "v1", "kind": "Config", "current-context": "admin",
            "clusters": [{"name": "e2e", "cluster": cluster}],
            "users": users.collect::<Vec<_>>(), "contexts": contexts.collect::<Vec<_>>()});
        write("kubeconfig", &config.to_string());
        let controllers = "system:kube-controller-manager";
        let mut config = config;
        config["current-context"] = controllers.into();
        write("kubeconfig.controllers", &config.to_string());
    }

    fn etcd(&self, port: u16) -> Process {
        let (client, peer) = (url(port), url(free_port()));
        self.spawn(
            "etcd",
            &[
                &format!("--data-dir={}", self.path("etcd").display()),
                &format!("--listen-client-urls={client}"),
                &format!("--advertise-client-urls={client}"),
                &format!("--listen-peer-urls={peer}"),
                &format!("--initial-advertise-peer-urls={peer}"),
                &format!("--initial-cluster=default={peer}"),
                "--log-level=error",
            ],
        )
    }

    /// Starts it, and waits until it answers.
    fn api_server(&self, ports: Ports) -> Process {
        let file = |flag: &str, name: &str| format!("--{flag}={}", self.path(name).display());
        let mut process = self.spawn(
            "kube-apiserver",
            &[
                &format!("--etcd-servers={}", url(ports.etcd)),
                &format!("--secure-port={}", ports.api_server),
                "--bind-address=127.0.0.1",
                "--endpoint-reconciler-type=none",
                "--service-cluster-ip-range=10.96.0.0/16",
                "--service-account-issuer=https://kubernetes.default.svc",
                &file("service-account-key-file", "accounts.crt"),
                &file("service-account-signing-key-file", "accounts.key"),
                &file("tls-cert-file", "server.crt"),
                &file("tls-private-key-file", "server.key"),
                &file("token-auth-file", "tokens.csv"),
                "--authorization-mode=RBAC",
                SCALE_TO_ZERO,
            ],
        );
        self.wait_until_healthy(&mut process, "admin", "kube-apiserver", "readyz");
        process
    }

    fn controllers(&self) -> Process {
        let file = |flag: &str, name: &str| format!("--{flag}={}", self.path(name).display());
        let mut flags = vec![
            file("kubeconfig", "kubeconfig.controllers"),
            file("service-account-private-key-file", "accounts.key"),
            file("root-ca-file", "ca.crt"),
            file("cert-dir", "controllers"),
            "--use-service-account-credentials=true".to_owned(),
            "--controllers=*,-nodelifecycle".to_owned(),
            "--horizontal-pod-autoscaler-sync-period=1s".to_owned(),
            "--horizontal-pod-autoscaler-downscale-stabilization=1s".to_owned(),
            SCALE_TO_ZERO.to_owned(),
            "--leader-elect=false".to_owned(),
            "--bind-address=127.0.0.1".to_owned(),
            format!("--secure-port={}", free_port()),
            "--kube-api-qps=500".to_owned(),
            "--kube-api-burst=1000".to_owned(),
        ];
        // A second port, without TLS, that all of one host would share. Later versions have none, and no such flag.
        if self.version().1 < 24 {
            flags.push("--port=0".to_owned());
        }
        let flags: Vec<_> = flags.iter().map(String::as_str).collect();
        self.spawn("kube-controller-manager", &flags)
    }

    /// Major and minor.
    fn version(&self) -> (u32, u32) {
        let said = Command::new(self.programs.join("kube-apiserver")).arg("--version").output();
        let said = String::from_utf8(said.unwrap().stdout).unwrap();
        let numbers = said.trim().trim_start_matches("Kubernetes v").split('.');
        let numbers: Vec<_> = numbers.take(2).map(|number| number.parse().unwrap()).collect();
        (numbers[0], numbers[1])
    }

    /// One of the programs, or another, by its path.
    fn spawn(&self, program: impl AsRef<Path>, flags: &[&str]) -> Process {
        let program = self.programs.join(program);
        let name = program.file_name().unwrap().to_str().unwrap();
        let log = File::options().create(true).append(true).open(self.log(name)).unwrap();
        let mut command = Command::new(&program);
        command.args(flags);
        Process::spawn(command, Stdio::null(), log.into())
    }

    fn log(&self, program: &str) -> PathBuf {
        self.path(&format!("{program}.log"))
    }

    /// Waits until the server behind this context answers.
    fn wait_until_healthy(&self, server: &mut Process, context: &str, program: &str, health: &str) {
        let kubectl = self.kubectl(context);
        let begun = Instant::now();
        while !kubectl.run(&format!("get --raw /{health}")).ok {
            if server.ended().is_some() || begun.elapsed() > PATIENCE {
                let mut said = String::new();
                File::open(self.log(program)).unwrap().read_to_string(&mut said).unwrap();
                panic!("{program} does not come up:\n{said}");
            }
            std::thread::sleep(Duration::from_millis(100));
        }
    }
}

fn url(port: u16) -> String {
    format!("http://127.0.0.1:{port}")
}

/// A folder and everything in it.
fn copy(from: &Path, to: &Path) {
    let copied = Command::new("cp").arg("-r").arg(from).arg(to).status();
    assert!(copied.unwrap().success(), "cp -r {} {}", from.display(), to.display());
}
