//! The ledger as these tests see it: records in, lines out.

use super::walk::{Basis, Provisional, Tally};
use bizrq::domain::{
    event::Event,
    history::Unit,
    ledger::{Applied, Ledger, Options},
    merkle,
    meter::Window,
    pod,
    time::Timestamp,
};
use std::collections::BTreeMap;

/// A ledger and the position that it has read up to.
#[derive(Clone)]
pub(crate) struct Fold {
    pub(crate) ledger: Ledger,
    position: u64,
}

/// What the ledger says of one group and key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Said {
    pub(crate) exact: i128,
    pub(crate) running: i128,
    pub(crate) provisional: bool,
    pub(crate) uncertain: i128,
}

/// What the ledger says by group and key; lines of nothing are left out.
pub(crate) type Lines = BTreeMap<(String, String), Said>;

/// Options of a fold for one basis.
pub(crate) fn by(basis: Basis) -> Options {
    let basis = match basis {
        Basis::Held => pod::Basis::Held,
        Basis::Ran => pod::Basis::Ran,
    };
    Options { basis, history: true, ..Options::default() }
}

/// Options of a fold that looks at `[from, to)` only.
pub(crate) fn within(basis: Basis, from: Option<i64>, to: Option<i64>) -> Options {
    let window = Window { from: from.map(instant), to: to.map(instant) };
    Options { window, ..by(basis) }
}

/// Milliseconds since 1970 as an instant.
pub(crate) fn instant(millis: i64) -> Timestamp {
    Timestamp::from_millis(millis).expect("within the years of the tests")
}

impl Fold {
    /// A fold that has read nothing.
    pub(crate) fn new(options: Options) -> Self {
        Self { ledger: Ledger::new(options), position: 0 }
    }

    /// A fold that has read `events`.
    pub(crate) fn of<'e>(
        options: Options,
        events: impl IntoIterator<Item = &'e Event<'static>>,
    ) -> Self {
        let mut fold = Self::new(options);
        for event in events {
            fold.apply(event);
        }
        fold
    }

    /// Reads one record.
    pub(crate) fn apply(&mut self, event: &Event<'_>) -> Applied {
        self.position += 1;
        let leaf = merkle::Hash::default();
        match self.ledger.apply(self.position, leaf, event) {
            Ok(applied) => applied,
            Err(stop) => panic!("the fold stops at {}: {stop}\n{event:?}", self.position),
        }
    }

    /// Usage at an instant, in milliseconds since 1970.
    pub(crate) fn lines(&self, at: i64) -> Lines {
        let mut lines = Lines::new();
        for usage in self.ledger.usage(instant(at)).expect("an instant that can be asked for") {
            let said = Said {
                exact: usage.exact,
                running: usage.running,
                provisional: usage.provisional,
                uncertain: usage.uncertain,
            };
            let row = (usage.group.to_string(), usage.key.to_string());
            assert!(lines.insert(row.clone(), said).is_none(), "{row:?} has two lines");
        }
        lines.retain(|_, said| said.exact != 0 || said.running != 0 || said.uncertain != 0);
        lines
    }

    /// Usage of one group and key in the calendar period that begins at `begin`, from the hourly differences.
    pub(crate) fn period(&self, unit: Unit, (group, key): (&str, &str), begin: i64) -> i128 {
        let names = self.ledger.names();
        let group = names.known_group(group).expect("a group that was met");
        let key = names.known_key(key).expect("a key that was met");
        let within = self.ledger.meter().within(group, key, unit, instant(begin));
        within.expect("no overflow").expect("hourly differences are kept")
    }

    /// Usage at an instant as the sum over the segments of every pod.
    pub(crate) fn sum_over_pods(&self, at: i64) -> BTreeMap<(String, String), i128> {
        let names = self.ledger.names();
        let mut sums = BTreeMap::new();
        self.ledger.meter().each_segment(instant(at), |_, group, measure, segment| {
            let millis = segment.to.map_or(at, Timestamp::millis) - segment.from.millis();
            for (key, milli) in measure.usage.iter() {
                let group = names.group_name(group).to_owned();
                let row = (group, names.key_name(key).to_owned());
                *sums.entry(row).or_insert(0) += milli * i128::from(millis);
            }
        });
        sums.retain(|_, exact| *exact != 0);
        sums
    }
}

impl From<Ledger> for Fold {
    fn from(ledger: Ledger) -> Self {
        let position = ledger.position();
        Self { ledger, position }
    }
}

/// Every difference between the ledger's lines and the oracle's, in words; none if they agree.
///
/// `certainty` asks for `provisional` and `uncertain` too.
pub(crate) fn differences(lines: &Lines, tally: &Tally, certainty: bool) -> Vec<String> {
    let mut differences = Vec::new();
    let (nothing, no_line) = (Said::default(), Default::default());
    let rows: std::collections::BTreeSet<_> = lines.keys().chain(tally.keys()).collect();
    for row in rows {
        let said = lines.get(row).unwrap_or(&nothing);
        let line = tally.get(row).unwrap_or(&no_line);
        let mut differ = |what: &str, fold: String, oracle: String| {
            if fold != oracle {
                differences.push(format!("{row:?} {what}: ledger {fold}, oracle {oracle}"));
            }
        };
        differ("exact", said.exact.to_string(), line.exact.to_string());
        differ("running", said.running.to_string(), line.running.to_string());
        if certainty {
            differ("uncertain", said.uncertain.to_string(), line.uncertain.to_string());
            match line.provisional {
                Provisional::Either => {}
                sure => differ(
                    "provisional",
                    said.provisional.to_string(),
                    (sure == Provisional::Yes).to_string(),
                ),
            }
        }
    }
    differences
}
