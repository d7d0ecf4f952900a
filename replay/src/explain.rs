//! `bizrq-replay explain`: the very segments that a number is the sum of, and the records that made each.
//!
//! The log is read twice: once for the pods that any record puts into the group, once to fold it and to follow
//! these pods. What is printed are the ledger's own segments; their sum is compared with the ledger's number.

mod print;
mod trail;

use crate::{
    Basis, Output,
    reading::{Log, Nothing, Record, instant},
};
use bizrq::{
    cli::{
        Answer, Error,
        out::{Out, warn},
    },
    clock,
    domain::{
        amounts::product,
        event::{Data, Event, Position},
        ledger::{Applied, Ledger, Options},
        meter::Window,
        names::{ObjectId, Uid},
        quota::normalise,
        time::Timestamp,
    },
};
use std::collections::BTreeMap;
use trail::{Held, Trail};

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  bizrq-replay explain --log ./log --group team-a --key limits.cpu
  bizrq-replay explain --log ./log --group team-a --key limits.nvidia.com/gpu.A30 \\
      --from 2026-11-01T00:00:00Z --to 2026-12-01T00:00:00Z -o json

Each line is one pod with constant resources in this group, from and to (open while it runs), what it held, what
that adds, and the positions of the records that say so. Their sum is what `bizrq meter` prints for the same
interval. --group '' is the usage that no group is billed for.")]
pub(super) struct Args {
    /// The log to read: a folder, or nats://host:port,…
    #[arg(long, value_name = "LOG")]
    log: String,
    /// The group
    #[arg(long, value_name = "G")]
    group: String,
    /// The key, such as limits.cpu
    #[arg(long, value_name = "K")]
    key: String,
    /// First instant that counts; from the beginning, unless given
    #[arg(long, value_name = "T", value_parser = instant)]
    from: Option<Timestamp>,
    /// First instant that does not count any more; now, unless given
    #[arg(long, value_name = "T", value_parser = instant)]
    to: Option<Timestamp>,
    /// Whose clock is metered
    #[arg(long, value_enum, default_value_t)]
    basis: Basis,
    /// How the segments are printed
    #[arg(short, long, value_enum, default_value_t)]
    output: Output,
}

/// What is asked.
struct Question {
    group: String,
    key: String,
    basis: Basis,
    window: Window,
    to: Timestamp,
}

/// A number and what it is the sum of.
struct Explanation {
    question: Question,
    position: Position,
    root: String,
    segments: Vec<Line>,
    adjustments: Vec<Adjustment>,
    /// Σ of both.
    sum: i128,
    /// The ledger's number.
    ledger: i128,
}

/// One segment; amount in milli-units, exact in milli-units × milliseconds.
struct Line {
    source: String,
    pod: String,
    uid: String,
    from: Timestamp,
    to: Option<Timestamp>,
    amount: i128,
    exact: i128,
    provisional: bool,
    positions: Vec<Position>,
}

/// One signed correction.
struct Adjustment {
    position: Position,
    at: Timestamp,
    exact: i128,
    why: String,
    by: String,
}

/// The pods that were ever in the group, by source and uid.
type Trails = BTreeMap<(String, String), Trail>;

pub(super) fn run(args: &Args, out: &mut Out) -> Result<Answer, Error> {
    let question = Question::new(args)?;
    let log = Log::open(&args.log)?;
    let mut trails = pods(&log, &question.group)?;
    if trails.is_empty() {
        warn(format_args!("no record puts a pod into a group `{}`", question.group));
    }
    let explanation = explain(&log, question, &mut trails)?;
    explanation.print(args.output, out)?;
    Ok(Answer::of(explanation.sum == explanation.ledger))
}

impl Question {
    fn new(args: &Args) -> Result<Self, Error> {
        if args.key.starts_with("cash/") {
            let key = args.key.trim_start_matches("cash/");
            return Err(Error::Usage(format!("a budget is spent by usage; explain --key {key}")));
        }
        // What the ledger met may be a key that nobody would declare.
        let key = normalise(&args.key).unwrap_or_else(|_| args.key.clone());
        let to = args.to.unwrap_or_else(clock::now);
        if args.from.is_some_and(|from| from > to) {
            return Err(Error::Usage(format!("--from lies behind {to}, where the interval ends")));
        }
        let window = Window { from: args.from, to: Some(to) };
        Ok(Self { group: args.group.clone(), key, basis: args.basis, window, to })
    }
}

