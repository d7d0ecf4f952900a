//! Records, and parts of them, that outlive the bytes they were read from, or borrow from another.

use super::{Admission, ObjectRef, PodResize, QuotaProposed, QuotaSpec, Role};
use crate::domain::text::Text;

impl ObjectRef<'_> {
    /// The same, borrowed from this.
    #[must_use]
    pub fn borrowed(&self) -> ObjectRef<'_> {
        ObjectRef {
            api_version: self.api_version.borrowed(),
            kind: self.kind.borrowed(),
            namespace: self.namespace.as_ref().map(Text::borrowed),
            name: self.name.borrowed(),
            uid: self.uid.borrowed(),
        }
    }

    /// The same, independent of the record's bytes.
    #[must_use]
    pub fn into_owned(self) -> ObjectRef<'static> {
        ObjectRef {
            api_version: self.api_version.into_owned(),
            kind: self.kind.into_owned(),
            namespace: self.namespace.map(Text::into_owned),
            name: self.name.into_owned(),
            uid: self.uid.into_owned(),
        }
    }
}

impl Role<'_> {
    /// The same, independent of the record's bytes.
    #[must_use]
    pub fn into_owned(self) -> Role<'static> {
        let Role { name, count, peak, models, pod } = self;
        Role { name: name.into_owned(), count, peak, models: models.into_owned(), pod }
    }
}

impl PodResize<'_> {
    /// The same, independent of the record's bytes.
    #[must_use]
    pub fn into_owned(self) -> PodResize<'static> {
        let Self { uid, models, from, to } = self;
        PodResize { uid: uid.into_owned(), models: models.into_owned(), from, to }
    }
}

impl Admission<'_> {
    /// The same, independent of the record's bytes.
    #[must_use]
    pub fn into_owned(self) -> Admission<'static> {
        let owned = |roles: Vec<Role<'_>>| roles.into_iter().map(Role::into_owned).collect();
        Admission {
            request: self.request.into_owned(),
            cluster: self.cluster.into_owned(),
            operation: self.operation,
            workload: self.workload.into_owned(),
            old_resource_version: self.old_resource_version.map(Text::into_owned),
            group: self.group.into_owned(),
            roles: owned(self.roles),
            old_roles: self.old_roles.map(owned),
            resize: self.resize.map(PodResize::into_owned),
            reserved_until: self.reserved_until,
        }
    }
}

impl QuotaSpec<'_> {
    /// The same, independent of the record's bytes.
    #[must_use]
    pub fn into_owned(self) -> QuotaSpec<'static> {
        let Self { parent, hard, charge, models, notify_cash, notify_consumed, cash_period } = self;
        let hard = hard.into_iter().map(|(key, amount)| (key.into_owned(), amount)).collect();
        QuotaSpec {
            parent: parent.into_owned(),
            hard,
            charge,
            models,
            notify_cash,
            notify_consumed,
            cash_period,
        }
    }
}

impl QuotaProposed<'_> {
    /// The same, independent of the record's bytes.
    #[must_use]
    pub fn into_owned(self) -> QuotaProposed<'static> {
        QuotaProposed {
            seen: self.seen,
            operation: self.operation,
            uid: self.uid.into_owned(),
            old_resource_version: self.old_resource_version.map(Text::into_owned),
            spec: self.spec.map(QuotaSpec::into_owned),
            request: self.request.map(Text::into_owned),
        }
    }
}
