//! From an object to its roles: so many pods like this one, by the rules of its kind.

use super::{
    Kind,
    object::{Labels, Node, Object},
    path::Path,
    terms::{Condition, NoCount, Scope, Term},
};
use crate::k8s::pod::{Container, PodSpec, PodStatus, ResourceRequirements};
use std::borrow::Cow;

/// How the pods of one role, or of every entry of a list, are counted.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Rule {
    pub(super) name: Named,
    pub(super) each: Option<Path>,
    /// Of several, the first that is there.
    pub(super) templates: Vec<Path>,
    /// Where an object is named whose template is taken if none is there.
    pub(super) reference: Option<Path>,
    /// One on every node that takes it, until the controller has counted them: it says here for which generation.
    pub(super) nodes: Option<Path>,
    pub(super) count: Vec<Term>,
    pub(super) times: Vec<Term>,
    pub(super) surge: Vec<Term>,
    pub(super) peak: Vec<Term>,
    pub(super) unless: Vec<Condition>,
    pub(super) adds: Vec<Added>,
}

/// What a role is called.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Named {
    Fixed(Box<str>),
    /// The entry's key.
    Key,
    /// What stands there.
    At(Path),
}

/// A container that the kind's controller injects.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Added {
    pub(super) when: Option<Condition>,
    pub(super) init: bool,
    /// Where the object says otherwise.
    pub(super) from: Option<Path>,
    pub(super) resources: ResourceRequirements,
}

/// So many pods like this one.
#[derive(Clone, Debug, PartialEq)]
pub struct Wanted<'o> {
    /// Empty where the kind has one role.
    pub name: Cow<'o, str>,
    /// Pods that are wanted.
    pub count: u64,
    /// Pods that may be wanted at once.
    pub peak: u64,
    /// The template's labels; none of a pod, whose labels are its own.
    pub labels: Option<Cow<'o, Labels>>,
    /// The template.
    pub spec: Cow<'o, PodSpec>,
    /// Of a pod.
    pub status: Option<&'o PodStatus>,
}

/// A pod template that another object holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reference<'o> {
    /// `apps/v1`; empty where it is not written.
    pub api_version: &'o str,
    /// `Deployment`.
    pub kind: &'o str,
    /// In the same namespace.
    pub name: &'o str,
}

/// What an object's roles depend on, besides the object.
#[derive(Clone, Copy)]
pub struct Around<'o, 'f> {
    /// Looks a template up in another object of the same namespace.
    pub find: &'f dyn Fn(&Reference<'_>) -> Option<Template<'o>>,
    /// How many nodes take such a pod.
    pub nodes: &'f dyn Fn(&PodSpec) -> usize,
    /// The version that it replaces, of which pods were counted already.
    pub before: Option<&'f Object>,
}

/// Labels and specification of a pod template.
pub type Template<'o> = (Cow<'o, Labels>, Cow<'o, PodSpec>);

/// Why an object's roles cannot be told.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RolesError {
    /// A number is none.
    #[error(transparent)]
    NoCount(#[from] NoCount),
    /// Pods are wanted, and nothing says what they are.
    #[error("{path}: no pod template stands here; write one")]
    NoTemplate {
        /// Where it should be.
        path: String,
    },
    /// The template is another object's, which is not known.
    #[error(
        "{path}: {kind} `{name}` is not known here; create it first, or write the template itself"
    )]
    UnknownReference {
        /// Where it is named.
        path: String,
        /// Its kind.
        kind: String,
        /// Its name.
        name: String,
    },
    /// More roles than any workload has.
    #[error("{path}: more than {MAX_ROLES} entries; split the workload")]
    TooMany {
        /// The list.
        path: String,
    },
}

/// Every role is judged and recorded by itself; the largest real workloads have some ten.
const MAX_ROLES: usize = 1000;