/// Every pod that any record puts into `group`.
fn pods(log: &Log, group: &str) -> Result<Trails, Error> {
    let mut trails = Trails::new();
    log.records("looking for pods", Position::MAX, &mut Nothing, |_, record| {
        let Some(event) = record.read.event() else { return Ok(()) };
        let (of, uid) = match &event.data {
            Data::PodStarted(data) => (&data.group, &data.uid),
            Data::PodMoved(data) => (&data.group, &data.uid),
            _ => return Ok(()),
        };
        if of.as_str() == group {
            trails.entry((event.source.to_string(), uid.to_string())).or_default();
        }
        Ok(())
    })?;
    Ok(trails)
}

/// Folds the log and follows the pods.
fn explain(log: &Log, question: Question, trails: &mut Trails) -> Result<Explanation, Error> {
    let mut ledger = Ledger::new(Options {
        basis: question.basis.into(),
        window: question.window,
        history: false,
        quotas: false,
        ..Options::default()
    });
    let mut adjustments = Vec::new();
    log.records("replaying", Position::MAX, &mut ledger, |ledger, record| {
        let event = record.read.event();
        let trail = event.and_then(|event| {
            let uid = event.data.pod()?;
            let key = (event.source.to_string(), uid.to_owned());
            Some((event, Uid::of(uid), trails.get_mut(&key)?))
        });
        let Some((event, uid, trail)) = trail else {
            let applied = log.apply(ledger, record)?;
            adjustments.extend(event.and_then(|e| adjustment(&question, record, e, applied)));
            return Ok(());
        };
        let id = |ledger: &Ledger| {
            let cluster = ledger.names().known_cluster(&event.source)?;
            Some(ObjectId { cluster, uid })
        };
        if id(ledger).is_none_or(|id| ledger.meter().pod(id).is_none()) {
            trail.forgotten();
        }
        let applied = log.apply(ledger, record)?;
        trail.told(record.position, event, applied);
        if let Some(id) = id(ledger) {
            trail.follow(ledger.meter(), id);
        }
        Ok(())
    })?;
    let lines = ledger.usage(question.to).map_err(|e| Error::log(&log.place, e))?;
    let of = lines.iter().find(|l| l.group == question.group && l.key == question.key);
    let segments = segments(&ledger, &question, trails);
    let mut exact = segments.iter().map(|s| s.exact).chain(adjustments.iter().map(|a| a.exact));
    let sum = exact.try_fold(0_i128, i128::checked_add);
    let sum = sum.ok_or_else(|| Error::log(&log.place, "the sum exceeds 128 bits"))?;
    let (position, root) = (ledger.position(), ledger.root().to_string());
    let ledger = of.map_or(0, |line| line.exact);
    Ok(Explanation { question, position, root, segments, adjustments, sum, ledger })
}

/// A correction of the number, if the ledger took it.
fn adjustment(
    question: &Question,
    record: &Record<'_>,
    event: &Event<'_>,
    applied: Applied,
) -> Option<Adjustment> {
    let Data::UsageAdjusted(data) = &event.data else { return None };
    let (at, window) = (data.period.from, question.window);
    let inside = window.from.is_none_or(|from| from <= at) && window.to.is_none_or(|to| at < to);
    let account = event.subject.strip_prefix("accounts/")?;
    let taken = applied == Applied::Changed && inside;
    if !taken || account != question.group || data.key.as_str() != question.key {
        return None;
    }
    let (why, by) = (data.why.to_string(), data.by.to_string());
    Some(Adjustment { position: record.position, at, exact: data.exact, why, by })
}

/// The segments of the group that hold anything under the key, by time and pod.
fn segments(ledger: &Ledger, question: &Question, trails: &Trails) -> Vec<Line> {
    let (names, mut lines) = (ledger.names(), Vec::new());
    let ids = names.known_group(&question.group).zip(names.known_key(&question.key));
    let Some((group, key)) = ids else { return lines };
    for ((source, uid), trail) in trails {
        let of = trail.held().filter(|(held, _)| held.group == group);
        for (held, positions) in of {
            let Held { from, to, provisional, .. } = *held;
            let amount = held.amounts.get(key);
            // The ledger has added this product to its sums: it is in range.
            let exact = product(amount, to.unwrap_or(question.to).since(from)).unwrap_or(i128::MAX);
            if exact != 0 {
                let (source, uid, pod) = (source.clone(), uid.clone(), trail.name().to_owned());
                lines.push(Line {
                    source,
                    pod,
                    uid,
                    from,
                    to,
                    amount,
                    exact,
                    provisional,
                    positions,
                });
            }
        }
    }
    lines.sort_by(|a, b| {
        (a.from, &a.source, &a.pod, &a.uid).cmp(&(b.from, &b.source, &b.pod, &b.uid))
    });
    lines
}
