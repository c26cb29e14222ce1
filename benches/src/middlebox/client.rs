//! A client of web servers with many connections on one thread, which compares every answer with what it should be.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use rustix::event::{Timespec, epoll};
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, connect, socket_with};

/// What is asked for, and the answer's content.
pub(crate) struct Question {
    request: Vec<u8>,
    content: Vec<u8>,
    /// Whether the server closes the connection after its answer.
    closes: bool,
}

impl Question {
    /// Asks for a page. The server closes the connection after its answer, or leaves it open.
    pub(crate) fn new(page: &str, content: &[u8], closes: bool) -> Self {
        let connection = if closes { "close" } else { "keep-alive" };
        let request =
            format!("GET /{page} HTTP/1.1\r\nHost: server\r\nConnection: {connection}\r\n\r\n");
        Self { request: request.into(), content: content.to_owned(), closes }
    }
}

/// Connections, of which some may wait for their answers.
pub(crate) struct Client<'a> {
    server: SocketAddr,
    question: &'a Question,
    epoll: OwnedFd,
    connections: Vec<Connection>,
}

struct Connection {
    stream: TcpStream,
    asked: bool,
    answered: bool,
    answer: Vec<u8>,
}

/// What became of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Progress {
    Waits,
    /// The answer is there, and right.
    Answered,
}

impl<'a> Client<'a> {
    /// No connections yet. They are made from the network namespace of the thread that uses this.
    ///
    /// # Errors
    /// The system refuses.
    pub(crate) fn new(server: SocketAddr, question: &'a Question) -> anyhow::Result<Self> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).context("epoll")?;
        Ok(Self { server, question, epoll, connections: Vec::new() })
    }

    /// Keeps this many connections open at a time, each of which ends with its answer, for as long as `window`, after a
    /// warm-up. Tells when the window begins, and returns how many connections were answered in it.
    ///
    /// # Errors
    /// A connection fails, or an answer is wrong.
    pub(crate) fn connect_again_and_again(
        &mut self,
        concurrent: usize,
        window: Duration,
        begins: impl FnOnce() -> anyhow::Result<()>,
    ) -> anyhow::Result<u64> {
        const WARM_UP: Duration = Duration::from_millis(300);
        ensure!(self.question.closes, "connections that stay open");
        for _ in 0..concurrent {
            let connection = self.connection()?;
            self.connections.push(connection);
            self.watch(self.connections.len() - 1)?;
        }
        self.repeat_until(Instant::now() + WARM_UP)?;
        begins()?;
        self.repeat_until(Instant::now() + window)
    }

    fn repeat_until(&mut self, end: Instant) -> anyhow::Result<u64> {
        let mut answered = 0;
        while Instant::now() < end {
            for at in self.ready()? {
                if self.advance(at)? == Progress::Answered {
                    answered += 1;
                    self.connections[at] = self.connection()?;
                    self.watch(at)?;
                }
            }
        }
        Ok(answered)
    }

    /// Opens this many connections, with `concurrent` ones that are not answered yet, and leaves all of them open.
    ///
    /// # Errors
    /// A connection fails, an answer is wrong, or answers stay away.
    pub(crate) fn open(&mut self, count: usize, concurrent: usize) -> anyhow::Result<()> {
        let (mut answered, mut last) = (0, Instant::now());
        while answered < count {
            while self.connections.len() < count && self.connections.len() - answered < concurrent {
                let connection = self.connection()?;
                self.connections.push(connection);
                self.watch(self.connections.len() - 1)?;
            }
            answered += self.collect(&mut last)?;
        }
        Ok(())
    }

    /// Asks once more on each connection, `concurrent` ones at a time.
    ///
    /// # Errors
    /// A connection fails, an answer is wrong, or answers stay away.
    pub(crate) fn ask_all(&mut self, concurrent: usize) -> anyhow::Result<()> {
        let (count, mut asked, mut answered) = (self.connections.len(), 0, 0);
        let mut last = Instant::now();
        while answered < count {
            while asked < count && asked - answered < concurrent {
                self.connections[asked].asked = false;
                self.connections[asked].answered = false;
                self.connections[asked].answer.clear();
                answered += usize::from(self.advance(asked)? == Progress::Answered);
                asked += 1;
            }
            answered += self.collect(&mut last)?;
        }
        Ok(())
    }

    /// How many answers have come. `last` is when one came last.
    fn collect(&mut self, last: &mut Instant) -> anyhow::Result<usize> {
        const PATIENCE: Duration = Duration::from_secs(30);
        let mut answered = 0;
        for at in self.ready()? {
            answered += usize::from(self.advance(at)? == Progress::Answered);
        }
        match answered {
            0 => ensure!(last.elapsed() < PATIENCE, "connections are not answered"),
            _ => *last = Instant::now(),
        }
        Ok(answered)
    }

    /// A new connection, which is not open yet.
    fn connection(&self) -> anyhow::Result<Connection> {
        let family = match self.server {
            SocketAddr::V4(_) => AddressFamily::INET,
            SocketAddr::V6(_) => AddressFamily::INET6,
        };
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let socket = socket_with(family, SocketType::STREAM, flags, None).context("a socket")?;
        match connect(&socket, &self.server) {
            Ok(()) | Err(Errno::INPROGRESS) => (),
            Err(error) => bail!("{}: {error}", self.server),
        }
        Ok(Connection { stream: socket.into(), asked: false, answered: false, answer: Vec::new() })
    }

    fn watch(&self, at: usize) -> anyhow::Result<()> {
        let flags = epoll::EventFlags::IN | epoll::EventFlags::OUT | epoll::EventFlags::ET;
        let data = epoll::EventData::new_u64(at as u64);
        epoll::add(&self.epoll, &self.connections[at].stream, data, flags).context("epoll")
    }

