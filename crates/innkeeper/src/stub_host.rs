//! Temporary.
#![allow(warnings)]
use std::net::SocketAddr;
use std::time::Duration;
pub struct Host;
#[derive(Clone)]
pub struct HostHandle;
#[derive(Default)]
pub struct Limits;
pub struct TourAgent;
impl TourAgent {
    pub fn new() -> Self {
        Self
    }
}
pub struct B;
impl Host {
    pub fn builder() -> B {
        B
    }
    pub fn handle(&self) -> HostHandle {
        HostHandle
    }
    pub async fn shutdown(self, d: Duration) {}
}
impl B {
    pub fn agent(self, a: TourAgent) -> Self {
        self
    }
    pub fn limits(self, l: Limits) -> Self {
        self
    }
    pub fn server_info(self, a: &str, b: &str) -> Self {
        self
    }
    pub async fn start(self) -> Result<Host, std::io::Error> {
        Ok(Host)
    }
}
pub struct Principal;
impl Principal {
    pub fn stdio() -> Self {
        Self
    }
}
pub enum Scope {
    Admin,
}
pub struct Token;
impl Token {
    pub fn parse(t: &str) -> Result<Self, std::io::Error> {
        Ok(Self)
    }
}
pub struct Access;
impl Access {
    pub fn new(a: SocketAddr) -> Self {
        Self
    }
    pub fn allow_token(self, t: Token, n: &str, s: Scope) -> Self {
        self
    }
    pub fn allow_origin(self, o: &str) -> Result<Self, std::io::Error> {
        Ok(self)
    }
}
pub mod http {
    use super::*;
    pub struct Server;
    impl Server {
        pub async fn stop(self) {}
    }
    pub fn serve_tcp(h: HostHandle, l: tokio::net::TcpListener, a: Access) -> Server {
        std::mem::forget(l);
        Server
    }
    pub fn serve_unix(h: HostHandle, l: tokio::net::UnixListener, a: Access) -> Server {
        std::mem::forget(l);
        Server
    }
}
pub mod stdio {
    use super::*;
    pub async fn serve(h: HostHandle, mut i: tokio::io::Stdin, o: tokio::io::Stdout, p: Principal) {
        use tokio::io::AsyncReadExt as _;
        let mut b = [0; 100];
        while let Ok(n) = i.read(&mut b).await {
            if n == 0 {
                break;
            }
        }
    }
}
