//! What a pod holds (resources) and what it is (group and models), each kept once and by number.
//!
//! A million pods share a few hundred combinations of resources and models. A row in the ledger is a few
//! numbers, and the keys that a combination counts under are worked out once.

pub(super) mod state;

use super::{
    amounts::{Amounts, Overflow},
    names::{GroupId, KeyId, Map, Names},
    quantity::Milli,
    quota::pod_demand,
    resources::{Models, Resources, usage_keys},
    table::Table,
    text::Text,
};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Resources, by number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ResourcesId(u32);

/// Models, by number; 0 is none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(super) struct ModelsId(u32);

/// Group and models, by number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct PlacementId(u32);

/// A list of keys, by number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct LayoutId(u32);

/// What resources on models count under which keys, whatever the group.
#[derive(Clone, Debug)]
pub struct Measure {
    /// The list of the keys.
    pub layout: LayoutId,
    /// Keys and milli-units.
    pub usage: Amounts,
    /// The same with what a pod counts for beside its resources: `pods` and `count/pods`.
    pub charge: Arc<Amounts>,
}

/// Group and models.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct Placement {
    group: GroupId,
    models: ModelsId,
}

/// Every combination that the ledger has met.
#[derive(Clone, Debug)]
pub struct Shapes {
    pub(super) resources: Table<Arc<Resources>, 64>,
    resources_ids: Map<Arc<Resources>, ResourcesId>,
    /// Resources met last, by address: decoders hand out the same allocation again and again.
    recent: Vec<Option<(Arc<Resources>, ResourcesId)>>,
    pub(super) models: Table<Models<'static>, 64>,
    models_ids: Map<Models<'static>, ModelsId>,
    /// The models met last: mostly the next ones, too.
    models_met: ModelsId,
    pub(super) placements: Table<Placement, 256>,
    placement_ids: Map<(GroupId, ModelsId), PlacementId>,
    measures: Vec<Measure>,
    /// Of what each measure is: the rest of it follows.
    pub(super) measured: Table<Measured, 256>,
    measure_ids: Map<Measured, u32>,
    layouts: Map<Box<[KeyId]>, LayoutId>,
}

/// Places for resources met last; a power of two.
const RECENT: usize = 256;

/// Which resources on which models.
pub(super) type Measured = (ModelsId, ResourcesId);

impl Default for Shapes {
    fn default() -> Self {
        let mut models = Table::default();
        models.push(Models::default());
        Self {
            resources: Table::default(),
            resources_ids: Map::default(),
            recent: vec![None; RECENT],
            models,
            models_ids: [(Models::default(), ModelsId(0))].into_iter().collect(),
            models_met: ModelsId(0),
            placements: Table::default(),
            placement_ids: Map::default(),
            measures: Vec::new(),
            measured: Table::default(),
            measure_ids: Map::default(),
            layouts: Map::default(),
        }
    }
}

impl Shapes {
    /// The number of `resources`.
    pub fn resources(&mut self, resources: &Arc<Resources>) -> ResourcesId {
        // Allocations are 16 bytes apart at least; neighbours get neighbouring places.
        let place = (Arc::as_ptr(resources) as usize >> 5) % RECENT;
        let recent = self.recent.get(place).and_then(Option::as_ref);
        if let Some((_, id)) = recent.filter(|(known, _)| Arc::ptr_eq(known, resources)) {
            return *id;
        }
        let id = self.resources_anew(resources);
        if let Some(cell) = self.recent.get_mut(place) {
            *cell = Some((Arc::clone(resources), id));
        }
        id
    }

    fn resources_anew(&mut self, resources: &Arc<Resources>) -> ResourcesId {
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
        let models = self.models(models);
        if let Some(id) = self.placement_ids.get(&(group, models)) {
            return *id;
        }
        let id = PlacementId(next(self.placements.len()));
        self.placements.push(Placement { group, models });
        self.placement_ids.insert((group, models), id);
        id
    }

