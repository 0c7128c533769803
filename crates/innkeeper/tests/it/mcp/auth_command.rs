//! `innkeeper mcp auth` against a real authorization server, with the test as the browser.

use std::process::{Output, Stdio};
use std::time::Duration;

use innkeeper_testkit::oauth::{MetadataLocation, TokenCheck, visit};
use innkeeper_testkit::process::HostOptions;
use serde_json::json;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};

use crate::mcp::sign_in::Inn;
use crate::mcp::support::PROGRAM;

/// The command at work.
struct Auth {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Auth {
    /// Begins to sign in, from the workspace of the session.
    fn begin(inn: &Inn, args: &[&str]) -> Self {
        let mut child = Command::new(PROGRAM)
            .args(["mcp", "auth"])
            .args(args)
            .arg("--data")
            .arg(inn.scene.host.data_path(""))
            .current_dir(inn.scene.workspace())
            .env_clear()
            .env("HOME", inn.scene.host.path(""))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .expect("the program runs");
        let stdout = child.stdout.take().expect("a pipe");
        Self {
            child,
            lines: BufReader::new(stdout).lines(),
        }
    }

    /// The address that it prints.
    async fn address(&mut self) -> String {
        match self.lines.next_line().await.expect("readable") {
            Some(line) => line,
            None => panic!("{}", self.errors().await),
        }
    }

    async fn errors(&mut self) -> String {
        let mut errors = String::new();
        let mut stderr = self.child.stderr.take().expect("a pipe");
        stderr.read_to_string(&mut errors).await.expect("readable");
        errors
    }

    /// Types a line, and nothing after it.
    async fn types(&mut self, line: &str) {
        let mut stdin = self.child.stdin.take().expect("a pipe");
        stdin.write_all(format!("{line}\n").as_bytes()).await.expect("written");
    }

