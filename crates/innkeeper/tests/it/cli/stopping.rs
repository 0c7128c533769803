//! Stopping the host: in order, in time, and at once on a second signal.

use std::time::Duration;

use rustix::process::Signal;

use super::support::Home;

#[test]
fn both_signals_end_an_idle_host_with_success() {
    for signal in [Signal::INT, Signal::TERM] {
        let home = Home::new();
        let host = home.host(&[]);
        host.program.signal(signal);
        let ended = host.program.wait().code(0);
        assert!(ended.took < Duration::from_secs(10));
        assert!(!home.data("endpoint.json").exists());
    }
}

#[test]
fn running_turns_do_not_hold_the_host_up() {
    let home = Home::new();
    let host = home.host(&[]);
    let client = home.spawn(&["send", "--json", "/slow 60"]);
    while !client.line().contains("chat/turnStarted") {}
    let ended = host.stop().code(0);
    assert!(ended.took < Duration::from_secs(10));
    // The client either saw its turn cancelled or the connection closed.
    let client = client.wait();
    assert!(matches!(client.status.code(), Some(4 | 69)), "{client:?}");
}

#[test]
fn watcher_hears_that_the_host_went_away() {
    let home = Home::new();
    let host = home.host(&[]);
    let watcher = home.spawn(&["watch", "ahp-root://", "--json"]);
    watcher.line();
    host.stop().code(0);
    watcher.wait().code(69).says("the connection to the host ended");
}

#[test]
fn second_signal_does_not_wait() {
    let home = Home::new();
    let host = home.host(&[]);
    // A peer that connects and says nothing is what an orderly stop may wait for.
    let address = host.url().strip_prefix("ws://").unwrap().to_owned();
    let _silent = std::net::TcpStream::connect(address).unwrap();
    std::thread::sleep(Duration::from_millis(100));
    host.program.signal(Signal::TERM);
    std::thread::sleep(Duration::from_millis(100));
    host.program.signal(Signal::TERM);
    let ended = host.program.wait();
    assert!(ended.took < Duration::from_secs(1), "{ended:?}");
    // The host may be done before the second signal arrives.
    assert!(matches!(ended.status.code(), Some(0 | 143)), "{ended:?}");
    assert!(!home.data("endpoint.json").exists());
}
