//! Questions to the meter: usage at an instant, of one pod, before an account was opened.
//!
//! Sums answer for instants not before the newest boundary; for anything earlier the rows of pods are
//! counted again, cut off at that instant.

use super::{Meter, Sums, Window, sums_of};
use crate::domain::{
    amounts::{Overflow, product},
    book::{Course, Pace, Piece, Spend},
    event::Period,
    history::{Unit, splits::Splits},
    names::{GroupId, KeyId, ObjectId},
    pod::{Pod, Segment},
    quantity::Milli,
    quota::Known,
    shapes::Measure,
    sums::{Line, Step},
    time::{HOUR_MS, ORIGIN, Timestamp},
};
use std::{borrow::Cow, collections::BTreeSet};

/// Why the meter cannot answer for an instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unanswerable {
    /// Pods that ended later were forgotten.
    #[error(
        "pods that ended up to {until} were forgotten; replay the log with --at to see an earlier instant"
    )]
    Forgotten {
        /// The last instant of any forgotten pod.
        until: Timestamp,
    },
    /// A sum left 128 bits.
    #[error(transparent)]
    Overflow(#[from] Overflow),
}

/// What the last record about a pod changed: each of these before and after it.
#[derive(Clone, Copy, Debug)]
pub struct Stepped<'m> {
    /// The pod's workload.
    pub workloads: [ObjectId; 2],
    /// All its segments inside the window.
    pub segments: [&'m [Segment]; 2],
}

