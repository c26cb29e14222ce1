//! The messages of HTTP/1 (RFC 9112) in a stream: where heads and contents begin and end.

use std::borrow::Cow;
use std::collections::VecDeque;

/// The longest head of a message. A stream with a longer one is left alone.
pub(crate) const LONGEST_HEAD: usize = 64 << 10;

/// A head: the first line and the fields, up to the empty line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) first_line: Vec<u8>,
    /// Lines with a name, a colon and a value.
    pub(crate) fields: Vec<Vec<u8>>,
}

/// How long the content of a message is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Length {
    Bytes(u64),
    Chunked,
    /// Up to the end of the stream.
    Rest,
}

impl Head {
    /// Reads a head that ends with an empty line.
    pub(crate) fn parse(bytes: &[u8]) -> Option<Self> {
        let mut lines = bytes.split(|byte| *byte == b'\n');
        let mut lines = lines.by_ref().map(|line| line.strip_suffix(b"\r").unwrap_or(line));
        let first_line = lines.next()?.to_vec();
        let is_response = first_line.starts_with(b"HTTP/");
        let is_request = first_line.windows(7).any(|part| part == b" HTTP/1");
        let mut fields: Vec<Vec<u8>> = Vec::new();
        for line in lines.take_while(|line| !line.is_empty()) {
            if line.starts_with(b" ") || line.starts_with(b"\t") {
                // The field before goes on, which receivers read in two ways: it leaves in one line (RFC 9112, 5.2).
                let field = fields.last_mut()?;
                field.truncate(field.trim_ascii_end().len());
                field.push(b' ');
                field.extend_from_slice(line.trim_ascii());
                continue;
            }
            // A line without a colon, or with a space before it, might be read in two ways.
            let name = line.split(|byte| *byte == b':').next().unwrap_or_default();
            if name.len() == line.len() || name.iter().any(u8::is_ascii_whitespace) {
                return None;
            }
            fields.push(line.to_vec());
        }
        (is_response || is_request).then_some(Self { first_line, fields })
    }

