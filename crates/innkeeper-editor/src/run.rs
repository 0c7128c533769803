//! Serves editors: moves messages between an editor, its [`Editor`] and the host.

use std::pin::pin;
use std::rc::Rc;
use std::time::Duration;

use innkeeper_acp_wire::{Closed, Wire};
use innkeeper_cli::connection::link::{Link, LinkEvent, LinkSettings, Order, StartHost};
use innkeeper_cli::discovery::DataDir;
use innkeeper_cli::failure::Failure;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::mpsc;

use crate::args::AcpArgs;
use crate::editor::{Editor, Outgoing};
use crate::listen::listen;

/// The longest wait for the last messages of an editor that is gone.
const FAREWELL: Duration = Duration::from_secs(1);

/// Serves an editor on standard input and output until the input ends, or editors over WebSocket. `start_host` starts a
/// host if none runs.
pub async fn run(dir: DataDir, args: AcpArgs, start_host: StartHost) -> Result<(), Failure> {
    let service = Service {
        start_host: Rc::new(start_host),
        dir,
        args,
    };
    match service.args.listen {
        Some(address) => listen(&service, address).await,
        None => {
            service.serve(tokio::io::stdout(), tokio::io::stdin()).await;
            Ok(())
        }
    }
}

/// Everything that the connections of editors have in common.
pub(crate) struct Service {
    pub(crate) dir: DataDir,
    pub(crate) args: AcpArgs,
    start_host: Rc<StartHost>,
}

impl Service {
    /// Serves one editor until it closes its end.
    pub(crate) async fn serve(
        &self,
        input: impl AsyncWrite + Send + Unpin + 'static,
        output: impl AsyncRead + Send + Unpin + 'static,
    ) {
        let start_host = Rc::clone(&self.start_host);
        let start_host: StartHost = Box::new(move || start_host());
        let (link, orders, news) = Link::new(
            self.dir.clone(),
            LinkSettings {
                connect: self.args.connect.clone(),
                start_host: (!self.args.no_start).then_some(start_host),
                program: "innkeeper-acp",
                first_turns: None,
            },
        );
        let connection = EditorConnection {
            editor: Editor::new(self.args.provider.clone()),
            wire: Wire::start(input, output),
            orders,
        };
        let mut link = pin!(link.run());
        tokio::select! {
            () = &mut link => {}
            () = connection.run(news) => {
                // The host need not find out by itself.
                let _ = tokio::time::timeout(FAREWELL, link).await;
            }
        }
    }
}

struct EditorConnection {
    editor: Editor,
    wire: Wire,
    orders: mpsc::UnboundedSender<Order>,
}

impl EditorConnection {
    async fn run(mut self, mut news: mpsc::UnboundedReceiver<LinkEvent>) {
        loop {
            tokio::select! {
                message = self.wire.next() => match message {
                    Ok(message) => self.editor.handle_message(message),
                    Err(Closed(reason)) => {
                        tracing::debug!(reason, "the editor is gone");
                        break;
                    }
                },
                Some(event) = news.recv() => self.editor.handle_link(event),
            }
            if self.flush().await.is_err() {
                break;
            }
        }
        let _ = tokio::time::timeout(FAREWELL, self.wire.finish()).await;
    }

    async fn flush(&mut self) -> Result<(), Closed> {
        for order in self.editor.take_orders() {
            // The connection task ends only with this one.
            let _ = self.orders.send(order);
        }
        for message in self.editor.take_outgoing() {
            match message {
                Outgoing::Answer(id, outcome) => self.wire.answer(&id, outcome).await?,
                Outgoing::Notify(method, params) => self.wire.notify(method, params).await?,
                Outgoing::Ask {
                    session,
                    input,
                    method,
                    params,
                } => {
                    let id = self.wire.request(method, params).await?;
                    self.editor.was_asked(id, session, input);
                }
            }
        }
        Ok(())
    }
}
