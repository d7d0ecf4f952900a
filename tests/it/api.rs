//! The query API over the simulated fortnight: its numbers are those of the command line, its pages join without a gap,
//! what makes no sense is told, and nobody gets in by another name.

mod browser;
mod clients;
mod commands;
mod described;
mod now;
mod queries;
mod same;
mod tenants;

use bizrq::{
    api::{self, Access},
    demo::{self, Options},
    domain::standing::Tree,
    event_log::AnyLog,
    k8s::kinds::Kinds,
    metrics,
    projection::{MemoryStore, Projection, Runner, runner},
    run::judge::ByWebhook,
    webhook::{self, manifest::Manifests},
};
use prometheus::Registry;
use serde_json::Value;
use std::{
    collections::BTreeMap,
    io::{BufRead, BufReader, Read, Write},
    net::{SocketAddr, TcpStream},
    process::{Child, Command, Stdio},
    sync::{Arc, LazyLock, mpsc},
    thread::{self, JoinHandle},
    time::Duration,
};
use tempfile::TempDir;
use tokio::runtime::Runtime;

const BEGIN: &str = "2026-11-02T00:00:00.000Z";
const END: &str = "2026-11-16T00:00:00.000Z";
const PATIENCE: Duration = Duration::from_secs(120);

struct Served {
    dir: TempDir,
    address: SocketAddr,
    /// The same, for who has a token of a file.
    tenants: SocketAddr,
    head: u64,
    /// What Prometheus is told of its groups.
    metrics: Registry,
    projection: Projection,
    _runtime: Runtime,
}

/// One for all tests, for as long as they run.
static SERVED: LazyLock<Served> = LazyLock::new(|| {
    let (dir, runtime) = (tempfile::tempdir().unwrap(), Runtime::new().unwrap());
    let place = dir.path().to_str().unwrap().to_owned();
    let (addresses, head, projection) = runtime.block_on(async {
        let log = AnyLog::open(&place).await.unwrap();
        let options = Options { seed: 7, pods: 400 };
        let head = demo::play(&log, options, |_| {}).await.unwrap().records;
        log.close().unwrap();
        let log = Arc::new(AnyLog::open_read(&place).await.unwrap());
        let (runner, mut projection) =
            Runner::new(MemoryStore::default(), runner::Options::default());
        let folded = Arc::clone(&log);
        tokio::spawn(async move { runner.run(&*folded, std::future::pending::<()>()).await });
        projection.caught_up().await.unwrap();
        let judge = ByWebhook::new([Manifests {
            kinds: Arc::new(Kinds::builtin().unwrap()),
            context: Arc::default(),
            options: webhook::Options::new("east"),
            projection: projection.clone(),
        }]);
        let source = api::Source {
            log,
            projection,
            now: demo::end,
            access: Access::default(),
            judge: Some(Arc::new(judge)),
            metrics: None,
        };
        let access = Access::default().with_tokens(tenants::tokens(dir.path(), &source));
        let tenants = serve(api::Source { access, ..source.clone() }).await;
        let seen = source.projection.clone();
        ([serve(source).await, tenants], head, seen)
    });
    let [address, tenants] = addresses;
    let metrics = Registry::new();
    metrics::register_groups(&metrics, projection.clone(), 1000, demo::end).unwrap();
    Served { dir, address, tenants, head, metrics, projection, _runtime: runtime }
});

/// Serves at an address of its own, as long as the runtime lives.
async fn serve(source: api::Source) -> SocketAddr {
    let listener = api::bind("127.0.0.1:0".parse().unwrap(), &source.access).await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(api::serve(listener, None, source, std::future::pending()));
    address
}

pub(crate) struct Answer {
    pub(crate) status: u16,
    head: String,
    pub(crate) body: String,
}

/// Asks, as this host if no host is given; what comes is read by whoever asked.
pub(crate) fn send(address: SocketAddr, path: &str, headers: &str) -> TcpStream {
    send_with(address, "GET", path, headers, "")
}

fn send_with(
    address: SocketAddr,
    method: &str,
    path: &str,
    headers: &str,
    body: &str,
) -> TcpStream {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let host = if headers.contains("host:") { "" } else { "host: localhost\r\n" };
    let length = match body.len() {
        0 => String::new(),
        length => format!("content-length: {length}\r\n"),
    };
    let head =
        format!("{method} {path} HTTP/1.1\r\n{host}{headers}{length}connection: close\r\n\r\n");
    // Who is turned away may not read to the end.
    let _ = stream.write_all((head + body).as_bytes());
    stream
}

