//! `bizrq close`: what is known now of a period is billed for ever. What is learned later appears as corrections on
//! the invoice of the next period.

use super::{Answer, Error, opened_log::OpenedLog, operator, out::Out};
use crate::{
    clock,
    domain::{
        billing::Closing,
        event::{Data, Event, Kind, Period, PeriodClosed, Position, TypeName},
        time::Timestamp,
    },
    event_log::{NewEvent, codec::Scanned},
};

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  bizrq close --log ./log 2026-10
  bizrq close --log ./log --as alice 2026-10-05
  bizrq close --log ./log 2026-10-01T00:00:00Z/2026-10-15T12:00:00Z

Closed periods follow each other: each begins where the last one ends. A period is closed once it is over; better a few
days later, when stops that nobody witnessed are known.")]
pub(super) struct Args {
    /// The log to append to: a folder, or nats://host:port,…
    #[arg(long, value_name = "LOG")]
    log: String,
    /// Who does it: the source becomes /operators/NAME
    #[arg(long = "as", value_name = "NAME", env = "USER", default_value = "cli", value_parser = operator)]
    operator: String,
    /// A year, a month or a day (UTC), or two instants with a slash between
    #[arg(value_name = "PERIOD", value_parser = Named::parse)]
    period: Named,
}

/// A period, as it was typed.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Named {
    name: String,
    period: Period,
}

/// Others decide at the same time now and then, not every time.
const ATTEMPTS: usize = 20;

pub(super) fn run(args: &Args, out: &mut Out) -> Result<Answer, Error> {
    let Named { name, period } = &args.period;
    let now = clock::now();
    if now < period.to {
        return Err(Error::Usage(format!("{name} ends at {}, which is not over yet", period.to)));
    }
    // A log that is not there is not made for that.
    drop(OpenedLog::open_read(&args.log)?);
    let log = OpenedLog::open_beside(&args.log)?;
    let mut closings = Closings::of(&log)?;
    for _ in 0..ATTEMPTS {
        let before = log.head()?;
        let last = closings.read_on(&log)?;
        if let Some(same) = last.filter(|last| last.period == *period) {
            out.line(format_args!(
                "{name} was closed by record {}; nothing was appended",
                same.at
            ))?;
            return log.close().map(|()| Answer::Yes);
        }
        let tree = log.tree()?;
        let root = tree.root().to_string();
        let Period { from, to } = *period;
        let data = PeriodClosed { from, to, position: tree.position(), root: root.into() };
        Closing::new(last.as_ref(), tree.position().saturating_add(1), &data)
            .map_err(|why| Error::Usage(format!("{name}: {why}")))?;
        let subject = format!("periods/{name}");
        let (position, root) = (tree.position(), tree.root());
        let event = NewEvent::by_operator(&subject, Data::PeriodClosed(data), &args.operator, now);
        let event = event.map_err(|e| Error::log(&args.log, e))?;
        if let Some(closed) = log.decide(before.last_decision, event)? {
            log.close()?;
            let at = closed.last;
            out.line(format_args!("{name} is closed by record {at}: from {from} to {to}"))?;
            out.line(format_args!("as known at position {position}, root {root}"))?;
            return Ok(Answer::Yes);
        }
    }
    Err(Error::log(&args.log, "others decide all the time; try again"))
}

/// What the log says of closed periods, as far as it was read.
struct Closings {
    last: Option<Closing>,
    read: Position,
}

impl Closings {
    /// Reads and proves the whole log.
    fn of(log: &OpenedLog) -> Result<Self, Error> {
        let mut closings = Self { last: None, read: log.head()?.position };
        log.read(closes, |at, event| closings.note(at, event))?;
        Ok(closings)
    }

    /// Reads what was appended since: while somebody decides many times a second, a decision must follow at once.
    fn read_on(&mut self, log: &OpenedLog) -> Result<Option<Closing>, Error> {
        self.read = log.read_on(self.read, closes, |at, event| self.note(at, event))?;
        Ok(self.last)
    }

    fn note(&mut self, at: Position, event: &Event<'_>) {
        // The proved reading may have come further than where the log ended before it.
        if self.last.as_ref().is_some_and(|last| at <= last.at) {
            return;
        }
        if let Data::PeriodClosed(data) = &event.data
            && let Ok(closing) = Closing::new(self.last.as_ref(), at, data)
        {
            self.last = Some(closing);
        }
    }
}

fn closes(scanned: &Scanned<'_>) -> bool {
    TypeName::parse(&scanned.type_name) == TypeName::Known(Kind::PeriodClosed)
}

impl Named {
    fn parse(text: &str) -> Result<Self, String> {
        let instant = |text: &str| Timestamp::parse(text).map_err(|e| e.to_string());
        let period = match text.split_once('/') {
            Some((from, to)) => Period { from: instant(from)?, to: instant(to)? },
            None => calendar(text).ok_or_else(|| {
                format!("`{text}` is no period; write 2026, 2026-10, 2026-10-05, or FROM/TO with two instants")
            })?,
        };
        if period.to <= period.from {
            return Err(format!("`{text}` ends before it begins"));
        }
        Ok(Self { name: text.to_owned(), period })
    }
}

/// A year, a month or a day, in UTC.
fn calendar(text: &str) -> Option<Period> {
    let parts: Vec<&str> = text.split('-').collect();
    let number = |text: &str, digits: usize| -> Option<u32> {
        let fine = text.len() == digits && text.bytes().all(|b| b.is_ascii_digit());
        text.parse().ok().filter(|_| fine)
    };
    let instant = |year: u32, month: u32, day: u32| {
        Timestamp::parse(&format!("{year:04}-{month:02}-{day:02}T00:00:00Z")).ok()
    };
    let (year, rest) = parts.split_first()?;
    let year = number(year, 4)?;
    let next_year = year.checked_add(1)?;
    let (from, to) = match rest {
        [] => (instant(year, 1, 1)?, instant(next_year, 1, 1)?),
        [month] => {
            let month = number(month, 2)?;
            let to = if month == 12 {
                instant(next_year, 1, 1)
            } else {
                instant(year, month.checked_add(1)?, 1)
            };
            (instant(year, month, 1)?, to?)
        }
        [month, day] => {
            let from = instant(year, number(month, 2)?, number(day, 2)?)?;
            (from, crate::domain::history::Unit::Day.end_of(from))
        }
        _ => return None,
    };
    Some(Period { from, to })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn periods_are_calendar_time_in_utc_or_two_instants() {
        for (text, from, to) in [
            ("2027", "2027-01-01", "2028-01-01"),
            ("2026-12", "2026-12-01", "2027-01-01"),
            ("2028-02", "2028-02-01", "2028-03-01"),
            ("2028-02-29", "2028-02-29", "2028-03-01"),
            ("2026-10-31", "2026-10-31", "2026-11-01"),
            ("2026-10-01T00:00:00Z/2026-10-02T00:00:00+00:00", "2026-10-01", "2026-10-02"),
        ] {
            let instant = |day: &str| Timestamp::parse(&format!("{day}T00:00:00Z")).unwrap();
            let period = Period { from: instant(from), to: instant(to) };
            assert_eq!(Named::parse(text).map(|named| named.period), Ok(period), "{text}");
        }
        for wrong in [
            "",
            "26",
            "2026-13",
            "2026-02-29",
            "2026-1",
            "2026-10-05T00:00:00Z",
            "a/b",
            "2027-01-01T00:00:00Z/2026-01-01T00:00:00Z",
        ] {
            assert!(Named::parse(wrong).is_err(), "{wrong}");
        }
    }
}
