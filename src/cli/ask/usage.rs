//! `bizrq usage`: unit-hours of whole hours, as a server has them.

use super::{Format, Lines, Server, list, show, text};
use crate::cli::{
    Answer, Error,
    out::{Align, Out},
    quota::tree::instant,
};
use crate::domain::time::Timestamp;
use serde_json::Value;

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  bizrq usage --from 2026-11-02T00:00:00Z
  bizrq usage --group language --scope subtree --by day -o csv
  bizrq usage --key limits.nvidia.com/gpu --by month --server https://bizrq.example:8090")]
pub(in crate::cli) struct Args {
    #[command(flatten)]
    server: Server,
    /// This group alone
    #[arg(long, value_name = "GROUP")]
    group: Option<String>,
    /// This key alone
    #[arg(long, value_name = "KEY")]
    key: Option<String>,
    /// A whole hour; a day before the end, a month of days, a year of months, unless given
    #[arg(long, value_name = "T", value_parser = instant)]
    from: Option<Timestamp>,
    /// A whole hour that is over; the last, unless given
    #[arg(long, value_name = "T", value_parser = instant)]
    to: Option<Timestamp>,
    /// A line an hour, day or month; one sum, unless given
    #[arg(long, value_name = "PERIOD", value_parser = ["hour", "day", "month"])]
    by: Option<String>,
    /// Whose use counts: own, or subtree
    #[arg(long, default_value = "own", value_parser = ["own", "subtree"])]
    scope: String,
    /// How it is shown
    #[arg(short, long, value_enum, default_value_t)]
    output: Format,
}

pub(in crate::cli) fn run(args: &Args, out: &mut Out) -> Result<Answer, Error> {
    let instant = |at: Option<Timestamp>| at.map(|at| at.to_string());
    let query = [
        ("group", args.group.clone()),
        ("key", args.key.clone()),
        ("from", instant(args.from)),
        ("to", instant(args.to)),
        ("by", args.by.clone()),
        ("scope", Some(args.scope.clone())),
    ];
    let usage = args.server.all("/v1/usage", &query, "lines")?;
    show(out, args.output, &usage, lines)?;
    Ok(Answer::Yes)
}

fn lines(usage: &Value) -> Lines {
    let columns = ["group", "key", "from", "to"].map(|name| (name, Align::Left));
    let numbers = [("hours", Align::Right), ("unit", Align::Left), ("exact", Align::Right)];
    let mut lines = Lines::new(&[&columns[..], &numbers].concat());
    for line in list(&usage["lines"]) {
        let fields = ["group", "key", "from", "to", "hours", "unit", "exact"];
        lines.push(fields.iter().map(|field| text(&line[*field]).into()).collect());
    }
    lines
}
