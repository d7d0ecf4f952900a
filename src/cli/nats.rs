//! `bizrq nats`: what others may read on the NATS server that keeps the log.

mod permissions;

use super::{Answer, Error, out::Out};

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, clap::Subcommand)]
enum What {
    /// Print what tenants may read: their groups' usage and notices, and those of all groups below
    Permissions(permissions::Args),
}

pub(super) fn run(args: &Args, out: &mut Out) -> Result<Answer, Error> {
    match &args.what {
        What::Permissions(args) => permissions::run(args, out),
    }
}
