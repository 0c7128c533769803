//! The published client 0.5.1, driven through standard input and output.

#[path = "../../process.rs"]
mod process;
#[macro_use]
#[path = "../../../src/sdk.rs"]
mod sdk;
#[macro_use]
#[path = "../../../src/mirror.rs"]
mod mirror;
#[path = "../../../src/wire.rs"]
mod wire;

mod v0_5_1 {
    sdk!(ahp, chats);
}

mod reducers {
    mirror!(ahp, chats);
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    match std::env::args().nth(1).as_deref() {
        Some("mirrors") => process::serve_mirrors(reducers::Mirror::default, reducers::Mirror::perform),
        _ => process::serve(v0_5_1::run).await,
    }
}