impl Meter {
    /// What the last record about a pod changed, if it said something new. Whoever adds up what comes and takes
    /// away what goes has the meter's own sums, by whatever he likes.
    #[must_use]
    pub fn stepped(&self) -> Option<Stepped<'_>> {
        let [gone, come] = &self.segments;
        self.stepped.map(|workloads| Stepped { workloads, segments: [gone, come] })
    }

    /// The groups whose usage the last record about a pod changed.
    #[must_use]
    pub fn stepped_groups(&self) -> BTreeSet<GroupId> {
        let [gone, come] = self.stepped().map(|step| step.segments).unwrap_or_default();
        let group = |segment: &Segment| self.shapes.group(segment.placement);
        if gone == come { BTreeSet::new() } else { gone.iter().chain(come).map(group).collect() }
    }

    /// The resource names that any pod has had, which tell a key from its model.
    #[must_use]
    pub fn known_resources(&self) -> Known {
        let mut known = Known::default();
        for resources in self.shapes.resources.as_slice() {
            let names = resources.requests.iter().chain(resources.limits.iter());
            names.for_each(|(name, _)| known.learn(name));
        }
        known
    }

    /// Usage of every group under every key that was used, up to `at`, by the best knowledge now.
    ///
    /// # Errors
    /// [`Unanswerable`].
    pub fn usage(&self, at: Timestamp) -> Result<Vec<(GroupId, Line)>, Unanswerable> {
        let mut lines = Vec::new();
        for (i, sums) in self.sums_at(at)?.iter().enumerate() {
            let group = GroupId(u32::try_from(i).unwrap_or(u32::MAX));
            for line in sums.lines(self.clamped(at)) {
                let line = line?;
                if line.exact != 0 || line.running != 0 || line.uncertain != 0 {
                    lines.push((group, line));
                }
            }
        }
        Ok(lines)
    }

    /// The newest instant at which anything began or ended.
    #[must_use]
    pub fn newest(&self) -> Option<Timestamp> {
        self.newest
    }

    /// Sums of a group as they stand, `None` where nothing was ever used.
    #[must_use]
    pub fn sums(&self, group: GroupId) -> Option<&Sums> {
        self.groups.get(group.index())
    }

    /// The segments of one pod that is remembered, inside the window, with their groups and shapes.
    pub fn segments_of<'m>(
        &'m self,
        id: ObjectId,
        mut each: impl FnMut(GroupId, &'m Measure, Segment),
    ) {
        let Some(pod) = self.pod(id) else { return };
        pod.segments(self.basis, |segment| {
            let measure = self.shapes.known(segment.placement, segment.held);
            if let (Some(cut), Some(measure)) = (self.window.cut(segment), measure) {
                each(self.shapes.group(segment.placement), measure, cut);
            }
        });
    }

    /// Every pod that is remembered, with its segments up to `at` and their shapes.
    pub fn each_segment<'m>(
        &'m self,
        at: Timestamp,
        mut each: impl FnMut(&'m Pod, GroupId, &'m Measure, Segment),
    ) {
        let window = Window { to: Some(self.clamped(at)), ..self.window };
        for (_, pod) in self.pods.iter() {
            pod.segments(self.basis, |segment| {
                let measure = self.shapes.known(segment.placement, segment.held);
                if let (Some(cut), Some(measure)) = (window.cut(segment), measure) {
                    each(pod, self.shapes.group(segment.placement), measure, cut);
                }
            });
        }
    }

    /// A pod that is remembered.
    #[must_use]
    pub fn pod(&self, id: ObjectId) -> Option<&Pod> {
        self.pods.get(*self.index.get(&id)?)
    }

    /// Every group that a pod was ever in, as far as it is remembered.
    #[must_use]
    pub fn groups_of(&self, id: ObjectId) -> BTreeSet<GroupId> {
        let placements = self.pod(id).into_iter().flat_map(Pod::placements);
        placements.map(|placement| self.shapes.group(placement)).collect()
    }

    /// Every pod that is remembered, ended ones included, in no order.
    pub fn pods(&self) -> impl Iterator<Item = &Pod> {
        self.pods.iter().map(|(_, pod)| pod)
    }

    /// The last instant of any pod that was forgotten; `None` while every pod is remembered.
    #[must_use]
    pub const fn forgotten_until(&self) -> Option<Timestamp> {
        self.forgotten_until
    }

    /// How many pods are remembered, ended ones included.
    #[must_use]
    pub fn remembered(&self) -> usize {
        self.index.len()
    }

    /// The instant of the window that is nearest to `at`: before the window nothing was used, and nothing is given back.
    fn clamped(&self, at: Timestamp) -> Timestamp {
        let at = self.window.from.map_or(at, |from| from.max(at));
        self.window.to.map_or(at, |to| to.min(at))
    }

    /// Every group's sums as of `at`.
    fn sums_at(&self, at: Timestamp) -> Result<Cow<'_, [Sums]>, Unanswerable> {
        if self.newest.is_none_or(|newest| newest <= self.clamped(at)) {
            return Ok(Cow::Borrowed(self.groups.as_slice()));
        }
        self.recount(at).map(Cow::Owned)
    }

    /// Counts the rows again, up to `at`.
    fn recount(&self, at: Timestamp) -> Result<Vec<Sums>, Unanswerable> {
        if let Some(until) = self.forgotten_until.filter(|until| at < *until) {
            return Err(Unanswerable::Forgotten { until });
        }
        let mut groups: Vec<Sums> = self.groups.as_slice().iter().map(Sums::emptied).collect();
        // Nothing is kept by the hour here.
        let (mut splits, mut slots) = (Splits::default(), Vec::new());
        let mut result = Ok(());
        self.each_segment(at, |_, group, measure, segment| {
            if let (Ok(()), Some(sums)) = (result, groups.get_mut(group.index())) {
                let step = Step { gone: None, come: Some(&segment) };
                result = sums.apply(step, measure, &mut splits, &mut slots);
            }
        });
        result?;
        for (sums, settled) in groups.iter_mut().zip(self.settled.as_slice()) {
            sums.absorb(settled)?;
        }
        for adjusted in self.adjusted.as_slice().iter().filter(|a| a.at < at) {
            if let Some(sums) = groups.get_mut(adjusted.group.index()) {
                let slot = sums.slot(adjusted.key);
                sums.adjust(&mut splits, slot, adjusted.at, adjusted.exact)?;
            }
        }
        Ok(groups)
    }

    /// Opens a group's account: budgets count from `opened`, but not from before the end of any pod that was
    /// forgotten (a declaration that comes that late opens its account there).
    ///
    /// # Errors
    /// [`Unanswerable`]; nothing is changed.
    pub fn open_account(&mut self, group: GroupId, opened: Timestamp) -> Result<(), Unanswerable> {
        let opened = self.forgotten_until.map_or(opened, |until| opened.max(until));
        let before = self.sums_at(opened)?.get(group.index()).cloned().unwrap_or_default();
        if let Some(sums) = sums_of(&mut self.groups, group, self.history) {
            sums.open_account(opened, &before)?;
            self.changed.push((group, opened));
        }
        Ok(())
    }

    /// Usage of a group under `key` inside the calendar period of `unit` that begins at `begin` (UTC), from the
    /// hourly differences; `None` where they are not kept.
    ///
    /// # Errors
    /// [`Overflow`].
    pub fn within(
        &self,
        group: GroupId,
        key: KeyId,
        unit: Unit,
        begin: Timestamp,
    ) -> Result<Option<i128>, Overflow> {
        let Some(sums) = self.groups.get(group.index()) else { return Ok(None) };
        let Some(history) = sums.history() else { return Ok(None) };
        let Some(slot) = sums.known_slot(key) else { return Ok(Some(0)) };
        history.within(unit, slot, begin).map(Some)
    }

    /// Own spend of a group under `key` since its account was opened, up to `at`, past or future.
    ///
    /// # Errors
    /// [`Unanswerable`].
    pub fn spent(&self, group: GroupId, key: KeyId, at: Timestamp) -> Result<i128, Unanswerable> {
        let Some(sums) = self.groups.get(group.index()) else { return Ok(0) };
        let Some(slot) = sums.known_slot(key) else { return Ok(0) };
        let Some(opened) = sums.opened().filter(|opened| *opened <= at) else { return Ok(0) };
        let used = self.used(sums, group, slot, at.max(opened))?;
        used.checked_sub(sums.before(slot)).ok_or(Unanswerable::Overflow(Overflow))
    }

    /// Spend that counts from the beginning of what is metered, whatever accounts say.
    #[must_use]
    pub fn from_the_beginning(&self) -> FromTheBeginning<'_> {
        FromTheBeginning(self)
    }

    /// Usage of `key` inside the hour that begins at `hour`, from `opened` of each group on.
    fn course_of(
        &self,
        key: KeyId,
        hour: Timestamp,
        opened: impl Fn(GroupId) -> Option<Timestamp>,
    ) -> Course {
        let end = hour.shifted(HOUR_MS);
        let mut course = Course::default();
        self.each_segment(end, |_, group, measure, segment| {
            let Some(opened) = opened(group) else { return };
            let from = segment.from.max(hour).max(opened);
            let to = segment.to.map_or(end, |to| to.min(end));
            let amount = measure.usage.get(key);
            if from < to && amount != 0 {
                course.add(group, Piece { from, to, amount });
            }
        });
        for adjusted in self.adjusted.as_slice().iter().filter(|a| a.key == key) {
            let at = adjusted.at;
            let counts = opened(adjusted.group).is_some_and(|opened| opened <= at);
            if counts && hour <= at && at < end {
                course.add(adjusted.group, Piece { from: at, to: at, amount: adjusted.exact });
            }
        }
        course
    }

    fn used(
        &self,
        sums: &Sums,
        group: GroupId,
        slot: usize,
        at: Timestamp,
    ) -> Result<i128, Unanswerable> {
        let is_kept = self.splits.is_kept(at);
        if let (Some(false), Some(until)) = (is_kept, self.forgotten_until) {
            // Also while it could still be told: the answer must not change with what is forgotten later.
            return Err(Unanswerable::Forgotten { until });
        }
        if self.newest.is_none_or(|newest| newest <= at) {
            return Ok(sums.usage(slot, at)?);
        }
        let Some(history) = sums.history() else {
            let again = self.recount(at)?;
            return Ok(again.get(group.index()).map_or(Ok(0), |sums| sums.usage(slot, at))?);
        };
        if is_kept == Some(true) {
            return Ok(history.usage_by_part(slot, at)?);
        }
        let hour = Unit::Hour.begin_of(at);
        let before = history.usage(slot, hour)?.unwrap_or_default();
        if hour == at {
            return Ok(before);
        }
        let inside = self.inside(group, slot, Period { from: hour, to: at })?;
        before.checked_add(inside).ok_or(Unanswerable::Overflow(Overflow))
    }

    /// Usage inside a part of one hour, from the rows.
    fn inside(&self, group: GroupId, slot: usize, part: Period) -> Result<i128, Unanswerable> {
        if let Some(until) = self.forgotten_until.filter(|until| part.from < *until) {
            return Err(Unanswerable::Forgotten { until });
        }
        let key = self.groups.get(group.index()).and_then(|sums| sums.key(slot));
        let mut sum = Some(0_i128);
        self.each_segment(part.to, |_, of, measure, segment| {
            if of == group {
                let from = segment.from.max(part.from);
                let to = segment.to.unwrap_or(part.to).min(part.to);
                let amount = key.map_or(0, |key| measure.usage.get(key));
                sum = product(amount, to.since(from).max(0)).and_then(|a| sum?.checked_add(a));
            }
        });
        let adjusted =
            self.adjusted.as_slice().iter().filter(|a| a.group == group && Some(a.key) == key);
        for a in adjusted.filter(|a| part.from <= a.at && a.at < part.to) {
            sum = sum.and_then(|s| s.checked_add(a.exact));
        }
        sum.ok_or(Unanswerable::Overflow(Overflow))
    }

    /// Milli-units of a group that run under `key`.
    #[must_use]
    pub fn rate(&self, group: GroupId, key: KeyId) -> Milli {
        let sums = self.groups.get(group.index());
        sums.and_then(|s| Some(s.running(s.known_slot(key)?))).unwrap_or(0)
    }
}

