//! `bizrq quota`: validate, apply and draw the tree of business groups.

mod apply;
pub(crate) mod check;
pub(crate) mod file;
pub(super) mod tree;
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
    /// Declare quotas in a log; what says the same again appends nothing
    Apply(apply::Args),
    /// Draw the tree: hard, used, self, consumed, left
    Tree(tree::Args),
}

pub(super) fn run(args: &Args, out: &mut Out) -> Result<Answer, Error> {
    match &args.what {
        What::Validate(args) => validate::run(args, out),
        What::Apply(args) => apply::run(args, out),
        What::Tree(args) => tree::run(args, out),
    }
}
