//! The store on failing disks: power cuts, kills, errors and full disks. After each of them everything acknowledged
//! is there, and the content is a prefix of what was appended.
//!
//! `INNKEEPER_POWER_CUTS` sets the number of power cuts; the full count is 500.

mod cuts;
mod digest;
mod failures;
mod opening;
mod run;
mod workload;