    /// Looks for the placement of what comes next in `group`; see [`super::ledger::ahead`].
    pub(super) fn look(&self, group: GroupId) -> Milli {
        let known = self.placement_ids.get(&(group, self.models_met));
        known.map_or(0, |placement| placement.0.into())
    }

    fn models<'m>(&mut self, models: &Models<'m>) -> ModelsId {
        if models.is_empty() {
            return ModelsId(0);
        }
        if self.models.get(self.models_met.0 as usize) == Some(models) {
            return self.models_met;
        }
        self.models_met = self.models_anew(models);
        self.models_met
    }

    fn models_anew<'m>(&mut self, models: &Models<'m>) -> ModelsId {
        // The table's keys live for ever, so it can be asked for what lives shorter.
        let ids: &Map<Models<'m>, ModelsId> = &self.models_ids;
        if let Some(id) = ids.get(models) {
            return *id;
        }
        let id = ModelsId(next(self.models.len()));
        let owned = models.clone().into_owned();
        self.models.push(owned.clone());
        self.models_ids.insert(owned, id);
        id
    }

    /// The group of a placement.
    #[must_use]
    pub fn group(&self, placement: PlacementId) -> GroupId {
        self.placements.get(placement.0 as usize).map_or(GroupId::NONE, |p| p.group)
    }

    /// The models of a placement.
    #[must_use]
    pub fn models_of(&self, placement: PlacementId) -> Option<&Models<'static>> {
        self.models.get(self.placements.get(placement.0 as usize)?.models.0 as usize)
    }

    /// The resources of this number.
    #[must_use]
    pub fn resources_of(&self, resources: ResourcesId) -> Option<&Arc<Resources>> {
        self.resources.get(resources.0 as usize)
    }

    /// What `resources` at `placement` count for.
    ///
    /// # Errors
    /// [`Overflow`] when the amounts of one key leave 128 bits.
    pub fn measure(
        &mut self,
        names: &mut Names,
        placement: PlacementId,
        resources: ResourcesId,
    ) -> Result<&Measure, Overflow> {
        let models = self.placements.get(placement.0 as usize).map_or(ModelsId(0), |p| p.models);
        let id = match self.measure_ids.get(&(models, resources)) {
            Some(id) => *id,
            None => self.work_out(names, models, resources)?,
        };
        self.measures.get(id as usize).ok_or(Overflow)
    }

    /// What `resources` at `placement` count for, if that was asked before.
    #[must_use]
    pub fn known(&self, placement: PlacementId, resources: ResourcesId) -> Option<&Measure> {
        let models = self.placements.get(placement.0 as usize)?.models;
        self.measures.get(*self.measure_ids.get(&(models, resources))? as usize)
    }

    fn work_out(
        &mut self,
        names: &mut Names,
        models: ModelsId,
        resources: ResourcesId,
    ) -> Result<u32, Overflow> {
        let nothing = (Arc::default(), Models::default());
        let held = self.resources.get(resources.0 as usize).unwrap_or(&nothing.0);
        let on = self.models.get(models.0 as usize).unwrap_or(&nothing.1);
        let mut usage = Amounts::default();
        let mut sum = Ok(());
        usage_keys(held, on, |key, amount| {
            let added = usage.add(names.key(key), amount);
            sum = sum.and(added);
        });
        sum?;
        let charge = pod_demand(held, on, names)?;
        let layout = LayoutId(next(self.layouts.len()));
        let layout =
            *self.layouts.entry(usage.iter().map(|(key, _)| key).collect()).or_insert(layout);
        let id = next(self.measures.len());
        self.measures.push(Measure { layout, usage, charge: Arc::new(charge) });
        if self.measured.len() < self.measures.len() {
            self.measured.push((models, resources));
        }
        self.measure_ids.insert((models, resources), id);
        Ok(id)
    }
}

/// The next number of a table; 2³² entries do not fit in memory.
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