pub(crate) fn get_with(address: SocketAddr, path: &str, headers: &str) -> Answer {
    with_body(address, "GET", path, headers, "")
}

fn with_body(address: SocketAddr, method: &str, path: &str, headers: &str, body: &str) -> Answer {
    let mut text = String::new();
    send_with(address, method, path, headers, body).read_to_string(&mut text).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    Answer { status, head: head.to_owned(), body: body.to_owned() }
}

fn get(path: &str) -> Value {
    get_at(SERVED.address, "", path)
}

fn get_at(address: SocketAddr, headers: &str, path: &str) -> Value {
    let answer = get_with(address, path, headers);
    assert_eq!(answer.status, 200, "{path}: {}", answer.body);
    serde_json::from_str(&answer.body).unwrap()
}

/// The list of all pages of so many.
fn pages(path: &str, list: &str, limit: usize) -> Vec<Value> {
    pages_at(SERVED.address, "", path, list, limit)
}

fn pages_at(
    address: SocketAddr,
    headers: &str,
    path: &str,
    list: &str,
    limit: usize,
) -> Vec<Value> {
    let (mut all, mut next) = (Vec::new(), String::new());
    loop {
        let mut page = get_at(address, headers, &format!("{path}limit={limit}{next}"));
        let lines = page[list].as_array_mut().unwrap();
        assert!(lines.len() <= limit);
        all.append(lines);
        let Some(token) = page["next"].as_str() else { return all };
        next = format!("&page={token}");
    }
}

