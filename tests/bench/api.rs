//! How long who asks waits while 1,000 events a second are applied: `cargo bench --bench api`.
//!
//! 10,000 groups with budgets and a year of pods; what tells notices looks at all of them as often as a serving process
//! does. A quota is asked for by its name 1,000 times a second on four connections; times are the client's, over
//! loopback, and the server's own, read off `bizrq_api_request_duration_seconds` as an operator does. An event is late by what lies between the log's answer to who appended it and
//! its arrival at a client of `/v1/events`. Figures are medians of five runs. A debug build runs a small one, once.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic)]
#![allow(clippy::print_stdout)]

use bizrq::{
    api::{self, Access},
    clock,
    domain::{
        event::*,
        quantity::{Format, Quantity},
        resources::{Models, Resources},
        time::{HOUR_MS, Timestamp},
    },
    event_log::{AnyLog, EventLog, NewEvent, memory::MemoryLog},
    notify::{self, due::Parts, notice::Told},
    projection::{MemoryStore, Projection, Runner, runner},
};
use prometheus::{Registry, proto::Histogram};
use serde_json::Value;
use std::{
    collections::BTreeMap,
    net::SocketAddr,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    net::TcpStream,
    time::{Instant, MissedTickBehavior, interval, sleep},
};

const IS_SMALL: bool = cfg!(debug_assertions);
const RUNS: usize = if IS_SMALL { 1 } else { 5 };
const RUN: Duration = Duration::from_secs(if IS_SMALL { 1 } else { 10 });
const GROUPS: u64 = if IS_SMALL { 200 } else { 10_000 };
/// The first of them have the others below them.
const PARENTS: u64 = 100;
/// Pods that each group had in the year.
const PODS: u64 = 24;
const DAY: i64 = 24 * HOUR_MS;
const CONNECTIONS: u64 = 4;
/// One group is to be answered within this, of a hundred ninety-nine times.
const LIMIT: Duration = Duration::from_millis(1);
/// How often who tells notices looks at a ledger that changes.
const LOOK: Duration = Duration::from_millis(250);

static NEXT: AtomicU64 = AtomicU64::new(1);

fn event(subject: String, time: Timestamp, data: Data<'_>) -> NewEvent {
    let id = EventId(NEXT.fetch_add(1, Ordering::Relaxed).into());
    let source = "/clusters/east".into();
    let subject = subject.into();
    NewEvent::new(&Event { id, source, subject, time, recorded_at: time, data }).unwrap()
}

fn name(group: u64) -> String {
    format!("team-{group:05}")
}

fn quota(group: u64, time: Timestamp) -> NewEvent {
    let parent = if group < PARENTS { String::new() } else { name(group % PARENTS) };
    let cores = if group < PARENTS { "100000000" } else { "500000" };
    let hard = [("limits.cpu", cores), ("cash/limits.cpu", cores), ("limits.cpu.A4", cores)];
    let hard = hard.map(|(key, q)| (key.into(), Quantity::parse(q).unwrap())).into_iter().collect();
    let spec = QuotaSpec { parent: parent.into(), hard, ..QuotaSpec::default() };
    let (uid, resource_version) = (format!("q{group}").into(), (group + 1).to_string().into());
    let data = QuotaDeclared { uid, resource_version, generation: 1, spec };
    event(format!("quotas/{}", name(group)), time, Data::QuotaDeclared(data))
}

fn uid(pod: u64) -> String {
    format!("3e9c0000-0000-4000-8000-{pod:012x}")
}

fn start(pod: u64, group: u64, time: Timestamp, held: &Arc<Resources>) -> NewEvent {
    let data = PodStarted {
        uid: uid(pod).into(),
        owner: None,
        group: name(group).into(),
        models: Models { cpu: Some("A4".into()), memory: None, gpu: None },
        node: "n".into(),
        held: Arc::clone(held),
        reserved: None,
        basis: StartBasis::Bound,
    };
    event(format!("pods/x/{pod}"), time, Data::PodStarted(data))
}

fn stop(pod: u64, time: Timestamp) -> NewEvent {
    let data = PodStopped {
        uid: uid(pod).into(),
        earliest: time,
        latest: time,
        ran: None,
        basis: StopBasis::TerminalStatus,
        phase: "Succeeded".into(),
        reason: "".into(),
    };
    event(format!("pods/x/{pod}"), time, Data::PodStopped(data))
}

fn heartbeat(time: Timestamp) -> NewEvent {
    let data = ObserverSynced { resource_versions: BTreeMap::new(), since: time };
    event("observer".to_owned(), time, Data::ObserverSynced(data))
}

