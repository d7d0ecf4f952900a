//! Who takes part: clusters with their nodes, and the tree of business groups with its limits.

use super::Error;
use crate::domain::{
    event::QuotaSpec,
    quantity::{Format, Quantity},
    quota::TypedSpec,
    resources::{Models, ResourceList, Resources},
    time::Timestamp,
};
use std::sync::Arc;

/// A cluster and its API server.
pub(super) struct Cluster {
    pub(super) name: &'static str,
    pub(super) source: &'static str,
    /// Uid of its namespace kube-system.
    pub(super) uid: String,
    /// The newest resourceVersion.
    version: u64,
    /// The last heartbeat of its observer.
    pub(super) synced: Timestamp,
    /// Nodes that run the crowd's pods.
    pub(super) crowd_nodes: u64,
}

/// The cluster of the A100 cards, whose quota objects are the real ones.
pub(super) const EAST: usize = 0;
/// The cluster of the A30 cards.
pub(super) const WEST: usize = 1;

/// Nodes of the story: cluster, name, model of its cards.
pub(super) const NODES: [(usize, &str, Option<&str>); 10] = [
    (EAST, "east-a100-1", Some("A100")),
    (EAST, "east-a100-2", Some("A100")),
    (EAST, "east-a100-3", Some("A100")),
    (EAST, "east-a100-4", Some("A100")),
    (EAST, "east-cpu-1", None),
    (EAST, "east-cpu-2", None),
    (WEST, "west-a30-1", Some("A30")),
    (WEST, "west-a30-2", Some("A30")),
    (WEST, "west-cpu-1", None),
    (WEST, "west-cpu-2", None),
];

/// A group and its quota object.
pub(super) struct Group {
    pub(super) name: String,
    pub(super) uid: String,
    pub(super) spec: QuotaSpec<'static>,
    /// Version of the object in force; `None` before it is declared.
    pub(super) version: Option<String>,
    pub(super) generation: i64,
}

/// What a group may use. 0: not listed.
#[derive(Clone, Copy, Default)]
struct Hard {
    cpu: u64,
    memory_gi: u64,
    a100: u64,
    a30: u64,
    /// Card-hours.
    cash: u64,
}

/// What the crowd needs.
#[derive(Clone, Copy)]
pub(super) struct Crowd {
    /// Groups of each kind.
    pub(super) groups: u64,
    /// Pods that fit into each group at once.
    room: u64,
    /// Pods in all.
    pods: u64,
}

/// The kinds of groups that the crowd works in.
pub(super) const CROWDS: [&str; 3] = ["sweeps", "ci", "data"];

impl Cluster {
    pub(super) fn new(name: &'static str, source: &'static str, uid: String, pods: u64) -> Self {
        let crowd_nodes = (pods / 1500).clamp(3, 750);
        Self { name, source, uid, version: 700_000, synced: super::begin(), crowd_nodes }
    }

    /// The next resourceVersion; others write to the API server, too.
    pub(super) fn next_version(&mut self, others: u64) -> u64 {
        self.version = self.version.saturating_add(others).saturating_add(1);
        self.version
    }
}

impl Crowd {
    /// For so many pods in all, of which a job has `most` at most.
    pub(super) fn new(pods: u64, most: u64) -> Self {
        let groups = (pods / 10_000).clamp(1, 100);
        // A pod of the crowd lives about an hour and a half; four times what lives at once on average, and room
        // for three jobs however small that is.
        let kinds = groups.saturating_mul(CROWDS.len() as u64);
        let alive = pods / 224 / kinds;
        let room = alive.saturating_mul(4).saturating_add(most.saturating_mul(3));
        Self { groups, room, pods }
    }
}

/// The name of the crowd's group `number` of a kind: `ci`, `ci-002`, `ci-003`, …
pub(super) fn crowd_group(kind: &str, number: u64) -> String {
    match number {
        0 => kind.to_owned(),
        n => format!("{kind}-{:03}", n.saturating_add(1)),
    }
}

/// Whether a group is the second or a later one of its kind.
pub(super) fn is_one_of_many(name: &str) -> bool {
    CROWDS.iter().any(|kind| name.strip_prefix(kind).is_some_and(|rest| rest.starts_with('-')))
}

impl Hard {
    fn plus(self, other: Self) -> Self {
        Self {
            cpu: self.cpu.saturating_add(other.cpu),
            memory_gi: self.memory_gi.saturating_add(other.memory_gi),
            a100: self.a100.saturating_add(other.a100),
            a30: self.a30.saturating_add(other.a30),
            cash: self.cash.saturating_add(other.cash),
        }
    }

    fn times(self, n: u64) -> Self {
        let by = |amount: u64| amount.saturating_mul(n);
        Self {
            cpu: by(self.cpu),
            memory_gi: by(self.memory_gi),
            a100: by(self.a100),
            a30: by(self.a30),
            cash: by(self.cash),
        }
    }

