//! Programs of users, run beside the host.

pub(crate) mod environment;
pub(crate) mod group;
pub(crate) mod umask;
