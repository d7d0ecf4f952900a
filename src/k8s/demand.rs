//! From an object to what it asks for, in the domain's words: its roles, with the defaults of its namespace and the overhead
//! of its runtime class filled in, as they will be in its pods.

use super::{
    context::{Context, fill},
    convert::{self, ResourcesError},
    kinds::{Around, Kind, Object, Reference, RolesError, Wanted},
    pod::PodSpec,
};
use crate::domain::{
    event::Role,
    pod_resources::Pod,
    quota::ambiguous_models,
    resources::{Models, Resources},
    text::Text,
};
use std::sync::Arc;

/// What an object asks for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Demand {
    /// Its roles.
    pub roles: Vec<Role<'static>>,
    /// The group that a pod template's label names.
    pub group: Option<String>,
    /// Containers, each with a key that it leaves open.
    pub undeclared: Vec<(String, &'static str)>,
    /// What people should know.
    pub warnings: Vec<String>,
}

/// Why it cannot be told what an object asks for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DemandError {
    /// The object cannot be understood.
    #[error(transparent)]
    Roles(#[from] RolesError),
    /// An amount is none.
    #[error("{role}{source}")]
    Amount {
        /// `role Worker: `, where there are several.
        role: String,
        /// What is wrong with it.
        source: ResourcesError,
    },
}

/// What containers must declare where their group limits it.
const DECLARED: [(&str, &str, bool); 4] = [
    ("requests.cpu", "cpu", false),
    ("requests.memory", "memory", false),
    ("limits.cpu", "cpu", true),
    ("limits.memory", "memory", true),
];

/// What `object` asks for, which was `before`, if a review says so. With `complete` the defaults that the API server gives to pods are filled in; a pod that
/// comes from it has them already.
///
/// # Errors
/// [`DemandError`], with the place.
pub fn demand(
    kind: &Kind,
    object: &Object,
    before: Option<&Object>,
    context: &Context,
    complete: bool,
) -> Result<Demand, DemandError> {
    let namespace = &object.metadata.namespace;
    let find = |reference: &Reference<'_>| {
        let Reference { api_version, kind, name } = *reference;
        let known = context.named(api_version, kind, namespace, name)?;
        known.kind.template(&known.object)
    };
    let nodes = |spec: &PodSpec| context.nodes_for(spec);
    let mut demand = Demand::default();
    for wanted in kind.roles(object, &Around { find: &find, nodes: &nodes, before })? {
        demand.take(&wanted, object, context, complete)?;
    }
    Ok(demand)
}

impl Demand {
    fn take(
        &mut self,
        wanted: &Wanted<'_>,
        object: &Object,
        context: &Context,
        complete: bool,
    ) -> Result<(), DemandError> {
        let failed = |source| {
            let role = match &*wanted.name {
                "" => String::new(),
                name => format!("role {name}: "),
            };
            DemandError::Amount { role, source }
        };
        let mut pod = match wanted.status {
            Some(status) => convert::reported_resources(&wanted.spec, status).map_err(failed)?,
            None => convert::spec_resources(&wanted.spec).map_err(failed)?,
        };
        if complete {
            self.complete(&mut pod, wanted, &object.metadata.namespace, context);
        }
        if wanted.peak > 0 {
            self.note_undeclared(&pod, wanted);
        }
        let labels = wanted.labels.as_deref();
        let label = |key| labels.and_then(|l| l.label(key)).or_else(|| object.metadata.label(key));
        let keys = context.labels();
        if self.group.is_none() {
            self.group = labels.and_then(|l| l.label(&keys.group)).map(Into::into);
        }
        let model = |key| label(key).map(|text| Text::from(text.to_owned()));
        let models =
            Models { cpu: model(&keys.cpu), memory: model(&keys.memory), gpu: model(&keys.gpu) };
        for (what, text) in ambiguous_models(&models) {
            self.warn(format!(
                "{}: `{text}` is no model; {what} is charged under its generic key only",
                keys.of_model(what)
            ));
        }
        let pod = Arc::new(pod.reserved().map_err(|e| failed(e.into()))?);
        let (count, peak) = (wanted.count, wanted.peak.max(wanted.count));
        let name = Text::from(wanted.name.to_string());
        self.roles.push(Role { name, count, peak, models, pod });
        Ok(())
    }

    /// What the API server will fill into the pods.
    fn complete(&mut self, pod: &mut Pod, wanted: &Wanted<'_>, namespace: &str, context: &Context) {
        for defaults in context.defaults(namespace) {
            for container in &mut pod.containers {
                let asked = &mut container.demand.asked;
                fill(&mut asked.limits, &defaults.limits);
                fill(&mut asked.requests, &defaults.requests);
            }
        }
        let class = &*wanted.spec.runtime_class_name;
        if class.is_empty() || !pod.overhead.is_empty() {
            return;
        }
        match context.overhead(class) {
            Some(overhead) => pod.overhead = overhead.clone(),
            None => self.warn(format!(
                "RuntimeClass `{class}` is not known here; its overhead is not counted before the pods come"
            )),
        }
    }

    fn note_undeclared(&mut self, pod: &Pod, wanted: &Wanted<'_>) {
        let named = convert::containers(&wanted.spec);
        for (container, (_, named)) in pod.containers.iter().zip(named) {
            for (key, resource, limits) in DECLARED {
                let side = |r: &Resources| {
                    let list = if limits { &r.limits } else { &r.requests };
                    list.get(resource).is_some()
                };
                if !side(&container.demand.asked) && !side(&pod.pod_level.asked) {
                    self.undeclared.push((named.name.clone(), key));
                }
            }
        }
    }

    fn warn(&mut self, warning: String) {
        if !self.warnings.contains(&warning) {
            self.warnings.push(warning);
        }
    }
}
