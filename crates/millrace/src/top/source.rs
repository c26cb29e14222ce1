//! Where the figures come from: a running router, in this process or behind a control socket. It is asked on a thread of
//! its own, so that keys are answered while it is slow.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use millrace_core::Router;

use crate::control::{Client, ClientError};
use crate::model::{Model, Snapshot};

/// What is asked of a router.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Request {
    /// The figures.
    Snapshot,
    /// The handlers of an element, and its arguments.
    Handlers(String),
    /// The value of a handler.
    Read(String),
    /// A new value for a handler.
    Write(String, String),
}

/// An answer to a [`Request`], or why there is none.
pub(crate) enum Answer {
    /// The figures.
    Snapshot(Result<Box<Snapshot>, Failure>),
    /// Of an element: its handlers, and its arguments.
    Handlers(String, Result<(Vec<Handler>, String), Failure>),
    /// Of a handler: its value.
    Value(String, Result<String, Failure>),
    /// Of a handler: what the router had to say to the new value.
    Written(String, Result<String, Failure>),
}

/// A handler.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Handler {
    pub(crate) name: String,
    pub(crate) read: bool,
    pub(crate) write: bool,
}

/// Why a router did not answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// It cannot be reached.
    Lost(String),
    /// It refuses.
    Refused(String),
}

/// A running router.
pub(crate) trait Source: Send {
    /// The figures of this moment.
    fn snapshot(&mut self) -> Result<Snapshot, Failure>;
    /// The value of a handler.
    fn read(&mut self, handler: &str) -> Result<String, Failure>;
    /// Writes a handler; returns what the router had to say.
    fn write(&mut self, handler: &str, value: &str) -> Result<String, Failure>;
}

/// A router behind a control socket. A lost connection is opened again with the next request.
pub(crate) struct Remote {
    connect: Box<dyn FnMut() -> anyhow::Result<Client> + Send>,
    client: Option<Client>,
}

impl Remote {
    /// The router that `connect` connects to, which it has done once.
    pub(crate) fn new(
        client: Client,
        connect: impl FnMut() -> anyhow::Result<Client> + Send + 'static,
    ) -> Self {
        Self { connect: Box::new(connect), client: Some(client) }
    }

    fn call<T>(
        &mut self,
        call: impl FnOnce(&mut Client) -> Result<T, ClientError>,
    ) -> Result<T, Failure> {
        let client = match &mut self.client {
            Some(client) => client,
            None => {
                let client = (self.connect)();
                self.client.insert(client.map_err(|error| Failure::Lost(format!("{error:#}")))?)
            }
        };
        call(client).map_err(|error| match error {
            ClientError::Refused { code, message } => Failure::Refused(match code {
                // The first line names the handler, the others say why.
                520 | 590 => {
                    message.split_once('\n').map_or(&*message, |(_, said)| said).to_owned()
                }
                _ => message,
            }),
            ClientError::Protocol | ClientError::Io(_) => {
                self.client = None;
                Failure::Lost("the connection was closed".to_owned())
            }
        })
    }
}

impl Source for Remote {
    fn snapshot(&mut self) -> Result<Snapshot, Failure> {
        let text =
            self.call(|client| client.read("snapshot", b"")).map_err(|failure| match failure {
                Failure::Refused(_) => Failure::Refused(
                    "it has no handler ‘snapshot’: it is no Millrace, or an older one".to_owned(),
                ),
                lost => lost,
            })?;
        let snapshot: Snapshot = serde_json::from_slice(&text)
            .map_err(|error| Failure::Refused(format!("its snapshot cannot be read: {error}")))?;
        match snapshot.version {
            0..=Snapshot::VERSION => Ok(snapshot),
            newer => Err(Failure::Refused(format!(
                "its snapshot has version {newer}, this program knows {}",
                Snapshot::VERSION
            ))),
        }
    }

    fn read(&mut self, handler: &str) -> Result<String, Failure> {
        let value = self.call(|client| client.read(handler, b""))?;
        Ok(String::from_utf8_lossy(&value).into_owned())
    }

