//! `bizrq adjust`: a signed correction of what a group used, with who and why. Nothing is ever edited: it is one more
//! record, and an invoice shows it as a line of its own.

use super::{Answer, Error, opened_log::OpenedLog, operator, out::Out};
use crate::{
    clock,
    domain::{
        event::{Data, Period, UsageAdjusted},
        hours::NanoHours,
        ledger::{Ledger, Options},
        meter::MOST_ADJUSTED,
        quota::{Unit, normalise},
        text::Text,
        time::Timestamp,
    },
    event_log::NewEvent,
};

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  bizrq adjust --log ./log --group team-a --key limits.nvidia.com/gpu.A30 --hours=-12.5 \\
      --from 2026-10-03T00:00:00Z --to 2026-10-04T00:00:00Z --why 'node n7 was faulty'

The correction counts at --from; if that lies in a closed period, on the invoice of the period after the last closed
one. Of a key with a model the generic key is corrected, too, as usage counts under both. The very same correction is
not taken twice.")]
#[command(group(clap::ArgGroup::new("amount").required(true).args(["hours", "exact"])))]
pub(super) struct Args {
    /// The log to append to: a folder, or nats://host:port,…
    #[arg(long, value_name = "LOG")]
    log: String,
    /// The group
    #[arg(long, value_name = "G")]
    group: String,
    /// The key, such as limits.cpu
    #[arg(long, value_name = "K", value_parser = key)]
    key: String,
    /// Unit-hours to add; to take away, if negative
    #[arg(long, value_name = "H", value_parser = exact_of_hours, allow_hyphen_values = true)]
    hours: Option<i128>,
    /// The same in milli-units × milliseconds
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    exact: Option<i128>,
    /// First instant of the time that is corrected
    #[arg(long, value_name = "T", value_parser = Timestamp::parse)]
    from: Timestamp,
    /// First instant after it
    #[arg(long, value_name = "T", value_parser = Timestamp::parse)]
    to: Timestamp,
    /// Why, for whoever reads the invoice
    #[arg(long, value_name = "TEXT")]
    why: String,
    /// Who does it: the source becomes /operators/NAME
    #[arg(long = "as", value_name = "NAME", env = "USER", default_value = "cli", value_parser = operator)]
    operator: String,
}

pub(super) fn run(args: &Args, out: &mut Out) -> Result<Answer, Error> {
    let exact = args.checked()?;
    // A log that is not there is not made for that.
    drop(OpenedLog::open_read(&args.log)?);
    let log = OpenedLog::open_beside(&args.log)?;
    let mut ledger = Ledger::new(Options { history: false, quotas: false, ..Options::default() });
    let mut told = Vec::new();
    log.fold(
        &mut ledger,
        |_| true,
        |event| {
            if matches!(event.data, Data::UsageAdjusted(_)) {
                told.push(event.id.to_string());
            }
        },
    )?;
    if ledger.names().known_group(&args.group).is_none() {
        let why = format!(
            "--group {}: no record names it; a correction is of what somebody used",
            args.group
        );
        return Err(Error::Usage(why));
    }
    let known = ledger.meter().known_resources();
    let (generic, model) = known.split(&args.key);
    let mut keys = vec![args.key.as_str()];
    keys.extend(model.map(|_| generic));
    let events = keys.iter().map(|key| args.event(key, exact)).collect::<Result<Vec<_>, _>>();
    let mut events = events.map_err(|e| Error::log(&args.log, e))?;
    events.retain(|event| !told.iter().any(|id| id == event.id()));
    if events.is_empty() {
        log.close()?;
        out.line("the log holds this very correction; nothing was appended (another --why makes another)")?;
        return Ok(Answer::Yes);
    }
    let last = log.append(events)?.last;
    log.close()?;
    let (hours, unit) = (NanoHours::of(exact), Unit::of(&args.key));
    let group = if args.group.is_empty() { "(none)" } else { &args.group };
    out.line(format_args!(
        "{group} {}: {hours} {unit}-hours, exact {exact}, up to position {last}",
        args.key
    ))?;
    Ok(Answer::Yes)
}

impl Args {
    /// The amount, if everything that was typed makes sense.
    fn checked(&self) -> Result<i128, Error> {
        let usage = |why: &str| Err(Error::Usage(why.to_owned()));
        if self.to <= self.from {
            return usage("--from must lie before --to");
        }
        if self.group.is_empty() {
            return usage("--group must name an account; the empty group is billed to nobody");
        }
        if self.why.trim().is_empty() {
            return usage("--why must say why");
        }
        match self.hours.or(self.exact) {
            Some(0) | None => usage("a correction of nothing corrects nothing"),
            Some(exact) if exact.unsigned_abs() > MOST_ADJUSTED => {
                let why =
                    format!("{exact} is beyond any account; at most 2^112 either way is taken");
                Err(Error::Usage(why))
            }
            Some(exact) => Ok(exact),
        }
    }

    fn event(
        &self,
        key: &str,
        exact: i128,
    ) -> Result<NewEvent, crate::event_log::codec::EncodeError> {
        let period = Period { from: self.from, to: self.to };
        let text = |text: &str| Text::from(text.to_owned());
        let (key, why, by) = (text(key), text(&self.why), text(&self.operator));
        let data = Data::UsageAdjusted(UsageAdjusted { key, exact, period, why, by });
        let subject = format!("accounts/{}", self.group);
        NewEvent::by_operator(&subject, data, &self.operator, clock::now())
    }
}

fn key(text: &str) -> Result<String, String> {
    let key = normalise(text).map_err(|why| format!("`{text}` {why}"))?;
    if key.starts_with("requests.") || key.starts_with("limits.") {
        return Ok(key);
    }
    Err(format!("`{key}` has no hours; requests.R and limits.R have"))
}

/// Milli-units × milliseconds of so many unit-hours.
fn exact_of_hours(text: &str) -> Result<i128, String> {
    let wrong = || {
        format!(
            "`{text}` are no hours; write a decimal number with at most nine digits behind the point"
        )
    };
    let (sign, digits) = text.strip_prefix('-').map_or((1_i128, text), |rest| (-1, rest));
    let nano = crate::domain::prices::parse(digits).map_err(|_| wrong())?;
    // A billionth of an hour is 3.6 milli-units × milliseconds.
    let exact = nano.checked_mul(18).filter(|n| n % 5 == 0).map(|n| n / 5 * sign);
    exact.ok_or_else(|| {
        format!("{text} hours are no whole number of milli-units × milliseconds; give --exact")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hours_are_taken_only_if_they_are_exact() {
        assert_eq!(exact_of_hours("-12.5"), Ok(-45_000_000_000));
        assert_eq!(exact_of_hours("0.000000005"), Ok(18));
        for wrong in ["0.000000001", "1e3", "--1", "", "1.0000000000"] {
            assert!(exact_of_hours(wrong).is_err(), "{wrong}");
        }
    }
}