/// Where the meter cannot answer exactly (pods that ended within that hour were forgotten, or 128 bits are left),
/// the spend of the whole hour, or the largest there is: never too little.
fn at_least(spent: impl Fn(Timestamp) -> Result<i128, Unanswerable>, at: Timestamp) -> i128 {
    spent(at).or_else(|_| spent(Unit::Hour.end_of(at))).unwrap_or(i128::MAX)
}

impl Spend for Meter {
    fn spent(&self, group: GroupId, key: KeyId, at: Timestamp) -> i128 {
        at_least(|at| Self::spent(self, group, key, at), at)
    }

    fn pace(&self, group: GroupId, key: KeyId) -> Option<Pace> {
        let from = self.newest.unwrap_or(Timestamp::MIN);
        let still = Pace { from, ..Pace::default() };
        let Some(sums) = self.groups.get(group.index()) else { return Some(still) };
        let Some(opened) = sums.opened() else { return Some(still) };
        let Some(slot) = sums.known_slot(key) else { return Some(still) };
        let base = sums.usage(slot, ORIGIN).ok()?.checked_sub(sums.before(slot))?;
        Some(Pace { base, rate: sums.running(slot), from: from.max(opened) })
    }

    fn has_spent(&self, group: GroupId, at: Timestamp) -> bool {
        let Some(sums) = self.groups.get(group.index()).filter(|s| s.opened().is_some()) else {
            return false;
        };
        sums.keys().any(|key| self.rate(group, key) != 0 || Spend::spent(self, group, key, at) != 0)
    }

