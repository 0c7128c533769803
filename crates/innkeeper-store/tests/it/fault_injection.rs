//! The store on disks that fail: power cuts, kills, errors and full disks. After each of them all
//! that was acknowledged is there, and what is there is a prefix of what was appended.
//!
//! `INNKEEPER_POWER_CUTS` says how many power cuts to try; the full count is 500.

mod cuts;
mod digest;
mod failures;
mod opening;
mod run;
mod workload;