    fn typed(self) -> Vec<(&'static str, String)> {
        let cards = self.a100.saturating_add(self.a30);
        let all = [
            ("limits.cpu", self.cpu, ""),
            ("requests.memory", self.memory_gi, "Gi"),
            ("limits.nvidia.com/gpu", cards, ""),
            ("limits.nvidia.com/gpu.A100", self.a100, ""),
            ("limits.nvidia.com/gpu.A30", self.a30, ""),
            ("cash/limits.nvidia.com/gpu", self.cash, ""),
        ];
        let listed = all.into_iter().filter(|(_, amount, _)| *amount > 0);
        listed.map(|(key, amount, unit)| (key, format!("{amount}{unit}"))).collect()
    }
}

/// The tree, parents before their children. The story's limits are the same for every seed; those of the crowd's
/// groups, and of what is above them, grow with it.
pub(super) fn groups(crowd: Crowd, mut uid: impl FnMut() -> String) -> Result<Vec<Group>, Error> {
    let hard = |cpu, memory_gi, a100, a30, cash| Hard { cpu, memory_gi, a100, a30, cash };
    let room = crowd.room;
    let (vision, language) = (hard(160, 768, 8, 8, 5000), hard(256, 1024, 20, 0, 3000));
    let sweeps = hard(4, 16, 0, 1, 0).times(room);
    let (shop, search) = (hard(24, 48, 0, 0, 0), hard(24, 48, 0, 0, 0));
    let tools = hard(12, 24, 0, 0, 0);
    let ci = hard(2, 4, 0, 0, 0).times(room).plus(hard(4, 16, 0, 0, 0));
    let data = hard(4, 16, 0, 0, 0).times(room).plus(hard(4, 16, 0, 0, 0));
    // The crowd has no budget of its own: its card-hours are drawn from its department's.
    let card_hours = crowd.pods.saturating_mul(2).saturating_add(1000);
    let research = vision.plus(language).plus(sweeps.times(crowd.groups));
    let research = research.plus(hard(32, 128, 4, 4, card_hours));
    let products = shop.plus(search).plus(hard(32, 64, 0, 0, 0));
    let platform = ci.plus(data).times(crowd.groups).plus(tools).plus(hard(16, 64, 0, 0, 0));
    let acme = research.plus(products).plus(platform).plus(hard(64, 256, 0, 0, 2000));
    let mut all = vec![
        ("acme".to_owned(), "", acme, "", ""),
        ("research".to_owned(), "acme", research, "", ""),
        ("products".to_owned(), "acme", products, "", ""),
        ("platform".to_owned(), "acme", platform, "", ""),
        ("vision".to_owned(), "research", vision, "", "Required"),
        ("language".to_owned(), "research", language, "", ""),
        ("shop".to_owned(), "products", shop, "Peak", ""),
        ("search".to_owned(), "products", search, "", ""),
        ("tools".to_owned(), "platform", tools, "", ""),
    ];
    for (kind, parent, hard) in
        [("sweeps", "research", sweeps), ("ci", "platform", ci), ("data", "platform", data)]
    {
        all.extend((0..crowd.groups).map(|n| (crowd_group(kind, n), parent, hard, "", "")));
    }
    let group = |(name, parent, hard, charge, models): (String, &str, Hard, &str, &str)| {
        let typed = hard.typed();
        let hard = typed.iter().map(|(key, amount)| (*key, &**amount)).collect();
        let spec = TypedSpec { parent, hard, charge, models, ..TypedSpec::default() }
            .accept(&name)
            .map_err(|errors| {
                let what = errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
                Error::Plot { time: super::begin(), what }
            })?;
        Ok(Group { name, uid: uid(), spec, version: None, generation: 0 })
    };
    all.into_iter().map(group).collect()
}

/// What one pod asks for and holds.
pub(super) fn shape(cpu_milli: u64, memory_gi: u64, cards: u64) -> Arc<Resources> {
    let cpu = Quantity::from_milli(i128::from(cpu_milli), Format::DecimalSI);
    // 2^30 bytes of a thousand milli-bytes each: a few thousand of them fit.
    let bytes = i128::from(memory_gi).saturating_mul(1000 << 30);
    let memory = Quantity::from_milli(bytes, Format::BinarySI);
    let mut list: ResourceList = [("cpu", cpu), ("memory", memory)].into_iter().collect();
    if cards > 0 {
        let milli = i128::from(cards).saturating_mul(1000);
        list.set("nvidia.com/gpu", Quantity::from_milli(milli, Format::DecimalSI));
    }
    Arc::new(Resources { requests: list.clone(), limits: list })
}

/// Cards of this model.
pub(super) fn on(model: Option<&'static str>) -> Models<'static> {
    Models { gpu: model.map(Into::into), ..Models::default() }
}
