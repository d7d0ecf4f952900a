//! Checks a proof with nothing but the invoice: every record is in the invoice's tree, and the same fold over these
//! records alone gives the line.

use super::FORMAT;
use crate::invoice::document::{Claim, Document, Proof, ProvedRecord};
use bizrq::{
    domain::{
        billing::{Billing, Closing, Line, Told},
        event::{Data, Period, Position},
        hours::NanoHours,
        merkle::{LeafHasher, proof::verify_inclusion},
        prices::{self, Price},
        quantity::Quantity,
        quota::Unit,
        time::Timestamp,
    },
    event_log::codec::{Decoder, Scanned, scan_text},
    projection::fold::Read,
};
use serde_json::Value;

/// Says in what the invoice's line is not the one that the proof was made of.
pub(super) fn is_the_line(invoice: &Value, proof: &Value) -> Result<(), String> {
    if invoice == proof {
        return Ok(());
    }
    let fields = |line: &Value| line.as_object().cloned().unwrap_or_default();
    let (found, proved) = (fields(invoice), fields(proof));
    let field =
        found.keys().chain(proved.keys()).find(|name| found.get(*name) != proved.get(*name));
    let field = field.map_or("", String::as_str);
    let (found, proved) = (&invoice[field], &proof[field]);
    Err(format!("the proof was made of a line whose {field} is {proved}, not {found}"))
}

/// Says why the line is not proved.
pub(super) fn check(invoice: &Document, claim: &Claim, proof: &Proof) -> Result<(), String> {
    if proof.format != FORMAT {
        let format = proof.format;
        return Err(format!("the proof has format {format}; this build reads {FORMAT}"));
    }
    let records = included(invoice, proof)?;
    let billing = billed(invoice, claim, &records)?;
    let bill = billing.bill(|_, _, _| None).map_err(|e| e.to_string())?;
    let line = bill.lines().find(|line| claim.is(line));
    let line = line.ok_or("its records sum to nothing for this line")?;
    if line.exact.to_string() != claim.exact {
        return Err(format!("its records sum to {}, the invoice says {}", line.exact, claim.exact));
    }
    if !claim.is_as_sure_as(&line) {
        return Err(format!("by its records it is not {}", claim.status));
    }
    if !claim.is_said_of(&line) {
        return Err("by its records it was corrected by another, or for another reason".to_owned());
    }
    amounts(claim, &line)
}

/// The records, in order, each of which is in the tree.
fn included<'p>(
    invoice: &Document,
    proof: &'p Proof,
) -> Result<Vec<(Position, Scanned<'p>)>, String> {
    if proof.last.position != invoice.position {
        let (last, position) = (proof.last.position, invoice.position);
        return Err(format!("its last record is {last}, the invoice's is {position}"));
    }
    let mut hasher = LeafHasher::default();
    in_the_tree(invoice, &proof.last, &mut hasher)?;
    let (mut records, mut before) = (Vec::with_capacity(proof.records.len()), 0);
    for record in &proof.records {
        let position = record.position;
        if position <= before {
            return Err(format!("record {position} does not come after record {before}"));
        }
        before = position;
        records.push((position, in_the_tree(invoice, record, &mut hasher)?));
    }
    Ok(records)
}

fn in_the_tree<'p>(
    invoice: &Document,
    record: &'p ProvedRecord,
    hasher: &mut LeafHasher,
) -> Result<Scanned<'p>, String> {
    let position = record.position;
    let scanned = scan_text(&record.record).map_err(|e| format!("record {position}: {e}"))?;
    let leaf = hasher.leaf(position, &scanned.leaf_input());
    let (size, root) = (invoice.position, invoice.root);
    if verify_inclusion(position, size, leaf, &record.path, &root) {
        return Ok(scanned);
    }
    Err(format!("record {position} is not in the log with root {root} at position {size}"))
}

/// The fold over these records alone.
fn billed(
    invoice: &Document,
    claim: &Claim,
    records: &[(Position, Scanned<'_>)],
) -> Result<Billing, String> {
    let mut decoder = Decoder::default();
    let mut closings: Vec<Closing> = Vec::new();
    let read: Vec<_> = records
        .iter()
        .map(|(position, scanned)| (*position, Read::new(&mut decoder, scanned)))
        .collect();
    for (position, read) in &read {
        if let Some(Data::PeriodClosed(data)) = read.event().map(|event| &event.data)
            && let Ok(closing) = Closing::new(closings.last(), *position, data)
        {
            closings.push(closing);
        }
    }
    let mut billing = Billing::new(invoice.terms(claim), closings);
    for (position, read) in &read {
        match billing.take(*position, &read.record()) {
            Ok(Told::More) => {}
            Ok(Told::Closed) => break,
            Err(error) => return Err(format!("record {position}: {error}")),
        }
    }
    Ok(billing)
}

/// Hours and cost follow from the exact amount.
fn amounts(claim: &Claim, line: &Line<'_>) -> Result<(), String> {
    let hours = NanoHours::of(line.exact).to_string();
    if hours != claim.hours || Unit::of(line.key).name() != claim.unit {
        let unit = Unit::of(line.key);
        return Err(format!(
            "these are {hours} {unit}-hours, not {} {}-hours",
            claim.hours, claim.unit
        ));
    }
    let (price, per, cost) = match (&claim.price, &claim.per, &claim.cost) {
        (None, None, None) => return Ok(()),
        (Some(price), Some(per), Some(cost)) => (price, per, cost),
        _ => return Err("the line has a price or a cost without the other".to_owned()),
    };
    let nano = prices::parse(price).map_err(|e| e.to_string())?;
    let per = Quantity::parse(per).map_err(|e| e.to_string())?.milli();
    let period = Period { from: Timestamp::MIN, to: Timestamp::MAX };
    let digits = cost.split_once('.').map_or(0, |(_, digits)| digits.len());
    let money = Price { key: line.key.to_owned(), period, nano, per }.cost(line.exact);
    let digits = u32::try_from(digits).unwrap_or(u32::MAX);
    let costs = money.and_then(|money| money.rounded(digits)).map_err(|e| e.to_string())?;
    if costs.to_string() == *cost {
        return Ok(());
    }
    Err(format!("at this price it costs {costs}, not {cost}"))
}
