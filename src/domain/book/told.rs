//! What the book knows already of workloads and quota objects.

use super::Book;
use super::version::Version;
use crate::domain::names::{ClusterId, GroupId, ObjectId, Uid};

impl Book {
    /// Whether this version of a workload, a newer one, or its end was told.
    #[must_use]
    pub fn is_observed(&self, workload: ObjectId, resource_version: &str) -> bool {
        let Ok(version) = Version::parse(resource_version, 0) else { return false };
        let work = self.works.slots.get(&workload).and_then(|slot| self.works.row(*slot));
        let newest = work.and_then(|work| work.observed.as_ref()).map(|seen| seen.version);
        newest.is_some_and(|newest| version <= newest) || self.is_gone(workload)
    }

    /// Whether the end of a workload was told.
    #[must_use]
    pub fn is_gone(&self, workload: ObjectId) -> bool {
        self.ended.contains(workload)
    }

    /// The workloads of a cluster that were observed and are not gone, in no order.
    pub fn observed(&self, cluster: ClusterId) -> impl Iterator<Item = ObjectId> + '_ {
        let works = self.works.rows.iter().map(|(_, work)| work);
        let here = works.filter(move |work| work.object.cluster == cluster);
        here.filter(|work| work.observed.is_some()).map(|work| work.object)
    }

    /// Whether this version of a group's quota object, or a newer one, was told.
    #[must_use]
    pub fn is_declared(&self, group: GroupId, resource_version: &str) -> bool {
        let Ok(version) = Version::parse(resource_version, 0) else { return false };
        self.newest(group).is_some_and(|newest| version <= newest)
    }

    /// Whether the end of a quota object was told.
    #[must_use]
    pub fn is_removed(&self, object: Uid) -> bool {
        self.gone_quotas.contains(&object)
    }

    /// The quota objects that are there, in force or not, and their groups.
    pub fn quota_objects(&self) -> impl Iterator<Item = (GroupId, Uid)> + '_ {
        self.accounts().flat_map(|group| {
            let declared = self.declaration(group).map(|declared| declared.uid);
            let invalid = self.invalid(group).map(|invalid| invalid.object.uid);
            declared.into_iter().chain(invalid).map(move |uid| (group, uid))
        })
    }
}