/// Two cores and four gibibytes.
fn held() -> Arc<Resources> {
    let mut held = Resources::default();
    for (name, milli) in [("cpu", 2_000), ("memory", 4_000 << 30)] {
        held.requests.set(name, Quantity::from_milli(milli, Format::DecimalSI));
        held.limits.set(name, Quantity::from_milli(milli, Format::DecimalSI));
    }
    Arc::new(held)
}

/// A year until `now`: each group's pods one behind the other, ten days each, at hours of their own.
async fn year(log: &AnyLog, now: Timestamp) {
    let begin = now.shifted(-365 * DAY);
    log.append((0..GROUPS).map(|group| quota(group, begin)).collect()).await.unwrap();
    let held = held();
    for nth in 0..PODS {
        let at = begin.shifted(i64::try_from(nth).unwrap() * 15 * DAY);
        let pods = (0..GROUPS).flat_map(|group| {
            let (pod, hours) = (nth * GROUPS + group, i64::try_from(group % 97).unwrap());
            let from = at.shifted(hours * HOUR_MS + 1_000);
            [start(pod, group, from, &held), stop(pod, from.shifted(10 * DAY))]
        });
        log.append(pods.collect()).await.unwrap();
        log.append(vec![heartbeat(at.shifted(14 * DAY))]).await.unwrap();
    }
}

/// Appends 1,000 events a second, ten at a time; says when the log had each.
async fn grow(log: Arc<AnyLog>, acknowledged: Arc<Mutex<BTreeMap<u64, Instant>>>) {
    let (held, mut pod) = (held(), PODS * GROUPS);
    let mut ticks = interval(Duration::from_millis(10));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Burst);
    loop {
        ticks.tick().await;
        let now = clock::now();
        let five = (0..5).flat_map(|n| {
            let group = (pod + n) * 31 % GROUPS;
            [start(pod + n, group, now.shifted(-60_000), &held), stop(pod + n, now)]
        });
        let appended = log.append(five.collect()).await.unwrap();
        pod += 5;
        let (at, mut acknowledged) = (Instant::now(), acknowledged.lock().unwrap());
        acknowledged.extend((appended.first..=appended.last).map(|position| (position, at)));
    }
}

/// Looks at the ledger as who tells notices does, in parts; how long the fold waits for each.
async fn look(projection: Projection, looks: Arc<Mutex<Vec<Duration>>>) {
    let mut told = Told::default();
    loop {
        let (mut parts, now, mut more) = (Parts::default(), clock::now(), true);
        while more {
            let began = Instant::now();
            more = parts.groups(&projection.ledger(), &told, now, notify::AT_ONCE);
            looks.lock().unwrap().push(began.elapsed());
            tokio::task::yield_now().await;
        }
        let due = parts.end(&projection.ledger(), &told, now, None);
        due.notices.into_iter().for_each(|notice| told.note(notice));
        sleep(LOOK).await;
    }
}

/// A connection that is kept.
struct Client(BufReader<TcpStream>);

impl Client {
    async fn connect(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).await.unwrap();
        stream.set_nodelay(true).unwrap();
        Self(BufReader::new(stream))
    }

    async fn get(&mut self, path: &str) -> Vec<u8> {
        let request = format!("GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n");
        self.0.get_mut().write_all(request.as_bytes()).await.unwrap();
        let (mut line, mut length) = (String::new(), 0);
        self.0.read_line(&mut line).await.unwrap();
        assert!(line.contains(" 200 "), "{path}: {line}");
        while line != "\r\n" {
            line.clear();
            self.0.read_line(&mut line).await.unwrap();
            if let Some(text) = line.strip_prefix("content-length: ") {
                length = text.trim().parse().unwrap();
            }
        }
        let mut body = vec![0; length];
        self.0.read_exact(&mut body).await.unwrap();
        body
    }
}

/// Quotas by name, 1,000 times a second.
async fn quotas(address: SocketAddr) -> Vec<Duration> {
    let each = (0..CONNECTIONS).map(|connection| async move {
        let mut client = Client::connect(address).await;
        let mut ticks = interval(Duration::from_millis(CONNECTIONS));
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let (begin, mut times) = (Instant::now(), Vec::new());
        let mut group = connection;
        while begin.elapsed() < RUN {
            ticks.tick().await;
            group = (group + 7_919) % GROUPS;
            let (path, began) = (format!("/v1/quotas/{}", name(group)), Instant::now());
            client.get(&path).await;
            times.push(began.elapsed());
        }
        times
    });
    let tasks: Vec<_> = each.map(tokio::spawn).collect();
    let mut times = Vec::new();
    for task in tasks {
        times.extend(task.await.unwrap());
    }
    times
}

