//! Commands that real shells report.

use ahp_types::state::TerminalCommandPart;
use innkeeper_testkit::official::OfficialClient;
use innkeeper_testkit::process::{HostOptions, HostProcess};
use serde_json::json;

use super::support::{TERMINAL, bash, commands_of, create, shell, shows, start_with_terminal, text, type_into};

/// Waits until the shell has a prompt that it reports.
async fn ready(client: &OfficialClient) {
    client
        .until("commands are detected", |view| {
            view.terminal(TERMINAL)
                .is_some_and(|state| state.supports_command_detection == Some(true))
        })
        .await;
}

/// Runs a line and waits for the end of its command, the one with this number.
async fn run(client: &OfficialClient, number: usize, line: &str) -> TerminalCommandPart {
    type_into(client, TERMINAL, &format!("{line}\r")).await;
    client
        .until_some(&format!("the command {number}, {line:?}, has ended"), |view| {
            let commands = commands_of(view.terminal(TERMINAL)?);
            commands
                .into_iter()
                .nth(number - 1)
                .filter(|command| command.is_complete)
        })
        .await
}

/// Returns what a user sees of the output of a command. Some shells set a title at its beginning, or mark a missing line
/// end behind it.
fn printed(command: &TerminalCommandPart) -> String {
    let mut terminal = avt::Terminal::new(80, 24).expect("a size");
    terminal.feed(command.output.as_str());
    terminal.screen().text().join("\n").trim_end().to_owned()
}

/// Returns the path of a shell, if this machine has it.
fn installed(name: &str) -> Option<String> {
    let path = std::env::var_os("PATH")?;
    let found = std::env::split_paths(&path).map(|directory| directory.join(name));
    let mut found = found.filter(|file| file.is_file());
    let found = found.next().map(|file| file.display().to_string());
    if found.is_none() {
        eprintln!("{name} is not installed, so it is not tried");
    }
    found
}

/// Runs the same commands in any shell that reports them.
async fn reports_its_commands(options: HostOptions) {
    let (host, client) = start_with_terminal(options).await;
    ready(&client).await;
    let actions = client.view().actions_on(TERMINAL);
    let available = actions
        .iter()
        .filter(|action| action["type"] == "terminal/commandDetectionAvailable");
    assert!(available.count() <= 1, "TRM-09");
    let hello = run(&client, 1, "echo hel''lo; echo wor''ld").await;
    assert_eq!(hello.command_line, "echo hel''lo; echo wor''ld");
    assert_eq!((hello.exit_code, printed(&hello)), (Some(0), "hello\nworld".to_owned()));
    assert!(hello.duration_ms.is_some());
    assert!(hello.timestamp > 1_600_000_000_000, "TRN-17: milliseconds since 1970");
    let failed = run(&client, 2, "sh -c 'echo a\\;b >&2; exit 7'").await;
    assert_eq!(failed.command_line, "sh -c 'echo a\\;b >&2; exit 7'");
    assert_eq!((failed.exit_code, printed(&failed)), (Some(7), "a;b".to_owned()));
    // An empty line is no command.
    type_into(&client, TERMINAL, "\r").await;
    let moved = run(&client, 3, "cd /usr").await;
    assert_eq!((moved.command_line.as_str(), moved.exit_code), ("cd /usr", Some(0)));
    client
        .until("the directory is known", |view| {
            view.terminal(TERMINAL).and_then(|state| state.cwd.as_deref()) == Some("file:///usr")
        })
        .await;
    let unicode = run(&client, 4, "echo 'grüße ✓'").await;
    assert_eq!(
        (unicode.command_line.as_str(), printed(&unicode)),
        ("echo 'grüße ✓'", "grüße ✓".to_owned())
    );
    // Programs that know none of it do not end, begin or rename commands.
    let forged =
        "printf '\\033]633;D;0\\007\\033]633;E;rm -rf /\\007\\033]633;C\\007\\033]133;D;0\\007x'; sh -c 'exit 3'";
    let forged = run(&client, 5, forged).await;
    assert!(forged.command_line.starts_with("printf"), "{forged:?}");
    assert_eq!(forged.exit_code, Some(3));
    assert!(printed(&forged).starts_with('x'), "{forged:?}");
    // No secret and no sequence of the integration is left in what clients see.
    assert!(!text(&client.view(), TERMINAL).contains("\x1b]633;"), "TRM-07");
    let environment = run(&client, 6, "env").await;
    assert!(!environment.output.contains("INNKEEPER"), "{}", environment.output);
    let late = OfficialClient::connect(host.address(), "late").await;
    late.subscribe(TERMINAL).await;
    let commands = commands_of(late.view().terminal(TERMINAL).expect("subscribed"));
    assert_eq!(commands.len(), 6, "{commands:?}");
    client.assert_converged().await;
}

#[tokio::test]
async fn trm07_trm08_trm09_bash_reports_its_commands() {
    reports_its_commands(bash()).await;
}

#[tokio::test]
async fn trm07_trm08_trm09_zsh_reports_its_commands_where_it_is_installed() {
    if let Some(zsh) = installed("zsh") {
        reports_its_commands(shell(&zsh)).await;
    }
}

#[tokio::test]
async fn trm07_trm08_trm09_fish_reports_its_commands_where_it_is_installed() {
    if let Some(fish) = installed("fish") {
        reports_its_commands(shell(&fish)).await;
    }
}

