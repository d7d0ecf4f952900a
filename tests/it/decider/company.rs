//! Those who ask: an API server with workloads and quota objects, what it makes of an answer, and what an observer
//! and a sweeper put on the log.

use super::faults::Dice;
use crate::rules::world::{Adm, Dem, GROUPS, Hard, Prop, QSpec, object, proposed, roles, spec};
use bizrq::{
    decider::{Answer, Ask, Expired, Expiry, Former, Missing, Quota, What, Workload},
    domain::{
        event::{
            Data, Event, EventId, ObjectRef, ObserverSynced,
            Operation::{Create, Delete, Update},
            QuotaDeclared, QuotaRemoved, WorkloadGone, WorkloadObserved,
        },
        ident,
        ledger::Ledger,
        names::Uid,
        time::ORIGIN,
    },
    event_log::NewEvent,
};
use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::Arc,
};

/// The clusters that ask; quota objects are those of the first.
pub(crate) const CLUSTERS: [&str; 2] = ["east", "west"];

/// What is made in one cluster often has the uid of what lives in the other, as if that had been restored from a copy.
/// Here, and in the model's words, numbers of the second cluster are so much further on.
const SECOND: u32 = 1 << 24;

/// The number of an object that `cluster` calls by `uid`.
pub(crate) fn number(cluster: &str, uid: &str) -> u32 {
    let number: u32 = uid.trim_start_matches('u').parse().unwrap();
    number + if cluster == CLUSTERS[1] { SECOND } else { 0 }
}

fn is_in(cluster: &str, number: u32) -> bool {
    (number >= SECOND) == (cluster == CLUSTERS[1])
}

/// What its cluster calls the object of a number.
fn object_of(number: u32, name: &str) -> ObjectRef<'static> {
    object(number % SECOND, name)
}

/// Objects of both clusters have the same names; here each is called by its cluster, too.
const NAMES: [&str; 16] = [
    "east/w0", "east/w1", "east/w2", "east/w3", "east/w4", "east/w5", "east/w6", "east/w7",
    "west/w0", "west/w1", "west/w2", "west/w3", "west/w4", "west/w5", "west/w6", "west/w7",
];

#[derive(Clone, Debug)]
struct Obj {
    uid: u32,
    rv: u64,
    group: &'static str,
    dem: Dem,
}

/// What is asked, in the words of the model.
#[derive(Clone, Debug)]
pub(crate) enum Wish {
    Work(Adm),
    Quota(Prop),
}

/// The API server and its observer.
pub(crate) struct Company {
    dice: Dice,
    rv: u64,
    /// The numbers of all objects that ever were, of workloads and quotas.
    numbers: BTreeSet<u32>,
    /// Theirs by what each cluster calls them.
    uids: [BTreeMap<Uid, u32>; 2],
    requests: u64,
    objects: BTreeMap<&'static str, Obj>,
    quotas: BTreeMap<&'static str, (u32, u64, QSpec)>,
    /// What the observer has not told yet, and of whom.
    facts: VecDeque<(u32, NewEvent)>,
    /// Objects that somebody asks about, or of which a fact is not told yet: nothing of theirs is over.
    busy: BTreeMap<u32, u32>,
}

impl Company {
    pub(crate) fn new(dice: Dice) -> Self {
        let mut company = Self {
            dice,
            rv: 0,
            numbers: BTreeSet::new(),
            uids: Default::default(),
            requests: 0,
            objects: BTreeMap::new(),
            quotas: BTreeMap::new(),
            facts: VecDeque::new(),
            busy: BTreeMap::new(),
        };
        for (name, parent, hard) in [
            ("R", "", [Some(60), Some(20), None]),
            ("A", "R", [Some(20), None, None]),
            ("B", "R", [None, Some(8), None]),
            ("D", "A", [Some(8), Some(4), None]),
            ("S", "", [Some(12), None, None]),
        ] {
            company.declare(name, None, (parent, hard));
        }
        company
    }

