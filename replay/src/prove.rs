//! `bizrq-replay prove` and `bizrq-replay check-proof`: a line of an invoice, by the records that it is the sum of.
//!
//! ```text
//!  invoice: line, position, root ┐
//!  log ──▶ the line's pods ──▶ their records, closings, corrections ──▶ proof ──▶ check: in the tree? the sum?
//! ```
//!
//! A proof shows that these records are in the log and that they sum to the line. That none is missing only
//! `bizrq-replay verify` shows, which reads the whole log.

mod check;

use crate::{
    invoice::{
        document::{self, Claim, Document, Proof, ProvedRecord},
        fold::{self, fold},
    },
    reading::{Halt, Log},
};
use bizrq::{
    cli::{
        Answer, Error,
        out::{Out, note},
    },
    domain::{
        event::{Data, Event, Position},
        merkle::{LeafHasher, proof::Gatherer},
    },
    event_log::codec::{Decoded, NewEvent, Scanned},
};
use serde::Deserialize;
use serde_json::Value;
use std::{collections::BTreeSet, path::PathBuf};

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  bizrq-replay prove --log ./log --invoice invoice.json --line 7 > proof.json

The invoice is one that `bizrq-replay invoice … -o json` made of this log. The proof holds the records that the line is
the sum of, each with the hashes that lead to the invoice's root, and needs neither the log nor bizrq's word.")]
pub(super) struct Args {
    /// The log that the invoice was made of: a folder, or nats://host:port,…
    #[arg(long, value_name = "LOG")]
    log: String,
    /// The invoice, in its JSON form
    #[arg(long, value_name = "FILE")]
    invoice: PathBuf,
    /// The line to prove
    #[arg(long, value_name = "N")]
    line: usize,
}

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  bizrq-replay check-proof --invoice invoice.json --proof proof.json

A proof that checks shows that its records are in the log with the invoice's root, and that they sum to the line. It
does not show that none is missing: `bizrq-replay verify --root` does, with the root on the invoice.")]
pub(super) struct CheckArgs {
    /// The invoice, in its JSON form
    #[arg(long, value_name = "FILE")]
    invoice: PathBuf,
    /// The proof
    #[arg(long, value_name = "FILE")]
    proof: PathBuf,
}

/// The format of proofs that this build writes, and the only one that it reads.
const FORMAT: u32 = 2;

/// What a proof says of itself.
const SAYS: &str = "These records are in the log with the invoice's root, and they sum to the line. \
                    That no record is missing is proved by bizrq-replay verify alone; a price is \
                    in no record.";

/// Pods by source and uid.
type Pods = BTreeSet<(String, String)>;

pub(super) fn run(args: &Args, out: &mut Out) -> Result<Answer, Error> {
    let invoice: Document = document::read(&args.invoice, "invoice")?;
    let (line, claim) = claim(&args.invoice, &invoice, args.line)?;
    let log = Log::open(&args.log)?;
    let pods = pods(&log, &invoice, &claim)?;
    let records = records(&log, &invoice, &claim, &pods)?;
    let mut records = with_paths(&log, &invoice, records)?;
    let none = || Error::log(&log.place, "it has no record at the invoice's position");
    let last = records.pop().ok_or_else(none)?;
    let (line, says) = (line.clone(), SAYS.to_owned());
    let proof = Proof { format: FORMAT, line, says, records, last };
    if let Err(why) = check::check(&invoice, &claim, &proof) {
        note(format_args!("line {} cannot be proved: {why}", args.line));
        return Ok(Answer::No);
    }
    out.json(&proof)?;
    let count = proof.records.len();
    note(format_args!("line {} is the sum of {count} records. {SAYS}", args.line));
    Ok(Answer::Yes)
}

pub(super) fn check(args: &CheckArgs, out: &mut Out) -> Result<Answer, Error> {
    let invoice: Document = document::read(&args.invoice, "invoice")?;
    let proof: Proof = document::read(&args.proof, "proof")?;
    let number = proof.line["line"].as_u64().and_then(|line| usize::try_from(line).ok());
    let number = number.ok_or_else(|| {
        Error::input(args.proof.display(), format!("is no proof of format {FORMAT}: make it anew"))
    })?;
    let (line, claim) = claim(&args.invoice, &invoice, number)?;
    if let Err(why) =
        check::is_the_line(line, &proof.line).and_then(|()| check::check(&invoice, &claim, &proof))
    {
        out.line(format_args!("✗ line {number} is not proved: {why}"))?;
        return Ok(Answer::No);
    }
    let (line, count, unit) = (number, proof.records.len(), &claim.unit);
    out.line(format_args!("✓ line {line}: {} {unit}-hours, exact {}", claim.hours, claim.exact))?;
    out.line(format_args!("✓ the sum of {count} records in the log with root {}", invoice.root))?;
    if let (Some(price), Some(cost)) = (&claim.price, &claim.cost) {
        out.line(format_args!(
            "✓ it costs {cost} at {price}, which the invoice says and no record"
        ))?;
    }
    out.line(SAYS)?;
    Ok(Answer::Yes)
}

