//! Parts of every report: the machine and the statistics.

pub(crate) mod machine;
pub(crate) mod stats;