    /// What is asked next; a name of its own, and the object it is about is busy until [`Self::done`].
    pub(crate) fn wish(&mut self) -> (Ask, Wish) {
        let wish = if self.dice.percent(6) { self.wish_quota() } else { self.wish_work() };
        self.requests += 1;
        *self.busy.entry(wish.uid()).or_default() += 1;
        let cluster = wish.cluster();
        if cluster != CLUSTERS[0] {
            self.dice.note("asked by the other cluster");
        }
        let what = match &wish {
            Wish::Work(adm) => What::Workload(Box::new(workload(adm))),
            Wish::Quota(prop) => What::Quota(Box::new(quota(prop, self.dice.percent(50)))),
        };
        let ask = Ask {
            request: format!("request-{}", self.requests),
            cluster: cluster.into(),
            dry_run: self.dice.percent(3),
            what,
        };
        (ask, wish)
    }

    /// A number that `cluster` never had: of what lives in the other cluster, if it can be.
    fn uid(&mut self, cluster: &str) -> u32 {
        let twins = self.objects.values().map(|other| other.uid ^ SECOND);
        let twins = twins.filter(|n| is_in(cluster, *n) && !self.numbers.contains(n));
        let twin = self.dice.choose(&twins.collect::<Vec<_>>());
        let new = || number(cluster, &(self.numbers.len() + 1).to_string());
        let uid = twin.filter(|_| self.dice.percent(70)).unwrap_or_else(new);
        self.numbers.insert(uid);
        self.uids[usize::from(uid >= SECOND)].insert(Uid::of(&object_of(uid, "").uid), uid);
        uid
    }

    fn dem(&self, most: u64) -> Dem {
        let cards = if self.dice.percent(40) { self.dice.below(3) } else { 0 };
        [self.dice.below(most) as i64, cards as i64]
    }

    fn wish_work(&mut self) -> Wish {
        let known: Vec<_> = self.objects.keys().copied().collect();
        let Some(name) = self.dice.choose(&known).filter(|_| self.dice.percent(60)) else {
            let name = self.dice.choose(&NAMES).unwrap();
            let uid = self.uid(place(name).0);
            let group = self.dice.choose(&GROUPS[..5]).unwrap();
            let mut dem = self.dem(5);
            dem[0] += 1;
            return Wish::Work(Adm {
                op: Create,
                uid,
                name,
                old_rv: 0,
                group,
                dem,
                old: None,
                resize: None,
            });
        };
        let Obj { uid, rv, group: was, dem: had } = self.objects[name].clone();
        let moves = self.dice.percent(15);
        let group = if moves { self.dice.choose(&GROUPS[..5]).unwrap() } else { was };
        let (op, dem) = match self.dice.below(4) {
            0 => (Delete, had),
            1 => (Update, [had[0] / 2, had[1]]),
            _ => (Update, self.dem(8)),
        };
        Wish::Work(Adm {
            op,
            uid,
            name,
            old_rv: rv,
            group,
            dem,
            old: Some((was, had)),
            resize: None,
        })
    }

    fn wish_quota(&mut self) -> Wish {
        let name = self.dice.choose(&GROUPS[..5]).unwrap();
        let parents = ["", "R", "A", "B", "D", "S"];
        let some = |dice: &Dice, most: u64| dice.percent(70).then(|| dice.below(most) as i64);
        let hard: Hard = [some(&self.dice, 60), some(&self.dice, 20), None];
        let Some((uid, old_rv, (parent, old))) = self.quotas.get(name).copied() else {
            let (uid, parent) = (self.uid(CLUSTERS[0]), self.dice.choose(&parents).unwrap());
            return Wish::Quota(Prop {
                op: Create,
                name,
                uid,
                old_rv: 0,
                spec: Some((parent, hard)),
            });
        };
        if self.dice.percent(15) {
            return Wish::Quota(Prop { op: Delete, name, uid, old_rv, spec: None });
        }
        let spec = match self.dice.below(4) {
            0 => (self.dice.choose(&parents).unwrap(), old),
            1 => (parent, hard),
            // Most often somebody wants a little more or less.
            _ => (parent, old.map(|h| h.map(|h| (h + self.dice.below(9) as i64 - 4).max(0)))),
        };
        Wish::Quota(Prop { op: Update, name, uid, old_rv, spec: Some(spec) })
    }