    fn course(&self, key: KeyId, hour: Timestamp) -> Option<Course> {
        let opened = |group: GroupId| self.groups.get(group.index()).and_then(Sums::opened);
        Some(self.course_of(key, hour, opened))
    }

    fn is_remembered(&self, hour: Timestamp) -> bool {
        self.forgotten_until.is_none_or(|until| hour >= until)
    }
}

/// The meter's usage as spend: budgets that nobody declared when the history was made count all of it.
#[derive(Clone, Copy, Debug)]
pub struct FromTheBeginning<'m>(&'m Meter);

impl Spend for FromTheBeginning<'_> {
    fn spent(&self, group: GroupId, key: KeyId, at: Timestamp) -> i128 {
        let Some(sums) = self.0.groups.get(group.index()) else { return 0 };
        let Some(slot) = sums.known_slot(key) else { return 0 };
        at_least(|at| self.0.used(sums, group, slot, at), at)
    }

    fn has_spent(&self, group: GroupId, at: Timestamp) -> bool {
        let Some(sums) = self.0.groups.get(group.index()) else { return false };
        sums.keys().any(|key| self.0.rate(group, key) != 0 || self.spent(group, key, at) != 0)
    }

    fn course(&self, key: KeyId, hour: Timestamp) -> Option<Course> {
        Some(self.0.course_of(key, hour, |_| Some(Timestamp::MIN)))
    }

    fn is_remembered(&self, hour: Timestamp) -> bool {
        self.0.is_remembered(hour)
    }
}
