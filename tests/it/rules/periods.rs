//! Budgets that begin anew, on a real ledger, against the rule as one writes it down: by walks over all pods and all
//! that was ever in force. Pods come late and out of order, limits and parents change, periods begin at midnight of
//! UTC and of places half an hour off the hours.

mod far;

use super::world::{CASH, CPU};
use bizrq::domain::{
    book::{Book, Exhaustion},
    calendar::{Calendar, Every, Zone},
    event::{
        CarryOver, CashPeriod, Data, Event, EventId, Period, PodMoved, PodStarted, PodStopped,
        QuotaDeclared, QuotaSpec, StartBasis, StopBasis, UsageAdjusted,
    },
    ledger::{Ledger, Options, Record},
    names::GroupId,
    quantity::{Format, Quantity},
    resources::{Models, ResourceList, Resources},
    text::Text,
    time::{HOUR_MS, ORIGIN, Timestamp},
};
use rand::{RngExt, SeedableRng, rngs::Xoshiro256PlusPlus, seq::IndexedRandom};
use std::sync::Arc;

const GROUPS: [&str; 6] = ["R", "A", "B", "C", "D", "E"];
const DAY: i64 = 24 * HOUR_MS;

/// Milliseconds east of UTC, and the same in the words of POSIX.
const ZONES: [(i64, &str); 4] =
    [(0, "UTC0"), (19_800_000, "IST-5:30"), (-12_600_000, "NST3:30"), (20_700_000, "NPT-5:45")];

/// What one pod holds from an instant to another; of a correction an amount at an instant.
#[derive(Clone, Debug)]
struct Held {
    uid: String,
    group: usize,
    milli: i128,
    from: i64,
    to: i64,
    at_once: bool,
}

/// What was in force of a group from an instant on.
#[derive(Clone, Debug, PartialEq)]
struct Said {
    from: i64,
    group: usize,
    parent: Option<usize>,
    /// Milli-units × milliseconds.
    hard: Option<i128>,
    policy: Option<Arc<CashPeriod>>,
}

struct World {
    ledger: Ledger,
    events: Vec<Event<'static>>,
    rng: Xoshiro256PlusPlus,
    now: i64,
    held: Vec<Held>,
    said: Vec<Said>,
    /// When each group was declared first, in force or not.
    opened: [Option<i64>; GROUPS.len()],
    pods: u32,
    /// Milliseconds east of UTC.
    east: i64,
    rule: &'static str,
    policy: (CarryOver, Option<u16>),
}

fn at(ms: i64) -> Timestamp {
    ORIGIN.shifted(ms)
}

/// The rule.
impl World {
    fn day(&self, t: i64) -> i64 {
        (t + self.east).div_euclid(DAY)
    }

    fn begin(&self, day: i64) -> i64 {
        day * DAY - self.east
    }

    fn in_force(&self, group: usize, before: i64) -> Option<&Said> {
        self.said.iter().rev().find(|said| said.group == group && said.from < before)
    }

    fn spent(&self, group: usize, from: i64, to: i64) -> i128 {
        let Some(opened) = self.opened[group] else { return 0 };
        let from = from.max(opened);
        let amount = |held: &&Held| match held.at_once {
            true if from <= held.from && held.from < to => held.milli,
            true => 0,
            false => held.milli * i128::from((held.to.min(to) - held.from.max(from)).max(0)),
        };
        self.held.iter().filter(|held| held.group == group).map(|held| amount(&held)).sum()
    }

    fn consumed(&self, group: usize, day: i64) -> i128 {
        let end = self.begin(day + 1);
        let below = |mut at: usize| loop {
            if at == group {
                return true;
            }
            match self.in_force(at, end).and_then(|said| said.parent) {
                Some(parent) => at = parent,
                None => return false,
            }
        };
        let below = (0..GROUPS.len()).filter(|g| below(*g));
        below.map(|g| self.spent(g, self.begin(day), end)).sum()
    }

    /// When the root's present calendar came into force: its change begins a new count. One that was replaced within
    /// the period in which it came never was.
    fn counts_since(&self) -> Option<i64> {
        let zone = |said: &Said| {
            let policy = said.policy.as_ref().unwrap();
            *ZONES.iter().find(|(_, rule)| *rule == policy.calendar.zone.rule()).unwrap()
        };
        let begin = |said: &Said| said.from - (said.from + zone(said).0).rem_euclid(DAY);
        let roots: Vec<_> = self.said.iter().filter(|said| said.group == 0).collect();
        let counts = |i: &usize| roots[i + 1..].iter().all(|later| begin(later) > roots[*i].from);
        let mut lasting = (0..roots.len()).filter(counts).map(|i| roots[i]).rev().peekable();
        let now = zone(lasting.peek()?);
        lasting.take_while(|said| zone(said) == now).last().map(|said| said.from)
    }