    /// What the API server makes of the answer: it does it, or not (a conflict, another webhook, a crash).
    pub(crate) fn done(&mut self, ask: &Ask, wish: &Wish, answer: &Answer) {
        if answer.is_allowed() && !ask.dry_run {
            if self.dice.percent(15) {
                self.dice.note("lost after allowed");
            } else {
                self.commit(wish);
            }
        }
        self.is_idle(wish.uid());
    }

    fn commit(&mut self, wish: &Wish) {
        match wish {
            Wish::Work(adm) => {
                let known = self.objects.get(adm.name);
                let fits = match adm.op {
                    Create => known.is_none(),
                    _ => known.is_some_and(|o| o.uid == adm.uid && o.rv == adm.old_rv),
                };
                if !fits {
                    self.dice.note("conflict in the API server");
                } else if adm.op == Delete {
                    self.objects.remove(adm.name);
                    let (cluster, name) = place(adm.name);
                    let workload = object_of(adm.uid, name);
                    let gone = WorkloadGone { workload, cause: "Deleted".into() };
                    self.tell(adm.uid, cluster, "workloads/w", Data::WorkloadGone(gone));
                } else {
                    self.store(adm);
                }
            }
            Wish::Quota(p) => {
                let known = self.quotas.get(p.name).copied();
                let fits = match p.op {
                    Create => known.is_none(),
                    _ => known.is_some_and(|(uid, rv, _)| uid == p.uid && rv == p.old_rv),
                };
                match p.spec.filter(|_| fits) {
                    Some(spec) => self.declare(p.name, Some(p.uid), spec),
                    None if fits => {
                        self.quotas.remove(p.name);
                        let gone = QuotaRemoved { uid: format!("u{}", p.uid).into() };
                        let subject = format!("quotas/{}", p.name);
                        self.tell(p.uid, CLUSTERS[0], &subject, Data::QuotaRemoved(gone));
                        self.dice.note("quota removed");
                    }
                    None => {}
                }
            }
        }
    }

    fn store(&mut self, adm: &Adm) {
        self.rv += 1;
        let (rv, group, dem) = (self.rv, adm.group, adm.dem);
        if self.objects.values().any(|other| other.uid ^ adm.uid == SECOND) {
            self.dice.note("one uid in both clusters");
        }
        self.objects.insert(adm.name, Obj { uid: adm.uid, rv, group, dem });
        let (cluster, name) = place(adm.name);
        let fact = WorkloadObserved {
            workload: object_of(adm.uid, name),
            resource_version: rv.to_string().into(),
            generation: 0,
            group: group.into(),
            roles: roles(dem),
        };
        self.tell(adm.uid, cluster, "workloads/w", Data::WorkloadObserved(fact));
    }

    fn declare(&mut self, name: &'static str, uid: Option<u32>, says: QSpec) {
        let uid = uid.unwrap_or_else(|| self.uid(CLUSTERS[0]));
        self.rv += 1;
        self.quotas.insert(name, (uid, self.rv, says));
        let fact = QuotaDeclared {
            uid: format!("u{uid}").into(),
            resource_version: self.rv.to_string().into(),
            generation: 1,
            spec: spec(&says),
        };
        let subject = format!("quotas/{name}");
        self.tell(uid, CLUSTERS[0], &subject, Data::QuotaDeclared(fact));
        self.dice.note("quota declared");
    }

    fn tell(&mut self, uid: u32, cluster: &str, subject: &str, data: Data<'static>) {
        *self.busy.entry(uid).or_default() += 1;
        let source = format!("/clusters/{cluster}");
        let id =
            ident::fact(&source, ORIGIN, &data).unwrap_or_else(|| EventId(u128::from(self.rv)));
        let event = Event {
            id,
            source: source.into(),
            subject: subject.to_owned().into(),
            time: ORIGIN,
            recorded_at: ORIGIN,
            data,
        };
        self.facts.push_back((uid, NewEvent::new(&event).unwrap()));
    }

