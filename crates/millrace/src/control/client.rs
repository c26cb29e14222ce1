//! A client of the control protocol.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::os::unix::net::UnixStream;

use super::Address;

/// Why a call over a control socket failed.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The connection failed.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// The server uses another protocol.
    #[error("the server does not speak Click's control protocol")]
    Protocol,
    /// The router refused the call.
    #[error("{message}")]
    Refused {
        /// The number of the answer, such as 511.
        code: u16,
        /// The text of the answer, one or more lines.
        message: String,
    },
}

/// A connection to a running router.
pub struct Client {
    stream: BufReader<Box<dyn ReadWrite>>,
}

trait ReadWrite: Read + Write + Send {}
impl<T: Read + Write + Send> ReadWrite for T {}

/// The maximum length of an answer line, in bytes. Lines of this server are far shorter.
const LONGEST_LINE: u64 = 64 << 10;

impl Client {
    /// Connects to a control socket.
    ///
    /// # Errors
    /// No server listens at the address, or it is not a control socket.
    pub fn connect(address: &Address) -> Result<Self, ClientError> {
        let stream: Box<dyn ReadWrite> = match address {
            Address::Tcp { host, port, .. } => Box::new(TcpStream::connect((*host, *port))?),
            Address::Unix(path) => Box::new(UnixStream::connect(path)?),
        };
        Self::greet(stream)
    }

    /// Connects to a control socket on another machine, `HOST:PORT`.
    ///
    /// # Errors
    /// As [`connect`](Self::connect).
    pub fn connect_to(address: impl ToSocketAddrs) -> Result<Self, ClientError> {
        Self::greet(Box::new(TcpStream::connect(address)?))
    }

    fn greet(stream: Box<dyn ReadWrite>) -> Result<Self, ClientError> {
        let mut client = Self { stream: BufReader::new(stream) };
        if client.line()?.starts_with("Click::ControlSocket/1.") {
            Ok(client)
        } else {
            Err(ClientError::Protocol)
        }
    }

    /// Sends the token that the socket asks for.
    ///
    /// # Errors
    /// The token is wrong, or the connection fails.
    pub fn authenticate(&mut self, token: &str) -> Result<(), ClientError> {
        self.ask(format!("AUTH {token}\r\n").as_bytes()).map(drop)
    }

    /// Reads a handler.
    ///
    /// # Errors
    /// There is no such handler, it refuses the call, or the connection fails.
    pub fn read(&mut self, handler: &str, parameter: &[u8]) -> Result<Vec<u8>, ClientError> {
        self.send("READDATA", handler, parameter)?;
        let line = self.line()?;
        let length = line.strip_prefix("DATA ").and_then(|n| n.parse().ok());
        let mut data = Vec::new();
        let length: u64 = length.ok_or(ClientError::Protocol)?;
        let read = self.stream.by_ref().take(length).read_to_end(&mut data)?;
        if (read as u64) < length {
            return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
        }
        Ok(data)
    }

    /// Writes a handler, and returns its warnings, one per line.
    ///
    /// # Errors
    /// There is no such handler, it refuses the call, or the connection fails.
    pub fn write(&mut self, handler: &str, text: &[u8]) -> Result<String, ClientError> {
        let message = self.send("WRITEDATA", handler, text)?;
        Ok(message.split_once('\n').map_or(String::new(), |(_, warnings)| warnings.to_owned()))
    }

    /// Sends a command with its data. The answer says whether it succeeded.
    fn send(&mut self, command: &str, handler: &str, data: &[u8]) -> Result<String, ClientError> {
        // White space in a name would split it into two words; no handler has such a name.
        if handler.is_empty() || handler.contains(|c: char| c.is_whitespace() || c.is_control()) {
            let message = format!("‘{handler}’ is not the name of a handler");
            return Err(ClientError::Refused { code: 500, message });
        }
        let mut request = format!("{command} {handler} {}\r\n", data.len()).into_bytes();
        request.extend_from_slice(data);
        self.ask(&request)
    }

    /// Sends a request and reads the message lines of the answer.
    fn ask(&mut self, request: &[u8]) -> Result<String, ClientError> {
        let stream = self.stream.get_mut();
        stream.write_all(request)?;
        stream.flush()?;
        let mut message = String::new();
        loop {
            let line = self.line()?;
            let code = line.get(..3).and_then(|code| code.parse::<u16>().ok());
            let (Some(code), Some(text)) = (code, line.get(4..)) else {
                return Err(ClientError::Protocol);
            };
            if !message.is_empty() {
                message.push('\n');
            }
            message.push_str(text);
            if line.as_bytes().get(3) == Some(&b'-') {
                continue;
            }
            return match code {
                200..300 => Ok(message),
                _ => Err(ClientError::Refused { code, message }),
            };
        }
    }

    fn line(&mut self) -> Result<String, ClientError> {
        let mut line = Vec::new();
        self.stream.by_ref().take(LONGEST_LINE).read_until(b'\n', &mut line)?;
        if line.pop() != Some(b'\n') {
            return Err(ClientError::Protocol);
        }
        if line.last() == Some(&b'\r') {
            line.pop();
        }
        Ok(String::from_utf8_lossy(&line).into_owned())
    }
}
