//! `bizrq-replay consistency`: the log that had an older root is the beginning of the log that is there now, which only
//! grew. Shown by a few dozen hashes that anybody can check (RFC 9162, 2.1.4).

use crate::{
    Output,
    reading::{Halt, Log},
    verify::trees,
};
use bizrq::{
    cli::{Answer, Error, out::Out},
    domain::{
        event::Position,
        merkle::{
            Frontier, Hash, LeafHasher,
            proof::{Gatherer, verify_consistency},
        },
    },
};
use serde::Serialize;

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  bizrq-replay consistency --log ./log 4f0a…64 hex digits
  bizrq-replay consistency --log ./log -o json 4f0a…64 hex digits

The older root is one that was written down: on an invoice, in a status, on a closed period. The log is searched for
the position where it had it. If it never had it, records before that were changed, removed or added.")]
pub(super) struct Args {
    /// The log to read: a folder, or nats://host:port,…
    #[arg(long, value_name = "LOG")]
    log: String,
    /// The older root
    #[arg(value_name = "OLDROOT")]
    old: Hash,
    /// How the proof is printed
    #[arg(short, long, value_enum, default_value_t)]
    output: Output,
}

/// A tree's size and root.
#[derive(Serialize)]
struct Tree {
    position: Position,
    root: Hash,
}

#[derive(Serialize)]
struct Consistency {
    old: Tree,
    new: Tree,
    /// From the old tree's last complete part upwards.
    path: Vec<Hash>,
}

pub(super) fn run(args: &Args, out: &mut Out) -> Result<Answer, Error> {
    let log = Log::open(&args.log)?;
    let Some(position) = position(&log, args.old)? else {
        out.line(format_args!("✗ the log never had root {}", args.old))?;
        return Ok(Answer::No);
    };
    let new = log.tree(Position::MAX)?;
    let path = path(&log, position, &new)?;
    let root = new.root();
    if !verify_consistency(position, new.position(), &args.old, &root, &path) {
        return Err(Error::log(
            &args.log,
            "its proof does not check: it changed while it was read",
        ));
    }
    let old = Tree { position, root: args.old };
    let new = Tree { position: new.position(), root };
    match args.output {
        Output::Json => out.json(&Consistency { old, new, path })?,
        Output::Table => {
            out.line(format_args!("✓ at position {} the log had root {}", old.position, old.root))?;
            out.line(format_args!(
                "✓ it only grew since, to position {}, root {}",
                new.position, new.root
            ))?;
            for hash in path {
                out.line(format_args!("  {hash}"))?;
            }
        }
    }
    Ok(Answer::Yes)
}

/// Where the log had the root.
fn position(log: &Log, root: Hash) -> Result<Option<Position>, Error> {
    let mut found = None;
    trees(log, Position::MAX, &mut |tree| {
        if tree.root() != root {
            return Ok(());
        }
        found = Some(tree.position());
        Err(Halt::Enough)
    })?;
    Ok(found)
}

fn path(log: &Log, old: Position, new: &Frontier) -> Result<Vec<Hash>, Error> {
    let failed = |why: String| Error::log(&log.place, why);
    let mut gatherer = Gatherer::new(new.position());
    gatherer.want_beginning(old).map_err(|e| failed(e.to_string()))?;
    let mut hasher = LeafHasher::default();
    let read = log.each("proving", new.position(), |batch| {
        for (position, scanned) in batch.iter() {
            let scanned = scanned.map_err(|e| failed(format!("position {position}: {e}")))?;
            gatherer.append(hasher.leaf(position, &scanned.leaf_input()));
        }
        Ok(())
    });
    log.finished(read)?;
    gatherer.consistency(old).map_err(|e| failed(e.to_string()))
}
