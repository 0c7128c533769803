//! Drives the built program from outside: its output, its files, its exit codes.

mod clients;
mod startup;
mod stopping;
mod support;
