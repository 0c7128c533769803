//! Files of users, reached through opened directories (`cap_std::fs::Dir`).

pub(crate) mod confined;
pub(crate) mod following;
pub(crate) mod making;
pub(crate) mod opening;
pub(crate) mod removing;
pub(crate) mod resolving;
pub(crate) mod unnamed;
#[cfg(feature = "walk")]
pub(crate) mod walking;
