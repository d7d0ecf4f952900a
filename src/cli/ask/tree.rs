//! `bizrq tree`: the tree of groups as a server has it, now or at an instant.

use super::{Format, Lines, Server, list, show, text};
use crate::cli::{
    Answer, Error,
    out::{Align, Cell, Out, Style},
    quota::tree::instant,
};
use crate::domain::time::Timestamp;
use serde_json::{Value, json};

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  bizrq tree --server http://127.0.0.1:8090
  bizrq tree language -o yaml
  bizrq tree --at 2026-11-10T00:00:00Z -o csv

Columns as in `bizrq quota tree`, which reads a log instead of asking a server.")]
pub(in crate::cli) struct Args {
    #[command(flatten)]
    server: Server,
    /// As it stood at this instant; now, unless given
    #[arg(long, value_name = "T", value_parser = instant)]
    at: Option<Timestamp>,
    /// How the tree is shown
    #[arg(short, long, value_enum, default_value_t)]
    output: Format,
    /// This group and what is below it
    group: Option<String>,
}

pub(in crate::cli) fn run(args: &Args, out: &mut Out) -> Result<Answer, Error> {
    let at = args.at.map(|at| at.to_string());
    let path = if at.is_some() { "/v1/state" } else { "/v1/quotas" };
    let mut tree = args.server.all(path, &[("at", at)], "groups")?;
    if let Some(group) = &args.group {
        let groups = below(&tree["groups"], group);
        if groups.is_empty() {
            return Err(Error::Usage(format!("no group that is shown is called `{group}`")));
        }
        tree["groups"] = json!(groups);
    }
    show(out, args.output, &tree, |tree| lines(tree, args.output == Format::Table))?;
    Ok(Answer::Yes)
}

/// A group and what is below it: parents come before their children.
fn below(groups: &Value, top: &str) -> Vec<Value> {
    let mut rest = list(groups).skip_while(|group| group["group"] != top);
    let Some(first) = rest.next() else { return Vec::new() };
    let depth = |group: &Value| group["depth"].as_u64().unwrap_or_default();
    let below = rest.take_while(|group| depth(group) > depth(first));
    std::iter::once(first).chain(below).cloned().collect()
}

fn lines(tree: &Value, indented: bool) -> Lines {
    let number = |name| (name, Align::Right);
    let columns = [("group", Align::Left), ("key", Align::Left)];
    let numbers = ["hard", "used", "self", "consumedHours", "left"].map(number);
    let ends = [("exhaustedAt", Align::Left), ("state", Align::Left)];
    let mut lines = Lines::new(&[&columns[..], &numbers, &ends].concat());
    for group in list(&tree["groups"]) {
        let depth =
            usize::try_from(group["depth"].as_u64().unwrap_or_default()).unwrap_or_default();
        let name = match (text(&group["group"]), indented) {
            (name, true) if name.is_empty() => "(no group)".to_owned(),
            (name, true) => "  ".repeat(depth) + &name,
            (name, false) => name,
        };
        let state = text(&group["state"]);
        let mut first = true;
        for row in list(&group["keys"]) {
            let left = text(&row["left"]);
            let style = if left.starts_with('-') { Style::Bad } else { Style::Plain };
            let shown = if first || !indented { name.clone() } else { String::new() };
            lines.push(vec![
                Cell::styled(Style::Bold, shown),
                text(&row["key"]).into(),
                text(&row["hard"]).into(),
                text(&row["used"]).into(),
                text(&row["selfUsed"]).into(),
                Cell::styled(Style::Dim, text(&row["consumedHours"])),
                Cell::styled(style, left),
                text(&row["exhaustedAt"]).into(),
                state.clone().into(),
            ]);
            first = false;
        }
        if first {
            let mut row = vec![Cell::styled(Style::Bold, name)];
            row.extend(std::iter::repeat_n(Cell::default(), 7));
            row.push(state.into());
            lines.push(row);
        }
    }
    lines
}
