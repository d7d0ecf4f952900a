//! What a cluster says before its API server is made to ask: its version, whom it is to believe, and whether what must
//! start without bizrq could be asked about.

use crate::{cli::Error, k8s::reviewed::EXCLUDED};
use k8s_openapi::{
    ByteString,
    api::{
        apps::v1::{DaemonSet, Deployment, StatefulSet},
        core::v1::{Namespace, PodTemplateSpec, Secret},
    },
};
use kube::{
    Api, Client, Config, ResourceExt,
    api::ListParams,
    config::{KubeConfigOptions, Kubeconfig},
};
use std::collections::BTreeMap;

/// What runs with one of these keeps the cluster alive: networks, volumes, names.
const CRITICAL: [&str; 2] = ["system-node-critical", "system-cluster-critical"];
/// The Secret with certificates of bizrq's own, and where whom to believe stands in it.
const SECRET: (&str, &str) = ("bizrq-webhook-tls", "ca.crt");

/// What was found.
#[derive(Debug, Default)]
pub(super) struct Found {
    /// The second number of its version: 36 of Kubernetes 1.36.
    pub(super) minor: Option<u32>,
    /// Whom it is to believe, in PEM, if bizrq made its certificates there already.
    pub(super) authority: Option<String>,
    /// What must be done first, a line each.
    pub(super) unsafe_yet: Vec<String>,
}

/// Looks at the cluster behind `context`. Nothing is to be asked about in the namespaces `excluded`, of which
/// `namespace` is bizrq's own; in those of `asked` something is, whatever runs there.
pub(super) async fn look(
    context: &str,
    namespace: &str,
    excluded: &[String],
    asked: &[String],
) -> Result<Found, Error> {
    let wrong = |why: String| Error::input(format!("--context {context}"), why);
    let client = connect(context).await.map_err(wrong)?;
    let failed = |error: kube::Error| wrong(error.to_string());
    let version = client.apiserver_version().await.map_err(failed)?;
    // Some vendors write `30+`.
    let minor = version.minor.trim_end_matches(|c: char| !c.is_ascii_digit()).parse();
    let minor =
        minor.map_err(|_| wrong(format!("its version is {}.{}", version.major, version.minor)))?;
    let everything = ListParams::default();
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let namespaces = namespaces.list(&everything).await.map_err(failed)?.items.into_iter();
    let namespaces: BTreeMap<String, bool> = namespaces
        .map(|namespace| (namespace.name_any(), namespace.labels().contains_key(EXCLUDED)))
        .collect();
    let mut unsafe_yet = unlabelled(&namespaces, excluded);
    let mut critical = BTreeMap::new();
    note::<DaemonSet>(&client, &mut critical, |s| s.spec.template).await.map_err(failed)?;
    note::<Deployment>(&client, &mut critical, |d| d.spec.template).await.map_err(failed)?;
    note::<StatefulSet>(&client, &mut critical, |s| s.spec.template).await.map_err(failed)?;
    critical.retain(|name, _| {
        let known = excluded.contains(name) || asked.contains(name);
        !known && namespaces.get(name) == Some(&false)
    });
    unsafe_yet.extend(critical.into_iter().map(|(name, what)| {
        format!(
            "namespace {name} runs {what}, which the cluster cannot do without: `{}`, or let it be asked about: \
             --ask-about {name}",
            labelling(&name)
        )
    }));
    let secrets: Api<Secret> = Api::namespaced(client, namespace);
    let (name, key) = SECRET;
    let secret = secrets.get_opt(name).await.map_err(failed)?;
    let authority = secret.and_then(|secret| secret.data?.remove(key));
    let authority = authority.and_then(|ByteString(bytes)| String::from_utf8(bytes).ok());
    Ok(Found { minor: Some(minor), authority: authority.filter(|pem| !pem.is_empty()), unsafe_yet })
}

/// A client of what the context of the kubeconfig names; `in-cluster`: of the cluster that this pod runs in.
async fn connect(context: &str) -> Result<Client, String> {
    let config = match context {
        "in-cluster" => Config::incluster().map_err(|error| error.to_string())?,
        context => {
            let options =
                KubeConfigOptions { context: Some(context.to_owned()), ..Default::default() };
            let kubeconfig = Kubeconfig::read().map_err(|error| error.to_string())?;
            let config = Config::from_custom_kubeconfig(kubeconfig, &options).await;
            config.map_err(|error| format!("{error}; look at `kubectl config get-contexts`"))?
        }
    };
    Client::try_from(config).map_err(|error| error.to_string())
}

/// Names alone would do where API servers know namespaces by name; the label holds everywhere, and shows.
fn unlabelled(namespaces: &BTreeMap<String, bool>, excluded: &[String]) -> Vec<String> {
    let wrong = excluded.iter().filter_map(|name| match namespaces.get(name) {
        Some(true) => None,
        Some(false) => Some(format!("namespace {name} is not labelled: `{}`", labelling(name))),
        None => Some(format!(
            "--exclude {name}: there is no such namespace; make it first, or name the right one"
        )),
    });
    wrong.collect()
}

fn labelling(namespace: &str) -> String {
    format!("kubectl label namespace {namespace} {EXCLUDED}=true")
}

/// Notes, by namespace, one object whose pods are critical.
async fn note<K>(
    client: &Client,
    critical: &mut BTreeMap<String, String>,
    template: impl Fn(K) -> PodTemplateSpec,
) -> kube::Result<()>
where
    K: kube::Resource<DynamicType = ()> + Clone + std::fmt::Debug + serde::de::DeserializeOwned,
{
    let all: Api<K> = Api::all(client.clone());
    let mut page = ListParams::default().limit(500);
    loop {
        let list = all.list(&page).await?;
        for object in list.items {
            let (namespace, name) = (object.namespace().unwrap_or_default(), object.name_any());
            let spec = template(object).spec;
            let class = spec.and_then(|spec| spec.priority_class_name);
            if class.is_some_and(|class| CRITICAL.contains(&&*class)) {
                critical.entry(namespace).or_insert_with(|| format!("{} {name}", K::kind(&())));
            }
        }
        match list.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => page = page.continue_token(&token),
            None => return Ok(()),
        }
    }
}
