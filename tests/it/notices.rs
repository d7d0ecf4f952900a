//! Notices against a slow oracle: a walk millisecond by millisecond, which sums up every pod anew at each.
//!
//! Histories are random: pods start and stop, some stops are told late, budgets and other limits are edited, groups are
//! corrected and removed. The oracle knows what each mark means and nothing of how it is found.

mod events;

use bizrq::{
    domain::{
        event::{Data, Event, EventId},
        ledger::{Applied, Ledger},
        merkle::Hash,
        time::{HOUR_MS, ORIGIN, Timestamp},
    },
    notify::{
        due::Due,
        notice::{Notice, Told, What},
    },
};
use rand::{RngExt, SeedableRng, rngs::Xoshiro256PlusPlus};
use std::collections::{BTreeMap, BTreeSet};

/// Parts of a budget that are told, in percent.
const THRESHOLDS: [u16; 4] = [50, 80, 90, 100];
/// Parents before children.
const GROUPS: [(&str, &str); 4] = [("a", ""), ("a1", "a"), ("a2", "a"), ("b", "")];
/// How long a history is, in milliseconds.
const LENGTH: i64 = 4_000;
/// Of the key `cash/limits.cpu`, a thousandth of a core-hour, in milli-units × milliseconds.
const SMALLEST: i128 = HOUR_MS as i128;

#[derive(Clone, Copy)]
struct Pod {
    group: usize,
    milli: i128,
    from: i64,
    /// As far as is known.
    to: i64,
}

/// What was said, in the oracle's words.
#[derive(Default)]
struct Known {
    opened: [Option<i64>; 4],
    hard: [Option<i128>; 4],
    uids: [u32; 4],
    pods: Vec<Pod>,
    /// Group, instant, amount.
    corrections: Vec<(usize, i64, i128)>,
}

impl Known {
    fn own(&self, group: usize, at: i64) -> i128 {
        let Some(opened) = self.opened[group].filter(|opened| *opened <= at) else { return 0 };
        let pods = self.pods.iter().filter(|pod| pod.group == group).map(|pod| {
            let spent = pod.to.min(at) - pod.from.max(opened);
            pod.milli * i128::from(spent.max(0))
        });
        let corrected = self.corrections.iter().filter(|(g, when, _)| *g == group && *when <= at);
        pods.sum::<i128>() + corrected.map(|(_, _, amount)| amount).sum::<i128>()
    }

    fn children(&self, group: usize) -> Vec<usize> {
        // A group that was removed keeps its place.
        let is_child = |child: &usize| GROUPS[*child].1 == GROUPS[group].0;
        (0..4).filter(|child| is_child(child) && self.opened[*child].is_some()).collect()
    }

    fn given(&self, group: usize, at: i64) -> i128 {
        let of = |child: usize| {
            (self.own(child, at) + self.given(child, at)).max(self.hard[child].unwrap_or(0))
        };
        self.children(group).into_iter().map(of).sum()
    }

    fn consumed(&self, group: usize, at: i64) -> i128 {
        let below = self.children(group).into_iter().map(|child| self.consumed(child, at));
        self.own(group, at) + below.sum::<i128>()
    }

    fn holds(&self, group: usize, what: What, at: i64) -> bool {
        let Some(hard) = self.hard[group] else { return false };
        let (own, given) = (self.own(group, at), self.given(group, at));
        match what {
            What::Cash(percent) => own > 0 && own * 100 >= i128::from(percent) * (hard - given),
            What::Overdraft => own + given > hard,
            What::Consumed(percent) => {
                let consumed = self.consumed(group, at);
                !self.children(group).is_empty()
                    && consumed > 0
                    && consumed * 100 >= i128::from(percent) * hard
            }
            other => panic!("{other:?} is not walked"),
        }
    }

    /// Everything that holds at an instant, of the quota objects that are there.
    fn all(&self, at: i64) -> BTreeSet<(usize, u32, What)> {
        let cash = THRESHOLDS.map(What::Cash);
        let whats: Vec<_> = cash
            .into_iter()
            .chain(THRESHOLDS.map(What::Consumed))
            .chain([What::Overdraft])
            .collect();
        let mut all = BTreeSet::new();
        for group in 0..4 {
            let holding = whats.iter().filter(|what| self.holds(group, **what, at));
            all.extend(holding.map(|what| (group, self.uids[group], *what)));
        }
        all
    }

    /// The first millisecond at which it held, by what is known now.
    fn since(&self, group: usize, what: What, now: i64) -> i64 {
        let opened = self.opened[group].unwrap_or(0);
        (opened..=now).find(|at| self.holds(group, what, *at)).unwrap_or(now)
    }
}

struct World {
    rng: Xoshiro256PlusPlus,
    ledger: Ledger,
    position: u64,
    known: Known,
    generation: i64,
    /// Of each group: cash in thousandths of a core-hour, if it has a budget, and another limit.
    specs: [(Option<i128>, i64); 4],
    /// Stops that are told later: the pod, when it stopped, when it is told.
    late: Vec<(usize, i64, i64)>,
    seen: BTreeMap<&'static str, u32>,
}

