//! `bizrq events`: the log as it grows, as a server tells it; a stream that breaks goes on where it was.

use super::{Format, Server, text};
use crate::cli::{
    Answer, Error,
    out::{Out, note, printable},
};
use serde_json::Value;
use std::{
    io::{BufRead, BufReader},
    thread::sleep,
    time::Duration,
};

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  bizrq events --last 20
  bizrq events --from 1 --most 100 -o json

-o json prints a line an event, as `bizrq log tail -o lines` does. Ctrl-C ends it.")]
pub(in crate::cli) struct Args {
    #[command(flatten)]
    server: Server,
    /// Begin with the last so many
    #[arg(long, value_name = "N", default_value_t = 10, conflicts_with = "from")]
    last: u64,
    /// Begin with this position
    #[arg(long, value_name = "POSITION")]
    from: Option<u64>,
    /// End after so many
    #[arg(long, value_name = "N")]
    most: Option<u64>,
    /// How they are shown
    #[arg(short, long, value_enum, default_value_t)]
    output: Format,
}

/// Between two attempts.
const AGAIN: Duration = Duration::from_secs(1);
/// So often in a row nothing may come.
const ATTEMPTS: u32 = 10;
/// The longest line that is read.
const MOST_BYTES: u64 = 32 << 20;

pub(in crate::cli) fn run(args: &Args, out: &mut Out) -> Result<Answer, Error> {
    if args.output == Format::Csv {
        out.csv_row(["position", "time", "type", "subject"])?;
    }
    let (mut after, mut told, mut failed) = (None, 0_u64, 0);
    loop {
        let last = args.from.is_none().then(|| args.last.to_string());
        let query = match &after {
            None => vec![("last", last), ("from", args.from.map(|from| from.to_string()))],
            Some(_) => Vec::new(),
        };
        let before = told;
        let ended = match args.server.stream("/v1/events", &query, after.as_deref()) {
            // What cannot be asked at the beginning will not be answered later either.
            Err(error) if after.is_none() => return Err(error),
            Err(error) => error.to_string(),
            Ok(body) => {
                let mut lines = BufReader::new(body);
                match read(args, out, &mut lines, &mut after, &mut told)? {
                    None => return Ok(Answer::Yes),
                    Some(why) => why,
                }
            }
        };
        failed = if told > before { 0 } else { failed + 1 };
        if failed > ATTEMPTS {
            return Err(Error::input("the server's events", ended));
        }
        note(format_args!("the stream ended ({ended}); it goes on"));
        sleep(AGAIN);
    }
}

/// Shows what comes; gives why no more does, or `None` once there were enough.
fn read(
    args: &Args,
    out: &mut Out,
    lines: &mut impl BufRead,
    after: &mut Option<String>,
    told: &mut u64,
) -> Result<Option<String>, Error> {
    let (mut id, mut kind, mut line) = (String::new(), String::new(), String::new());
    loop {
        if args.most.is_some_and(|most| *told >= most) {
            return Ok(None);
        }
        line.clear();
        match std::io::Read::take(&mut *lines, MOST_BYTES).read_line(&mut line) {
            Ok(0) => return Ok(Some("the server hung up".to_owned())),
            Ok(_) => {}
            Err(why) => return Ok(Some(why.to_string())),
        }
        match line.trim_end().split_once(": ") {
            Some(("id", position)) => position.clone_into(&mut id),
            Some(("event", name)) => name.clone_into(&mut kind),
            Some(("data", data)) if kind == "end" => return Ok(Some(data.to_owned())),
            Some(("data", data)) => {
                print(args.output, out, &id, data)?;
                out.flush()?;
                (*after, *told) = (Some(id.clone()), told.saturating_add(1));
            }
            _ if line.trim().is_empty() => kind.clear(),
            _ => {}
        }
    }
}

fn print(format: Format, out: &mut Out, id: &str, data: &str) -> Result<(), Error> {
    if format == Format::Json {
        return out.line(data);
    }
    let event: Value = serde_json::from_str(data).unwrap_or_default();
    let kind = text(&event["type"]);
    let kind = kind.strip_prefix("io.bizrq.").unwrap_or(&kind);
    let (time, subject) = (text(&event["time"]), text(&event["subject"]));
    match format {
        Format::Yaml => {
            let failed = |why: serde_saphyr::ser_error::Error| Error::input("an event", why);
            let text = serde_saphyr::to_string(&event).map_err(failed)?;
            out.line("---")?;
            out.bytes(text.as_bytes())
        }
        Format::Csv => out.csv_row([id, &time, kind, &subject]),
        _ => out.line(printable(&format!("{id:>10}  {time}  {kind:<24}  {subject}"))),
    }
}
