//! Files of people, reached through opened directories (`cap_std::fs::Dir`).

pub(crate) mod making;
pub(crate) mod opening;
pub(crate) mod removing;
pub(crate) mod resolving;
pub(crate) mod unnamed;