    /// The head as bytes.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        let lines = std::iter::once(&self.first_line).chain(&self.fields);
        let mut bytes: Vec<u8> = Vec::new();
        for line in lines {
            bytes.extend_from_slice(line);
            bytes.extend_from_slice(b"\r\n");
        }
        bytes.extend_from_slice(b"\r\n");
        bytes
    }

    pub(crate) fn is_response(&self) -> bool {
        self.first_line.starts_with(b"HTTP/")
    }

    /// Whether the message is of version 1.1, so that it may be chunked.
    pub(crate) fn is_1_1(&self) -> bool {
        self.first_line.windows(8).any(|part| part == b"HTTP/1.1")
    }

    /// Whether the message is of version 1.0, whose hosts do not know chunks.
    pub(crate) fn is_1_0(&self) -> bool {
        self.first_line.starts_with(b"HTTP/1.0") || self.first_line.ends_with(b" HTTP/1.0")
    }

    /// Makes the message one of version 1.0.
    pub(crate) fn set_version_1_0(&mut self) {
        let at = self.first_line.windows(8).rposition(|part| part == b"HTTP/1.1");
        if let Some(digit) = at.and_then(|at| self.first_line.get_mut(at + 7)) {
            *digit = b'0';
        }
    }

    /// The status of a response.
    fn status(&self) -> Option<u16> {
        let status = self.first_line.split(|byte| *byte == b' ').nth(1)?;
        std::str::from_utf8(status).ok()?.parse().ok()
    }

    /// Whether another response to the same request follows.
    fn is_interim(&self) -> bool {
        self.is_response() && self.status().is_some_and(|status| (100..200).contains(&status))
    }

    /// The values of a field.
    pub(crate) fn values(&self, name: &str) -> impl Iterator<Item = String> {
        let values = self.fields.iter().filter_map(move |line| {
            let (field, value) = line.split_at_checked(name.len())?;
            let value = value.strip_prefix(b":")?;
            field.eq_ignore_ascii_case(name.as_bytes()).then_some(value)
        });
        values.map(|value| String::from_utf8_lossy(value).trim().to_ascii_lowercase())
    }

    pub(crate) fn has(&self, name: &str, value: &str) -> bool {
        self.values(name).any(|list| list.split(',').any(|one| one.trim() == value))
    }

    /// Removes a field; returns whether it was there.
    pub(crate) fn remove(&mut self, name: &str) -> bool {
        let before = self.fields.len();
        self.fields.retain(|line| {
            let colon = line.iter().position(|byte| *byte == b':').unwrap_or(line.len());
            let field = line.get(..colon).unwrap_or_default();
            !field.trim_ascii().eq_ignore_ascii_case(name.as_bytes())
        });
        self.fields.len() < before
    }

    pub(crate) fn add(&mut self, field: String) {
        self.fields.push(field.into_bytes());
    }

    /// How long the content is (RFC 9112, 6.3). `None` if the message can be understood in two ways, or what follows it
    /// is not HTTP. `asks_for_none` says that the request was one for the head alone.
    pub(crate) fn length(&self, asks_for_none: bool) -> Option<Length> {
        let status = self.status();
        if self.is_response() {
            match status? {
                101 => return None,
                100..200 | 204 | 304 => return Some(Length::Bytes(0)),
                _ if asks_for_none => return Some(Length::Bytes(0)),
                _ => {}
            }
        } else if self.first_line.starts_with(b"CONNECT ") {
            return None;
        }
        let mut codings = self.values("Transfer-Encoding");
        let coding = codings.next();
        let mut lengths = self.values("Content-Length");
        let length = lengths.next();
        match (coding, length) {
            (Some(coding), None) if coding == "chunked" && codings.next().is_none() => {
                Some(Length::Chunked)
            }
            (Some(_), _) => None,
            (None, Some(length)) if lengths.all(|other| other == length) => {
                let is_number = length.bytes().all(|digit| digit.is_ascii_digit());
                Some(Length::Bytes(length.parse().ok().filter(|_| is_number)?))
            }
            (None, Some(_)) => None,
            (None, None) if self.is_response() => Some(Length::Rest),
            (None, None) => Some(Length::Bytes(0)),
        }
    }
}

/// What a response needs to know of its request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Request {
    /// It asks for a head alone.
    pub(crate) is_for_head: bool,
    /// It is of version 1.0.
    pub(crate) is_1_0: bool,
}

/// The requests of a connection without a response yet.
#[derive(Debug, Default)]
pub(crate) struct Requests {
    waiting: VecDeque<Request>,
    /// Not all further ones are known.
    is_lost: bool,
}

/// Requests without a response that are remembered.
const MOST_REQUESTS: usize = 1024;

impl Requests {
    /// Remembers a request. If there are too many, no later one is: their responses cannot be told apart.
    pub(crate) fn ask(&mut self, request: Request) {
        self.is_lost |= self.waiting.len() >= MOST_REQUESTS;
        if !self.is_lost {
            self.waiting.push_back(request);
        }
    }

    /// Further requests are not understood.
    pub(crate) fn lose(&mut self) {
        self.is_lost = true;
    }

    /// The request of the next response. `None` if it is not known.
    pub(crate) fn answer(&mut self) -> Option<Request> {
        self.waiting.pop_front().or((!self.is_lost).then(Request::default))
    }
}

