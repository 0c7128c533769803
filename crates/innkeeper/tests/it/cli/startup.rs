//! Starting the host: files, output and failures.

use std::fs;
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use rustix::process::Signal;

use super::support::Home;

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().mode() & 0o777
}

#[test]
fn help_documents_flags_and_exit_codes() {
    let home = Home::new();
    let help = home.run(&["--help"]).code(0).stdout;
    for expected in [
        "--listen",
        "--stdio",
        "--no-auth",
        "send",
        "watch",
        "Exit codes:",
        " 75 ",
        " 130 ",
    ] {
        assert!(help.contains(expected), "{expected} is missing in\n{help}");
    }
    assert!(home.run(&["--version"]).code(0).stdout.starts_with("innkeeper "));
}

#[test]
fn wrong_command_lines_exit_with_code_2() {
    let home = Home::new();
    home.run(&["--nonsense"]).code(2);
    home.run(&["--listen", "nonsense"]).code(2).says("127.0.0.1:4747");
    home.run(&["--stdio", "--json"]).code(2);
    home.run(&["send"]).code(2);
    home.run(&["--listen", ":0", "--log", "=nonsense="])
        .code(2)
        .says("--log debug");
}

#[test]
fn ready_line_names_address_token_and_process() {
    let home = Home::new();
    let host = home.host(&[]);
    assert_eq!(host.ready["ready"], true);
    assert!(host.url().starts_with("ws://127.0.0.1:"), "{}", host.ready);
    assert_eq!(host.ready["tokenFile"], home.data("token").to_str().unwrap());
    assert!(host.ready["pid"].is_u64());
    let address = host.url().strip_prefix("ws://").unwrap();
    TcpStream::connect(address).unwrap();
    host.stop().code(0);
}

#[test]
fn files_are_private_and_the_token_is_never_printed() {
    let home = Home::new();
    let host = home.host(&["--log", "trace"]);
    assert_eq!(mode(&home.data("")), 0o700);
    for file in ["token", "endpoint.json", "lock"] {
        assert_eq!(mode(&home.data(file)), 0o600, "{file}");
    }
    let token = fs::read_to_string(home.data("token")).unwrap();
    let token = token.trim();
    assert_eq!(token.len(), 43);
    home.run(&["sessions", "--log", "trace"]).code(0);
    let ended = host.stop().code(0);
    assert!(ended.stderr.contains("send \"hello\""), "{ended:?}");
    assert!(!ended.stderr.contains(token) && !ended.stdout.contains(token));
    assert!(!home.data("endpoint.json").exists());
}

#[test]
fn token_survives_a_restart() {
    let home = Home::new();
    home.host(&[]).stop().code(0);
    let first = fs::read(home.data("token")).unwrap();
    home.host(&[]).stop().code(0);
    assert_eq!(fs::read(home.data("token")).unwrap(), first);
}

#[test]
fn token_file_can_live_elsewhere() {
    let home = Home::new();
    let file = home.path("mine");
    let host = home.host(&["--token-file", file.to_str().unwrap()]);
    assert_eq!(host.ready["tokenFile"], file.to_str().unwrap());
    assert_eq!(mode(&file), 0o600);
    assert!(!home.data("token").exists());
    home.run(&["sessions"]).code(0);
}

#[test]
fn without_auth_there_is_no_token() {
    let home = Home::new();
    let host = home.host(&["--no-auth"]);
    assert!(host.ready["tokenFile"].is_null());
    assert!(!home.data("token").exists());
    home.run(&["sessions"]).code(0);
    home.run(&["sessions", "--url", host.url()]).code(0);
    host.stop().code(0).says("every process on this machine");
}

#[test]
fn refuses_to_be_open_to_the_network_without_a_token() {
    let home = Home::new();
    for address in ["0.0.0.0:0", "[::]:0", "10.1.2.3:0"] {
        home.run(&["--listen", address, "--no-auth"])
            .code(77)
            .says("without a token");
    }
    assert!(!home.data("").exists(), "a refused start left files behind");
}

#[test]
fn port_in_use_is_one_sentence() {
    let home = Home::new();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let ended = home.run(&["--listen", &address]).code(75).says(&address);
    assert_eq!(ended.stderr.lines().count(), 1, "{ended:?}");
    assert!(ended.stdout.is_empty());
}

#[test]
fn address_of_another_machine_is_refused() {
    let home = Home::new();
    home.run(&["--listen", "192.0.2.1:0"]).code(71).says("192.0.2.1:0");
}

