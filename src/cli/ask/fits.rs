//! `bizrq fits`: would this manifest be admitted now; if not, why, and how many replicas would.

use super::{Format, Lines, Server, list, show, text};
use crate::cli::{
    Answer, Error,
    out::{Align, Cell, Out, Style},
    quota::file,
};
use serde_json::Value;
use std::path::PathBuf;

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  bizrq fits deployment.yaml
  kubectl create deployment shop --image shop --dry-run=client -o yaml | bizrq fits -

Nothing is recorded and nothing is held. The exit code is 1 if it does not fit. `bizrq review` answers the same by a log.")]
pub(in crate::cli) struct Args {
    #[command(flatten)]
    server: Server,
    /// The cluster that it is meant for; the server's first, unless given
    #[arg(long, value_name = "NAME")]
    cluster: Option<String>,
    /// How the answer is shown
    #[arg(short, long, value_enum, default_value_t)]
    output: Format,
    /// The manifest, in JSON or YAML; `-` reads standard input
    file: PathBuf,
}

pub(in crate::cli) fn run(args: &Args, out: &mut Out) -> Result<Answer, Error> {
    let manifest = file::text(&args.file)?;
    let told = args.server.post("/v1/fits", &[("cluster", args.cluster.clone())], &manifest)?;
    show(out, args.output, &told, lines)?;
    Ok(Answer::of(told["fits"] == true))
}

fn lines(told: &Value) -> Lines {
    let mut lines = Lines::new(&[("what", Align::Left), ("answer", Align::Left)]);
    let fits = told["fits"] == true;
    let style = if fits { Style::Good } else { Style::Bad };
    let answer = if fits { "yes" } else { "no" };
    lines.push(vec!["fits".into(), Cell::styled(style, answer)]);
    lines.push(vec!["group".into(), text(&told["group"]).into()]);
    for field in ["reason", "message"] {
        if !told[field].is_null() {
            lines.push(vec![field.into(), text(&told[field]).into()]);
        }
    }
    if let Some(replicas) = told["replicas"].as_object() {
        let (fit, asked) = (replicas.get("fit"), replicas.get("asked"));
        let [fit, asked] = [fit, asked].map(|n| n.map(text).unwrap_or_default());
        lines.push(vec!["replicas".into(), format!("{fit} of {asked} would fit").into()]);
    }
    for (key, amount) in told["asks"].as_object().into_iter().flatten() {
        lines.push(vec![format!("asks {key}").into(), text(amount).into()]);
    }
    for cash in list(&told["cash"]) {
        let (group, key) = (text(&cash["group"]), text(&cash["key"]));
        let end = text(&cash["exhaustedAt"]);
        lines.push(vec![format!("cash of {group} for {key} ends").into(), end.into()]);
    }
    for warning in list(&told["warnings"]) {
        lines.push(vec!["warning".into(), Cell::styled(Style::Near, text(warning))]);
    }
    lines
}
