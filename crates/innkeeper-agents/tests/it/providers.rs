//! Model providers: what is asked, what is understood, and what goes wrong.

mod answers;
mod chunking;
mod connections;
mod errors;
mod requests;
mod support;
mod transcripts;
