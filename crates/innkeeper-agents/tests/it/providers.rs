//! Model providers: requests, answers and failures.

mod answers;
mod chunking;
mod connections;
mod errors;
mod requests;
mod support;
mod transcripts;