/// A part of a stream, as a [`Reader`] finds it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Part<'b> {
    /// A head, with the length of the content that follows.
    Head(Head, Length),
    /// Content, without the marks of chunks.
    Content(&'b [u8]),
    /// The message ends.
    End,
    /// Bytes that are not to be understood, as they are. Everything after them is of the same kind.
    Opaque(Cow<'b, [u8]>),
}

/// Divides a stream into messages.
#[derive(Debug, Default)]
pub(crate) struct Reader {
    state: State,
    /// Bytes of a head, or of the line before a chunk, that is not complete.
    waiting: Vec<u8>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Head,
    Bytes(u64),
    /// In front of a chunk's line.
    Chunk,
    /// In a chunk, and the line break after it.
    InChunk(u64),
    /// In the lines after the last chunk.
    Trailer,
    Rest,
    Opaque,
}

impl Reader {
    /// Whether bytes wait for the rest of a head or a line.
    pub(crate) fn waits(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Reads the next bytes of the stream; `is_for_head` says whether the next response is one to a request for the head
    /// alone, or `None` if nobody knows. `part` gets what is found, with the number of bytes that were used for it.
    pub(crate) fn read<'b>(
        &mut self,
        mut bytes: &'b [u8],
        mut is_for_head: impl FnMut() -> Option<bool>,
        mut part: impl FnMut(Part<'b>, usize),
    ) {
        loop {
            if self.state == State::Opaque || self.state == State::Rest {
                if !bytes.is_empty() {
                    let found = match self.state {
                        State::Rest => Part::Content(bytes),
                        _ => Part::Opaque(bytes.into()),
                    };
                    part(found, bytes.len());
                }
                return;
            }
            if bytes.is_empty() {
                return;
            }
            match self.state {
                State::Bytes(left) => {
                    let (content, rest) = take(bytes, left);
                    bytes = rest;
                    part(Part::Content(content), content.len());
                    self.state = State::Bytes(left - content.len() as u64);
                    if left == content.len() as u64 {
                        self.state = State::Head;
                        part(Part::End, 0);
                    }
                }
                State::InChunk(left) => {
                    let (content, rest) = take(bytes, left);
                    bytes = rest;
                    if !content.is_empty() {
                        part(Part::Content(content), content.len());
                    }
                    self.state = match left - content.len() as u64 {
                        0 => State::Chunk,
                        left => State::InChunk(left),
                    };
                }
                State::Head | State::Chunk | State::Trailer => {
                    let Some(used) = self.gather(bytes) else {
                        self.waiting.extend_from_slice(bytes);
                        if self.waiting.len() > LONGEST_HEAD {
                            self.give_up(bytes.len(), &mut part);
                        }
                        return;
                    };
                    let (now, rest) = bytes.split_at_checked(used).unwrap_or((bytes, &[]));
                    bytes = rest;
                    self.waiting.extend_from_slice(now);
                    self.line_or_head(used, &mut is_for_head, &mut part);
                }
                State::Rest | State::Opaque => return,
            }
        }
    }

    /// The bytes up to the end of the head, the chunk's line or the line of the trailer.
    fn gather(&self, bytes: &[u8]) -> Option<usize> {
        let mut last = [0; 3];
        let all = self.waiting.iter().rev().take(3).rev().chain(bytes);
        let known = self.waiting.len().min(3);
        let ends_at_line = self.state != State::Head;
        for (n, byte) in all.enumerate() {
            let is_end = match (byte, last) {
                (b'\n', _) if ends_at_line => true,
                (b'\n', [_, _, b'\n'] | [_, b'\n', b'\r']) => true,
                _ => false,
            };
            if is_end && n >= known {
                return Some(n + 1 - known);
            }
            last = [last[1], last[2], *byte];
        }
        None
    }

    fn line_or_head<'b>(
        &mut self,
        used: usize,
        is_for_head: &mut impl FnMut() -> Option<bool>,
        part: &mut impl FnMut(Part<'b>, usize),
    ) {
        let line = self.waiting.trim_ascii();
        match self.state {
            State::Chunk => {
                // A chunk's line follows the line break that ends the one before.
                let size = line.split(|byte| *byte == b';').next().unwrap_or_default();
                let size = std::str::from_utf8(size.trim_ascii()).ok();
                let is_hex = |text: &&str| text.bytes().all(|digit| digit.is_ascii_hexdigit());
                match size.filter(is_hex).map(|text| u64::from_str_radix(text, 16)) {
                    Some(_) if line.is_empty() => part(Part::Content(&[]), used),
                    Some(Ok(0)) => {
                        self.state = State::Trailer;
                        part(Part::Content(&[]), used);
                    }
                    Some(Ok(size)) => {
                        self.state = State::InChunk(size);
                        part(Part::Content(&[]), used);
                    }
                    _ => return self.give_up(used, part),
                }
            }
            State::Trailer => {
                part(Part::Content(&[]), used);
                if line.is_empty() {
                    self.state = State::Head;
                    part(Part::End, 0);
                }
            }
            _ => {
                let head = Head::parse(self.waiting.trim_ascii_start());
                let is_interim = head.as_ref().is_some_and(Head::is_interim);
                let length = head.as_ref().and_then(|head| {
                    let answers = head.is_response() && !is_interim;
                    head.length(if answers { is_for_head()? } else { false })
                });
                let (Some(head), Some(length)) = (head, length) else {
                    return self.give_up(used, part);
                };
                part(Part::Head(head, length), used);
                self.state = match length {
                    Length::Bytes(0) => State::Head,
                    Length::Bytes(bytes) => State::Bytes(bytes),
                    Length::Chunked => State::Chunk,
                    Length::Rest => State::Rest,
                };
                if self.state == State::Head && !is_interim {
                    part(Part::End, 0);
                }
            }
        }
        self.waiting.clear();
    }

    /// Reads no further: what waits goes on as it is.
    pub(crate) fn give_up<'b>(&mut self, used: usize, part: &mut impl FnMut(Part<'b>, usize)) {
        self.state = State::Opaque;
        part(Part::Opaque(std::mem::take(&mut self.waiting).into()), used);
    }
}