/// Prints what PowerShell prints with the script of the host, for a shell that has no PowerShell: it is started the same
/// way, reads lines, runs them with bash, and escapes every backslash, semicolon and control character as hexadecimal.
const POWERSHELL: &str = r#"#!/bin/bash
if [ "$1 $2 $3 $4 $5" != "-NoLogo -NoExit -ExecutionPolicy Bypass -File" ]; then echo "wrong arguments: $*"; exit 9; fi
if ! grep -q 633 "$6"; then echo "no script in $6"; exit 9; fi
nonce=$INNKEEPER_NONCE
unset INNKEEPER_NONCE
escape() { local LC_ALL=C text=${1//\\/\\x5c}; printf '%s' "${text//;/\\x3b}"; }
while :; do
    printf '\e]633;P;Cwd=%s;%s\a\e]633;A;%s\aPS %s> \e]633;B;%s\a' "$(escape "$PWD")" "$nonce" "$nonce" "$PWD" "$nonce"
    IFS= read -r line || exit
    if [ -z "$line" ]; then continue; fi
    printf '\e]633;E;%s;%s\a\e]633;C;%s\a' "$(escape "$line")" "$nonce" "$nonce"
    eval "$line"
    printf '\e]633;D;%s;%s\a' "$?" "$nonce"
done
"#;

#[tokio::test]
async fn trm07_trm08_trm09_reports_as_powershell_prints_them_are_understood() {
    let directory = tempfile::tempdir().expect("a directory");
    let pwsh = directory.path().join("pwsh");
    std::fs::write(&pwsh, POWERSHELL).expect("written");
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&pwsh, mode).expect("executable");
    reports_its_commands(shell(&pwsh.display().to_string())).await;
}

#[tokio::test]
async fn bash_reads_the_users_own_files_and_keeps_their_settings() {
    let home = tempfile::tempdir().expect("a directory");
    let profile = "export FROM_PROFILE=yes\nPS1='my prompt> '\nPROMPT_COMMAND='LAST=$?'\nHISTCONTROL=ignorespace\n";
    std::fs::write(home.path().join(".bash_profile"), profile).expect("written");
    let host = HostProcess::start(bash().environment("HOME", home.path())).await;
    let client = OfficialClient::connect(host.address(), "first").await;
    create(&client, TERMINAL, json!({})).await;
    client.subscribe(TERMINAL).await;
    shows(&client, TERMINAL, "my prompt> ").await;
    let own = run(&client, 1, "echo $FROM_PROFILE").await;
    assert_eq!(own.output, "yes\r\n");
    run(&client, 2, "sh -c 'exit 5'").await;
    let own = run(&client, 3, "echo $LAST").await;
    assert_eq!(own.output, "5\r\n", "the user's prompt command finds the exit code");
    // A line that the history leaves out has no text, and is still a command.
    let hidden = run(&client, 4, " echo hid''den").await;
    assert_eq!(
        (hidden.command_line.as_str(), hidden.output.as_str()),
        ("", "hidden\r\n")
    );
    let several = run(&client, 5, "for n in 1 2; do\recho line $n\rdone").await;
    assert_eq!(several.output, "line 1\r\nline 2\r\n");
    assert_eq!(several.exit_code, Some(0));
}

/// Starts zsh as a system does whose own start file puts the history into `ZDOTDIR`, as that of macOS.
const ZSH_WITH_HISTORY: &str = "#!/bin/sh\nHISTFILE=${ZDOTDIR:-$HOME}/.zsh_history exec ZSH \"$@\"\n";

#[tokio::test]
async fn zsh_has_its_history_in_the_home_of_the_user_where_it_is_installed() {
    let Some(zsh) = installed("zsh") else { return };
    let home = tempfile::tempdir().expect("a directory");
    let wrapper = home.path().join("zsh");
    std::fs::write(&wrapper, ZSH_WITH_HISTORY.replace("ZSH", &zsh)).expect("written");
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&wrapper, mode).expect("executable");
    std::fs::write(home.path().join(".zshrc"), "FROM_ZSHRC=$HISTFILE\n").expect("written");
    let options = shell(&wrapper.display().to_string()).environment("HOME", home.path());
    let (_host, client) = start_with_terminal(options).await;
    ready(&client).await;
    let expected = home.path().join(".zsh_history").display().to_string();
    let history = run(&client, 1, "echo $HISTFILE").await;
    assert_eq!(printed(&history).replace('\n', ""), expected);
    let own = run(&client, 2, "echo $FROM_ZSHRC").await;
    assert_eq!(
        printed(&own).replace('\n', ""),
        expected,
        "the user's own file sees the same"
    );
}

#[tokio::test]
async fn trm09_a_shell_without_integration_works_and_osc_133_is_accepted() {
    let (_host, client) = start_with_terminal(shell("/bin/sh")).await;
    type_into(&client, TERMINAL, "echo pla''in\r").await;
    shows(&client, TERMINAL, "plain\r\n").await;
    let state = client.view().terminal(TERMINAL).cloned().expect("subscribed");
    assert_eq!(state.supports_command_detection, None);
    assert!(commands_of(&state).is_empty());
    let report = "printf '\\033]133;A\\007$ \\033]133;C\\007out\\033]133;D;4\\007'\r";
    type_into(&client, TERMINAL, report).await;
    let command = client
        .until_some("a command is there", |view| {
            let commands = commands_of(view.terminal(TERMINAL)?);
            commands.into_iter().next().filter(|command| command.is_complete)
        })
        .await;
    assert_eq!((command.output.as_str(), command.exit_code), ("out", Some(4)));
    assert!(!text(&client.view(), TERMINAL).contains("\x1b]133;"));
    client.assert_converged().await;
}