impl Rule {
    /// Every place of a single value that it looks at.
    pub(super) fn paths(&self) -> impl Iterator<Item = &Path> {
        let terms = [&self.count, &self.times, &self.surge, &self.peak];
        let terms = terms.into_iter().flatten().flat_map(Term::paths);
        let added = self.adds.iter().filter_map(|a| a.when.as_ref());
        let conditions = self.unless.iter().chain(added).flat_map(Condition::paths);
        let name = match &self.name {
            Named::At(path) => Some(path),
            _ => None,
        };
        terms.chain(conditions).chain(name).chain(&self.nodes)
    }
}

impl Kind {
    /// What `object` wants; nothing while it is suspended and when it is finished.
    ///
    /// # Errors
    /// [`RolesError`], with the place.
    pub fn roles<'o>(
        &'o self,
        object: &'o Object,
        around: &Around<'o, '_>,
    ) -> Result<Vec<Wanted<'o>>, RolesError> {
        let root = &object.body;
        let whole = Scope::of(root);
        let idle = whole.any(&self.suspended) || whole.any(&self.finished);
        let mut roles = Vec::with_capacity(self.roles.len());
        for rule in &self.roles {
            let Some(each) = &rule.each else {
                roles.push(rule.wanted(object, &whole, idle, around)?);
                continue;
            };
            for (name, entry) in root.at(&each.keys).entries() {
                if roles.len() >= MAX_ROLES {
                    return Err(RolesError::TooMany { path: each.to_string() });
                }
                let scope = Scope { root, name, entry };
                roles.push(rule.wanted(object, &scope, idle, around)?);
            }
        }
        Ok(roles)
    }

    /// The labels of the first role's template.
    pub(super) fn labels<'o>(&self, object: &'o Object) -> Option<&'o Labels> {
        let scope = Scope::of(&object.body);
        let templates = &self.roles.first()?.templates;
        templates.iter().find_map(|path| match scope.at(path).field("metadata") {
            Node::Labels(labels) => Some(&**labels),
            _ => None,
        })
    }

    /// The template of the first role.
    pub(in crate::k8s) fn template<'o>(&self, object: &'o Object) -> Option<Template<'o>> {
        self.roles.first()?.template(&Scope::of(&object.body))
    }
}

