//! `bizrq explain`: one pod, segment by segment, with what each is billed.

use super::{Format, Lines, Server, list, show, text};
use crate::cli::{
    Answer, Error,
    out::{Align, Cell, Out},
};
use serde_json::Value;

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  bizrq explain 3e9c0000-0000-4000-8000-00000000000a
  bizrq explain --cluster east 3e9c0000-0000-4000-8000-00000000000a -o yaml

`kubectl get pod NAME -o jsonpath={.metadata.uid}` prints a pod's uid.")]
pub(in crate::cli) struct Args {
    #[command(flatten)]
    server: Server,
    /// Its cluster, where several have such a pod
    #[arg(long, value_name = "NAME")]
    cluster: Option<String>,
    /// How it is shown
    #[arg(short, long, value_enum, default_value_t)]
    output: Format,
    /// The pod's uid
    uid: String,
}

pub(in crate::cli) fn run(args: &Args, out: &mut Out) -> Result<Answer, Error> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_.@".contains(c);
    if args.uid.is_empty() || !args.uid.chars().all(is_plain) {
        let why = "is no uid; `kubectl get pod NAME -o jsonpath={.metadata.uid}` prints one";
        return Err(Error::Usage(format!("`{}` {why}", args.uid)));
    }
    let path = format!("/v1/pods/{}", args.uid);
    let pod = args.server.get(&path, &[("cluster", args.cluster.clone())])?;
    show(out, args.output, &pod, lines)?;
    Ok(Answer::Yes)
}

fn lines(pod: &Value) -> Lines {
    let columns = ["from", "to", "group", "key"].map(|name| (name, Align::Left));
    let numbers = [("held", Align::Right), ("hours", Align::Right), ("note", Align::Left)];
    let mut lines = Lines::new(&[&columns[..], &numbers].concat());
    for segment in list(&pod["segments"]) {
        let note = match (segment["to"].is_null(), segment["provisional"].as_bool()) {
            (true, _) => "runs",
            (false, Some(true)) => "provisional",
            _ => "",
        };
        for (key, held) in segment["held"].as_object().into_iter().flatten() {
            let cell = |field: &str| Cell::from(text(&segment[field]));
            lines.push(vec![
                cell("from"),
                cell("to"),
                cell("group"),
                key.as_str().into(),
                text(held).into(),
                text(&segment["hours"][key]).into(),
                note.into(),
            ]);
        }
    }
    lines
}