fn time(at: i64) -> Timestamp {
    ORIGIN.shifted(HOUR_MS - 1_000 + at)
}

impl World {
    fn new(seed: u64) -> Self {
        let mut world = Self {
            rng: Xoshiro256PlusPlus::seed_from_u64(seed),
            ledger: Ledger::default(),
            position: 0,
            known: Known::default(),
            generation: 0,
            specs: [(Some(20), 99), (Some(3), 9), (None, 9), (Some(4), 9)],
            late: Vec::new(),
            seen: BTreeMap::new(),
        };
        for group in 0..4 {
            world.known.uids[group] = u32::try_from(group).unwrap();
            world.declare(group, 0);
        }
        world
    }

    fn up_to(&mut self, most: i64) -> i64 {
        self.rng.random_range(0..=most)
    }

    fn tell(&mut self, at: i64, subject: &str, data: Data<'_>) {
        self.position += 1;
        let (id, source) = (EventId(self.position.into()), "/clusters/east".into());
        let time = time(at);
        let event = Event { id, source, subject: subject.into(), time, recorded_at: time, data };
        let applied = self.ledger.apply(self.position, Hash::default(), &event).unwrap();
        assert_eq!(applied, Applied::Changed, "{event:?}");
    }

    fn declare(&mut self, group: usize, at: i64) {
        self.generation += 1;
        let ((name, parent), (cash, cores)) = (GROUPS[group], self.specs[group]);
        let cash = cash.map_or(String::new(), |n| format!(r#","cash/limits.cpu":"{n}m""#));
        let (uid, generation) = (self.known.uids[group], self.generation);
        let text = format!(
            r#"{{"uid":"q{uid}","resourceVersion":"{generation}","generation":{generation},
                "spec":{{"parent":"{parent}","hard":{{"requests.cpu":"{cores}"{cash}}}}}}}"#
        );
        let data = Data::QuotaDeclared(serde_json::from_str(&text).unwrap());
        self.tell(at, &format!("quotas/{name}"), data);
        self.known.opened[group].get_or_insert(at);
        // Whether a declaration is in force is for the tests of the rules.
        for (group, (name, _)) in GROUPS.iter().enumerate() {
            let Some(id) = self.ledger.names().known_group(name) else { continue };
            let declared = self.ledger.book().unwrap().declaration(id);
            let key = self.ledger.names().known_key("cash/limits.cpu");
            let hard = declared.into_iter().flat_map(|d| d.spec.hard.iter());
            self.known.hard[group] =
                hard.filter(|(k, _)| Some(*k) == key).map(|(_, amount)| *amount).next();
        }
    }

