//! A log made by hand: a fund whose budgets begin anew each week, and groups with hostile names.

use crate::api::serve;
use bizrq::{
    api,
    domain::{
        event::{Data, Event, EventId, Kind},
        time::Timestamp,
    },
    event_log::{AnyLog, EventLog, NewEvent},
    projection::{MemoryStore, Projection, Runner, runner},
};
use serde_json::{Value, json};
use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};
use tempfile::TempDir;
use tokio::runtime::Runtime;

/// A Friday, in the third week.
fn now() -> Timestamp {
    Timestamp::parse("2026-11-20T12:00:00Z").unwrap()
}

/// Names that are markup, code, paths, addresses, or too long.
const HOSTILE: &[&str] = &[
    "<img src=x onerror=alert(1)>",
    "\"><script>alert(1)</script>",
    "'); alert(1); //",
    "${alert(1)}",
    "..",
    "../../v1/quotas",
    "a/b?c=d#e%2e&f",
    "__proto__",
    "\u{202e}desrever",
    "a b\tc",
];

pub(super) struct Company {
    pub(super) address: SocketAddr,
    log: Arc<AnyLog>,
    projection: Projection,
    told: AtomicU64,
    runtime: Runtime,
    _dir: TempDir,
}

impl Company {
    pub(super) fn open() -> Self {
        let company = Self::empty();
        company.begin();
        company
    }

    /// One company, a hundred departments, and a hundred teams in each.
    pub(super) fn crowd() -> Self {
        let company = Self::empty();
        let spec = |parent: &str, cores: u32| json!({"parent": parent, "hard": {"limits.cpu": cores.to_string()}});
        let mut all = vec![("all".to_owned(), spec("", 1_000_000))];
        for dept in 0..100 {
            let name = format!("dept-{dept:02}");
            let team = |team: u32| (format!("team-{dept:02}-{team:02}"), spec(&name, 10 + team));
            all.push((name.clone(), spec("all", 10_000)));
            all.extend((0..100).map(team));
        }
        company.append(all.iter().map(|(name, spec)| {
            let data = json!({"uid": name, "resourceVersion": "1", "generation": 1, "spec": spec});
            (Kind::QuotaDeclared, format!("quotas/{name}"), "2026-11-02T00:00:00Z", data)
        }));
        let mut folded = company.projection.clone();
        company.runtime.block_on(folded.wait_for(all.len() as u64)).unwrap();
        company
    }

    fn empty() -> Self {
        let (dir, runtime) = (tempfile::tempdir().unwrap(), Runtime::new().unwrap());
        let log = runtime.block_on(AnyLog::open(dir.path().to_str().unwrap())).unwrap();
        let log = Arc::new(log);
        let (address, projection) = runtime.block_on(async {
            let options = runner::Options::default();
            let (runner, projection) = Runner::new(MemoryStore::default(), options);
            let folded = Arc::clone(&log);
            tokio::spawn(async move { runner.run(&*folded, std::future::pending::<()>()).await });
            let access = api::Access::default();
            let log = Arc::clone(&log);
            let source = api::Source {
                log,
                projection: projection.clone(),
                now,
                access,
                judge: None,
                metrics: None,
            };
            (serve(source).await, projection)
        });
        Self { address, log, projection, told: AtomicU64::new(0), runtime, _dir: dir }
    }

    fn begin(&self) {
        let week = json!({
            "every": "Week", "timeZone": "Europe/Berlin", "anchor": "2026-11-02", "carryOver": "Both",
            "maxPercent": 50, "rule": "CET-1CEST,M3.5.0,M10.5.0/3",
        });
        let hard = |cash: &str, cores: &str| json!({"cash/limits.cpu": cash, "limits.cpu": cores});
        let fund = json!({"hard": hard("1000", "100"), "charge": "Steady", "models": "Declared", "cashPeriod": week});
        self.quota("fund", &fund);
        for (name, cash) in [("fund-a", "400"), ("fund-b", "100")] {
            self.quota(
                name,
                &json!({"parent": "fund", "hard": hard(cash, "40"), "charge": "Steady", "models": "Declared"}),
            );
        }
        // Of 400 core-hours a week one uses 2 × 168, of 100 the other 168.
        self.starts("fund-a", "2026-11-02T00:00:00Z", "2");
        self.starts("fund-b", "2026-11-02T00:00:00Z", "1");
        for group in HOSTILE {
            self.starts(group, "2026-11-19T00:00:00Z", "1");
        }
        self.starts(&"long-".repeat(60), "2026-11-19T00:00:00Z", "1");
        let refusals = HOSTILE.iter().map(|text| {
            let workload = json!({
                "apiVersion": "apps/v1", "kind": text, "namespace": text, "name": text, "uid": text,
            });
            json!({
                "cluster": text, "workload": workload, "group": "fund", "reason": "QuotaExceeded", "message": text,
                "count": 1, "first": "2026-11-19T01:00:00.000Z", "last": "2026-11-19T01:00:00.000Z",
            })
        });
        let refused = json!({"refusals": refusals.collect::<Vec<_>>()});
        self.tell(Kind::WorkloadsRefused, "refusals", "2026-11-19T01:00:00Z", &refused);
        // More than the page shows at once.
        for nth in 0..60 {
            self.starts("fund-b", "2026-11-20T11:00:00Z", "10m");
            let one = json!({
                "cluster": "east", "workload": {"apiVersion": "batch/v1", "kind": "Job", "namespace": "b", "name": "run", "uid": "u"},
                "group": "fund-b", "reason": "CashExhausted", "message": format!("exhausted budget: fund-b, the {nth}th"),
                "count": nth + 1, "first": "2026-11-19T02:00:00.000Z", "last": "2026-11-20T11:00:00.000Z",
            });
            let told = json!({"refusals": [one]});
            self.tell(Kind::WorkloadsRefused, "refusals", "2026-11-20T11:00:00Z", &told);
        }
    }

    fn quota(&self, name: &str, spec: &Value) {
        let data = json!({"uid": name, "resourceVersion": "1", "generation": 1, "spec": spec});
        let subject = format!("quotas/{name}");
        self.tell(Kind::QuotaDeclared, &subject, "2026-11-02T00:00:00Z", &data);
    }

    /// A pod of so many cores, that runs on.
    pub(super) fn starts(&self, group: &str, at: &str, cores: &str) {
        let uid = format!("pod-{}", self.told.load(Ordering::Relaxed));
        let data = json!({
            "uid": uid, "group": group, "models": {}, "node": "n", "basis": "Bound",
            "held": {"requests": {"cpu": cores}, "limits": {"cpu": cores}},
        });
        self.tell(Kind::PodStarted, &format!("pods/x/{uid}"), at, &data);
    }

    fn tell(&self, kind: Kind, subject: &str, at: &str, data: &Value) {
        self.append([(kind, subject.to_owned(), at, data.clone())]);
    }

    fn append<'a>(&self, told: impl IntoIterator<Item = (Kind, String, &'a str, Value)>) {
        let events = told.into_iter().map(|(kind, subject, at, data)| {
            let at = Timestamp::parse(at).unwrap();
            let event = Event {
                id: EventId(self.told.fetch_add(1, Ordering::Relaxed).into()),
                source: "/clusters/east".into(),
                subject: subject.into(),
                time: at,
                recorded_at: at,
                data: Data::deserialize(kind, &data).unwrap(),
            };
            NewEvent::new(&event).unwrap()
        });
        self.runtime.block_on(self.log.append(events.collect())).unwrap();
    }
}