/// The first bytes, at most `most`, and the others.
fn take(bytes: &[u8], most: u64) -> (&[u8], &[u8]) {
    let most = usize::try_from(most).unwrap_or(usize::MAX).min(bytes.len());
    bytes.split_at_checked(most).unwrap_or((bytes, &[]))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a reader finds in a stream that comes in parts of this length.
    fn parts(text: &str, length: usize, for_head: bool) -> Vec<String> {
        let mut reader = Reader::default();
        let (mut found, mut used): (Vec<String>, usize) = (Vec::new(), 0);
        for bytes in text.as_bytes().chunks(length) {
            let waiting = reader.waiting.len();
            let mut now = 0;
            reader.read(
                bytes,
                || Some(for_head),
                |part, n| {
                    now += n;
                    match part {
                        Part::Head(head, length) => {
                            let line = String::from_utf8(head.first_line).unwrap();
                            found.push(format!("{line} {length:?}"));
                        }
                        Part::Content(b"") => {}
                        Part::Content(bytes) => {
                            let text = std::str::from_utf8(bytes).unwrap();
                            match found.last_mut() {
                                Some(last) if last.starts_with('=') => last.push_str(text),
                                _ => found.push(format!("={text}")),
                            }
                        }
                        Part::Opaque(bytes) if bytes.is_empty() => {}
                        Part::End => found.push("end".to_owned()),
                        Part::Opaque(_) => found.push("opaque".to_owned()),
                    }
                },
            );
            used += now;
            // What is not used waits.
            assert!(used <= text.len() && (reader.waits() || now + waiting >= bytes.len()));
        }
        found.dedup_by(|one, other| one == "opaque" && other == "opaque");
        found
    }

    #[test]
    fn messages_end_where_they_say() {
        let get = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";
        let table = [
            (get.repeat(2), false, vec!["GET / HTTP/1.1 Bytes(0)", "end", "GET / HTTP/1.1 Bytes(0)", "end"]),
            ("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nabcdHTTP/1.1 204 No\r\n\r\n".into(), false,
                vec!["HTTP/1.1 200 OK Bytes(4)", "=abcd", "end", "HTTP/1.1 204 No Bytes(0)", "end"]),
            ("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nHTTP/1.1 404 No\n\n".into(), true,
                vec!["HTTP/1.1 200 OK Bytes(0)", "end", "HTTP/1.1 404 No Bytes(0)", "end"]),
            ("HTTP/1.1 200 OK\r\ntransfer-encoding: Chunked\r\n\r\n3;x=1\r\nabc\r\n0A\r\n0123456789\r\n0\r\nA: b\r\n\r\n".into(),
                false, vec!["HTTP/1.1 200 OK Chunked", "=abc0123456789", "end"]),
            ("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.0 200 OK\r\n\r\nuntil the end".into(), false,
                vec!["HTTP/1.1 100 Continue Bytes(0)", "HTTP/1.0 200 OK Rest", "=until the end"]),
            ("HTTP/1.1 101 Switching\r\n\r\nanything".into(), false, vec!["opaque"]),
            ("SSH-2.0-OpenSSH\r\n\r\n".into(), false, vec!["opaque"]),
            ("POST / HTTP/1.1\r\nContent-Length: 4\r\nContent-Length: 5\r\n\r\nabcd".into(), false, vec!["opaque"]),
            ("POST / HTTP/1.1\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n".into(), false, vec!["opaque"]),
            ("POST / HTTP/1.1\r\nContent-Length: +4\r\n\r\nabcd".into(), false, vec!["opaque"]),
            ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n".into(), false,
                vec!["HTTP/1.1 200 OK Chunked", "opaque"]),
        ];
        for (text, for_head, expected) in table {
            for length in [1, 2, 3, 7, 1000] {
                assert_eq!(parts(&text, length, for_head), expected, "{text:?} by {length}");
            }
        }
    }

    #[test]
    fn heads_are_changed_field_by_field() {
        let text = b"GET / HTTP/1.1\r\nAccept-Encoding: gzip\r\nHost: a\r\nConnection: x, Keep-Alive\r\n\r\n";
        let mut head = Head::parse(text).unwrap();
        assert_eq!(head.bytes(), text);
        assert!(head.has("connection", "keep-alive") && !head.has("Host", "b"));
        assert!(head.remove("ACCEPT-encoding") && !head.remove("Accept-Encoding"));
        head.add("X: y".to_owned());
        let expected = b"GET / HTTP/1.1\r\nHost: a\r\nConnection: x, Keep-Alive\r\nX: y\r\n\r\n";
        assert_eq!(head.bytes(), expected);
        let folded =
            Head::parse(b"HTTP/1.0 200 OK\r\nA: b \r\n  c\r\n\td: e\r\nF: g\r\n\r\n").unwrap();
        assert_eq!(folded.bytes(), b"HTTP/1.0 200 OK\r\nA: b c d: e\r\nF: g\r\n\r\n");
        assert!(folded.is_1_0() && !head.is_1_0());
        assert_eq!(Head::parse(b"HTTP/1.1 200 OK\r\n A: b\r\n\r\n"), None);
    }

    #[test]
    fn responses_stay_in_step_with_requests() {
        let mut requests = Requests::default();
        let is_for_head = |n: usize| n.is_multiple_of(3);
        for n in 0..MOST_REQUESTS + 50 {
            requests.ask(Request { is_for_head: is_for_head(n), is_1_0: false });
        }
        for n in 0..MOST_REQUESTS {
            assert_eq!(requests.answer().unwrap().is_for_head, is_for_head(n));
            requests.ask(Request { is_for_head: true, is_1_0: true });
        }
        assert_eq!(requests.answer(), None);
        assert_eq!(Requests::default().answer(), Some(Request::default()));
    }

    #[test]
    fn a_head_without_end_is_given_up() {
        let mut reader = Reader::default();
        let mut opaque = 0;
        for _ in 0..200 {
            reader.read(
                &[b'a'; 1000],
                || Some(false),
                |part, _| match part {
                    Part::Opaque(bytes) => opaque += bytes.len(),
                    other => panic!("{other:?}"),
                },
            );
            assert!(reader.waiting.len() <= LONGEST_HEAD);
        }
        assert_eq!(opaque, 200_000);
    }
}