    fn carry(&self, group: usize, day: i64) -> i128 {
        let first = self.counts_since().map(|from| self.day(from));
        let mut carry = 0;
        for past in first.unwrap_or(day)..day {
            let end = self.begin(past + 1);
            let said = self.in_force(group, end);
            let policy = self.in_force(0, end).and_then(|said| said.policy.as_ref()).unwrap();
            carry = match said.and_then(|said| said.hard) {
                Some(hard) => {
                    let left = hard + carry - self.consumed(group, past);
                    let way = match policy.carry_over {
                        CarryOver::None => 0,
                        CarryOver::Unused => left.max(0),
                        CarryOver::Overdraft => left.min(0),
                        CarryOver::Both => left,
                    };
                    let most = policy.max_percent.map(|p| hard * i128::from(p) / 100);
                    most.map_or(way, |most| way.max(-most).min(most))
                }
                None => 0,
            };
        }
        carry
    }

    fn limit(&self, group: usize, t: i64) -> Option<i128> {
        let hard = self.in_force(group, i64::MAX)?.hard?;
        Some(hard + self.carry(group, self.day(t)))
    }

    fn used(&self, group: usize, t: i64) -> i128 {
        let own = self.spent(group, self.begin(self.day(t)), t);
        let is_child =
            |g: &usize| self.in_force(*g, i64::MAX).is_some_and(|s| s.parent == Some(group));
        let given = (0..GROUPS.len()).filter(is_child).map(|child| {
            let claim = self.limit(child, t).map_or(0, |limit| limit.max(0));
            claim.max(self.used(child, t))
        });
        own + given.sum::<i128>()
    }
}

/// What is told.
impl World {
    fn tell(&mut self, subject: String, time: i64, data: Data<'static>) {
        let position = self.ledger.position() + 1;
        let event = Event {
            id: EventId(u128::from(position)),
            source: "/clusters/east".into(),
            subject: subject.into(),
            time: at(time),
            recorded_at: at(self.now),
            data,
        };
        self.ledger.fold(position, &Record::Event(&event)).unwrap();
        self.events.push(event);
        self.listen(time);
    }

    /// What came into force, by the book: that rules keep things out is not what is looked at here.
    fn listen(&mut self, from: i64) {
        let (book, names) = (self.ledger.book().unwrap(), self.ledger.names());
        let cash = names.known_key(CASH);
        let number =
            |id: GroupId| GROUPS.iter().position(|name| names.known_group(name) == Some(id));
        for (group, name) in GROUPS.iter().enumerate() {
            let declared = names.known_group(name).and_then(|id| book.declaration(id));
            let Some(spec) = declared.map(|declared| &declared.spec) else { continue };
            let hard = spec.hard.iter().find(|(key, _)| Some(*key) == cash).map(|(_, hard)| *hard);
            let parent = spec.parent.and_then(number);
            let policy = spec.cash_period.clone();
            let said = Said { from, group, parent, hard, policy };
            let last = self.in_force(group, i64::MAX);
            if last.is_none_or(|last| Said { from, ..last.clone() } != said) {
                self.said.push(said);
            }
            if group == 0
                && let Some(Said { policy: Some(policy), .. }) = self.in_force(0, i64::MAX)
            {
                let rule = policy.calendar.zone.rule();
                let known = ZONES.iter().find(|(_, known)| *known == rule);
                self.east = known.map_or(self.east, |(east, _)| *east);
            }
        }
    }