fn bizrq(arguments: &[&str]) -> String {
    let log = SERVED.dir.path().to_str().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_bizrq"));
    let output = command.args(arguments).args(["--log", log]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Exact amounts by group and key.
fn sums(lines: &[Value]) -> BTreeMap<(String, String), i128> {
    let mut sums = BTreeMap::new();
    for line in lines {
        let name = |field: &str| line[field].as_str().unwrap().to_owned();
        let exact: i128 = line["exact"].as_str().unwrap().parse().unwrap();
        *sums.entry((name("group"), name("key"))).or_default() += exact;
    }
    sums.retain(|_, exact| *exact != 0);
    sums
}

#[test]
fn quotas_are_what_the_command_line_says_whole_or_page_by_page() {
    let text = bizrq(&["quota", "tree", "--at", END, "-o", "json"]);
    let tree: Value = serde_json::from_str(&text).unwrap();
    let quotas = get("/v1/quotas");
    assert_eq!(quotas["groups"], tree["groups"]);
    assert_eq!(quotas["position"], SERVED.head);
    assert_eq!(Value::Array(pages("/v1/quotas?", "groups", 7)), tree["groups"]);
}

#[test]
fn one_group_is_the_same_as_in_the_tree() {
    for group in get("/v1/quotas")["groups"].as_array().unwrap() {
        let name = group["group"].as_str().unwrap();
        if name.is_empty() {
            continue;
        }
        let one = get(&format!("/v1/quotas/{name}"));
        for field in ["group", "state", "keys"] {
            assert_eq!(one[field], group[field], "{name}");
        }
        let above: Vec<_> = one["above"].as_array().unwrap().iter().collect();
        assert_eq!(above.first().copied().unwrap_or(&Value::Null), &group["parent"], "{name}");
    }
}

#[test]
fn one_group_is_answered_alike_where_it_was_asked_and_on_another_thread() {
    let ledger = SERVED.projection.ledger();
    let name = |id| ledger.names().group_name(id).to_owned();
    let declared: Vec<_> = ledger.names().groups().map(name).filter(|n| !n.is_empty()).collect();
    let top = declared.iter().find(|name| *name == "acme").unwrap();
    // Nothing is below one team, and eleven groups below the company.
    assert!(Tree::is_small(&ledger, "language", 0) && Tree::is_small(&ledger, top, 11));
    assert!(!Tree::is_small(&ledger, top, 10) && !Tree::is_small(&ledger, "nobody", 11));
    drop(ledger);
    for name in declared {
        let path = format!("/v1/quotas/{name}");
        // What somebody sees of it is found out on another thread.
        let narrowed = get_at(SERVED.address, "bizrq-group: acme\r\n", &path);
        assert_eq!(get(&path), narrowed, "{name}");
    }
}

#[test]
fn usage_is_what_the_meter_says_however_it_is_cut() {
    let meter: Value = serde_json::from_str(&bizrq(&["meter", "--at", END, "-o", "json"])).unwrap();
    let metered = sums(meter["usage"].as_array().unwrap());
    assert!(metered.len() > 10);
    let path = format!("/v1/usage?from={BEGIN}&to={END}&");
    for (by, limit) in [("", 1000), ("", 3), ("by=day&", 100), ("by=month&", 10), ("by=hour&", 999)]
    {
        let lines = pages(&format!("{path}{by}"), "lines", limit);
        assert_eq!(sums(&lines), metered, "{by} {limit}");
    }
}

#[test]
fn a_subtree_uses_what_its_groups_use() {
    let quotas = get("/v1/quotas");
    let groups = quotas["groups"].as_array().unwrap();
    let path = format!("/v1/usage?from={BEGIN}&to={END}&by=day&");
    let own = sums(&pages(&path, "lines", 1000));
    let subtrees = sums(&pages(&format!("{path}scope=subtree&"), "lines", 1000));
    let mut expected: BTreeMap<(String, String), i128> = BTreeMap::new();
    for ((group, key), exact) in &own {
        let mut name = Some(group.clone());
        while let Some(up) = name {
            *expected.entry((up.clone(), key.clone())).or_default() += exact;
            let known = groups.iter().find(|g| g["group"] == *up);
            name = known.and_then(|g| g["parent"].as_str()).map(str::to_owned);
        }
    }
    assert_eq!(subtrees, expected);
}

#[test]
fn what_makes_no_sense_is_told_with_its_value_and_the_remedy() {
    for (path, status, words) in [
        ("/v1/usage?from=yesterday", 400, "from: `yesterday`"),
        ("/v1/usage?to=2026-11-16T00:30:00Z", 400, "no whole hour"),
        ("/v1/usage?to=2026-11-17T00:00:00Z", 400, "the last whole hour"),
        ("/v1/usage?from=2026-11-16T00:00:00Z", 400, "does not lie before"),
        ("/v1/usage?by=hour&from=1999-01-01T00:00:00Z", 400, "366 periods"),
        ("/v1/usage?group=language&by=hour&from=1999-01-01T00:00:00Z", 400, "8784 periods"),
        ("/v1/usage?limit=0", 400, "from 1 to 10000"),
        ("/v1/usage?limit=-1", 400, "limit"),
        ("/v1/usage?page=zz", 400, "no token"),
        ("/v1/usage?group=nobody", 404, "nobody"),
        ("/v1/usage?grup=language", 400, "grup"),
        ("/v1/usage?by=week", 400, "week"),
        ("/v1/quotas?limit=1001", 400, "from 1 to 1000"),
        ("/v1/quotas?page=6e6f626f6479", 404, "not there"),
        ("/v1/quotas/nobody", 404, "nobody"),
        ("/v1/quotas/%ff", 400, "path"),
        ("/v1/events?from=0", 400, "the first is 1"),
        ("/v1/events?last=1001", 400, "more than 1000"),
        ("/v1/events?from=1&last=1", 400, "beside from"),
        ("/v2", 404, "/v1/quotas"),
    ] {
        let answer = get_with(SERVED.address, path, "");
        let problem: Value = serde_json::from_str(&answer.body).unwrap();
        assert_eq!(answer.status, status, "{path}: {problem}");
        assert!(answer.head.contains("application/problem+json"), "{path}: {}", answer.head);
        assert_eq!(problem["status"], status, "{path}");
        assert!(problem["detail"].as_str().unwrap().contains(words), "{path}: {problem}");
    }
}

#[test]
fn who_has_an_answer_is_told_so() {
    let first = get_with(SERVED.address, "/v1/quotas/language", "");
    let tag = first.head.lines().find_map(|line| line.strip_prefix("etag: ")).unwrap();
    let known =
        get_with(SERVED.address, "/v1/quotas/language", &format!("if-none-match: {tag}\r\n"));
    assert_eq!((known.status, known.body.as_str()), (304, ""));
    let other = get_with(SERVED.address, "/v1/quotas/language", "if-none-match: \"1-1\"\r\n");
    assert_eq!(other.status, 200);
}

#[test]
fn a_page_of_the_web_whose_name_leads_here_gets_nothing() {
    for host in ["evil.example", "evil.example:80", "127.0.0.1.evil.example"] {
        let answer = get_with(SERVED.address, "/v1/quotas", &format!("host: {host}\r\n"));
        assert_eq!(answer.status, 421, "{host}");
    }
}

#[tokio::test]
async fn without_tokens_it_listens_on_this_host_only() {
    for address in ["0.0.0.0:0", "[::]:0"] {
        let refused = api::bind(address.parse().unwrap(), &Access::default()).await.unwrap_err();
        assert!(refused.to_string().contains("127.0.0.1"), "{refused}");
    }
}

#[test]
fn the_page_needs_nothing_from_elsewhere() {
    let mut files = vec![
        ("/".to_owned(), "text/html"),
        ("/page.css".to_owned(), "text/css"),
        ("/page.js".to_owned(), "text/javascript"),
    ];
    let imported = get_with(SERVED.address, "/page.js", "").body;
    let names = imported.split(" from \".").skip(1).map(|rest| rest.split('"').next().unwrap());
    files.extend(names.map(|name| (name.to_owned(), "text/javascript")));
    assert!(files.len() > 6, "{files:?}");
    for (path, kind) in files {
        let answer = get_with(SERVED.address, &path, "");
        assert_eq!(answer.status, 200, "{path}");
        assert!(answer.head.contains(kind), "{path}: {}", answer.head);
        assert!(answer.head.contains("default-src 'none'"), "{path}: {}", answer.head);
        let body = answer.body.replace("http://www.w3.org/2000/svg", "");
        assert!(!body.contains("http:") && !body.contains("https:"), "{path}");
        assert!(!body.contains("style=") && !body.contains("innerHTML"), "{path}");
    }
}

/// Ids and texts of the next events.
fn heard(query: &str, headers: &str, most: usize) -> Vec<(u64, String)> {
    heard_at(SERVED.address, query, headers, most)
}

fn heard_at(address: SocketAddr, query: &str, headers: &str, most: usize) -> Vec<(u64, String)> {
    let stream = send(address, &format!("/v1/events{query}"), headers);
    let (mut events, mut id) = (Vec::new(), 0);
    let mut lines = BufReader::new(stream).lines().map(Result::unwrap);
    while events.len() < most {
        let line = lines.next().expect("the stream goes on");
        match line.split_once(": ") {
            Some(("id", position)) => id = position.parse().unwrap(),
            Some(("data", text)) => events.push((id, text.to_owned())),
            _ => {}
        }
    }
    events
}

#[test]
fn events_are_the_records_of_the_log_and_go_on_where_one_left_off() {
    let head = SERVED.head;
    let tailed = bizrq(&["log", "tail", "--last", "40", "-o", "lines"]);
    let expected: Vec<_> = (head - 39..=head).zip(tailed.lines().map(str::to_owned)).collect();
    let first = heard("?last=40", "", 15);
    let last = format!("last-event-id: {}\r\n", first.last().unwrap().0);
    let rest = heard("?last=40", &last, 25);
    assert_eq!([first, rest].concat(), expected);
}

/// `bizrq demo --serve`, at a port that was free.
struct Demo {
    process: Process,
    address: SocketAddr,
    report: JoinHandle<String>,
}

/// A process that ends with the test.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Demo {
    fn start() -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_bizrq"));
        command.args(["demo", "--pods", "200", "--json", "--serve", "--listen", "127.0.0.1:0"]);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut process = Process(command.spawn().unwrap());
        let child = &mut process.0;
        let (stdout, stderr) = (child.stdout.take().unwrap(), child.stderr.take().unwrap());
        let (told, hear) = mpsc::channel();
        thread::spawn(move || {
            for line in BufReader::new(stderr).lines().map_while(Result::ok) {
                let _ = told.send(line);
            }
        });
        let report = thread::spawn(move || std::io::read_to_string(stdout).unwrap());
        loop {
            let line = hear.recv_timeout(PATIENCE).expect("it says where it listens");
            if let Some((_, rest)) = line.split_once("look at it: http://") {
                let address = rest.trim_end_matches('/').parse().unwrap();
                return Self { process, address, report };
            }
        }
    }

    /// Interrupts it, and gives what it had printed.
    fn end(mut self) -> Value {
        let child = &mut self.process.0;
        let kill = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
        assert!(kill.success() && child.wait().unwrap().success());
        serde_json::from_str(&self.report.join().unwrap()).unwrap()
    }
}

#[test]
fn the_demo_leaves_the_api_and_its_page_running_until_it_is_interrupted() {
    let demo = Demo::start();
    let served: Value =
        serde_json::from_str(&get_with(demo.address, "/v1/quotas", "").body).unwrap();
    assert_eq!(served["groups"], demo.end()["groups"]["groups"]);
}