#[test]
fn data_directory_has_one_owner() {
    let home = Home::new();
    let host = home.host(&[]);
    let pid = host.ready["pid"].to_string();
    home.run(&["--listen", ":0"])
        .code(75)
        .says(&format!("process {pid}"))
        .says("--data DIR");
    home.host(&["--data", home.path("other").to_str().unwrap()])
        .stop()
        .code(0)
        .says("send --data");
    host.stop().code(0);
}

#[test]
fn unusable_data_directory_is_one_sentence() {
    let home = Home::new();
    let file = home.write("file", "");
    let ended = home.run(&["--listen", ":0", "--data", file.to_str().unwrap()]);
    let ended = ended.code(73).says(file.to_str().unwrap()).says("--data DIR");
    assert_eq!(ended.stderr.lines().count(), 1, "{ended:?}");
}

#[test]
fn broken_config_names_file_and_line() {
    let home = Home::new();
    let file = home.write("bad.toml", "log = \"info\"\nlisten = 7\n");
    let ended = home.run(&["--config", file.to_str().unwrap()]).code(78);
    let ended = ended.says(&format!("{}:2: ", file.display()));
    assert_eq!(ended.stderr.lines().count(), 1, "{ended:?}");
    home.run(&["--config", "missing.toml"]).code(78).says("missing.toml");
}

#[test]
fn config_is_found_and_unknown_keys_are_warned_about() {
    let home = Home::new();
    let file = home.write("config/innkeeper/innkeeper.toml", "data = \"here\"\nallow_orgin = []\n");
    let host = home.host(&[]);
    assert!(home.path("config/innkeeper/here/token").exists());
    home.run(&["sessions"]).code(0);
    let expected = format!(
        "{}:2: unknown key `allow_orgin` is ignored; did you mean `allow_origin`?",
        file.display()
    );
    host.stop().code(0).says(&expected);
}

#[test]
fn killed_host_leaves_nothing_that_hurts() {
    let home = Home::new();
    let host = home.host(&["--unix", home.path("run/s").to_str().unwrap()]);
    host.program.signal(Signal::KILL);
    host.program.wait();
    assert!(home.data("endpoint.json").exists());
    home.run(&["pending"]).code(69).says("no host runs");
    let host = home.host(&["--unix", home.path("run/s").to_str().unwrap()]);
    home.run(&["sessions"]).code(0);
    host.stop().code(0);
}

#[test]
fn stdio_opens_no_port_and_ends_with_its_input() {
    let home = Home::new();
    let mut program = home.spawn_piped(&["--stdio"]);
    program.stdin = None;
    let ended = program.wait().code(0);
    assert_eq!(ended.stdout, "");
    assert!(!home.data("token").exists());
    assert!(!home.data("endpoint.json").exists());
}

#[test]
fn stdio_speaks_lines_of_json() {
    use std::io::Write as _;
    let home = Home::new();
    let mut program = home.spawn_piped(&["--stdio"]);
    let request = serde_json::json!({
        "jsonrpc": "2.0", "id": 1, "method": "initialize",
        "params": {"channel": "ahp-root://", "protocolVersions": ["1.0.0"], "clientId": "c"},
    });
    writeln!(program.stdin.as_mut().unwrap(), "{request}").unwrap();
    let answer: serde_json::Value = serde_json::from_str(&program.line()).unwrap();
    assert_eq!(answer["id"], 1);
    assert_eq!(answer["result"]["serverInfo"]["name"], "innkeeper");
    program.stdin = None;
    program.wait().code(0);
}

#[test]
fn stdio_answers_everything_that_came_before_the_end_of_its_input() {
    use std::io::Write as _;
    let home = Home::new();
    for _ in 0..5 {
        let mut program = home.spawn_piped(&["--stdio"]);
        let mut requests = String::new();
        for id in 1..=200 {
            requests.push_str(&format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"ping"}}"#));
            requests.push('\n');
        }
        program.stdin.as_mut().unwrap().write_all(requests.as_bytes()).unwrap();
        program.stdin = None;
        let ended = program.wait().code(0);
        assert_eq!(ended.stdout.lines().count(), 200);
    }
}

#[test]
fn unix_socket_is_private_and_serves() {
    let home = Home::new();
    let socket = home.path("run/s");
    let host = home.host(&["--unix", socket.to_str().unwrap()]);
    assert_eq!(mode(&socket), 0o600);
    let url = format!("unix:{}", socket.display());
    home.run(&["sessions", "--url", &url]).code(0);
    host.stop().code(0);
    assert!(!socket.exists());
}
