//! The ledger, as far as somebody may see it. Handlers get groups from here only, so that what is hidden cannot be told
//! from what does not exist.

use super::{access::Sees, problem::Problem};
use crate::domain::{
    ledger::Ledger,
    names::{GroupId, Set},
    standing::{Group, Tree},
    time::Timestamp,
};

/// See the head of this file.
pub(super) struct View<'l> {
    ledger: &'l Ledger,
    /// `None`: all of them.
    groups: Option<Set<GroupId>>,
}

impl<'l> View<'l> {
    /// # Errors
    /// A group was named that is not shown.
    pub(super) fn new(ledger: &'l Ledger, sees: &Sees) -> Result<Self, Problem> {
        let mut view = Self { ledger, groups: None };
        if let Some(tops) = &sees.tops {
            view.groups = Some(view.below(tops.iter().map(String::as_str)));
        }
        if let Some(only) = &sees.only {
            // A cluster may let somebody see a group of which nothing was said yet.
            let is_top = sees.tops.iter().any(|tops| tops.iter().any(|top| **top == **only));
            if !is_top && view.known(only).is_none() {
                return Err(Problem::hidden(only));
            }
            view.groups = Some(view.below([&**only]));
        }
        Ok(view)
    }

    /// What of another ledger of the same log somebody may see who is shown these groups.
    pub(super) const fn of(ledger: &'l Ledger, groups: Option<Set<GroupId>>) -> Self {
        Self { ledger, groups }
    }

    /// The groups that are shown; `None`: all of them.
    pub(super) fn shown(&self) -> Option<Set<GroupId>> {
        self.groups.clone()
    }

    fn below<'n>(&self, tops: impl IntoIterator<Item = &'n str>) -> Set<GroupId> {
        let names = self.ledger.names();
        let known = tops.into_iter().filter_map(|top| names.known_group(top));
        known.flat_map(|top| self.subtree(top)).collect()
    }

    /// The ledger; of groups only those count that this view shows.
    pub(super) const fn ledger(&self) -> &'l Ledger {
        self.ledger
    }

    /// Whether a group is shown.
    pub(super) fn shows(&self, group: GroupId) -> bool {
        self.groups.as_ref().is_none_or(|groups| groups.contains(&group))
    }

    /// Whether everything is shown.
    pub(super) const fn is_whole(&self) -> bool {
        self.groups.is_none()
    }

    /// A group by its name.
    pub(super) fn known(&self, name: &str) -> Option<GroupId> {
        self.ledger.names().known_group(name).filter(|group| self.shows(*group))
    }

    /// A group by its name, else the answer that there is none.
    pub(super) fn group(&self, name: &str) -> Result<GroupId, Problem> {
        self.known(name).ok_or_else(|| Problem::no_group(name))
    }

    /// Every group that is shown, in no order.
    pub(super) fn groups(&self) -> impl Iterator<Item = GroupId> {
        self.ledger.names().groups().filter(|group| self.shows(*group))
    }

    /// `group` and everything below it.
    pub(super) fn subtree(&self, group: GroupId) -> Vec<GroupId> {
        self.ledger.book().map_or_else(|| vec![group], |book| book.subtree(group))
    }

    /// A group's name.
    pub(super) fn name(&self, group: GroupId) -> &'l str {
        self.ledger.names().group_name(group)
    }

    /// A page of the tree of what is shown, and whether more follows; see [`Tree::page`].
    pub(super) fn page(
        &self,
        at: Timestamp,
        after: Option<&str>,
        most: usize,
    ) -> Result<(Tree, bool), Problem> {
        let page = Tree::page(self.ledger, at, after, most, |group| self.shows(group));
        let page = page.map_err(|why| Problem::internal(&why))?;
        let unknown = || Problem::not_found("page: the group that it names is not there");
        let (mut tree, more) = page.ok_or_else(unknown)?;
        tree.groups.iter_mut().for_each(|group| self.hide_above(group));
        Ok((tree, more))
    }

    /// One group; see [`Tree::one`].
    pub(super) fn one(&self, at: Timestamp, name: &str) -> Result<Group, Problem> {
        self.group(name)?;
        let one = Tree::one(self.ledger, at, name);
        let mut group = one.ok_or_else(|| Problem::no_group(name))?;
        self.hide_above(&mut group);
        Ok(group)
    }

    fn hide_above(&self, group: &mut Group) {
        group.parent = group.parent.take().filter(|parent| self.known(parent).is_some());
    }
}