/// A line, as the invoice has it and as it is understood.
fn claim<'i>(
    place: &std::path::Path,
    invoice: &'i Document,
    number: usize,
) -> Result<(&'i Value, Claim), Error> {
    let none = || {
        Error::Usage(format!("{} has {} lines, none is {number}", place.display(), invoice.len()))
    };
    let line = invoice.line(number).ok_or_else(none)?;
    let unclear = |e| Error::input(place.display(), format!("line {number}: {e}"));
    Ok((line, Claim::deserialize(line).map_err(unclear)?))
}

/// The pods that the line rests on.
fn pods(log: &Log, invoice: &Document, claim: &Claim) -> Result<Pods, Error> {
    let mut pods = Pods::new();
    if !claim.adjustments().is_empty() {
        return Ok(pods);
    }
    let wanted = claim.wanted();
    fold(log, &invoice.terms(claim), invoice.position, &mut |billing, read| {
        let Some(event) = read.event() else { return };
        if let Some(uid) = event.data.pod()
            && billing.touched(&wanted, |workload| claim.is_of(&workload))
        {
            pods.insert((event.source.to_string(), uid.to_owned()));
        }
    })?;
    Ok(pods)
}

/// Whatever was said of these pods, what closed periods, and the corrections that the line is; behind these the last
/// record of all.
fn records(
    log: &Log,
    invoice: &Document,
    claim: &Claim,
    pods: &Pods,
) -> Result<Vec<(Position, String)>, Error> {
    let closed: BTreeSet<Position> =
        fold::closings(log, invoice.position)?.iter().map(|closing| closing.at).collect();
    let is_one = |position: Position, event: &Event<'_>| match &event.data {
        Data::PeriodClosed(_) => closed.contains(&position),
        Data::UsageAdjusted(_) => claim.adjustments().contains(&position),
        data => {
            data.pod().is_some_and(|uid| pods.contains(&(event.source.to_string(), uid.to_owned())))
        }
    };
    let (mut records, mut last, mut hasher) = (Vec::new(), None, LeafHasher::default());
    let read = log.each("collecting", invoice.position, |batch| {
        for ((position, scanned), (_, decoded)) in batch.iter().zip(batch.events()) {
            let Ok(scanned) = scanned else { continue };
            let mut record = || line(log, position, &scanned, &mut hasher);
            if position == invoice.position {
                last = Some((position, record()?));
            }
            if let Ok(Decoded::Event(event)) = decoded
                && is_one(position, &event)
            {
                records.push((position, record()?));
            }
        }
        Ok(())
    });
    log.finished(read)?;
    records.extend(last);
    Ok(records)
}

/// A record as a line of a file log.
fn line(
    log: &Log,
    position: Position,
    scanned: &Scanned<'_>,
    hasher: &mut LeafHasher,
) -> Result<String, Halt> {
    let failed = |why: String| Error::log(&log.place, format!("position {position}: {why}"));
    let event = NewEvent::copied(scanned).map_err(|e| failed(e.to_string()))?;
    let mut line = Vec::new();
    event.write_line(position, hasher, &mut line);
    let line = String::from_utf8(line).map_err(|e| failed(e.to_string()))?;
    Ok(line.trim_end().to_owned())
}

/// Leads each record to the invoice's root.
fn with_paths(
    log: &Log,
    invoice: &Document,
    records: Vec<(Position, String)>,
) -> Result<Vec<ProvedRecord>, Error> {
    let failed = |why: String| Error::log(&log.place, why);
    let mut gatherer = Gatherer::new(invoice.position);
    for (position, _) in &records {
        gatherer.want(*position).map_err(|e| failed(e.to_string()))?;
    }
    let mut hasher = LeafHasher::default();
    let read = log.each("proving", invoice.position, |batch| {
        for (position, scanned) in batch.iter() {
            let scanned = scanned.map_err(|e| failed(format!("position {position}: {e}")))?;
            gatherer.append(hasher.leaf(position, &scanned.leaf_input()));
        }
        Ok(())
    });
    let tree = log.finished(read)?.and_then(|read| read.tree).unwrap_or_default();
    if (tree.position(), tree.root()) != (invoice.position, invoice.root) {
        let (position, root) = (tree.position(), tree.root());
        let Document { position: stated, root: other, .. } = invoice;
        let why = format!(
            "at position {position} it has root {root}; the invoice is of a log with root {other} at position {stated}"
        );
        return Err(failed(why));
    }
    let proved = |(position, record)| {
        let path = gatherer.inclusion(position).map_err(|e| failed(e.to_string()))?;
        Ok(ProvedRecord { position, record, path })
    };
    records.into_iter().map(proved).collect()
}
