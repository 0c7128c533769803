//! Programs of people, run beside the host.

pub(crate) mod environment;
pub(crate) mod group;
pub(crate) mod umask;
