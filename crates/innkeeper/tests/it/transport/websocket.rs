//! The WebSocket protocol below the messages: frames and bytes.

use innkeeper_testkit::process::TIMEOUT;
use innkeeper_testkit::raw::{Address, RawClient, UPGRADE};
use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::Message;

use crate::{start, start_with_client};

const PING: &[u8] = br#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
const PONG: &[u8] = br#"{"jsonrpc":"2.0","id":1,"result":null}"#;

/// The request for the upgrade, with the token.
fn upgrade(address: &Address) -> Vec<u8> {
    let request = format!(
        "GET /?tkn={} HTTP/1.1\r\nhost: {}\r\n{}\r\n\r\n",
        address.token.as_deref().expect("a token"),
        address.authority(),
        UPGRADE.join("\r\n")
    );
    request.into_bytes()
}

/// A short frame of a client; its mask is all zeros, which is a mask like any other.
fn frame(first: u8, payload: &[u8]) -> Vec<u8> {
    let len = u8::try_from(payload.len()).expect("a short frame");
    assert!(len < 126);
    [&[first, 0x80 | len, 0, 0, 0, 0], payload].concat()
}

/// Sends bytes and reads until the host has sent the wanted ones or hangs up.
async fn exchange(stream: &mut TcpStream, bytes: &[u8], wanted: &[u8]) -> Vec<u8> {
    stream.write_all(bytes).await.expect("the host takes the bytes");
    let mut received = Vec::new();
    let reading = async {
        while !received.windows(wanted.len()).any(|window| window == wanted) {
            match stream.read_buf(&mut received).await {
                Ok(0) | Err(_) => break,
                Ok(_) => {}
            }
        }
    };
    tokio::time::timeout(TIMEOUT, reading).await.expect("an answer in time");
    received
}

fn ends_with(received: &[u8], wanted: &[u8]) -> bool {
    received.ends_with(wanted)
}

#[tokio::test]
async fn a_message_in_the_same_packet_as_the_upgrade_is_not_lost() {
    let host = start().await;
    let mut stream = TcpStream::connect(host.address().authority()).await.expect("connected");
    let bytes = [upgrade(host.address()), frame(0x81, PING)].concat();
    let received = exchange(&mut stream, &bytes, PONG).await;
    let head = String::from_utf8_lossy(&received);
    assert!(head.starts_with("HTTP/1.1 101 "), "{head}");
    assert!(
        head.contains("s3pPLMBiTxaQ9kYGzzhZRbK+xOo="),
        "the key is answered: {head}"
    );
    assert!(ends_with(&received, PONG), "{head}");
    // Byte by byte is fine as well.
    for byte in frame(0x81, PING) {
        stream.write_all(&[byte]).await.expect("sent");
    }
    assert!(ends_with(&exchange(&mut stream, &[], PONG).await, PONG));
}

#[tokio::test]
async fn p_13_frames_that_break_the_rules_end_their_own_connection_with_1002() {
    let (host, witness) = start_with_client().await;
    let mut broken = vec![
        (
            "not masked",
            [&[0x81, u8::try_from(PING.len()).expect("short")], PING].concat(),
        ),
        ("a reserved opcode", frame(0x83, PING)),
        ("a reserved bit", frame(0xc1, PING)),
        ("a continuation of nothing", frame(0x80, PING)),
        ("a fragmented ping", frame(0x09, b"")),
    ];
    broken.push((
        "a new message inside another",
        [frame(0x01, b"{"), frame(0x81, PING)].concat(),
    ));
    for (what, bytes) in broken {
        let mut stream = TcpStream::connect(host.address().authority()).await.expect("connected");
        let start = exchange(&mut stream, &upgrade(host.address()), b"\r\n\r\n").await;
        assert!(start.starts_with(b"HTTP/1.1 101 "), "{what}");
        let received = exchange(&mut stream, &bytes, b"never").await;
        assert_eq!(received.first(), Some(&0x88), "{what}: a close frame: {received:?}");
        assert_eq!(received.get(2..4), Some(&1002_u16.to_be_bytes()[..]), "{what}");
    }
    witness.client().ping().await.expect("unaffected");
    witness.assert_converged().await;
}

#[tokio::test]
async fn t_18_a_flood_of_pings_costs_nothing_but_their_answers() {
    let (host, witness) = start_with_client().await;
    let mut raw = RawClient::initialized(host.address(), "flooding").await;
    for _ in 0..3000 {
        raw.send_frame(Message::Ping(Vec::new().into())).await;
    }
    raw.still_works().await;
    assert_eq!(raw.notifications, Vec::<Value>::new());
    witness.client().ping().await.expect("unaffected");
    witness.assert_converged().await;
}

#[tokio::test]
async fn rfc_6455_pings_are_answered_with_their_own_payload() {
    let host = start().await;
    let mut stream = TcpStream::connect(host.address().authority()).await.expect("connected");
    exchange(&mut stream, &upgrade(host.address()), b"\r\n\r\n").await;
    let expected = [&[0x8a, 5], b"hello".as_slice()].concat();
    let received = exchange(&mut stream, &frame(0x89, b"hello"), &expected).await;
    assert_eq!(received, expected);
    // Also between the fragments of a message.
    let (one, two) = PING.split_at(10);
    let bytes = [frame(0x01, one), frame(0x89, b"hello"), frame(0x80, two)].concat();
    let received = exchange(&mut stream, &bytes, PONG).await;
    assert!(received.starts_with(&expected), "{received:?}");
    // A close is answered with a close.
    let received = exchange(&mut stream, &frame(0x88, &1000_u16.to_be_bytes()), b"never").await;
    assert_eq!(received.first(), Some(&0x88), "{received:?}");
    assert_eq!(received.get(2..4), Some(&1000_u16.to_be_bytes()[..]));
}
