//! `bizrq crd`: the CustomResourceDefinition of quota objects, for `kubectl apply -f -`.

use super::{Answer, Error, out::Out};
use crate::k8s::crd;

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  bizrq crd | kubectl apply -f -
  bizrq crd --without-rules | kubectl apply -f -    # an API server before 1.25")]
pub(super) struct Args {
    /// Leave out the rules in CEL, which API servers before 1.25 do not know; bizrq judges by them in any case
    #[arg(long)]
    without_rules: bool,
}

pub(super) fn run(args: &Args, out: &mut Out) -> Result<Answer, Error> {
    let definition =
        if args.without_rules { crd::definition_without_rules() } else { crd::definition() };
    let definition = definition.map_err(|e| Error::input("the definition", e))?;
    out.bytes(definition.as_bytes())?;
    Ok(Answer::Yes)
}
