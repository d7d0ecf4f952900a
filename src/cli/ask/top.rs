//! `bizrq top`: the limits and budgets that are fullest.

use super::{Format, Lines, Server, list, show, text};
use crate::{
    cli::{
        Answer, Error,
        out::{Align, Cell, Out, Style},
    },
    domain::quantity::Quantity,
};
use serde_json::{Value, json};

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  bizrq top
  bizrq top --most 5 -o json")]
pub(in crate::cli) struct Args {
    #[command(flatten)]
    server: Server,
    /// So many of them
    #[arg(long, value_name = "N", default_value_t = 20)]
    most: usize,
    /// How they are shown
    #[arg(short, long, value_enum, default_value_t)]
    output: Format,
}

/// From here on a limit is near, in percent.
const NEAR: i128 = 80;
/// More than any percentage that is worth printing.
const BURSTING: i128 = 9_999;

pub(in crate::cli) fn run(args: &Args, out: &mut Out) -> Result<Answer, Error> {
    let mut top = args.server.all("/v1/quotas", &[], "groups")?;
    let mut limits = Vec::new();
    for group in list(&top["groups"]) {
        for row in list(&group["keys"]) {
            if let Some(percent) = percent(row) {
                limits.push((percent, text(&group["group"]), row.clone()));
            }
        }
    }
    // The fullest first; of equals by group, in the order of its keys.
    limits.sort_by(|(a, x, _), (b, y, _)| (b, x).cmp(&(a, y)));
    limits.truncate(args.most);
    let limits = limits.into_iter().map(|(percent, group, row)| {
        json!({
            "group": group, "key": row["key"], "unit": row["unit"], "used": row["used"],
            "hard": row["hard"], "left": row["left"], "percent": percent.to_string(),
            "exhaustedAt": row["exhaustedAt"],
        })
    });
    let limits: Vec<Value> = limits.collect();
    if let Value::Object(fields) = &mut top {
        fields.remove("groups");
        fields.insert("limits".to_owned(), limits.into());
    }
    show(out, args.output, &top, lines)?;
    Ok(Answer::Yes)
}

/// Used in percent of hard, cut; a limit of 0 is full once anything is used. `None`: there is no limit.
fn percent(row: &Value) -> Option<i128> {
    let milli = |field: &str| Some(Quantity::parse(row[field].as_str()?).ok()?.milli());
    let (used, hard) = (milli("used")?, milli("hard")?);
    Some(match hard {
        0 if used > 0 => BURSTING,
        0 => 0,
        hard => used.checked_mul(100).map_or(BURSTING, |used| used / hard).min(BURSTING),
    })
}

fn lines(top: &Value) -> Lines {
    let names = [("group", Align::Left), ("key", Align::Left)];
    let numbers = ["percent", "used", "hard", "left"].map(|name| (name, Align::Right));
    let end = [("exhaustedAt", Align::Left)];
    let mut lines = Lines::new(&[&names[..], &numbers, &end].concat());
    for limit in list(&top["limits"]) {
        let percent: i128 = text(&limit["percent"]).parse().unwrap_or_default();
        let style = match percent {
            101.. => Style::Bad,
            NEAR..=100 => Style::Near,
            _ => Style::Good,
        };
        let cell = |field: &str| Cell::from(text(&limit[field]));
        lines.push(vec![
            cell("group"),
            cell("key"),
            Cell::styled(style, text(&limit["percent"])),
            cell("used"),
            cell("hard"),
            cell("left"),
            cell("exhaustedAt"),
        ]);
    }
    lines
}
