//! Shapes: what a pod holds (resources) and what it is (group and models), each kept once.
//!
//! A million pods share a few thousand shapes. A row in the ledger is three numbers, and the keys that
//! a shape counts under are worked out once.

use super::{
    amounts::{Amounts, Overflow},
    names::{GroupId, KeyId, Map, Names},
    quantity::Milli,
    resources::{Models, Resources, usage_keys},
    text::Text,
};
use std::sync::Arc;

/// Resources, by number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct ResourcesId(u32);

/// Group and models, by number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct PlacementId(u32);

/// Resources at a placement, by number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct ShapeId(u32);

impl ShapeId {
    /// Place in a table with one row a shape.
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// What counts under which keys of which group.
#[derive(Clone, Debug)]
pub struct Shape {
    /// The group.
    pub group: GroupId,
    /// Usage keys and milli-units.
    pub usage: Amounts,
    /// The same with what a pod counts for beside its resources: `pods` and `count/pods`.
    pub charge: Amounts,
}

#[derive(Clone, Debug)]
struct Placement {
    group: GroupId,
    models: Models<'static>,
}

/// Every shape that the ledger has met.
#[derive(Clone, Debug, Default)]
pub struct Shapes {
    resources: Vec<Arc<Resources>>,
    resources_ids: Map<Arc<Resources>, ResourcesId>,
    placements: Vec<Placement>,
    placement_ids: Map<(GroupId, Models<'static>), PlacementId>,
    /// The common case, without models: by group.
    plain: Map<GroupId, PlacementId>,
    shapes: Vec<Shape>,
    shape_ids: Map<(PlacementId, ResourcesId), ShapeId>,
}

/// One pod counts one under `pods` and `count/pods`.
const ONE: Milli = 1000;

impl Shapes {
    /// The number of `resources`.
    pub fn resources(&mut self, resources: &Arc<Resources>) -> ResourcesId {
        if let Some(id) = self.resources_ids.get(resources) {
            return *id;
        }
        let id = ResourcesId(next(self.resources.len()));
        self.resources.push(Arc::clone(resources));
        self.resources_ids.insert(Arc::clone(resources), id);
        id
    }

    /// The number of a group with models.
    pub fn placement(&mut self, group: GroupId, models: &Models<'_>) -> PlacementId {
        if let Some(id) = self.plain.get(&group).filter(|_| models.is_empty()) {
            return *id;
        }
        let models = models.clone().into_owned();
        if let Some(id) = self.placement_ids.get(&(group, models.clone())) {
            return *id;
        }
        let id = PlacementId(next(self.placements.len()));
        if models.is_empty() {
            self.plain.insert(group, id);
        }
        self.placement_ids.insert((group, models.clone()), id);
        self.placements.push(Placement { group, models });
        id
    }

    /// The group of a placement.
    #[must_use]
    pub fn group(&self, placement: PlacementId) -> GroupId {
        self.placements.get(placement.0 as usize).map_or(GroupId::NONE, |p| p.group)
    }

    /// The models of a placement.
    #[must_use]
    pub fn models(&self, placement: PlacementId) -> Option<&Models<'static>> {
        self.placements.get(placement.0 as usize).map(|p| &p.models)
    }

    /// The number of `resources` at `placement`.
    ///
    /// # Errors
    /// [`Overflow`] when the amounts of one key leave 128 bits.
    pub fn shape(
        &mut self,
        names: &mut Names,
        placement: PlacementId,
        resources: ResourcesId,
    ) -> Result<ShapeId, Overflow> {
        if let Some(id) = self.shape_ids.get(&(placement, resources)) {
            return Ok(*id);
        }
        let shape = self.work_out(names, placement, resources)?;
        let id = ShapeId(next(self.shapes.len()));
        self.shapes.push(shape);
        self.shape_ids.insert((placement, resources), id);
        Ok(id)
    }

    fn work_out(
        &self,
        names: &mut Names,
        placement: PlacementId,
        resources: ResourcesId,
    ) -> Result<Shape, Overflow> {
        let nothing = Arc::default();
        let resources = self.resources.get(resources.0 as usize).unwrap_or(&nothing);
        let none = Models::default();
        let models = self.models(placement).unwrap_or(&none);
        let mut usage = Amounts::default();
        let mut sum = Ok(());
        usage_keys(resources, models, |key, amount| {
            let added = usage.add(names.key(key), amount);
            sum = sum.and(added);
        });
        sum?;
        let mut charge = usage.clone();
        charge.add(names.key("pods"), ONE)?;
        charge.add(names.key("count/pods"), ONE)?;
        Ok(Shape { group: self.group(placement), usage, charge })
    }

    /// The shape of `resources` at `placement`, if it was met.
    #[must_use]
    pub fn known(&self, placement: PlacementId, resources: ResourcesId) -> Option<&Shape> {
        self.get(*self.shape_ids.get(&(placement, resources))?)
    }

    /// A shape that was met.
    #[must_use]
    pub fn get(&self, id: ShapeId) -> Option<&Shape> {
        self.shapes.get(id.0 as usize)
    }
}

/// The next number of a table; 2³² shapes do not fit in memory.
fn next(len: usize) -> u32 {
    u32::try_from(len).unwrap_or(u32::MAX)
}

impl Models<'_> {
    /// Whether no model is known.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.cpu.is_none() && self.memory.is_none() && self.gpu.is_none()
    }

    /// The same models, independent of the record's bytes.
    #[must_use]
    pub fn into_owned(self) -> Models<'static> {
        Models {
            cpu: self.cpu.map(Text::into_owned),
            memory: self.memory.map(Text::into_owned),
            gpu: self.gpu.map(Text::into_owned),
        }
    }
}

impl Shape {
    /// Usage keys and milli-units, in order of key.
    pub fn usage(&self) -> impl ExactSizeIterator<Item = (KeyId, Milli)> + '_ {
        self.usage.iter()
    }
}