    /// The next facts that the observer tells, and of whom.
    pub(crate) fn next_facts(&mut self, most: u64) -> Vec<(u32, NewEvent)> {
        let count = (1 + self.dice.below(most) as usize).min(self.facts.len());
        self.facts.drain(..count).collect()
    }

    /// A heartbeat, which changes no charge.
    pub(crate) fn heartbeat(&mut self) -> NewEvent {
        self.rv += 1;
        let id = EventId(u128::from(self.rv) << 64);
        let synced = ObserverSynced { resource_versions: BTreeMap::new(), since: ORIGIN };
        let data = Data::ObserverSynced(synced);
        let cluster = self.dice.choose(&CLUSTERS).unwrap();
        let source = format!("/clusters/{cluster}");
        let event = Event {
            id,
            source: source.into(),
            subject: format!("observers/{cluster}").into(),
            time: ORIGIN,
            recorded_at: ORIGIN,
            data,
        };
        NewEvent::new(&event).unwrap()
    }

    /// Nobody asks about it any more, or its fact is told.
    pub(crate) fn is_idle(&mut self, uid: u32) {
        let busy = self.busy.get_mut(&uid).expect("it was busy");
        *busy -= 1;
        if *busy == 0 {
            self.busy.remove(&uid);
        }
    }

    /// What of a ledger is over in a cluster: of what nobody is busy with, everything that waits.
    pub(crate) fn over(&self, cluster: &str, ledger: &Ledger) -> Vec<Expiry> {
        let (Some(book), names) = (ledger.book(), ledger.names()) else { return Vec::new() };
        let home = names.known_cluster_of(cluster);
        let uids = &self.uids[usize::from(cluster == CLUSTERS[1])];
        let idle = |uid: Uid| uids.get(&uid).copied().filter(|uid| !self.busy.contains_key(uid));
        let works = book.reservations().filter(|item| Some(item.workload.cluster) == home);
        let works = works.filter_map(|item| {
            let uid = idle(item.workload.uid)?;
            let of = Expired::Workload(object_of(uid, ""));
            Some(Expiry { position: item.ticket.position, of })
        });
        let accounts = book.accounts().filter(|_| cluster == CLUSTERS[0]);
        let proposals = accounts.flat_map(|group| {
            book.proposals(group).iter().filter_map(move |proposal| {
                idle(proposal.uid)?;
                let of = Expired::Quota(names.group_name(group).to_owned());
                Some(Expiry { position: proposal.position, of })
            })
        });
        works.chain(proposals).collect()
    }
}

/// The cluster of an object, and what it is called there.
fn place(name: &'static str) -> (&'static str, &'static str) {
    name.split_once('/').unwrap()
}

impl Wish {
    /// The cluster that asks.
    fn cluster(&self) -> &'static str {
        match self {
            Self::Work(adm) => place(adm.name).0,
            Self::Quota(_) => CLUSTERS[0],
        }
    }

    fn uid(&self) -> u32 {
        match self {
            Self::Work(adm) => adm.uid,
            Self::Quota(prop) => prop.uid,
        }
    }
}

fn workload(adm: &Adm) -> Workload {
    Workload {
        operation: adm.op,
        workload: object_of(adm.uid, place(adm.name).1),
        old_resource_version: (adm.old_rv > 0).then(|| adm.old_rv.to_string()),
        group: Some(adm.group.to_owned()),
        missing: Missing::Allow,
        labels: Arc::default(),
        roles: roles(adm.dem),
        old: adm.old.map(|(group, dem)| Former { group: group.to_owned(), roles: roles(dem) }),
        resize: None,
        undeclared: Vec::new(),
        name_is_taken: false,
        draws_on: None,
        makes: Vec::new(),
        invalid: None,
    }
}

fn quota(prop: &Prop, allow_orphans: bool) -> Quota {
    let proposal = proposed(prop, prop.spec.as_ref().map(spec));
    Quota {
        operation: prop.op,
        name: prop.name.to_owned(),
        uid: proposal.uid.to_string(),
        old_resource_version: proposal.old_resource_version.map(|rv| rv.to_string()),
        spec: proposal.spec,
        allow_orphans,
    }
}
