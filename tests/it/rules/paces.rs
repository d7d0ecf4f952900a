//! Budgets answered from paces are the budgets that asking every group gives, on a real ledger: pods that start,
//! stop and move, late, early and out of order, corrections, budgets that come and go.

use super::world::{CASH, CPU};
use bizrq::domain::{
    book::{Book, Spend},
    event::{
        Data, Event, EventId, ObjectRef, Period, PodMoved, PodStarted, PodStopped, QuotaDeclared,
        QuotaSpec, StartBasis, StopBasis, UsageAdjusted,
    },
    ledger::{Ledger, Record},
    names::{GroupId, KeyId},
    quantity::{Format, Quantity},
    resources::{Models, ResourceList, Resources},
    text::Text,
    time::{HOUR_MS, ORIGIN, Timestamp},
};
use rand::{RngExt, SeedableRng, rngs::Xoshiro256PlusPlus, seq::IndexedRandom};
use std::sync::Arc;

/// Each with its parent.
const GROUPS: [(&str, &str); 6] =
    [("R", ""), ("A", "R"), ("B", "R"), ("C", "A"), ("D", "A"), ("E", "D")];

struct Told {
    ledger: Ledger,
    rng: Xoshiro256PlusPlus,
    now: i64,
    running: Vec<(String, i64)>,
    pods: u32,
}

/// As the rule says it, asking everybody.
fn used(book: &Book, spend: &impl Spend, group: GroupId, keys: [KeyId; 2], at: Timestamp) -> i128 {
    let given = book
        .children(group)
        .iter()
        .map(|child| book.line(*child, keys[1]).claim.max(used(book, spend, *child, keys, at)));
    spend.spent(group, keys[0], at) + given.sum::<i128>()
}

impl Told {
    fn tell(&mut self, subject: String, time: i64, data: Data<'_>) {
        let position = self.ledger.position() + 1;
        let time = ORIGIN.shifted(time);
        let event = Event {
            id: EventId(u128::from(position)),
            source: "/clusters/east".into(),
            subject: subject.into(),
            time,
            recorded_at: time,
            data,
        };
        self.ledger.fold(position, &Record::Event(&event)).unwrap();
        self.compare(time);
    }

    fn compare(&self, time: Timestamp) {
        let (Some(book), meter, names) =
            (self.ledger.book(), self.ledger.meter(), self.ledger.names())
        else {
            panic!("a ledger with a book")
        };
        let (Some(cpu), Some(cash)) = (names.known_key(CPU), names.known_key(CASH)) else { return };
        for at in [time, ORIGIN.shifted(self.now), ORIGIN.shifted(self.now + 7 * HOUR_MS)] {
            for (group, _) in GROUPS {
                let Some(group) = names.known_group(group) else { continue };
                let expected = used(book, meter, group, [cpu, cash], at);
                assert_eq!(book.budget_used(group, cpu, meter, at), expected, "{at}");
                let out = book.cash_out(group, cpu, meter, at);
                let limit = book.line(group, cash).limit;
                if let Some(limit) = limit {
                    assert_eq!(out.is_some(), expected >= limit, "{at}");
                }
            }
        }
    }

    fn declare(&mut self, (name, parent): (&str, &str)) {
        let cash = self.rng.random_range(0..60);
        let mut hard = vec![(CPU, 1000)];
        if name == "R" || self.rng.random_range(0..2) == 0 {
            hard.push((CASH, if name == "R" { 500 } else { cash }));
        }
        let q = |n: i32| Quantity::from_milli(i128::from(n) * 1000, Format::DecimalSI);
        let hard = hard.into_iter().map(|(k, n)| (k.into(), q(n))).collect();
        let spec = QuotaSpec { parent: parent.into(), hard, ..QuotaSpec::default() };
        let generation = i64::try_from(self.ledger.position()).unwrap() + 1;
        let uid = format!("q-{name}");
        let data =
            QuotaDeclared { uid: (&*uid).into(), resource_version: Text::EMPTY, generation, spec };
        self.tell(format!("quotas/{name}"), self.now, Data::QuotaDeclared(data));
    }

    fn a_group(&mut self) -> &'static str {
        GROUPS.choose(&mut self.rng).unwrap().0
    }

    fn start(&mut self) {
        self.pods += 1;
        let (uid, group) = (format!("p-{}", self.pods), self.a_group());
        let milli = i128::from(self.rng.random_range(1..4000));
        let cpu = Quantity::from_milli(milli, Format::DecimalSI);
        let limits = ResourceList::from_iter([("cpu", cpu)]);
        let held = Arc::new(Resources { requests: ResourceList::default(), limits });
        let data = PodStarted {
            uid: (&*uid).into(),
            owner: None::<ObjectRef<'_>>,
            group: group.into(),
            models: Models::default(),
            node: "n1".into(),
            held,
            reserved: None,
            basis: StartBasis::Bound,
        };
        let time = self.now - self.rng.random_range(0..3) * self.rng.random_range(0..HOUR_MS);
        self.tell(format!("pods/ml/{uid}"), time, Data::PodStarted(data));
        self.running.push((uid, time));
    }

    fn end_or_move(&mut self) {
        if self.running.is_empty() {
            return;
        }
        let i = self.rng.random_range(0..self.running.len());
        let (uid, since) = self.running[i].clone();
        let time = self.rng.random_range(since..=self.now.max(since));
        let subject = format!("pods/ml/{uid}");
        if self.rng.random_range(0..3) == 0 {
            let group = self.a_group();
            let data = PodMoved {
                uid: (&*uid).into(),
                owner: None,
                group: group.into(),
                models: Models::default(),
            };
            self.tell(subject, time, Data::PodMoved(data));
            return;
        }
        self.running.swap_remove(i);
        let at = ORIGIN.shifted(time);
        let data = PodStopped {
            uid: (&*uid).into(),
            earliest: at,
            latest: at,
            basis: StopBasis::TerminalStatus,
            phase: "Succeeded".into(),
            reason: Text::EMPTY,
            ran: None,
        };
        self.tell(subject, time, Data::PodStopped(data));
    }

    fn correct(&mut self) {
        let (group, at) = (self.a_group(), ORIGIN.shifted(self.now));
        let exact = i128::from(self.rng.random_range(0..5)) * 3_600_000_000;
        let data = UsageAdjusted {
            key: CPU.into(),
            exact,
            period: Period { from: at, to: at },
            why: "test".into(),
            by: "test".into(),
        };
        self.tell(format!("accounts/{group}"), self.now, Data::UsageAdjusted(data));
    }

    fn step(&mut self) {
        match self.rng.random_range(0..20) {
            0..9 => self.start(),
            9..16 => self.end_or_move(),
            16 => self.correct(),
            17 => {
                let group = *GROUPS.choose(&mut self.rng).unwrap();
                self.declare(group);
            }
            _ => self.now += self.rng.random_range(1..5 * HOUR_MS),
        }
    }
}

#[test]
fn budgets_by_pace_are_budgets_by_asking() {
    for seed in 0..12 {
        let rng = Xoshiro256PlusPlus::seed_from_u64(seed);
        let mut told =
            Told { ledger: Ledger::default(), rng, now: 0, running: Vec::new(), pods: 0 };
        for _ in 0..6 {
            told.start();
        }
        for group in GROUPS {
            told.declare(group);
        }
        for _ in 0..90 {
            told.step();
        }
        assert!(told.ledger.quarantined().is_empty(), "{:?}", told.ledger.quarantined());
    }
}
