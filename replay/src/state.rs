//! `bizrq-replay state`: what was used, allowed and left at an instant; or what was believed then.

mod print;

use crate::{
    Basis, Output,
    reading::{Folds, Log, instant},
};
use bizrq::{
    cli::{Answer, Error, out::Out},
    domain::{
        book::{Book, Exhaustion},
        event::{Period, Position},
        ledger::{Ledger, Options, Usage},
        meter::Window,
        names::{GroupId, KeyId},
        time::Timestamp,
    },
};

#[derive(Debug, clap::Args)]
#[command(group(clap::ArgGroup::new("when").required(true).multiple(true)))]
#[command(after_help = "\
Examples:
  bizrq-replay state --log ./log --at 2026-11-30T00:00:00Z
  bizrq-replay state --log ./log --as-known-at 2026-11-30T00:00:00Z
  bizrq-replay state --log ./log --position 4711 -o json

--at counts up to an instant by all that is known by now: a stop that was recorded later counts. --as-known-at and
--position use only what was on the log by then, and count up to then; with --at, up to there. Quotas are those of
the last record that is used.")]
pub(super) struct Args {
    /// The log to read: a folder, or nats://host:port,…
    #[arg(long, value_name = "LOG")]
    log: String,
    /// Count up to this instant
    #[arg(long, value_name = "T", value_parser = instant, group = "when")]
    at: Option<Timestamp>,
    /// Use only what was published up to this instant
    #[arg(long, value_name = "T", value_parser = instant, group = "when", conflicts_with = "position")]
    as_known_at: Option<Timestamp>,
    /// Use only the records up to this one
    #[arg(long, value_name = "N", group = "when")]
    position: Option<Position>,
    /// Whose clock is metered
    #[arg(long, value_enum, default_value_t)]
    basis: Basis,
    /// How the state is printed
    #[arg(short, long, value_enum, default_value_t)]
    output: Output,
}

/// What the log says.
struct State {
    /// Counted up to here; `None`: there is no record to count.
    at: Option<Timestamp>,
    /// Everything that the records say, quotas included.
    known: Ledger,
    usage: Vec<Usage>,
    quotas: Vec<Limit>,
    cash: Vec<Budget>,
}

/// A group's limit under one key, in milli-units.
pub(crate) struct Limit {
    pub(crate) group: String,
    parent: Option<String>,
    pub(crate) key: String,
    pub(crate) hard: Option<i128>,
    pub(crate) used: i128,
    self_used: i128,
    unreviewed: i128,
}

/// A group's budget for one key, in milli-units × milliseconds.
struct Budget {
    group: String,
    key: String,
    hard: i128,
    /// What went over from the period before, where the tree's budgets begin anew.
    carried: i128,
    /// The period that the numbers are of, where they begin anew.
    period: Option<Period>,
    used: i128,
    consumed: i128,
    exhaustion: Option<Exhaustion>,
}

pub(super) fn run(args: &Args, out: &mut Out) -> Result<Answer, Error> {
    let log = Log::open(&args.log)?;
    let Folded { known, counted, last } = fold(&log, args)?;
    if let Some(position) = args.position.filter(|p| *p > known.position()) {
        let why = format!("--position {position}: the log ends at {}", known.position());
        return Err(Error::Usage(why));
    }
    let said = args.at.or(args.as_known_at).or(last);
    let at = said.unwrap_or(Timestamp::MIN);
    let usage = counted.as_ref().unwrap_or(&known).usage(at);
    let usage = usage.map_err(|e| Error::log(&log.place, e))?;
    let quotas = known.book().map(|book| limits(&known, book)).unwrap_or_default();
    let cash = known.book().map(|book| budgets(&known, book, at)).unwrap_or_default();
    let state = State { at: said, known, usage, quotas, cash };
    state.print(args.output, out)?;
    Ok(Answer::Yes)
}

/// What may be used.
struct Folded {
    /// All that it says.
    known: Ledger,
    /// With --at: usage up to there. A ledger of its own, cut off there, since one that goes on forgets what lies far
    /// back. It keeps no quotas, since they must be judged by all that was spent.
    counted: Option<Ledger>,
    /// When the last record was published.
    last: Option<Timestamp>,
}

impl Folds for Folded {
    fn ledgers(&self) -> impl Iterator<Item = &Ledger> {
        std::iter::once(&self.known).chain(&self.counted)
    }
}

fn fold(log: &Log, args: &Args) -> Result<Folded, Error> {
    let options = Options { basis: args.basis.into(), ..Options::default() };
    let counted = args.at.map(|at| {
        let window = Window { from: None, to: Some(at) };
        Ledger::new(Options { window, history: false, quotas: false, ..options })
    });
    let mut folded = Folded { known: Ledger::new(options), counted, last: None };
    let limit = match args.as_known_at {
        Some(at) => log.published_up_to(at)?,
        None => args.position.unwrap_or(Position::MAX),
    };
    log.records("replaying", limit, &mut folded, |folded, record| {
        if let Some(event) = record.read.event() {
            folded.last = Some(event.recorded_at);
        }
        log.apply(&mut folded.known, record)?;
        if let Some(counted) = &mut folded.counted {
            log.apply(counted, record)?;
        }
        Ok(())
    })?;
    Ok(folded)
}

/// Every limit that a group has, and whatever it uses.
pub(crate) fn limits(ledger: &Ledger, book: &Book) -> Vec<Limit> {
    let names = ledger.names();
    let name = |group: GroupId| names.group_name(group).to_owned();
    let mut limits = Vec::new();
    for group in names.groups() {
        for key in book.keys(group).iter().filter(|key| names.budgeted(**key).is_none()) {
            let line = book.line(group, *key);
            let limit = Limit {
                group: name(group),
                parent: book.parents(group).first().map(|parent| name(*parent)),
                key: names.key_name(*key).to_owned(),
                hard: line.limit,
                used: line.used,
                self_used: line.self_used,
                unreviewed: book.unreviewed(group, *key),
            };
            if limit.hard.is_some() || limit.used != 0 || limit.unreviewed != 0 {
                limits.push(limit);
            }
        }
    }
    limits.sort_by(|a, b| (&a.group, &a.key).cmp(&(&b.group, &b.key)));
    limits
}

/// Every budget that a group has.
fn budgets(ledger: &Ledger, book: &Book, at: Timestamp) -> Vec<Budget> {
    let (names, meter) = (ledger.names(), ledger.meter());
    let pairs: Vec<(KeyId, KeyId)> = book.budgets().collect();
    let mut budgets = Vec::new();
    for group in names.groups() {
        for (key, budget) in &pairs {
            let Some(hard) = book.line(group, *budget).limit else { continue };
            budgets.push(Budget {
                group: names.group_name(group).to_owned(),
                key: names.key_name(*key).to_owned(),
                hard,
                carried: book.carried(group, *key, meter, at),
                period: book.period(group, at).map(Period::from),
                used: book.budget_used(group, *key, meter, at),
                consumed: book.budget_consumed(group, *key, meter, at),
                exhaustion: book.exhaustion(group, *key, meter, at),
            });
        }
    }
    budgets.sort_by(|a, b| (&a.group, &a.key).cmp(&(&b.group, &b.key)));
    budgets
}
