//! Combinations as they are written, and read again. What a combination counts for is worked out anew.

use super::{ModelsId, PlacementId, ResourcesId, Shapes};
use crate::domain::{
    amounts::Overflow,
    names::Names,
    quantity::{Format, Milli, Quantity},
    resources::{Models, ResourceList, Resources},
    table::Misplaced,
};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Requests, then limits.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(in crate::domain) struct WrittenResources([Vec<(Box<str>, Milli, Format)>; 2]);

/// Models of cpu, memory and the rest.
pub(in crate::domain) type WrittenModels = [Option<Box<str>>; 3];

impl Shapes {
    pub(in crate::domain) fn written_resources(&self, block: u32) -> Vec<WrittenResources> {
        let list = |list: &ResourceList| {
            list.iter().map(|(name, q)| (name.into(), q.milli(), q.format())).collect()
        };
        let written = |r: &Arc<Resources>| WrittenResources([list(&r.requests), list(&r.limits)]);
        self.resources.block(block).iter().map(written).collect()
    }

    pub(in crate::domain) fn written_models(&self, block: u32) -> Vec<WrittenModels> {
        let written = |models: &Models<'_>| {
            let text = |model: &Option<_>| model.as_deref().map(Into::into);
            [text(&models.cpu), text(&models.memory), text(&models.gpu)]
        };
        self.models.block(block).iter().map(written).collect()
    }

    pub(in crate::domain) fn load_resources(
        &mut self,
        block: u32,
        written: Vec<WrittenResources>,
    ) -> Result<(), Misplaced> {
        let list = |list: &Vec<(Box<str>, Milli, Format)>| {
            list.iter()
                .map(|(name, milli, format)| (&**name, Quantity::from_milli(*milli, *format)))
                .collect()
        };
        let read = |WrittenResources([requests, limits]): &WrittenResources| {
            Arc::new(Resources { requests: list(requests), limits: list(limits) })
        };
        self.resources.load(block, written.iter().map(read).collect())
    }

    pub(in crate::domain) fn load_models(
        &mut self,
        block: u32,
        written: Vec<WrittenModels>,
    ) -> Result<(), Misplaced> {
        let read = |[cpu, memory, gpu]: WrittenModels| {
            let text = |model: Option<Box<str>>| model.map(|m| String::from(m).into());
            Models { cpu: text(cpu), memory: text(memory), gpu: text(gpu) }
        };
        self.models.load(block, written.into_iter().map(read).collect())
    }

    /// Finds everything by its number and by itself again, and works out what combinations count for, in the order
    /// in which they were met.
    pub(in crate::domain) fn resume(&mut self, names: &mut Names) -> Result<(), Overflow> {
        for (id, resources) in (0..).zip(self.resources.as_slice()) {
            self.resources_ids.insert(Arc::clone(resources), ResourcesId(id));
        }
        for (id, models) in (0..).zip(self.models.as_slice()) {
            self.models_ids.insert(models.clone(), ModelsId(id));
        }
        for (id, placement) in (0..).zip(self.placements.as_slice()) {
            self.placement_ids.insert((placement.group, placement.models), PlacementId(id));
        }
        for (models, resources) in self.measured.as_slice().to_vec() {
            self.work_out(names, models, resources)?;
        }
        Ok(())
    }
}