    fn declare(&mut self, name: &str, parent: &str) {
        // Wide above, so that most declarations fit; what is not in force is of no interest here.
        let least = match name {
            "R" => 600,
            "A" | "B" => 150,
            _ => 0,
        };
        let mut hard = Vec::new();
        if name == "R" || self.rng.random_range(0..4) > 0 {
            hard.push((CASH, least + self.rng.random_range(0..80)));
        }
        let q = |n: i32| Quantity::from_milli(i128::from(n) * 1000, Format::DecimalSI);
        let hard = hard.into_iter().map(|(k, n)| (k.into(), q(n))).collect();
        let cash_period = (name == "R").then(|| {
            if self.rng.random_range(0..4) == 0 {
                let ways =
                    [CarryOver::Unused, CarryOver::Overdraft, CarryOver::Both, CarryOver::None];
                let most = [None, Some(50), Some(200)];
                self.policy =
                    (*ways.choose(&mut self.rng).unwrap(), *most.choose(&mut self.rng).unwrap());
            }
            let zone = Zone::new(Vec::new(), self.rule).unwrap();
            let anchor = "2024-01-01".parse().unwrap();
            let calendar = Calendar { every: Every::Day, anchor, zone };
            let (carry_over, max_percent) = self.policy;
            Arc::new(CashPeriod { calendar, time_zone: "Test".into(), carry_over, max_percent })
        });
        let parent = parent.to_owned().into();
        let spec = QuotaSpec { parent, hard, cash_period, ..QuotaSpec::default() };
        let generation = i64::try_from(self.ledger.position()).unwrap() + 1;
        let uid = format!("q-{name}").into();
        let group = GROUPS.iter().position(|group| *group == name).unwrap();
        self.opened[group].get_or_insert(self.now);
        let data = QuotaDeclared { uid, resource_version: Text::EMPTY, generation, spec };
        self.tell(format!("quotas/{name}"), self.now, Data::QuotaDeclared(data));
    }

    fn start(&mut self) {
        self.pods += 1;
        let (uid, group) = (format!("p-{}", self.pods), self.rng.random_range(0..GROUPS.len()));
        let milli = i128::from(self.rng.random_range(1..4000));
        let limits =
            ResourceList::from_iter([("cpu", Quantity::from_milli(milli, Format::DecimalSI))]);
        let held = Arc::new(Resources { requests: ResourceList::default(), limits });
        let data = PodStarted {
            uid: uid.clone().into(),
            owner: None,
            group: GROUPS[group].into(),
            models: Models::default(),
            node: "n1".into(),
            held,
            reserved: None,
            basis: StartBasis::Bound,
        };
        let late = self.rng.random_range(0..3) * self.rng.random_range(0..2 * DAY);
        let from = self.now - late;
        self.tell(format!("pods/ml/{uid}"), from, Data::PodStarted(data));
        let to = i64::MAX / 4;
        self.held.push(Held { uid, group, milli, from, to, at_once: false });
    }

    fn end_or_move(&mut self) {
        let runs = |held: &Held| held.to == i64::MAX / 4;
        let running: Vec<_> = (0..self.held.len()).filter(|i| runs(&self.held[*i])).collect();
        let Some(i) = running.choose(&mut self.rng).copied() else { return };
        let held = self.held[i].clone();
        let time = self.rng.random_range(held.from..=self.now.max(held.from));
        let subject = format!("pods/ml/{}", held.uid);
        let uid = Text::from(held.uid.clone());
        self.held[i].to = time;
        if self.rng.random_range(0..3) == 0 {
            let group = self.rng.random_range(0..GROUPS.len());
            let models = Models::default();
            let data = PodMoved { uid, owner: None, group: GROUPS[group].into(), models };
            self.tell(subject, time, Data::PodMoved(data));
            self.held.push(Held { group, from: time, ..held });
            return;
        }
        let stop = PodStopped {
            uid,
            earliest: at(time),
            latest: at(time),
            basis: StopBasis::TerminalStatus,
            phase: "Succeeded".into(),
            reason: Text::EMPTY,
            ran: None,
        };
        self.tell(subject, time, Data::PodStopped(stop));
    }

    fn correct(&mut self) {
        let group = self.rng.random_range(0..GROUPS.len());
        let exact = i128::from(self.rng.random_range(0..50)) * 3_600_000_000;
        let from = self.now - self.rng.random_range(0..2 * DAY);
        let data = UsageAdjusted {
            key: CPU.into(),
            exact,
            period: Period { from: at(from), to: at(from) },
            why: "test".into(),
            by: "test".into(),
        };
        self.tell(format!("accounts/{}", GROUPS[group]), self.now, Data::UsageAdjusted(data));
        let uid = String::new();
        self.held.push(Held { uid, group, milli: exact, from, to: from, at_once: true });
    }

    fn step(&mut self) {
        match self.rng.random_range(0..20) {
            0..7 => self.start(),
            7..13 => self.end_or_move(),
            13 => self.correct(),
            14..16 => {
                let parents = [
                    ("R", ""),
                    ("A", "R"),
                    ("B", "R"),
                    ("C", "A"),
                    ("C", "B"),
                    ("D", "A"),
                    ("E", "D"),
                    ("E", "C"),
                ];
                let (name, parent) = *parents.choose(&mut self.rng).unwrap();
                self.declare(name, parent);
            }
            _ => self.now += self.rng.random_range(1..DAY),
        }
    }
}

