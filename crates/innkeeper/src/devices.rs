//! Browsers that use the web app: `innkeeper open`, `pair` and `devices`.
//!
//! They need no request to the host: codes and devices are files of the data directory, which the host reads whenever a
//! browser signs in or connects.

mod store;

use std::fmt::Write as _;
use std::net::SocketAddr;

use innkeeper_cli::discovery::{DataDir, Endpoint};
use innkeeper_cli::failure::{Failure, Kind};
use innkeeper_cli::terminal::{Output, note, open_in_browser, program};
use innkeeper_host::access::Scope;
use qrcode::QrCode;
use qrcode::render::unicode;

use crate::cli::{DevicesArgs, DevicesCommand, DevicesListArgs, OpenArgs, PairArgs, RevokeArgs};
use crate::config::ConfigFile;

pub(crate) use store::DeviceStore;
use store::{DeviceRecord, Grant};

/// How long a device stays signed in unless a flag says otherwise.
pub(crate) const DEFAULT_DAYS: u32 = 30;

/// Opens the web app in a browser of this machine.
pub(crate) fn open(args: &OpenArgs) -> Result<(), Failure> {
    let dir = data_dir(&args.common)?;
    let base = page_address(&dir, None)?;
    let link = link(&dir, &base, Scope::Admin, DEFAULT_DAYS)?;
    Output::stdout().show(&format!("{link}\n"))?;
    note("The link works once, within ten minutes.");
    if !args.no_browser {
        open_in_browser(&link);
    }
    Ok(())
}

/// Prints a link and a QR code for another device.
pub(crate) fn pair(args: &PairArgs) -> Result<(), Failure> {
    let dir = data_dir(&args.common)?;
    let base = page_address(&dir, args.url.as_ref().map(url::Url::as_str))?;
    let scope = match (args.view, args.drive) {
        (true, _) => Scope::View,
        (_, true) => Scope::Drive,
        _ => Scope::Admin,
    };
    let link = link(&dir, &base, scope, args.days)?;
    let code = QrCode::new(link.as_bytes())
        .map_err(|error| Failure::new(Kind::Usage, format!("the link does not fit into a QR code ({error})")))?;
    let drawn = code.render::<unicode::Dense1x2>().quiet_zone(true).build();
    Output::stdout().show(&format!("{drawn}\n{link}\n"))?;
    let rights = match scope {
        Scope::View => "see everything and change nothing",
        Scope::Drive => "start sessions, write messages and answer questions",
        Scope::Admin => "do everything that you can do here",
    };
    note(&format!(
        "The link works once, within ten minutes. The device may then {rights}, for {} days.",
        args.days
    ));
    if is_loopback(&base) {
        note(
            "This address can be reached from this machine only. Start the host with --listen ADDR:PORT on another \
             address, or name the address of a tunnel or proxy with --url.",
        );
    }
    Ok(())
}

/// Lists or revokes devices.
pub(crate) fn devices(args: DevicesArgs) -> Result<(), Failure> {
    match args.command.unwrap_or(DevicesCommand::List(args.list)) {
        DevicesCommand::List(args) => list(&args),
        DevicesCommand::Revoke(args) => revoke(&args),
    }
}

fn list(args: &DevicesListArgs) -> Result<(), Failure> {
    let store = DeviceStore::new(&data_dir(&args.common)?);
    let devices = store.devices().map_err(|error| store.unusable(&error))?;
    let mut text = String::new();
    for device in &devices {
        // Writing to a String cannot fail.
        let _ = match args.json {
            true => writeln!(text, "{}", device.public()),
            false => writeln!(
                text,
                "{}  {:<5}  until {}  {}",
                device.id(),
                device.scope,
                day(&device.expires_at),
                device.name
            ),
        };
    }
    if devices.is_empty() && !args.json {
        note("No browser has signed in. `innkeeper open` opens the web app, `innkeeper pair` is for other devices.");
    }
    Output::stdout().show(&text)
}

/// Returns the day of a timestamp.
fn day(timestamp: &str) -> &str {
    timestamp.split('T').next().unwrap_or(timestamp)
}

fn revoke(args: &RevokeArgs) -> Result<(), Failure> {
    let store = DeviceStore::new(&data_dir(&args.common)?);
    let devices = store.devices().map_err(|error| store.unusable(&error))?;
    let named: Vec<&DeviceRecord> = match &args.device {
        Some(name) => devices
            .iter()
            .filter(|device| device.id().starts_with(name.as_str()))
            .collect(),
        None => devices.iter().collect(),
    };
    let several = args.device.is_some() && named.len() > 1;
    if named.is_empty() || several {
        let problem = match several {
            true => "several devices have ids that begin like this",
            false => "there is no such device",
        };
        return Err(Failure::new(Kind::Rejected, problem).hint(format!("`{} devices` lists them", program())));
    }
    for device in named {
        store.remove(device.id()).map_err(|error| store.unusable(&error))?;
        note(&format!("Revoked {} ({}).", device.id(), device.name));
    }
    Ok(())
}

fn data_dir(common: &innkeeper_cli::args::CommonArgs) -> Result<DataDir, Failure> {
    let config = ConfigFile::load(common)?;
    Ok(DataDir::existing(config.data_dir(common)?))
}

/// Returns the address of the page: the given one, or that of the running host.
fn page_address(dir: &DataDir, given: Option<&str>) -> Result<String, Failure> {
    if let Some(given) = given {
        return Ok(given.trim_end_matches('/').to_owned());
    }
    let url = Endpoint::find(dir).and_then(|endpoint| endpoint.url);
    url.map(|url| page_of(&url)).ok_or_else(|| {
        Failure::new(Kind::Unreachable, "no host with an address runs on this data directory")
            .hint(format!("start one with `{}`", program()))
    })
}

/// Returns the address of the page of a host with this WebSocket address.
pub(crate) fn page_of(url: &str) -> String {
    url.replacen("ws", "http", 1)
}

fn is_loopback(base: &str) -> bool {
    let authority = base.split("://").nth(1).unwrap_or_default();
    let address: Option<SocketAddr> = authority.parse().ok();
    address.is_some_and(|address| address.ip().is_loopback()) || authority.starts_with("localhost")
}

/// Creates a code, and returns the link with it. Browsers do not send the fragment of an address to any server.
fn link(dir: &DataDir, base: &str, scope: Scope, days: u32) -> Result<String, Failure> {
    let store = DeviceStore::new(dir);
    let code = store
        .create_code(Grant { scope, days })
        .map_err(|error| store.unusable(&error))?;
    Ok(format!("{base}/#code={code}"))
}

/// Returns the link that the host prints when it starts.
pub(crate) fn first_link(dir: &DataDir, url: &str) -> Result<String, Failure> {
    link(dir, &page_of(url), Scope::Admin, DEFAULT_DAYS)
}