impl Rule {
    fn wanted<'o>(
        &'o self,
        object: &Object,
        scope: &Scope<'o>,
        idle: bool,
        around: &Around<'o, '_>,
    ) -> Result<Wanted<'o>, RolesError> {
        let name = match &self.name {
            Named::Fixed(name) => Cow::Borrowed(&**name),
            Named::Key => scope.name.clone(),
            Named::At(path) => match scope.at(path) {
                Node::Text(name) => Cow::Borrowed(&**name),
                _ => scope.name.clone(),
            },
        };
        let adds: Vec<_> = self.adds.iter().filter(|a| a.applies(scope)).collect();
        let template = match self.template(scope) {
            Some(template) => Some(template),
            None => self.referred(scope, around.find)?,
        };
        let (count, peak) = match idle || scope.any(&self.unless) {
            true => (0, 0),
            false => {
                let spec = template.as_ref().map(|(_, spec)| &**spec);
                self.numbers(
                    scope,
                    spec.map_or(0, |spec| self.on_nodes(object, scope, spec, around)),
                )?
            }
        };
        let (labels, mut spec) = match template {
            Some(template) => template,
            None if peak == 0 || !adds.is_empty() => Default::default(),
            None => {
                let path = self.templates.first().map(|p| scope.place(p)).unwrap_or_default();
                return Err(RolesError::NoTemplate { path });
            }
        };
        for added in adds {
            added.join(scope, spec.to_mut());
        }
        let whole = self.templates.iter().any(|t| t.keys.is_empty());
        let status = match scope.root.field("status") {
            Node::PodStatus(status) if whole => Some(&**status),
            _ => None,
        };
        // A pod that has ended asks for nothing any more.
        let ended = status.is_some_and(|s| matches!(&*s.phase, "Succeeded" | "Failed"));
        let (count, peak) = if ended { (0, 0) } else { (count, peak) };
        Ok(Wanted { name, count, peak, labels: (!whole).then_some(labels), spec, status })
    }

    /// How many nodes take a pod, where the controller has not counted them for what the object says.
    fn on_nodes(
        &self,
        object: &Object,
        scope: &Scope<'_>,
        spec: &PodSpec,
        around: &Around<'_, '_>,
    ) -> i64 {
        let Some(counted) = &self.nodes else { return 0 };
        let (object, scope) = match around.before {
            // Pods that stay where they are were counted when they came there.
            Some(before) => {
                let old = Scope::of(&before.body);
                let alike = self.template(&old).is_some_and(|(_, old)| spec.is_placed_as(&old));
                if alike { (before, old) } else { (object, scope.clone()) }
            }
            None => (object, scope.clone()),
        };
        match scope.at(counted) {
            Node::Number(of) if *of > 0 && *of >= object.metadata.generation => 0,
            _ => i64::try_from((around.nodes)(spec)).unwrap_or(i64::MAX),
        }
    }

    /// How many pods are wanted, at least so many, and how many may be at once.
    fn numbers(&self, scope: &Scope<'_>, least: i64) -> Result<(u64, u64), NoCount> {
        let count = scope.first(&self.count, None)?.unwrap_or(0).max(least);
        let surge = scope.first(&self.surge, Some(count))?.unwrap_or(0);
        let most = scope.first(&self.peak, Some(count))?.unwrap_or(count);
        let peak = count.saturating_add(surge).max(most);
        let (mut count, mut peak) = (count.unsigned_abs(), peak.unsigned_abs());
        for factor in &self.times {
            let factor = scope.number(factor, None)?.unsigned_abs();
            (count, peak) = (count.saturating_mul(factor), peak.saturating_mul(factor));
        }
        Ok((count, peak))
    }

    /// The template that stands in the object.
    fn template<'o>(&self, scope: &Scope<'o>) -> Option<Template<'o>> {
        self.templates.iter().find_map(|path| {
            let Node::PodSpec(spec) = scope.at(path).field("spec") else { return None };
            let labels = match scope.at(path).field("metadata") {
                Node::Labels(labels) if !path.keys.is_empty() => Cow::Borrowed(&**labels),
                _ => Cow::default(),
            };
            Some((labels, Cow::Borrowed(&**spec)))
        })
    }

    fn referred<'o>(
        &self,
        scope: &Scope<'o>,
        find: &dyn Fn(&Reference<'_>) -> Option<Template<'o>>,
    ) -> Result<Option<Template<'o>>, RolesError> {
        let Some(path) = &self.reference else { return Ok(None) };
        let text = |field: &str| match scope.at(path).field(field) {
            Node::Text(text) => &**text,
            _ => "",
        };
        let reference =
            Reference { api_version: text("apiVersion"), kind: text("kind"), name: text("name") };
        if reference.name.is_empty() {
            return Ok(None);
        }
        let unknown = || RolesError::UnknownReference {
            path: path.to_string(),
            kind: reference.kind.to_owned(),
            name: reference.name.to_owned(),
        };
        find(&reference).map(Some).ok_or_else(unknown)
    }
}

impl Added {
    fn applies(&self, scope: &Scope<'_>) -> bool {
        self.when.as_ref().is_none_or(|when| scope.any(std::slice::from_ref(when)))
    }

    fn join(&self, scope: &Scope<'_>, spec: &mut PodSpec) {
        let said = match self.from.as_ref().map(|path| scope.at(path)) {
            Some(Node::Resources(resources)) => Some(&**resources),
            _ => None,
        };
        let resources = said.unwrap_or(&self.resources).clone();
        let name = "(injected by the controller)".to_owned();
        let container = Container { name, resources, ..Container::default() };
        let list = if self.init { &mut spec.init_containers } else { &mut spec.containers };
        list.push(container);
    }
}