/// What is compared.
impl World {
    fn compare(&self, what: &str) {
        let (book, names) = (self.ledger.book().unwrap(), self.ledger.names());
        let (meter, Some(cpu)) = (self.ledger.meter(), names.known_key(CPU)) else { return };
        for t in [self.now, self.now + 7 * HOUR_MS, self.now + DAY, self.now - DAY - 1] {
            for (group, name) in GROUPS.iter().enumerate() {
                let Some(id) = names.known_group(name).filter(|id| book.declaration(*id).is_some())
                else {
                    continue;
                };
                let what = format!("{what}, {name} at {t}");
                let span = book.period(id, at(t)).unwrap();
                let day = self.day(t);
                assert_eq!((span.from, span.to), (at(self.begin(day)), at(self.begin(day + 1))));
                assert_eq!(book.budget_used(id, cpu, meter, at(t)), self.used(group, t), "{what}");
                let limit = self.limit(group, t);
                assert_eq!(book.budget_limit(id, cpu, meter, at(t)), limit, "{what}");
                let Some(limit) = limit else { continue };
                let out = book.cash_out(id, cpu, meter, at(t));
                assert_eq!(out.is_some(), self.used(group, t) >= limit, "{what}");
                self.runs_out(book, id, group, t, limit, &what);
            }
        }
    }

    /// The instant is the first of the period, and of the account, at which the budget is used up.
    fn runs_out(&self, book: &Book, id: GroupId, group: usize, t: i64, limit: i128, what: &str) {
        let cpu = self.ledger.names().known_key(CPU).unwrap();
        let (begin, end) = (self.begin(self.day(t)), self.begin(self.day(t) + 1));
        let opened = self.opened[group].unwrap();
        match book.exhaustion(id, cpu, self.ledger.meter(), at(t)).unwrap() {
            Exhaustion::Never => {
                assert!(opened >= end || self.used(group, end - 1) < limit, "{what}");
            }
            Exhaustion::At(found) => {
                let found = found.since(ORIGIN);
                let since = begin.max(opened);
                assert!(since <= found && found < end, "{what}");
                assert!(self.used(group, found) >= limit, "{what}");
                assert!(found == since || self.used(group, found - 1) < limit, "{what}");
            }
            Exhaustion::By(by) => panic!("{what}: nothing is forgotten, yet it is used up by {by}"),
        }
    }
}

fn world(seed: u64) -> World {
    let (east, rule) = ZONES[seed as usize % ZONES.len()];
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
    let now = rng.random_range(0..2 * DAY);
    let policy = (CarryOver::Both, None);
    let mut world = World {
        ledger: Ledger::default(),
        events: Vec::new(),
        rng,
        now,
        held: Vec::new(),
        said: Vec::new(),
        opened: [None; GROUPS.len()],
        pods: 0,
        east,
        rule,
        policy,
    };
    for (name, parent) in [("R", ""), ("A", "R"), ("B", "R"), ("C", "A"), ("D", "A"), ("E", "D")] {
        world.declare(name, parent);
    }
    world
}

fn history(seed: u64) -> World {
    let mut world = world(seed);
    for step in 0..80 {
        world.step();
        world.compare(&format!("seed {seed}, step {step}"));
    }
    assert!(world.ledger.quarantined().is_empty(), "{:?}", world.ledger.quarantined());
    world
}

#[test]
fn budgets_that_begin_anew_are_what_the_rule_says() {
    let (mut out, mut moved, mut over) = (0, 0, 0);
    for seed in 0..12 {
        let world = history(seed);
        let cash = world.ledger.names().known_key(CPU).unwrap();
        let book = world.ledger.book().unwrap();
        for id in GROUPS.iter().filter_map(|name| world.ledger.names().known_group(name)) {
            let now = at(world.now);
            out += usize::from(book.cash_out(id, cash, world.ledger.meter(), now).is_some());
            over += usize::from(book.carried(id, cash, world.ledger.meter(), now) != 0);
        }
        let c = world.said.iter().filter(|said| said.group == 3).map(|said| said.parent);
        moved += usize::from(c.collect::<std::collections::BTreeSet<_>>().len() > 1);
    }
    assert!(out > 3 && moved > 3 && over > 3, "{out} {moved} {over}: nothing was tried");
}

#[test]
fn a_fold_with_periods_in_pieces_is_one_fold() {
    for seed in [1, 2, 3] {
        let world = history(seed);
        let mut dice = crate::oracle::world::Dice::seed_from_u64(seed);
        crate::restored::check("periods", Options::default(), &world.events, &mut dice);
    }
}