    /// The connections on which something has happened, after waiting a little.
    fn ready(&self) -> anyhow::Result<Vec<usize>> {
        const A_LITTLE: Timespec = Timespec { tv_sec: 0, tv_nsec: 10_000_000 };
        let mut events = Vec::with_capacity(256);
        let spare = rustix::buffer::spare_capacity(&mut events);
        epoll::wait(&self.epoll, spare, Some(&A_LITTLE)).context("epoll")?;
        events.iter().map(|event| Ok(usize::try_from(event.data.u64())?)).collect()
    }

    /// Asks and reads as far as it goes. An answer is told once.
    fn advance(&mut self, at: usize) -> anyhow::Result<Progress> {
        let connection = &mut self.connections[at];
        if connection.answered {
            return Ok(Progress::Waits);
        }
        if !connection.asked {
            match connection.stream.write(&self.question.request) {
                Ok(length) => {
                    ensure!(length == self.question.request.len(), "a question went in part");
                    connection.asked = true;
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(Progress::Waits),
                Err(error) => return Err(error).context("a connection"),
            }
        }
        let mut bytes = [0; 4096];
        let ended = loop {
            match connection.stream.read(&mut bytes) {
                Ok(0) => break true,
                Ok(length) => connection.answer.extend_from_slice(&bytes[..length]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => break false,
                Err(error) => return Err(error).context("a connection"),
            }
        };
        ensure!(!ended || self.question.closes, "the server closed a connection");
        let whole = connection.has_whole(&self.question.content)?;
        ensure!(!ended || whole, "an answer ended early");
        connection.answered = if self.question.closes { ended } else { whole };
        Ok(if connection.answered { Progress::Answered } else { Progress::Waits })
    }
}

impl Connection {
    /// Whether the answer is whole, and contains what it should.
    fn has_whole(&self, content: &[u8]) -> anyhow::Result<bool> {
        const END: &[u8] = b"\r\n\r\n";
        let Some(end) = self.answer.windows(END.len()).position(|bytes| bytes == END) else {
            return Ok(false);
        };
        let (head, body) = self.answer.split_at(end + END.len());
        ensure!(head.starts_with(b"HTTP/1.1 200 "), "{}", String::from_utf8_lossy(head));
        let chunked = String::from_utf8_lossy(head).to_ascii_lowercase().contains("chunked\r\n");
        let (body, is_whole) = match chunked {
            true => joined(body),
            false => (body.to_owned(), body.len() == content.len()),
        };
        ensure!(content.starts_with(&body), "another answer: {}", String::from_utf8_lossy(&body));
        ensure!(!is_whole || body.len() == content.len(), "an answer is too short");
        Ok(is_whole)
    }
}

/// The content that came in chunks so far, and whether the last one is there.
fn joined(mut bytes: &[u8]) -> (Vec<u8>, bool) {
    let mut content = Vec::new();
    while let Some(end) = bytes.windows(2).position(|bytes| bytes == b"\r\n") {
        let (size, rest) = (&bytes[..end], &bytes[end + 2..]);
        let size =
            std::str::from_utf8(size).ok().and_then(|text| usize::from_str_radix(text, 16).ok());
        let (Some(size), Some(chunk)) = (size, size.and_then(|size| rest.get(..size))) else {
            break;
        };
        // An empty line is after each chunk, and after the last one, which is empty.
        let Some(rest) = rest[size..].strip_prefix(b"\r\n") else { break };
        if size == 0 {
            return (content, rest.is_empty());
        }
        content.extend_from_slice(chunk);
        bytes = rest;
    }
    (content, false)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "helpers of tests")]

    use std::io::BufRead;
    use std::net::TcpListener;

    use super::*;

    /// A server that gives this answer to every request.
    fn serve(answer: &'static str, closes: bool) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                std::thread::spawn(move || {
                    let mut stream = stream.unwrap();
                    let mut lines = std::io::BufReader::new(stream.try_clone().unwrap()).lines();
                    while let Some(Ok(line)) = lines.next() {
                        if line.is_empty() {
                            stream.write_all(answer.as_bytes()).unwrap();
                            if closes {
                                return stream.shutdown(std::net::Shutdown::Both).unwrap();
                            }
                        }
                    }
                });
            }
        });
        address
    }

    const ANSWER: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi";

    #[test]
    fn connections_are_answered_again_and_again() {
        let question = Question::new("page", b"hi", true);
        let mut client = Client::new(serve(ANSWER, true), &question).unwrap();
        let window = Duration::from_millis(100);
        let answered = client.connect_again_and_again(4, window, || Ok(())).unwrap();
        assert!(answered > 0);
    }

    #[test]
    fn connections_that_stay_open_are_asked_once_more() {
        let question = Question::new("page", b"hi", false);
        let mut client = Client::new(serve(ANSWER, false), &question).unwrap();
        client.open(20, 5).unwrap();
        client.ask_all(5).unwrap();
    }

    #[test]
    fn an_answer_may_come_in_chunks() {
        let whole = b"3\r\nabc\r\n1\r\nd\r\n0\r\n\r\n";
        for length in 0..whole.len() {
            let (content, is_whole) = joined(&whole[..length]);
            assert!(b"abcd".starts_with(&content) && !is_whole, "{length}");
        }
        assert_eq!(joined(whole), (b"abcd".to_vec(), true));
    }

    #[test]
    fn a_wrong_answer_is_an_error() {
        let question = Question::new("page", b"ho", false);
        let mut client = Client::new(serve(ANSWER, false), &question).unwrap();
        assert!(client.open(1, 1).unwrap_err().to_string().contains("another answer"));
    }
}
