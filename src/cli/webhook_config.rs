//! `bizrq webhook-config`: the two webhook configurations of a cluster, for `kubectl apply -f -`.

use super::{Answer, Error, out::Out};
use crate::{
    config,
    webhook::configuration::{Asking, MOST_SECONDS, Reach},
};
use clap::value_parser;
use std::path::PathBuf;

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  bizrq webhook-config --cluster east
  bizrq webhook-config --cluster west --url https://bizrq.example.com:8443 | kubectl apply -f -
  bizrq webhook-config --cluster old --timeout 2

Nothing is asked about in namespaces with the label bizrq.io/excluded, nor in those that --exclude names; Kubernetes
before 1.21 does not know namespaces by name: label those there. Pods are asked about one by one in namespaces with
the label bizrq.io/managed.")]
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
    /// Seconds that an API server waits; 2 for Kubernetes 1.20, which asks twice about an update that is refused
    #[arg(long, value_name = "SECONDS", default_value_t = MOST_SECONDS, value_parser = value_parser!(u8).range(1..=5))]
    timeout: u8,
    /// A namespace in which nothing is asked about. May be given several times
    #[arg(long = "exclude", value_name = "NAMESPACE", default_values = EXCLUDED)]
    excluded: Vec<String>,
    /// The certificate whose authority cert-manager writes into the configurations, NAMESPACE/NAME
    #[arg(long, value_name = "CERTIFICATE")]
    inject_ca_from: Option<String>,
    /// A table of further kinds of workloads, in YAML. May be given several times
    #[arg(long, value_name = "FILE")]
    kinds: Vec<PathBuf>,
}

/// What must start without bizrq: Kubernetes itself, and bizrq.
const EXCLUDED: [&str; 3] = ["kube-system", "kube-node-lease", "bizrq"];

pub(super) fn run(args: Args, out: &mut Out) -> Result<Answer, Error> {
    let kinds = config::kinds(&args.kinds).map_err(|error| Error::input("--kinds", error))?;
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
        timeout_seconds: args.timeout,
        excluded: args.excluded,
        inject_ca_from: args.inject_ca_from,
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
