//! Kinds of objects, and what each asks for: declared in a table, not coded.
//!
//! ```text
//!  builtin.yaml, --kinds FILE ──declare──▶ Kind ──keep──▶ object (what the paths name) ──roles──▶ count × pod template
//! ```
//!
//! A kind says where replicas and pod templates stand, how they multiply, when it asks for nothing, and whose the
//! controllers are that create what it owns. Nothing here knows quotas, or what a cluster looks like.

mod declare;
mod meaning;
mod object;
mod path;
mod roles;
mod terms;

pub use declare::TableError;
pub use object::{Labels, Node, Object, Reading};
pub use roles::{Around, Reference, RolesError, Template, Wanted};
pub use terms::NoCount;

use path::{Keep, Path};
use roles::Rule;
use std::sync::Arc;
use terms::Condition;

/// The annotation of a pod that the kubelet runs from a file and only mirrors into the API.
pub const MIRROR: &str = "kubernetes.io/config.mirror";

/// The kinds that ship with bizrq.
const BUILTIN: &str = include_str!("kinds/builtin.yaml");

/// Every declared kind.
#[derive(Clone, Debug, Default)]
pub struct Kinds(Vec<Arc<Kind>>);

/// What is declared of a kind.
#[derive(Clone, Debug, PartialEq)]
pub struct Kind {
    /// `apps/v1`; several where they say the same.
    pub api_versions: Vec<Box<str>>,
    /// `Deployment`.
    pub kind: Box<str>,
    /// `deployments`: its name in the API.
    pub resource: Box<str>,
    /// The roles are those of what it makes, one at a time; it asks for nothing itself.
    pub makes: bool,
    roles: Vec<Rule>,
    suspended: Vec<Condition>,
    finished: Vec<Condition>,
    /// What the scale subresource sets.
    scale: Option<Path>,
    /// The users that create what it owns.
    controllers: Vec<Box<str>>,
    /// What must be read of an object.
    keep: Keep,
}

impl Kinds {
    /// The kinds that ship with bizrq.
    ///
    /// # Errors
    /// Never, unless the table that was built in is wrong; a test reads it.
    pub fn builtin() -> Result<Self, TableError> {
        let mut kinds = Self::default();
        kinds.declare(BUILTIN)?;
        Ok(kinds)
    }

    /// Adds what a table in YAML declares; a kind that is declared already is replaced.
    ///
    /// # Errors
    /// [`TableError`] with line and remedy; what stands before it is declared.
    pub fn declare(&mut self, table: &str) -> Result<(), TableError> {
        declare::declare(self, table)
    }

    /// The kind of an object.
    #[must_use]
    pub fn find(&self, api_version: &str, kind: &str) -> Option<&Arc<Kind>> {
        self.0.iter().find(|k| *k.kind == *kind && k.has_version(api_version))
    }

    /// The kind behind a resource of the API, by group, version and plural.
    #[must_use]
    pub fn find_resource(&self, api_version: &str, resource: &str) -> Option<&Arc<Kind>> {
        self.0.iter().find(|k| *k.resource == *resource && k.has_version(api_version))
    }

    /// The kind of this name in an API group, in whatever version.
    #[must_use]
    pub fn find_in_group(&self, api_version: &str, kind: &str) -> Option<&Arc<Kind>> {
        let group = group(api_version);
        let in_group = |k: &Kind| k.api_versions.iter().any(|v| self::group(v) == group);
        self.0.iter().find(|k| *k.kind == *kind && in_group(k))
    }

    /// Every kind, in the order of the tables.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Kind>> {
        self.0.iter()
    }

    /// Takes in a kind, instead of whatever was declared of the same one.
    fn put(&mut self, kind: Kind) {
        let same =
            |k: &Kind| k.kind == kind.kind && kind.api_versions.iter().any(|v| k.has_version(v));
        self.0.retain(|k| !same(k));
        self.0.push(Arc::new(kind));
    }
}

impl Kind {
    /// Whether `user` is a controller that creates what an object of this kind owns.
    #[must_use]
    pub fn is_controlled_by(&self, user: &str) -> bool {
        self.controllers.iter().any(|c| **c == *user)
    }

    /// The fields at the top of an object that are read, beside its metadata: `spec`, perhaps `status`.
    pub fn fields_read(&self) -> impl Iterator<Item = &str> {
        self.keep.fields().filter(|field| *field != "metadata")
    }

    /// Whether it has a scale subresource.
    #[must_use]
    pub fn has_scale(&self) -> bool {
        self.scale.is_some()
    }

    /// The object with `replicas` where the scale subresource puts them.
    #[must_use]
    pub fn scaled(&self, object: &Object, replicas: i64) -> Option<Object> {
        let path = self.scale.as_ref()?;
        let mut scaled = object.clone();
        scaled.body.set(path, Node::Number(replicas));
        Some(scaled)
    }

    /// Whether the object says how many replicas it wants, where the scale subresource puts them.
    #[must_use]
    pub fn writes_replicas(&self, object: &Object) -> bool {
        self.scale.as_ref().is_some_and(|path| *object.body.at(&path.keys) != Node::Nothing)
    }

    /// A label of the first role's pod template.
    #[must_use]
    pub fn template_label<'o>(&self, object: &'o Object, key: &str) -> Option<&'o str> {
        self.labels(object)?.label(key)
    }

    fn has_version(&self, api_version: &str) -> bool {
        self.api_versions.iter().any(|v| **v == *api_version)
    }
}

/// The API group of `apps/v1`; of `v1` none.
pub(super) fn group(api_version: &str) -> &str {
    api_version.split_once('/').map_or("", |(group, _)| group)
}