/// How late events come to a client of the stream.
async fn late(
    address: SocketAddr,
    acknowledged: Arc<Mutex<BTreeMap<u64, Instant>>>,
) -> Vec<Duration> {
    let mut stream = BufReader::new(TcpStream::connect(address).await.unwrap());
    let request = "GET /v1/events HTTP/1.1\r\nhost: localhost\r\n\r\n";
    stream.get_mut().write_all(request.as_bytes()).await.unwrap();
    let (begin, mut line, mut came) = (Instant::now(), String::new(), Vec::new());
    while begin.elapsed() < RUN {
        line.clear();
        stream.read_line(&mut line).await.unwrap();
        if let Some(position) = line.strip_prefix("id: ") {
            came.push((position.trim().parse::<u64>().unwrap(), Instant::now()));
        }
    }
    // An event may come before who appended it hears that it is there.
    sleep(Duration::from_millis(100)).await;
    let mut acknowledged = acknowledged.lock().unwrap();
    let late = came.iter().filter_map(|(position, at)| {
        Some(at.saturating_duration_since(acknowledged.remove(position)?))
    });
    late.collect()
}

/// Usage of the year of one group, `by` month or hour, asked one after the other.
async fn usage_of_one(address: SocketAddr, years: &str, by: &str) -> Vec<Duration> {
    let mut client = Client::connect(address).await;
    let mut times = Vec::new();
    for nth in 0..if IS_SMALL { 5 } else { 200 } {
        let group = name(PARENTS + nth * 7_919 % (GROUPS - PARENTS));
        let path = format!("/v1/usage?group={group}&by={by}&{years}&limit=10000");
        let began = Instant::now();
        let body = client.get(&path).await;
        times.push(began.elapsed());
        let told: Value = serde_json::from_slice(&body).unwrap();
        assert!(told["lines"].as_array().unwrap().len() > 12, "{told}");
    }
    times
}

/// Usage of the year of all groups by month, all pages; how many lines.
async fn usage_of_all(address: SocketAddr, asked: &str) -> (Duration, usize) {
    let mut client = Client::connect(address).await;
    let (began, mut lines, mut next) = (Instant::now(), 0, String::new());
    loop {
        let page = client.get(&format!("/v1/usage?by=month&{asked}&limit=10000{next}")).await;
        // To read it as JSON would take longer than to make it.
        let page = str::from_utf8(&page).unwrap();
        lines += page.matches("\"exact\":").count();
        let Some((_, rest)) = page.rsplit_once("\"next\":\"") else {
            return (began.elapsed(), lines);
        };
        next = format!("&page={}", rest.split('"').next().unwrap());
    }
}

/// What the server counted of answers about one group: how many took no longer than each bound.
struct Served(Vec<(Duration, u64)>);

impl Served {
    fn of(registry: &Registry) -> Self {
        let families = registry.gather();
        let named = |name: &str| families.iter().find(|family| family.name() == name);
        let all = named("bizrq_api_request_duration_seconds").map_or(&[][..], |f| f.get_metric());
        let one = all.iter().find(|metric| {
            let is = |name, value| {
                metric.get_label().iter().any(|l| l.name() == name && l.value() == value)
            };
            is("route", "/v1/quotas/{name}") && is("status", "200")
        });
        let Some(one) = one else { return Self(Vec::new()) };
        let histogram: &Histogram = one.get_histogram();
        let bound = |bound: f64| Duration::try_from_secs_f64(bound).unwrap_or(Duration::MAX);
        let buckets = histogram.get_bucket().iter();
        let mut counts: Vec<_> =
            buckets.map(|b| (bound(b.upper_bound()), b.cumulative_count())).collect();
        counts.push((Duration::MAX, histogram.get_sample_count()));
        Self(counts)
    }

    /// What was counted since `before`.
    fn since(&self, before: &Self) -> Self {
        let earlier = |at| before.0.get(at).map_or(0, |(_, count)| *count);
        let each = self.0.iter().enumerate();
        Self(each.map(|(at, (bound, count))| (*bound, count - earlier(at))).collect())
    }

    /// The first bound that the share `part` of the answers kept.
    fn within(&self, part: f64) -> Duration {
        let all = self.0.last().map_or(0, |(_, count)| *count);
        let enough = |(_, count): &&(Duration, u64)| *count as f64 >= all as f64 * part;
        self.0.iter().find(enough).map_or(Duration::MAX, |(bound, _)| *bound)
    }

