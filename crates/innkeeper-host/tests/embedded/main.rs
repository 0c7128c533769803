//! Hosts inside the test's own process, for what needs an agent, a journal or a handle of the test's own. Clients still
//! come over a socket and are the published ones.

mod agents;
mod client_tools;
mod customized;
mod durable;
mod earlier;
mod giving_up;
mod helpers;
mod hooks;
mod imports;
mod journals;
mod keys;
mod look_ups;
mod mcp;
mod memory;
mod people;
mod prompts;
mod reverse_requests;
mod scripted;
mod slow_sessions;
mod telemetry;
mod tools;
mod tour;

use innkeeper_host::{Access, Host, HostBuilder, HostHandle, http};
use innkeeper_testkit::raw::Address;

/// A host that listens on a free port.
struct Running {
    host: Host,
    address: Address,
    _server: http::Server,
}

impl Running {
    async fn start(builder: HostBuilder) -> Self {
        let host = builder.start().await.expect("the host starts");
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let bound = listener.local_addr().expect("an address");
        let server = http::serve_tcp(host.handle(), listener, Access::new(bound));
        let address = Address {
            url: format!("ws://{bound}"),
            token: None,
        };
        Self {
            host,
            address,
            _server: server,
        }
    }

    fn handle(&self) -> HostHandle {
        self.host.handle()
    }
}
