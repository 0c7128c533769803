//! The simulator finds no bug in the host and every bug that is seeded; journals and fuzz corpora.

mod convergence;
mod corpora;
mod journals;
mod mutations;