    /// How many of a hundred answers kept `bound`, which must be one of a bucket.
    fn share(&self, bound: Duration) -> f64 {
        let all = self.0.last().map_or(0, |(_, count)| *count);
        let kept = self.0.iter().find(|(b, _)| *b == bound).expect("a bucket with this bound").1;
        100.0 * kept as f64 / all as f64
    }
}

/// The share `part` of some times is not longer than this.
fn quantile(mut times: Vec<Duration>, part: f64) -> Duration {
    times.sort_unstable();
    let at = (times.len() as f64 * part).ceil() as usize;
    times.get(at.saturating_sub(1).min(times.len().saturating_sub(1))).copied().unwrap_or_default()
}

fn median<T: Ord + Copy>(mut all: Vec<T>) -> T {
    all.sort_unstable();
    all[all.len() / 2]
}

fn told(what: &str, runs: Vec<Vec<Duration>>) {
    let count: usize = runs.iter().map(Vec::len).sum();
    let of = |part| median(runs.iter().map(|run| quantile(run.clone(), part)).collect());
    println!("{what:<44} p50 {:>9.3?}  p99 {:>9.3?}  ({count} in all)", of(0.5), of(0.99));
}

#[tokio::main]
async fn main() {
    let now = clock::now();
    let log = Arc::new(AnyLog::Memory(MemoryLog::default()));
    year(&log, now).await;
    let (runner, mut projection) = Runner::new(MemoryStore::default(), runner::Options::default());
    let folded = Arc::clone(&log);
    tokio::spawn(async move { runner.run(&*folded, std::future::pending::<()>()).await });
    let began = Instant::now();
    projection.caught_up().await.unwrap();
    let records = projection.status().position;
    println!("{GROUPS} groups, a year of {records} records, folded in {:.1?}", began.elapsed());

    let (access, registry) = (Access::default(), Registry::new());
    let listener = api::bind("127.0.0.1:0".parse().unwrap(), &access).await.unwrap();
    let address = listener.local_addr().unwrap();
    let source = api::Source {
        log: Arc::clone(&log),
        projection: projection.clone(),
        now: clock::now,
        access,
        judge: None,
        metrics: Some(Arc::new(api::Metrics::new(&registry).unwrap())),
    };
    tokio::spawn(api::serve(listener, None, source, std::future::pending()));
    let (acknowledged, looks) = (Arc::default(), Arc::default());
    tokio::spawn(grow(log, Arc::clone(&acknowledged)));
    tokio::spawn(look(projection.clone(), Arc::clone(&looks)));

    let (mut by_name, mut events, mut served) =
        (Vec::new(), Vec::new(), vec![Served::of(&registry)]);
    for _ in 0..RUNS {
        let (asked, came) = tokio::join!(quotas(address), late(address, Arc::clone(&acknowledged)));
        by_name.push(asked);
        events.push(came);
        served.push(Served::of(&registry));
    }
    let within = |part| {
        let runs = served.windows(2).map(|pair| pair[1].since(&pair[0]).within(part));
        median(runs.collect::<Vec<_>>())
    };
    let under: Vec<_> = served.windows(2).map(|p| p[1].since(&p[0]).share(LIMIT)).collect();
    told("a quota by name, 1,000/s, at the client", by_name);
    println!(
        "{:<44} p50 ≤ {:>7.3?}  p99 ≤ {:>7.3?}  within {LIMIT:?}, run by run: {under:.3?} %",
        "the same on the server (bounds of buckets)",
        within(0.5),
        within(0.99),
    );
    told("an event, from the log's answer to a client", events);

    let over = now.shifted(now.millis().rem_euclid(HOUR_MS).saturating_neg());
    let years = format!("from={}&to={over}", over.shifted(-365 * DAY));
    for by in ["month", "hour"] {
        let mut runs = Vec::new();
        for _ in 0..RUNS {
            runs.push(usage_of_one(address, &years, by).await);
        }
        told(&format!("usage of a year, one group, by {by}"), runs);
    }
    for (keys, asked) in [("one key", format!("key=limits.cpu&{years}")), ("all keys", years)] {
        let (mut all, mut lines) = (Vec::new(), 0);
        for _ in 0..RUNS {
            let (took, told) = usage_of_all(address, &asked).await;
            all.push(took);
            lines = told;
        }
        let took = median(all);
        println!("usage of a year, all groups, by month, {keys}: {took:.3?} ({lines} lines)");
    }
    told("a look for notices, part by part", vec![looks.lock().unwrap().clone()]);
    let behind = projection.status();
    println!("applied: {} of {} records", behind.position, behind.head);
}
