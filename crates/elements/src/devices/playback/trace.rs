//! A capture file during playback: which of its packets are played, and when.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use millrace_core::args::FileName;
use millrace_core::memory::copies::{self, CopyCause};
use millrace_core::{Context, Init, Packet, Reason, Refused, Timestamp, os_error_text};
use millrace_io::pcap::{Error, ErrorKind, LinkType, Reader, Record};

use super::force_len::{ForceLen, fit_ip_header};
use super::pace::{Due, Pace};
use super::window::{Place, Window};
use crate::devices::interface::force_ip::force_ip;

/// A probability of 1, in fixed point.
pub(crate) const CERTAIN: u32 = 1 << 28;

/// How the file is played.
#[derive(Debug)]
pub(crate) struct Wishes {
    pub(crate) force_ip: bool,
    pub(crate) force_len: Option<ForceLen>,
    /// The probability that a packet is played, in units of 1/[`CERTAIN`].
    pub(crate) sample: u32,
    /// Bytes of packets to read into memory before the first one is sent.
    pub(crate) preload: usize,
}

/// A file during playback.
pub(crate) struct Trace {
    /// None before the run starts and after it ends.
    pub(crate) reader: Option<Reader>,
    pub(crate) window: Window,
    pub(crate) pace: Option<Pace>,
    /// Packets that were read but not sent. The first may not be due yet, or lie beyond the end.
    pending: VecDeque<Loaded>,
    preloaded: AtomicBool,
}

/// A packet that was read.
pub(crate) struct Loaded {
    pub(crate) packet: Packet,
    pub(crate) has_ip: bool,
    /// Where its record starts.
    pub(crate) position: u64,
}

/// Why there are no more packets for now.
pub(crate) enum Pause {
    /// The requested number of packets was read.
    Enough,
    /// The next one is due at this time.
    Until(Timestamp),
    /// There is no next one.
    End,
    /// The pace has reached 0.
    Stop,
}

impl Trace {
    pub(crate) fn new(window: Window, pace: Option<Pace>) -> Self {
        Self {
            reader: None,
            window,
            pace,
            pending: VecDeque::new(),
            preloaded: AtomicBool::new(false),
        }
    }

    /// The next packet that is due.
    pub(crate) fn next(&mut self, wishes: &Wishes, cx: &mut Context) -> Result<Loaded, Pause> {
        if wishes.preload > 0 && !self.preloaded.swap(true, Relaxed) {
            self.preload(wishes, cx);
        }
        let loaded = match self.pending.pop_front() {
            Some(pending) => pending,
            None => self.load(wishes, cx).ok_or(Pause::End)?,
        };
        let time = loaded.packet.timestamp();
        if self.window.place(time) == Place::Beyond {
            self.pending.push_front(loaded);
            return Err(Pause::End);
        }
        let due = self.pace.as_mut().map_or(Due::Now, |pace| pace.due(time, cx.now()));
        let pause = match due {
            Due::Now => return Ok(loaded),
            Due::At(due) => Pause::Until(due),
            Due::Never => Pause::Stop,
        };
        self.pending.push_front(loaded);
        Err(pause)
    }

    /// Whether packets were read but not sent.
    pub(crate) fn has_pending(&self) -> bool {
        !self.pending.is_empty()
    }

    /// Discards the packets that were read but not sent.
    pub(crate) fn forget(&mut self) {
        self.pending.clear();
        self.preloaded.store(false, Relaxed);
    }

    /// Reads packets into memory until PRELOAD is reached or memory runs out.
    fn preload(&mut self, wishes: &Wishes, cx: &mut Context) {
        let mut bytes = 0;
        let mut is_short = false;
        while bytes < wishes.preload {
            // Without memory for a packet, do not read it, or it would be lost.
            is_short = Packet::with_len(0).is_none();
            let Some(loaded) = (if is_short { None } else { self.load(wishes, cx) }) else { break };
            bytes += loaded.packet.len();
            self.pending.push_back(loaded);
        }
        if is_short {
            let router = cx.router();
            router.chatter(&format!(
                "{}: only {} packets are preloaded: there is not enough packet memory for more \
                 (run with --buffers)",
                router.name_of(cx.element()),
                self.pending.len()
            ));
        }
    }

    /// The next packet of the file that is neither before the start nor skipped by sampling.
    fn load(&mut self, wishes: &Wishes, cx: &mut Context) -> Option<Loaded> {
        let Self { reader, window, .. } = self;
        let reader = reader.as_mut()?;
        loop {
            let position = reader.position();
            let record = match reader.next() {
                Ok(record) => record?,
                Err(error) => {
                    let router = cx.router();
                    router.complain(format!("{}: {error}", router.name_of(cx.element())));
                    return None;
                }
            };
            if window.place(time_of(&record)) == Place::Before {
                continue;
            }
            if wishes.sample < CERTAIN && cx.random().u32(0..CERTAIN) >= wishes.sample {
                continue;
            }
            let link_type = record.link_type.canonical();
            let Some(mut packet) = packet_of(&record, wishes.force_len) else {
                cx.created(1);
                cx.dropped(1, Reason::NoBuffer);
                continue;
            };
            let forced = wishes.force_ip || link_type == LinkType::IP;
            if link_type != LinkType::IP {
                packet.set_mac_header(0);
            }
            let has_ip = !forced || force_ip(&mut packet, link_type);
            return Some(Loaded { packet, has_ip, position });
        }
    }
}

fn time_of(record: &Record<'_>) -> Timestamp {
    Timestamp::from_nanos(i64::try_from(record.timestamp).unwrap_or(i64::MAX))
}

/// A packet with the bytes of a record, its time, and the length that was not captured.
fn packet_of(record: &Record<'_>, force_len: Option<ForceLen>) -> Option<Packet> {
    // Some programs record a captured length greater than the original length.
    let original = usize::try_from(record.original_len).unwrap_or(usize::MAX);
    let data = record.data.get(..original).unwrap_or(record.data);
    let mut packet = Packet::from_bytes(data)?;
    copies::count(CopyCause::Receive);
    if let Some(force_len) = force_len {
        let link_type = record.link_type.canonical();
        let length = force_len.of(original, link_type);
        packet.truncate(length);
        packet.append(length.saturating_sub(data.len())).fill(0);
        fit_ip_header(&mut packet, link_type);
    }
    packet.set_timestamp(time_of(record));
    let missing = original.saturating_sub(packet.len());
    packet.set_extra_length(u32::try_from(missing).unwrap_or(u32::MAX));
    Some(packet)
}

/// The reason why a file cannot be read, in Click's words if Click has any.
pub(crate) fn refuse(init: &mut Init<'_>, name: &str, error: &Error) -> Refused {
    match error.kind() {
        ErrorKind::Io { action: "open", error } => {
            Refused(format!("{name}: {}", os_error_text(error)))
        }
        ErrorKind::Empty => init.refuse_at(name, "empty file"),
        _ => Refused(error.to_string()),
    }
}

/// A file's name for messages.
pub(crate) fn print_name(name: &FileName) -> &str {
    if name.0 == "-" { "<stdin>" } else { &name.0 }
}