    fn happens(&mut self, at: i64) {
        while let Some(due) = self.late.iter().position(|(_, _, told)| *told <= at) {
            let (pod, stopped, _) = self.late.swap_remove(due);
            self.stop(pod, stopped);
        }
        let group = usize::try_from(self.up_to(3)).unwrap();
        match self.up_to(9) {
            0..=3 => {
                let cores = 1 + self.up_to(5);
                let pod = self.known.pods.len();
                let text = format!(
                    r#"{{"uid":"p{pod}","group":"{}","node":"n","models":{{}},
                    "held":{{"requests":{{}},"limits":{{"cpu":"{cores}"}}}},"basis":"Bound"}}"#,
                    GROUPS[group].0
                );
                let data = Data::PodStarted(serde_json::from_str(&text).unwrap());
                self.tell(at, &format!("pods/n/p{pod}"), data);
                let milli = i128::from(cores) * 1_000;
                self.known.pods.push(Pod { group, milli, from: at, to: i64::MAX });
                *self.seen.entry("start").or_default() += 1;
            }
            4..=6 => {
                let runs = |n: usize| {
                    self.known.pods[n].to == i64::MAX && self.late.iter().all(|late| late.0 != n)
                };
                let running: Vec<_> = (0..self.known.pods.len()).filter(|n| runs(*n)).collect();
                if running.is_empty() {
                    return;
                }
                let most = i64::try_from(running.len()).unwrap() - 1;
                let pod = running[usize::try_from(self.up_to(most)).unwrap()];
                let lateness = self.up_to(1) * self.up_to(600);
                *self.seen.entry(if lateness > 0 { "late stop" } else { "stop" }).or_default() += 1;
                match lateness {
                    0 => self.stop(pod, at),
                    _ => self.late.push((pod, at, at + lateness)),
                }
            }
            7 => {
                let budget = 1 + i128::from(self.up_to(if group == 0 { 30 } else { 5 }));
                self.specs[group].0 = (self.up_to(4) > 0).then_some(budget);
                self.declare(group, at);
                *self.seen.entry("budget").or_default() += 1;
            }
            8 => {
                self.specs[group].1 = if group == 0 { 99 } else { 9 } + self.up_to(5);
                self.declare(group, at);
                *self.seen.entry("other limit").or_default() += 1;
            }
            _ => {
                let Some(opened) = self.known.opened[group].filter(|opened| *opened < at) else {
                    return;
                };
                let when = opened + self.up_to(at - opened - 1);
                let amount = (i128::from(self.up_to(20)) - 12) * SMALLEST / 10;
                let (from, to) = (time(when), time(when + 1));
                let text = format!(
                    r#"{{"key":"limits.cpu","exact":"{amount}","period":{{"from":"{from}","to":"{to}"}},
                        "why":"w","by":"me"}}"#
                );
                let data = Data::UsageAdjusted(serde_json::from_str(&text).unwrap());
                self.tell(at, &format!("accounts/{}", GROUPS[group].0), data);
                self.known.corrections.push((group, when, amount));
                *self.seen.entry("correction").or_default() += 1;
            }
        }
    }

    fn stop(&mut self, pod: usize, at: i64) {
        let instant = time(at);
        let text = format!(
            r#"{{"uid":"p{pod}","earliest":"{instant}","latest":"{instant}",
                "basis":"TerminalStatus","phase":"Succeeded","reason":""}}"#
        );
        let data = Data::PodStopped(serde_json::from_str(&text).unwrap());
        self.tell(at, &format!("pods/n/p{pod}"), data);
        self.known.pods[pod].to = at;
    }

    fn run(&mut self, seed: u64) {
        let (mut told, mut next, mut heard) = (Told::default(), None, BTreeSet::new());
        for at in 0..LENGTH {
            let happens = at > 0 && (self.up_to(120) == 0 || self.late.iter().any(|l| l.2 == at));
            if happens {
                self.happens(at);
            }
            let holds = self.known.all(at);
            if !happens && at > 0 && next.is_none_or(|next| next > time(at)) {
                assert_eq!(holds, heard, "seed {seed}, at {at}: it was not said to look");
                continue;
            }
            let due = Due::at(&self.ledger, &told, time(at), None);
            next = due.next;
            let mut after = heard.clone();
            for notice in &due.notices {
                match notice.topic.what {
                    What::Forecast => self.check_forecast(seed, at, notice),
                    _ => self.check(seed, at, notice, &mut after),
                }
                told.note(notice.clone());
            }
            assert_eq!(after, holds, "seed {seed}, at {at}: {:#?}", due.notices);
            heard = after;
            let again = Due::at(&self.ledger, &told, time(at), None).notices;
            assert_eq!(again, [], "seed {seed}, at {at}: told already");
        }
    }

    /// Its instant is the first at which all of the group's own cash is spent if the pods that run go on.
    fn check_forecast(&mut self, seed: u64, at: i64, notice: &Notice) {
        let group = GROUPS.iter().position(|(name, _)| *name == notice.group).unwrap();
        assert!(!self.known.holds(group, What::Cash(100), at), "seed {seed}, at {at}: {notice:?}");
        if let Some(end) = notice.forecast {
            let end = end.since(time(0));
            let holds = |at| self.known.holds(group, What::Cash(100), at);
            assert!(holds(end) && !holds(end - 1), "seed {seed}, at {at}: {notice:?}");
            *self.seen.entry("forecast").or_default() += 1;
        }
    }

    fn check(
        &mut self,
        seed: u64,
        at: i64,
        notice: &Notice,
        heard: &mut BTreeSet<(usize, u32, What)>,
    ) {
        let group = GROUPS.iter().position(|(name, _)| *name == notice.group).unwrap();
        let what = notice.topic.what;
        let it = (group, self.known.uids[group], what);
        let changed = if notice.stands { heard.insert(it) } else { heard.remove(&it) };
        assert!(changed, "seed {seed}, at {at}: again {notice:?}");
        let (_, kind) = notice.kind.split_once('.').unwrap();
        let kind = ["threshold", "exhausted", "overdraft", "replenished", "withdrawn", "lifted"]
            .into_iter()
            .find(|known| *known == kind);
        *self.seen.entry(kind.unwrap()).or_default() += 1;
        // A credit makes what was spent before it more than what was spent after it: then there is no first instant.
        let is_plain = self.known.corrections.iter().all(|(_, _, amount)| *amount >= 0);
        if notice.stands && is_plain {
            let since = time(self.known.since(group, what, at));
            assert_eq!(
                (notice.at, notice.exact),
                (since, true),
                "seed {seed}, at {at}: {notice:?}"
            );
            *self.seen.entry("instant").or_default() += 1;
        }
    }
}

#[test]
fn every_mark_is_told_at_its_millisecond_and_taken_back_when_it_is_over() {
    let mut seen = BTreeMap::<_, u32>::new();
    for seed in 0..16 {
        let mut world = World::new(seed);
        world.run(seed);
        for (what, n) in world.seen {
            *seen.entry(what).or_default() += n;
        }
    }
    println!("{seen:?}");
    for what in [
        "start",
        "stop",
        "late stop",
        "budget",
        "other limit",
        "correction",
        "threshold",
        "exhausted",
        "overdraft",
        "replenished",
        "withdrawn",
        "lifted",
        "instant",
        "forecast",
    ] {
        assert!(seen.get(what).is_some_and(|n| *n >= 3), "{what}: {seen:?}");
    }
}

#[test]
fn one_seed() {
    World::new(7).run(7);
}
