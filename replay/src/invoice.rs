//! `bizrq-replay invoice`: what a period costs whom. Exact amounts by group, key, model and workload, as known at one
//! position, which the invoice names together with the log's root.
//!
//! ```text
//!  log ──▶ Billing (domain) ──▶ Bill: lines ──▶ print: table · JSON · CSV · FOCUS · Parquet
//!                                  ▲ prices (YAML)
//! ```

pub(crate) mod document;
mod focus;
pub(crate) mod fold;
mod parquet;
mod prices;
mod print;

use crate::{
    Basis,
    reading::{Log, instant},
};
use bizrq::{
    cli::{
        Answer, Error,
        out::{Out, warn},
    },
    clock,
    domain::{
        billing::{Bill, Billing, Line, Terms},
        event::{Period, Position},
        history::Unit,
        time::Timestamp,
    },
};
use fold::Folded;
use prices::PriceList;
use std::{collections::BTreeSet, path::PathBuf};

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  bizrq-replay invoice --log ./log --from 2026-11-01T00:00:00Z --to 2026-12-01T00:00:00Z
  bizrq-replay invoice --log ./log --from 2026-11-01T00:00:00Z --to 2026-12-01T00:00:00Z \\
      --group dept-1 --subtree --by day -o csv
  bizrq-replay invoice --log ./log --from 2026-11-01T00:00:00Z --to 2026-12-01T00:00:00Z --prices prices.yaml

Each amount is billed once: under its generic key, with the model it was held on. A line is final when all that it
rests on has ended for good, provisional while some of it may still change, and corrected when it corrects what was
billed or metered before. A period that was closed (`bizrq close`) is billed as it was known then, for ever; what was
learned later is on the invoice of the next period.")]
pub(super) struct Args {
    /// The log to read: a folder, or nats://host:port,…
    #[arg(long, value_name = "LOG")]
    log: String,
    /// First instant that is billed
    #[arg(long, value_name = "T", value_parser = instant)]
    from: Timestamp,
    /// First instant that is not billed any more
    #[arg(long, value_name = "T", value_parser = instant)]
    to: Timestamp,
    /// Only this group
    #[arg(long, value_name = "G")]
    group: Option<String>,
    /// And all groups below it
    #[arg(long, requires = "group")]
    subtree: bool,
    /// Split every line by the hour or the day (UTC)
    #[arg(long, value_enum)]
    by: Option<Every>,
    /// One line for all workloads of a group, key and model
    #[arg(long)]
    summary: bool,
    /// What an hour of a key costs: a YAML file of prices, each with its key, model and period
    #[arg(long, value_name = "YAML")]
    prices: Option<PathBuf>,
    /// As known at this position of the log
    #[arg(long, value_name = "N", conflicts_with = "as_known_at")]
    position: Option<Position>,
    /// As known at this instant: records that were published later do not count
    #[arg(long, value_name = "T", value_parser = instant)]
    as_known_at: Option<Timestamp>,
    /// Whose clock is metered
    #[arg(long, value_enum, default_value_t)]
    basis: Basis,
    /// How the invoice is printed
    #[arg(short, long, value_enum, default_value_t)]
    output: Format,
}

/// How an invoice is printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    /// For people
    #[default]
    Table,
    /// For programs, and to be proved
    Json,
    /// For spreadsheets
    Csv,
    /// For FinOps tools: a data set of FOCUS 1.4; needs --prices
    FocusCsv,
    /// For analytics: a file whose amounts are DECIMAL
    Parquet,
}

/// A length of calendar time, in UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Every {
    /// By the hour
    Hour,
    /// By the day
    Day,
}

/// An invoice that was made.
struct Invoice<'b> {
    args: &'b Args,
    folded: &'b Folded,
    bill: Bill<'b>,
    /// Groups that are billed; `None`: all.
    only: Option<BTreeSet<&'b str>>,
    prices: Option<&'b PriceList>,
}

pub(super) fn run(args: &Args, out: &mut Out) -> Result<Answer, Error> {
    if args.to <= args.from {
        let why = format!("--from {} must lie before --to {}", args.from, args.to);
        return Err(Error::Usage(why));
    }
    if args.output == Format::Parquet {
        parquet::refuse_terminal()?;
    }
    let prices = args.prices.as_deref().map(PriceList::read).transpose()?;
    let log = Log::open(&args.log)?;
    let limit = match args.as_known_at {
        Some(at) => log.published_up_to(at)?,
        None => args.position.unwrap_or(Position::MAX),
    };
    let folded = fold::fold(&log, &args.terms(prices.as_ref()), limit, &mut |_, _| {})?;
    if let Some(position) = args.position.filter(|p| *p > folded.position && !folded.closed) {
        let why = format!("--position {position}: the log ends at {}", folded.position);
        return Err(Error::Usage(why));
    }
    let price = |key: &str, model: &str, at| prices.as_ref()?.prices.of(key, model, at);
    let bill = folded.billing.bill(price).map_err(|e| Error::log(&args.log, e))?;
    let only = args.only(&folded.billing);
    let invoice = Invoice { args, folded: &folded, bill, only, prices: prices.as_ref() };
    invoice.is_priced()?;
    if args.to > clock::now() {
        warn(format_args!("the time up to {} is not over: what runs is billed up to it", args.to));
    }
    invoice.print(out)?;
    Ok(Answer::Yes)
}

impl Args {
    fn terms(&self, prices: Option<&PriceList>) -> Terms {
        Terms {
            period: Period { from: self.from, to: self.to },
            basis: self.basis.into(),
            every: self.by.map(|every| match every {
                Every::Hour => Unit::Hour,
                Every::Day => Unit::Day,
            }),
            workloads: !self.summary,
            // Which groups are below it is known at the end.
            group: self.group.clone().filter(|_| !self.subtree),
            quotas: self.subtree,
            cuts: prices.map(|list| list.prices.changes().collect()).unwrap_or_default(),
            resources: Vec::new(),
        }
    }

    /// The groups that are billed, as the tree of quotas is at the end.
    fn only<'b>(&'b self, billing: &'b Billing) -> Option<BTreeSet<&'b str>> {
        let group = self.group.as_deref()?;
        let (ledger, mut only) = (billing.ledger(), BTreeSet::from([group]));
        let Some(known) = ledger.names().known_group(group) else {
            warn(format_args!("no record names a group `{group}`"));
            return Some(only);
        };
        if let Some(book) = ledger.book().filter(|_| self.subtree) {
            let below = book.subtree(known).into_iter();
            only.extend(below.map(|group| ledger.names().group_name(group)));
        }
        Some(only)
    }
}

impl Invoice<'_> {
    /// The lines that are billed, in order.
    fn lines(&self) -> impl Iterator<Item = Line<'_>> {
        let billed = |group: &str| self.only.as_ref().is_none_or(|only| only.contains(group));
        self.bill.lines().filter(move |line| billed(line.group))
    }

    /// What has no price costs nothing; a key that has one, but not always or not for every model, is a mistake.
    fn is_priced(&self) -> Result<(), Error> {
        let Some(PriceList { prices, place, .. }) = self.prices else { return Ok(()) };
        let lacks = |line: &Line<'_>| line.price.is_none() && prices.names(line.key);
        let Some(line) = self.lines().find(lacks) else { return Ok(()) };
        let Line { key, model, period: Period { from, to }, .. } = line;
        let model = if model.is_empty() { "no model".to_owned() } else { format!("model {model}") };
        let why = format!(
            "{key} on {model}, held from {from} to {to}, has no price all that time; add one (0 if it is free)"
        );
        Err(Error::input(place, why))
    }
}
