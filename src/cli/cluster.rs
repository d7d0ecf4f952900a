//! `bizrq cluster`: what an operator says of a cluster itself.

mod rebind;
mod retire;

use super::{Answer, Error, out::Out};

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, clap::Subcommand)]
enum What {
    /// Let a name go, so that it stands for the cluster that is found next
    Rebind(rebind::Args),
    /// End a cluster that is no more, with everything that ran in it
    Retire(retire::Args),
}

pub(super) fn run(args: &Args, out: &mut Out) -> Result<Answer, Error> {
    match &args.what {
        What::Rebind(args) => rebind::run(args, out),
        What::Retire(args) => retire::run(args, out),
    }
}
