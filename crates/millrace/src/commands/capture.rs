//! `millrace capture`: packets of a running router, as a pcapng file.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, IsTerminal, Read, Write};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

use anyhow::{Context, bail};
use millrace_core::os_error_text;
use millrace_io::libpcap::{Start, compile_for};
use millrace_io::pcap::ng;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;

use super::remote::{Place, explain};
use crate::control::{Client, ClientError};
use crate::messages::say;
use crate::watch::{Stopped, Wish};

/// Captures packets of a running router, at any connection between elements or where they are dropped
///
/// Writes a pcapng file, in which each connection is an interface. Into Wireshark or tcpdump:
/// `millrace capture q -u SOCKET -w - | wireshark -k -i -`. Ctrl-C, or the reader's end, ends it.
#[derive(clap::Args)]
pub(crate) struct Capture {
    /// Where: ELEMENT (its outputs, or its inputs if it has no outputs), ELEMENT[OUTPUT] or [INPUT]ELEMENT, several
    /// with commas between them; left out with --device, --drops or --all. Then which packets: a pattern in IPFilter's
    /// language, such as `src 10.0.0.0/8 && tcp port 80`
    #[arg(value_name = "PLACE] [FILTER")]
    words: Vec<String>,

    /// What elements receive from this device and send to it
    #[arg(long, value_name = "DEVICE")]
    device: Vec<String>,

    /// Dropped packets, with the reason and the element in the comment of each
    #[arg(long)]
    drops: bool,

    /// All connections
    #[arg(long)]
    all: bool,

    /// Which packets, in tcpdump's language; needs libpcap
    #[arg(long, value_name = "FILTER")]
    pcap_filter: Option<String>,

    /// The file; `-` is standard output
    #[arg(short = 'w', long, value_name = "FILE")]
    write: PathBuf,

    /// Ends after so many packets
    #[arg(short = 'c', long, value_name = "N")]
    count: Option<u64>,

    /// Keeps at most so many bytes of each packet; 0 keeps all
    #[arg(short = 's', long, value_name = "BYTES", default_value_t = 0)]
    snap_len: u32,

    /// Packets begin with the link-layer header that was stripped from them, where it is still in their memory
    #[arg(long)]
    link_headers: bool,

    /// Goes on in another file, FILE.1 and so on, when one has so many megabytes
    #[arg(long, value_name = "MB")]
    file_size: Option<u64>,

    /// Keeps only the last so many of these files
    #[arg(long, value_name = "N", requires = "file_size")]
    files: Option<usize>,

    /// Memory for packets on their way here, in kilobytes for each thread of the router
    #[arg(long, value_name = "KB", default_value_t = 4096)]
    ring: usize,

    #[command(flatten)]
    place: Place,
}

impl Capture {
    /// Runs the sub-command.
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        let wish = self.wish()?;
        let mut client = self.place.connect()?;
        let stops = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGTERM] {
            // The second one ends the program at once.
            flag::register_conditional_shutdown(signal, 1, stops.clone())?;
            flag::register(signal, stops.clone())?;
        }
        client.write("capture_start", &serde_json::to_vec(&wish)?).map_err(explain)?;
        let outcome = self.copy(&mut client, &wish.key, &stops);
        // Whatever happened to the file, the router is told that nobody reads on.
        let counts = client.read("capture_stop", wish.key.as_bytes());
        let written = outcome?;
        let counts = counts.ok().and_then(|json| serde_json::from_slice::<Stopped>(&json).ok());
        let mut told = format!("{written} packets captured");
        match counts {
            Some(Stopped { missed, unseen, .. }) => {
                if missed > 0 {
                    told +=
                        &format!(", {missed} missed: the reader was too slow (--ring, --snap-len)");
                }
                if unseen > 0 {
                    told += &format!(", {unseen} drops without a packet");
                }
            }
            None => told += "; the router has ended",
        }
        say(format_args!("{told}"));
        Ok(ExitCode::SUCCESS)
    }

    /// What to ask the router for.
    fn wish(&self) -> anyhow::Result<Wish> {
        if self.write.as_os_str() == "-" && io::stdout().is_terminal() {
            bail!("standard output is a terminal: use a pipe, or -w FILE");
        }
        let somewhere = self.all || self.drops || !self.device.is_empty();
        let (places, filter) = match self.words.split_first() {
            Some((places, filter)) if !somewhere => (places.as_str(), filter),
            None if !somewhere => {
                bail!("say where: an element, --device DEVICE, --drops or --all")
            }
            _ => ("", &self.words[..]),
        };
        let places = places.split(',').filter(|place| !place.trim().is_empty());
        let compiled = |start| self.pcap_filter.as_deref().map(|text| compile_for(text, start));
        let program = match (compiled(Start::Ethernet), compiled(Start::Ip)) {
            (Some(ethernet), Some(ip)) => {
                let ethernet = ethernet.context("--pcap-filter")?;
                // What asks for Ethernet fits no packet without.
                Some([ethernet, ip.unwrap_or_else(|_| vec![NOTHING])])
            }
            _ => None,
        };
        Ok(Wish {
            key: new_key()?,
            places: places.map(str::to_owned).collect(),
            devices: self.device.clone(),
            all: self.all,
            drops: self.drops,
            filter: filter.join(" "),
            program,
            snap_len: self.snap_len,
            link_headers: self.link_headers,
            ring: self.ring.saturating_mul(1024),
        })
    }

    /// Copies the capture to its file until it is to end. Returns how many packets are in there.
    fn copy(&self, client: &mut Client, key: &str, stops: &AtomicBool) -> anyhow::Result<u64> {
        let mut file = Files::create(self)?;
        let mut ends = false;
        loop {
            let asked = format!("{key}{}", if ends { " end" } else { "" });
            let piece = match client.read("capture_read", asked.as_bytes()) {
                Ok(piece) => piece,
                // The router has ended; what it has sent is a whole file.
                Err(ClientError::Io(_)) => break,
                Err(error) => return Err(explain(error)),
            };
            if ends && piece.is_empty() {
                break;
            }
            match file.write(&piece, self.count) {
                Ok(full) => ends |= full,
                Err(error) if error.kind() == io::ErrorKind::BrokenPipe => break,
                Err(error) => return Err(self.named(&error)),
            }
            ends |= stops.load(SeqCst) || file.is_left();
        }
        Ok(file.packets)
    }

    fn named(&self, error: &io::Error) -> anyhow::Error {
        anyhow::anyhow!("{}: {}", self.write.display(), os_error_text(error))
    }
}

