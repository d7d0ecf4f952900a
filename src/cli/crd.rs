//! `bizrq crd`: the CustomResourceDefinition of quota objects, for `kubectl apply -f -`.

use super::{Answer, Error, out::Out};
use crate::k8s::crd;

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  bizrq crd
  bizrq crd | kubectl apply -f -")]
pub(super) struct Args {}

pub(super) fn run(_: &Args, out: &mut Out) -> Result<Answer, Error> {
    let definition = crd::definition().map_err(|e| Error::input("the definition", e))?;
    out.bytes(definition.as_bytes())?;
    Ok(Answer::Yes)
}
