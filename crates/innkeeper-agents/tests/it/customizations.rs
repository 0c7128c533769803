//! How the model agent uses customizations. The tests run an embedded host with a scripted model server, the
//! published client and real files. Discovery is replaced by a test double.

mod harness;
mod roles;
mod rules;
mod shown;
mod skills;