/// A key that nobody else knows.
pub(super) fn new_key() -> anyhow::Result<String> {
    let mut bytes = [0; 16];
    let mut random = File::open("/dev/urandom").context("/dev/urandom")?;
    random.read_exact(&mut bytes).context("/dev/urandom")?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Code 6 is "return", with no byte of the packet.
pub(super) const NOTHING: (u16, u8, u8, u32) = (6, 0, 0, 0);

/// The file of a capture, and those that follow it.
struct Files {
    path: PathBuf,
    file: Sink,
    /// The section and its interfaces, with which every file begins.
    head: Vec<u8>,
    /// Bytes of the present file, and of one that is full.
    size: u64,
    full: Option<u64>,
    keep: Option<usize>,
    written: VecDeque<PathBuf>,
    number: u64,
    packets: u64,
}

enum Sink {
    File(File),
    Stdout,
}

impl Files {
    fn create(capture: &Capture) -> anyhow::Result<Self> {
        let path = capture.write.clone();
        let file = match path.as_os_str() == "-" {
            true => Sink::Stdout,
            false => Sink::File(File::create(&path).map_err(|error| capture.named(&error))?),
        };
        Ok(Self {
            file,
            head: Vec::new(),
            size: 0,
            full: capture.file_size.map(|size| size.saturating_mul(1_000_000)),
            keep: capture.files,
            written: VecDeque::from([path.clone()]),
            number: 0,
            packets: 0,
            path,
        })
    }

    /// Writes whole blocks, packets up to a number of them. Returns whether there are so many.
    fn write(&mut self, mut blocks: &[u8], count: Option<u64>) -> io::Result<bool> {
        let mut ready = Vec::new();
        while let Some((kind, length)) = ng::first(blocks) {
            let (block, rest) = blocks.split_at(length);
            blocks = rest;
            match kind {
                ng::SECTION | ng::INTERFACE => self.head.extend_from_slice(block),
                ng::PACKET => {
                    if count.is_some_and(|count| self.packets >= count) {
                        continue;
                    }
                    if self.full.is_some_and(|full| self.size + block.len() as u64 > full) {
                        self.put(&std::mem::take(&mut ready))?;
                        self.go_on_in_another()?;
                    }
                    self.packets += 1;
                }
                _ => {}
            }
            self.size += block.len() as u64;
            ready.extend_from_slice(block);
        }
        self.put(&ready)?;
        Ok(count.is_some_and(|count| self.packets >= count))
    }

    fn put(&mut self, bytes: &[u8]) -> io::Result<()> {
        match &mut self.file {
            Sink::File(file) => file.write_all(bytes),
            Sink::Stdout => {
                let mut stdout = io::stdout().lock();
                stdout.write_all(bytes)?;
                stdout.flush()
            }
        }
    }

    fn go_on_in_another(&mut self) -> io::Result<()> {
        if matches!(self.file, Sink::Stdout) {
            return Ok(());
        }
        self.number += 1;
        let mut name = self.path.clone().into_os_string();
        name.push(format!(".{}", self.number));
        let path = PathBuf::from(name);
        self.file = Sink::File(File::create(&path)?);
        self.written.push_back(path);
        while self.keep.is_some_and(|keep| self.written.len() > keep.max(1)) {
            self.written.pop_front().map_or(Ok(()), |path| remove(&path))?;
        }
        self.size = self.head.len() as u64;
        let head = std::mem::take(&mut self.head);
        let begun = self.put(&head);
        self.head = head;
        begun
    }

    /// Whether nobody reads standard output any more.
    fn is_left(&self) -> bool {
        let stdout = io::stdout();
        let fd = stdout.as_fd();
        let mut asked = [PollFd::from_borrowed_fd(fd, PollFlags::empty())];
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        matches!(self.file, Sink::Stdout)
            && poll(&mut asked, Some(&now)).is_ok()
            && asked[0].revents().contains(PollFlags::ERR)
    }
}

/// Removes a file that may be gone.
fn remove(path: &Path) -> io::Result<()> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}
