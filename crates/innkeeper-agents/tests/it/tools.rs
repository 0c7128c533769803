//! The tools of the model agent, called by an agent of the test's own in a real host, with the published client to
//! allow and deny.

mod approvals;
mod changing;
mod commands;
mod confinement;
mod fetching;
mod finding;
mod reading;
mod scene;
