//! The log of actions: the one way state changes, the numbers it gives out, and the replay window.

pub(crate) mod commit;
pub(crate) mod gaps;
pub(crate) mod replay;