    fn write(&mut self, handler: &str, value: &str) -> Result<String, Failure> {
        self.call(|client| client.write(handler, value.as_bytes()))
    }
}

/// A router in this process.
pub(crate) struct Own {
    pub(crate) router: Arc<Router>,
    pub(crate) model: Model,
}

impl Source for Own {
    fn snapshot(&mut self) -> Result<Snapshot, Failure> {
        Ok(self.model.snapshot(&self.router))
    }

    fn read(&mut self, handler: &str) -> Result<String, Failure> {
        let value = self.router.read(handler, b"");
        let value = value.map_err(|error| Failure::Refused(error.to_string()))?;
        Ok(String::from_utf8_lossy(&value).into_owned())
    }

    fn write(&mut self, handler: &str, value: &str) -> Result<String, Failure> {
        let written = self.router.write(handler, value.as_bytes());
        written.map(|()| String::new()).map_err(|error| Failure::Refused(error.to_string()))
    }
}

/// The thread that asks a router.
pub(crate) struct Asker {
    requests: Option<Sender<Request>>,
    answers: Receiver<Answer>,
}

impl Asker {
    /// Starts the thread. With each answer it wakes who waits for them.
    ///
    /// # Errors
    /// The system starts no thread.
    pub(crate) fn start(mut source: Box<dyn Source>, waker: Arc<OwnedFd>) -> std::io::Result<Self> {
        let (requests, asked) = channel();
        let (answer, answers) = channel();
        std::thread::Builder::new().name("asker".to_owned()).spawn(move || {
            while let Ok(request) = asked.recv() {
                if answer.send(respond(&mut *source, request)).is_err() {
                    return;
                }
                // If that fails, it is being woken already.
                let _ = rustix::io::write(&waker, &1u64.to_ne_bytes());
            }
        })?;
        Ok(Self { requests: Some(requests), answers })
    }

    /// Asks. The answer comes later.
    pub(crate) fn ask(&self, request: Request) {
        // A thread that has ended gives no answers, which is noticed there.
        self.requests.iter().for_each(|requests| drop(requests.send(request.clone())));
    }

    /// An answer, if one has come.
    pub(crate) fn answer(&self) -> Option<Answer> {
        self.answers.try_recv().ok()
    }

    /// Ends the thread. Waits for an answer that is under way, but not for long.
    pub(crate) fn end(mut self, patience: Duration) {
        self.requests = None;
        while self.answers.recv_timeout(patience).is_ok() {}
    }
}

fn respond(source: &mut dyn Source, request: Request) -> Answer {
    match request {
        Request::Snapshot => Answer::Snapshot(source.snapshot().map(Box::new)),
        Request::Handlers(element) => {
            let list = source.read(&format!("{element}.handlers"));
            let answer = list.map(|list| {
                let config = source.read(&format!("{element}.config")).unwrap_or_default();
                (handlers(&list), config)
            });
            Answer::Handlers(element, answer)
        }
        Request::Read(handler) => {
            let value = source.read(&handler);
            Answer::Value(handler, value)
        }
        Request::Write(handler, value) => {
            let said = source.write(&handler, &value);
            Answer::Written(handler, said)
        }
    }
}

/// The handlers in the text of the handler `handlers`: name, tab, `r`, `w` and other letters.
fn handlers(list: &str) -> Vec<Handler> {
    let handler = |line: &str| {
        let (name, rights) = line.split_once('\t')?;
        let (read, write) = (rights.contains('r'), rights.contains('w'));
        Some(Handler { name: name.to_owned(), read, write })
    };
    list.lines().filter_map(handler).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn handlers_are_read_from_their_list() {
        let list = handlers("count\tr.\nreset_counts\tw\nrate\trw\nnonsense\n");
        let rights: Vec<_> = list.iter().map(|it| (&*it.name, it.read, it.write)).collect();
        let expected =
            [("count", true, false), ("reset_counts", false, true), ("rate", true, true)];
        assert_eq!(rights, expected);
    }
}
