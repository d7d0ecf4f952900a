//! Numbers that stand for names: of groups, keys and clusters. What they stand for, `names.rs` knows.

use serde::{Deserialize, Serialize};

macro_rules! ids {
    ($($(#[$doc:meta])* $id:ident;)+) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[derive(Serialize, Deserialize)]
        pub struct $id(pub u32);

        impl $id {
            /// Place in a table with one row an id.
            #[must_use]
            pub const fn index(self) -> usize {
                self.0 as usize
            }
        }
    )+};
}

ids! {
    /// A group's name, for ever: an account outlives its quota object. 0 is the empty group.
    GroupId;
    /// A normalised key (`limits.cpu`, `limits.cpu.A4`, `cash/limits.cpu`).
    KeyId;
    /// The source of facts: `/clusters/NAME` or `/imports/NAME`.
    ClusterId;
}

impl GroupId {
    /// The empty group: usage that no group is billed for.
    pub const NONE: Self = Self(0);
}