    /// Whether it succeeded, and everything that it said.
    async fn end(mut self) -> (bool, String) {
        drop(self.child.stdin.take());
        let mut said = String::new();
        while let Some(line) = self.lines.next_line().await.expect("readable") {
            said.push_str(&line);
            said.push('\n');
        }
        let Output { status, stderr, .. } = self.child.wait_with_output().await.expect("it ends");
        said.push_str(&String::from_utf8_lossy(&stderr));
        (status.success(), said)
    }
}

/// Returns the output of `innkeeper pending`.
async fn pending(inn: &Inn) -> String {
    let mut command = Command::new(PROGRAM);
    command.args(["pending", "--data"]).arg(inn.scene.host.data_path(""));
    let output = command.env_clear().env("HOME", inn.scene.host.path("")).output().await;
    String::from_utf8(output.expect("the program runs").stdout).expect("text")
}

/// Checks that the output has no secret but the address, which is for the user.
fn assert_discreet(inn: &Inn, said: &str) {
    for secret in inn.login.secrets() {
        assert!(!said.contains(&secret), "{said}");
    }
}

#[tokio::test]
async fn mcp07_a_user_signs_in_with_a_browser_and_calls_continue() {
    let inn = Inn::locked().await;
    inn.needed("far").await;
    // The only server that wants it needs no name.
    let mut auth = Auth::begin(&inn, &["--no-browser"]);
    let address = auth.address().await;
    let back = visit(&address).await.location.expect("sent back");
    assert!(back.starts_with("http://127.0.0.1:"), "{back}");
    let page = visit(&back).await;
    assert_eq!(page.status, 200);
    assert!(page.page.contains("go back to the shell"), "{}", page.page);
    let (is_fine, said) = auth.end().await;
    assert!(is_fine, "{said}");
    assert!(said.contains("signed in to far"), "{said}");
    assert!(said.contains("renews"), "{said}");
    assert_discreet(&inn, &said);
    inn.scene.named_is("far", "ready").await;
    let words = inn.scene.call("t1", "far read {}").await;
    assert!(words.contains("read done"), "{words}");

    // A call that needs more waits, is signed in for from the shell, and goes on by itself.
    inn.waiting_call("t2", "far admin {}").await;
    let said = pending(&inn).await;
    assert!(said.contains("of far wants you to sign in"), "{said}");
    assert!(
        said.contains("innkeeper mcp auth 'far' --session ahp-session:/"),
        "{said}"
    );
    let mut auth = Auth::begin(&inn, &["far", "--no-browser"]);
    let address = auth.address().await;
    assert!(address.contains("scope=read+admin"), "{address}");
    visit(&visit(&address).await.location.expect("sent back")).await;
    let (is_fine, said) = auth.end().await;
    assert!(is_fine, "{said}");
    let words = inn.answer("t2").await;
    assert!(words.contains("admin done"), "{words}");
    let (is_fine, said) = Auth::begin(&inn, &["far", "--no-browser"]).end().await;
    assert!(!is_fine && said.contains("needs no sign-in"), "{said}");
    inn.assert_discreet().await;
}

#[tokio::test]
async fn mcp07_a_2025_03_26_server_without_metadata_is_signed_in_to() {
    let inn = Inn::declaring(
        MetadataLocation::Nowhere,
        |url| json!({ "far": { "type": "http", "url": url("/mcp") } }),
    )
    .await;
    let needed = inn.needed("far").await;
    let resource = needed["resource"]["resource"].as_str().expect("a resource").to_owned();
    let origin = resource.strip_suffix("/mcp").expect("its address").to_owned();
    // Its authorization responses name the issuer.
    inn.login.set(|behaviour| behaviour.answers_as = Some(origin.clone()));
    let mut auth = Auth::begin(&inn, &["--no-browser"]);
    let address = auth.address().await;
    assert!(address.starts_with(&format!("{origin}/authorize?")), "{address}");
    assert!(address.contains("code_challenge_method=S256"), "{address}");
    visit(&visit(&address).await.location.expect("sent back")).await;
    let (is_fine, said) = auth.end().await;
    assert!(is_fine, "{said}");
    assert!(said.contains("MCP 2025-03-26"), "{said}");
    inn.scene.named_is("far", "ready").await;
    let words = inn.scene.call("t1", "far read {}").await;
    assert!(words.contains("read done"), "{words}");
    inn.assert_discreet().await;
}

#[tokio::test]
async fn mcp07_a_user_with_a_remote_browser_pastes_the_address_or_the_code() {
    for is_whole in [true, false] {
        let inn = Inn::locked().await;
        inn.needed("far").await;
        let mut auth = Auth::begin(&inn, &["far", "--paste"]);
        let back = visit(&auth.address().await).await.location.expect("sent back");
        let code = back.split_once("code=").and_then(|(_, rest)| rest.split('&').next());
        auth.types(if is_whole { &back } else { code.expect("a code") }).await;
        let (is_fine, said) = auth.end().await;
        assert!(is_fine, "{said}");
        inn.scene.named_is("far", "ready").await;
        inn.assert_discreet().await;
    }
}

#[tokio::test]
async fn t16_foreign_authorization_responses_are_rejected() {
    let inn = Inn::locked().await;
    inn.needed("far").await;
    let refused = async |args: &[&str], types: Option<&str>| {
        let mut auth = Auth::begin(&inn, args);
        if let Some(types) = types {
            auth.types(types).await;
        }
        let (is_fine, said) = auth.end().await;
        assert!(!is_fine, "{said}");
        assert_discreet(&inn, &said);
        said
    };
    let foreign = "http://127.0.0.1:1/callback?code=x&state=another";
    let said = refused(&["--paste"], Some(foreign)).await;
    assert!(said.contains("does not belong to this sign-in"), "{said}");
    let said = refused(&["--paste"], Some("guessed")).await;
    assert!(said.contains("invalid_grant"), "{said}");
    inn.login
        .set(|behaviour| behaviour.claims_to_be = Some("http://127.0.0.1:1".to_owned()));
    let said = refused(&[], None).await;
    assert!(said.contains("says that it is"), "{said}");
    inn.login.set(|habits| {
        habits.claims_to_be = None;
        habits.registers = false;
    });
    let said = refused(&[], None).await;
    assert!(
        said.contains("does not support client registration") && said.contains("--client-id"),
        "{said}"
    );
    assert_eq!(inn.needed("far").await["reason"], "required", "nothing was handed over");
}

#[tokio::test]
async fn mcp07_a_denied_or_foreign_authorization_response_signs_in_to_nothing() {
    let inn = Inn::locked().await;
    inn.needed("far").await;
    let mut auth = Auth::begin(&inn, &["--no-browser"]);
    inn.login.set(|behaviour| behaviour.consents = false);
    let address = auth.address().await;
    visit(&visit(&address).await.location.expect("sent back")).await;
    let (is_fine, said) = auth.end().await;
    assert!(!is_fine && said.contains("signing in was refused"), "{said}");
    inn.login.set(|habits| {
        habits.consents = true;
        habits.answers_as = Some("http://127.0.0.1:1".to_owned());
    });
    let mut auth = Auth::begin(&inn, &["--no-browser"]);
    let address = auth.address().await;
    visit(&visit(&address).await.location.expect("sent back")).await;
    let (is_fine, said) = auth.end().await;
    assert!(!is_fine && said.contains("does not come from"), "{said}");
    // An answer of another sign-in is ignored; the right one still counts.
    inn.login.set(|habits| {
        habits.answers_as = None;
        habits.echoes = Some("another".to_owned());
    });
    let mut auth = Auth::begin(&inn, &["--no-browser"]);
    let address = auth.address().await;
    let strange = visit(&visit(&address).await.location.expect("sent back")).await;
    assert_eq!(strange.status, 400);
    inn.login.set(|behaviour| behaviour.echoes = None);
    visit(&visit(&address).await.location.expect("sent back")).await;
    let (is_fine, said) = auth.end().await;
    assert!(is_fine && said.contains("was ignored"), "{said}");
    inn.scene.named_is("far", "ready").await;
    inn.assert_discreet().await;
}

#[tokio::test]
async fn mcp21_a_registered_client_signs_in_with_its_secret_from_a_file() {
    const SECRET: &str = "s3cr3t of the+desk";
    let inn = Inn::declaring(MetadataLocation::Header, |url| {
        let oauth = json!({ "clientId": "inn-desk" });
        json!({ "far": { "type": "http", "url": url("/mcp"), "oauth": oauth } })
    })
    .await;
    inn.login
        .register("inn-desk", Some(SECRET), &["http://127.0.0.1/callback"]);
    inn.login.set(|behaviour| behaviour.registers = false);
    inn.needed("far").await;
    let file = inn.scene.workspace().join("secret");
    std::fs::write(&file, format!("{SECRET}\n")).expect("written");
    let file = file.display().to_string();
    let mut auth = Auth::begin(&inn, &["far", "--no-browser", "--client-secret-file", &file]);
    let address = auth.address().await;
    visit(&visit(&address).await.location.expect("sent back")).await;
    let (is_fine, said) = auth.end().await;
    assert!(is_fine, "{said}");
    inn.scene.named_is("far", "ready").await;
    inn.assert_discreet().await;
}

#[tokio::test]
async fn mcp21_a_registered_client_uses_the_registered_redirect_port() {
    let inn = Inn::locked().await;
    inn.needed("far").await;
    // No process listens there any more.
    let free = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let port = free.local_addr().expect("an address").port().to_string();
    drop(free);
    inn.login
        .register("inn-desk", None, &[&format!("http://127.0.0.1:{port}/callback")]);
    inn.login.set(|habits| {
        habits.registers = false;
        habits.compares_ports = true;
    });
    let mut auth = Auth::begin(&inn, &["far", "--no-browser", "--client-id", "inn-desk"]);
    let page = visit(&auth.address().await).await;
    assert_eq!((page.status, page.location), (400, None), "any port will not do");
    drop(auth);
    let mut auth = Auth::begin(
        &inn,
        &[
            "far",
            "--no-browser",
            "--client-id",
            "inn-desk",
            "--redirect-port",
            &port,
        ],
    );
    let back = visit(&auth.address().await).await.location.expect("sent back");
    assert!(
        back.starts_with(&format!("http://127.0.0.1:{port}/callback?")),
        "{back}"
    );
    visit(&back).await;
    let (is_fine, said) = auth.end().await;
    assert!(is_fine, "{said}");
    inn.scene.named_is("far", "ready").await;
    inn.assert_discreet().await;
}

#[tokio::test]
async fn auth05_a_token_comes_from_standard_input_and_is_taken_back() {
    let inn = Inn::locked().await;
    let needed = inn.needed("far").await;
    let resource = needed["resource"]["resource"].as_str().expect("a resource").to_owned();
    let mut wrong = Auth::begin(&inn, &["far", "--token-stdin"]);
    wrong.types("no-token-of-theirs").await;
    let (is_fine, said) = wrong.end().await;
    assert!(!is_fine && said.contains("did not accept the token"), "{said}");
    assert!(!said.contains("no-token-of-theirs"), "{said}");
    let token = inn.login.give_out(&resource, &["read"]);
    let mut auth = Auth::begin(&inn, &["far", "--token-stdin"]);
    auth.types(&token).await;
    let (is_fine, said) = auth.end().await;
    assert!(is_fine && said.contains("signed in to far"), "{said}");
    assert_discreet(&inn, &said);
    inn.scene.named_is("far", "ready").await;
    assert!(said.contains("innkeeper mcp auth 'far' --revoke"), "{said}");
    let (is_fine, said) = Auth::begin(&inn, &["far", "--revoke"]).end().await;
    assert!(is_fine && said.contains(&format!("signed out of {resource}")), "{said}");
    assert_eq!(inn.needed("far").await["reason"], "required");
    assert!(
        matches!(inn.login.look_at(&token, &resource), TokenCheck::Good(_)),
        "a token that came without more cannot be declared void"
    );
    inn.assert_discreet().await;
}

#[tokio::test]
async fn auth06_auth05_a_token_is_refreshed_and_finally_revoked() {
    let inn = Inn::locked().await;
    inn.needed("far").await;
    let mut auth = Auth::begin(&inn, &["--no-browser"]);
    let address = auth.address().await;
    visit(&visit(&address).await.location.expect("sent back")).await;
    let (is_fine, said) = auth.end().await;
    assert!(is_fine && said.contains("renews the token by itself"), "{said}");
    inn.scene.named_is("far", "ready").await;
    // The command has ended, and its client is gone.
    inn.login.pass(Duration::from_secs(3600));
    let words = inn.scene.call("t1", "far read {}").await;
    assert!(words.contains("read done"), "{words}");
    let renewals = || {
        let requests = inn.login.requests().into_iter();
        let kinds = requests.filter_map(|request| request.get("grant_type").cloned());
        kinds.filter(|kind| kind == "refresh_token").count()
    };
    assert_eq!(renewals(), 1);
    // With a token for only one server, no name is needed.
    let (is_fine, said) = Auth::begin(&inn, &["--revoke"]).end().await;
    assert!(is_fine && said.contains("signed out of"), "{said}");
    // The authorization server is notified after the response to the command.
    let is_told = || {
        inn.login
            .requests()
            .iter()
            .any(|request| !request.contains_key("grant_type"))
    };
    while !is_told() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(inn.needed("far").await["reason"], "required");
    assert_eq!(renewals(), 1, "there is nothing to renew");
    inn.assert_discreet().await;
}

#[tokio::test]
async fn auth05_a_token_without_a_refresh_token_is_declared_void_as_well() {
    let inn = Inn::locked().await;
    inn.needed("far").await;
    inn.login.set(|behaviour| behaviour.refreshes = false);
    let mut auth = Auth::begin(&inn, &["--no-browser"]);
    visit(&visit(&auth.address().await).await.location.expect("sent back")).await;
    let (is_fine, said) = auth.end().await;
    assert!(is_fine && !said.contains("renews"), "{said}");
    inn.scene.named_is("far", "ready").await;
    let (is_fine, said) = Auth::begin(&inn, &["far", "--revoke"]).end().await;
    assert!(is_fine, "{said}");
    let hint = || {
        let asked = inn.login.requests();
        asked.iter().find_map(|form| form.get("token_type_hint").cloned())
    };
    let told = async {
        while hint().is_none() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    let told = tokio::time::timeout(innkeeper_testkit::process::TIMEOUT, told).await;
    assert!(told.is_ok(), "the authorization server is told");
    assert_eq!(hint().as_deref(), Some("access_token"));
    inn.assert_discreet().await;
}

#[tokio::test]
async fn auth07_sign_in_without_persistence_shows_how_long_it_lasts() {
    let options = HostOptions::new(PROGRAM).setting("[mcp]\nkeep_tokens = false");
    let inn = Inn::on(
        options,
        MetadataLocation::Header,
        |url| json!({ "far": { "type": "http", "url": url("/mcp") } }),
    )
    .await;
    inn.needed("far").await;
    let mut auth = Auth::begin(&inn, &["--no-browser"]);
    let address = auth.address().await;
    visit(&visit(&address).await.location.expect("sent back")).await;
    let (is_fine, said) = auth.end().await;
    assert!(
        is_fine && said.contains("keeps no tokens") && !said.contains("renews"),
        "{said}"
    );
    inn.assert_discreet().await;
}
