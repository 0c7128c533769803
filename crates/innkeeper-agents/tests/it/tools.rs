//! The tools of the model agent, called by a test agent in a real host. The published client confirms and denies.

mod approvals;
mod changing;
mod commands;
mod commenting;
mod confinement;
mod fetching;
mod finding;
mod harness;
mod reading;
