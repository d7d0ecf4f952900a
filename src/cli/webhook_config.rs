//! `bizrq webhook-config`: the two webhook configurations of a cluster, for `kubectl apply -f -`.

mod look;

use super::{
    Answer, Error,
    out::{self, Out},
};
use crate::{
    config,
    webhook::configuration::{Asking, MOST_SECONDS, Reach},
};
use clap::value_parser;
use std::path::PathBuf;
use tokio::runtime::Runtime;

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  bizrq webhook-config --cluster east
  bizrq webhook-config --cluster west --url https://bizrq.example.com:8443 | kubectl apply -f -
  bizrq webhook-config --cluster old --timeout 2
  bizrq webhook-config --cluster east --context admin@east | kubectl apply -f -

Nothing is asked about in namespaces with the label bizrq.io/excluded, nor in those that --exclude names; Kubernetes
before 1.21 does not know namespaces by name: label those there. Pods are asked about one by one in namespaces with
the label bizrq.io/managed.

With --context the cluster is looked at first. Nothing is printed as long as an excluded namespace does not have its
label, or one that is not excluded runs what is critical for the cluster. What is printed is what that version takes,
and believes bizrq at once, where it has made its certificates.")]
pub(super) struct Args {
    /// The cluster's name in the log, as `bizrq serve --cluster` has it
    #[arg(long, value_name = "NAME")]
    cluster: String,
    /// The namespace of the webhook's Service
    #[arg(long, value_name = "NAME", default_value = "bizrq")]
    namespace: String,
    /// The webhook's Service
    #[arg(long, value_name = "NAME", default_value = "bizrq-webhook")]
    service: String,
    /// The Service's port
    #[arg(long, value_name = "PORT", default_value_t = 443)]
    port: u16,
    /// Where the webhook is, for a cluster that bizrq does not run in: https://HOST:PORT
    #[arg(long, value_name = "URL", conflicts_with_all = ["namespace", "service", "port"], value_parser = https)]
    url: Option<String>,
    /// Seconds that an API server waits: 5, or 2 for Kubernetes 1.20, which asks twice about an update that is refused
    #[arg(long, value_name = "SECONDS", value_parser = value_parser!(u8).range(1..=5))]
    timeout: Option<u8>,
    /// A namespace in which nothing is asked about. May be given several times
    #[arg(long = "exclude", value_name = "NAMESPACE", default_values = EXCLUDED)]
    excluded: Vec<String>,
    /// Look at the cluster behind this context of your kubeconfig first (in-cluster: at this pod's)
    #[arg(long, value_name = "CONTEXT")]
    context: Option<String>,
    /// A namespace that may be asked about although what is critical runs there. May be given several times
    #[arg(long = "ask-about", value_name = "NAMESPACE", requires = "context")]
    ask_about: Vec<String>,
    /// The certificate whose authority cert-manager writes into the configurations, NAMESPACE/NAME
    #[arg(long, value_name = "CERTIFICATE")]
    inject_ca_from: Option<String>,
    /// A table of further kinds of workloads, in YAML. May be given several times
    #[arg(long, value_name = "FILE")]
    kinds: Vec<PathBuf>,
}

/// What must start without bizrq: Kubernetes itself, and bizrq.
const EXCLUDED: [&str; 3] = ["kube-system", "kube-node-lease", "bizrq"];
/// Kubernetes 1.20 asks twice about an update that is refused, and a user waits for both.
const TWICE_SECONDS: u8 = 2;
/// Conditions of webhooks are stable since Kubernetes 1.30.
const CONDITIONS_SINCE: u32 = 30;

pub(super) fn run(args: Args, out: &mut Out) -> Result<Answer, Error> {
    let kinds = config::kinds(&args.kinds).map_err(|error| Error::input("--kinds", error))?;
    let found = args.context.as_ref().map(|context| {
        let runtime = Runtime::new().map_err(|error| Error::input("--context", error))?;
        let look = look::look(context, &args.namespace, &args.excluded, &args.ask_about);
        runtime.block_on(look)
    });
    let found = found.transpose()?.unwrap_or_default();
    if !found.unsafe_yet.is_empty() {
        for first in &found.unsafe_yet {
            out::warn(first);
        }
        out::note("nothing is printed: what must start without bizrq would wait for it");
        return Ok(Answer::No);
    }
    let usual = if found.minor == Some(20) { TWICE_SECONDS } else { MOST_SECONDS };
    let reach = match args.url {
        Some(url) => Reach::Url(url),
        None => {
            let Args { namespace, service: name, port, .. } = args;
            Reach::Service { namespace, name, port }
        }
    };
    let asking = Asking {
        cluster: args.cluster,
        reach,
        timeout_seconds: args.timeout.unwrap_or(usual),
        excluded: args.excluded,
        // Of two who write it one would always be wrong.
        authority: found.authority.filter(|_| args.inject_ca_from.is_none()),
        inject_ca_from: args.inject_ca_from,
        conditions: found.minor.is_some_and(|minor| minor >= CONDITIONS_SINCE),
    };
    for configuration in asking.configurations(&kinds) {
        let text = serde_saphyr::to_string(&configuration)
            .map_err(|error| Error::input("the configuration", error))?;
        out.bytes(b"---\n")?;
        out.bytes(text.as_bytes())?;
    }
    Ok(Answer::Yes)
}

fn https(text: &str) -> Result<String, String> {
    match text.strip_prefix("https://").is_some_and(|rest| !rest.is_empty()) {
        true => Ok(text.to_owned()),
        false => Err("an API server calls https:// only; write https://HOST:PORT".to_owned()),
    }
}
