//! The published client 0.5.0, driven through standard input and output.

#[path = "../../process.rs"]
mod process;
#[macro_use]
#[path = "../../../src/sdk.rs"]
mod sdk;
#[path = "../../../src/wire.rs"]
mod wire;

mod v0_5_0 {
    sdk!(ahp, chats);
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    process::serve(v0_5_0::run).await;
}
