//! `bizrq quota`: validate, apply and draw the tree of business groups.

mod check;
pub(crate) mod file;
mod validate;

use super::{Answer, Error, out::Out};

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, clap::Subcommand)]
enum What {
    /// Say whether quota files are right, each in itself and together as a tree
    Validate(validate::Args),
}

pub(super) fn run(args: &Args, out: &mut Out) -> Result<Answer, Error> {
    match &args.what {
        What::Validate(args) => validate::run(args, out),
    }
}
