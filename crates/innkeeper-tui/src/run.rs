//! Runs the client in the user's terminal: keys and news go into the application, effects and frames come out.

mod files;
mod input;
mod outside;
mod screen;

use std::io::{IsTerminal as _, Write as _};
use std::time::Duration;

use innkeeper_cli::connection::is_here;
use innkeeper_cli::connection::link::{Link, LinkEvent, LinkSettings, Order, StartHost};
use innkeeper_cli::discovery::DataDir;
use innkeeper_cli::failure::{Failure, Kind};
use jiff::Timestamp;
use tokio::sync::mpsc;
use tokio::time::{Instant, MissedTickBehavior, sleep_until};

use crate::app::{App, Redraw, Setup};
use crate::args::ChatArgs;
use crate::event::{Effect, Event, Outside};
use crate::theme::Theme;
use crate::view;

use input::Keyboard;
use screen::Screen;

/// Turns of a chat that are loaded at first; older ones come when the user scrolls there.
const FIRST_TURNS: i64 = 40;
/// The shortest time between two frames: at most 60 per second.
const FRAME: Duration = Duration::from_millis(17);
/// The same while only text is streamed: 20 per second look as smooth and cost a third.
const STREAMED_FRAME: Duration = Duration::from_millis(50);
/// Time between two ticks.
const TICK: Duration = Duration::from_millis(500);

/// Shows the full-screen client until the user quits. `start_host` starts a host if none runs.
pub async fn run(dir: DataDir, args: ChatArgs, start_host: StartHost) -> Result<(), Failure> {
    if !std::io::stdin().is_terminal() || !std::io::stdout().is_terminal() {
        return Err(Failure::new(Kind::Usage, "`innkeeper chat` needs a terminal")
            .hint("use `innkeeper send` in scripts and pipes"));
    }
    let setup = setup(&args)?;
    let start_host = (!args.no_start).then_some(start_host);
    let (link, orders, news) = Link::new(
        dir,
        LinkSettings {
            connect: args.connect.clone(),
            start_host,
            program: "innkeeper-chat",
            first_turns: Some(FIRST_TURNS),
        },
    );
    let screen = Screen::enter(args.mouse)?;
    let client = Client {
        app: App::new(setup, Timestamp::now()),
        args,
        orders,
        screen,
        keyboard: Keyboard::start(),
        stop: tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate()).ok(),
    };
    tokio::select! {
        () = link.run() => Ok(()),
        ended = client.run(news) => ended,
    }
}

fn setup(args: &ChatArgs) -> Result<Setup, Failure> {
    let is_here = args.connect.url.as_deref().is_none_or(is_here);
    let directory = match (&args.directory, is_here) {
        (Some(directory), _) => Some(std::path::absolute(directory)),
        (None, true) => Some(std::env::current_dir()),
        (None, false) => None,
    };
    let directory = directory.transpose().map_err(|error| {
        Failure::new(Kind::Usage, format!("the directory cannot be used ({error})"))
            .hint("name another one with --directory DIR")
    })?;
    let text = |path: std::path::PathBuf| path.to_string_lossy().into_owned();
    Ok(Setup {
        theme: Theme::from_environment(),
        directory: directory.map(text),
        home: std::env::home_dir().filter(|_| is_here).map(text),
        session: args.session.clone(),
        latest: args.last,
    })
}

struct Client {
    app: App,
    args: ChatArgs,
    orders: mpsc::UnboundedSender<Order>,
    screen: Screen,
    keyboard: Keyboard,
    stop: Option<tokio::signal::unix::Signal>,
}

impl Client {
    async fn run(mut self, mut news: mpsc::UnboundedReceiver<LinkEvent>) -> Result<(), Failure> {
        let mut tick = tokio::time::interval(TICK);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut drawn_at = Instant::now() - FRAME;
        loop {
            let draw_at = self.app.redraw().map(|redraw| match redraw {
                Redraw::AtOnce => drawn_at + FRAME,
                Redraw::WithMore => drawn_at + STREAMED_FRAME,
            });
            let event = tokio::select! {
                biased;
                () = sleep_until(draw_at.unwrap_or(drawn_at)), if draw_at.is_some() => {
                    self.app.mark_drawn();
                    self.draw()?;
                    drawn_at = Instant::now();
                    continue;
                }
                event = self.keyboard.next() => event?,
                () = stopped(&mut self.stop) => return Ok(()),
                _ = tick.tick() => Event::Tick,
                Some(event) = news.recv() => Event::Link(event),
            };
            if !self.handle(event).await? {
                return Ok(());
            }
            // Everything that is there already belongs to the same frame.
            while let Ok(event) = news.try_recv() {
                if !self.handle(Event::Link(event)).await? {
                    return Ok(());
                }
            }
        }
    }

    fn draw(&mut self) -> Result<(), Failure> {
        let app = &mut self.app;
        self.screen.draw(|frame| view::draw(app, frame))
    }

    /// Feeds an event to the application and performs what follows. Returns false if the program is to end.
    async fn handle(&mut self, event: Event) -> Result<bool, Failure> {
        let mut effects = self.app.update(Timestamp::now(), event);
        while !effects.is_empty() {
            let mut more = Vec::new();
            for effect in effects {
                match effect {
                    Effect::Quit => return Ok(false),
                    effect => more.extend(self.perform(effect).await?),
                }
            }
            effects = more;
        }
        Ok(true)
    }

    async fn perform(&mut self, effect: Effect) -> Result<Vec<Effect>, Failure> {
        let order = match effect {
            Effect::Dispatch(ticket, channel, action) => Order::Dispatch(ticket, channel, action),
            Effect::Request(ticket, method, params) => Order::Request(ticket, method, params),
            Effect::Subscribe(uri) => Order::Subscribe(uri),
            Effect::Unsubscribe(uri) => Order::Unsubscribe(uri),
            Effect::ConnectNow => Order::ConnectNow,
            Effect::Bell => {
                let mut stdout = std::io::stdout();
                // A terminal that cannot ring is no reason to stop.
                let _ = stdout.write_all(b"\x07").and_then(|()| stdout.flush());
                return Ok(Vec::new());
            }
            Effect::ReadFile(ticket, path) => {
                let event = Event::Link(LinkEvent::Reply(ticket, files::read(&path)));
                return Ok(self.app.update(Timestamp::now(), event));
            }
            Effect::Outside(outside) => return self.go_outside(outside).await,
            Effect::Quit => return Ok(Vec::new()),
        };
        // The connection task ends only with this one.
        let _ = self.orders.send(order);
        Ok(Vec::new())
    }

    /// Gives the terminal to another program until it ends.
    async fn go_outside(&mut self, outside: Outside) -> Result<Vec<Effect>, Failure> {
        self.keyboard.pause().await;
        self.screen.leave();
        let result = match outside {
            Outside::Command(words) => outside::run_command(&words, &self.args.connect).await,
            Outside::Editor(text) => match outside::edit(&text).await {
                Ok(text) => {
                    self.app.replace_message(&text);
                    Ok(())
                }
                Err(reason) => Err(reason),
            },
        };
        self.screen.enter_again()?;
        self.keyboard.resume();
        Ok(self.app.update(Timestamp::now(), Event::OutsideEnded(result)))
    }
}

async fn stopped(signal: &mut Option<tokio::signal::unix::Signal>) {
    match signal {
        Some(signal) => drop(signal.recv().await),
        None => std::future::pending().await,
    }
}
