//! JSON-RPC: framing, bounds on the shape of messages, and the table of all methods.

mod framing;
mod json_shape;
pub mod methods;

pub use framing::{Message, Rejected, parse};
pub use json_shape::Shape;
