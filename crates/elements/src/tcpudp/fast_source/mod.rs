//! Code shared by FastUDPSource, FastUDPFlows and FastTCPFlows: nearly identical frames, emitted on pull as far as
//! the rate and the limit allow.

use std::net::Ipv4Addr;
use std::sync::MutexGuard;

use millrace_core::args::{Arg, Args};
use millrace_core::checksum::Sum;
use millrace_core::headers::{EthernetHeader, Header, Ipv4Header, ether_type};
use millrace_core::net::EtherAddress;
use millrace_core::{Context, HandlerError, Handlers, Init, Lock, Packet, Random, Timestamp};
use zerocopy::IntoBytes;

/// The rate, the limit and the progress of a source.
pub(super) struct FastSource {
    /// Printed when the router starts.
    warnings: Vec<&'static str>,
    sending: Lock<Sending>,
}

/// The state that changes.
pub(super) struct Sending {
    /// Packets per second; `None` for as many as are pulled.
    rate: Option<u32>,
    /// When the next packet is due.
    due: Timestamp,
    pub(super) limit: Option<u32>,
    pub(super) count: u32,
    active: bool,
    /// When the first packet and the last packet of the limit were sent, in milliseconds.
    first: i64,
    last: i64,
}

/// The parts that all frames share.
pub(super) struct Frame {
    len: usize,
    ethernet: EthernetHeader,
    source: Ipv4Addr,
    destination: Ipv4Addr,
}

/// The arguments with which all classes begin.
pub(super) struct Given {
    rate: u32,
    limit: i32,
    len: u32,
    source_ether: EtherAddress,
    source: Ipv4Addr,
}

impl Given {
    pub(super) fn read(args: &mut Args<'_>) -> Self {
        Self {
            rate: args.mandatory("RATE"),
            limit: args.mandatory("LIMIT"),
            len: args.mandatory("LENGTH"),
            source_ether: args.mandatory("SRCETH"),
            source: args.mandatory("SRCIP"),
        }
    }

    /// Makes the source and the frame, once the other arguments are known.
    pub(super) fn finish(
        self,
        args: &mut Args<'_>,
        (destination_ether, destination): (EtherAddress, Ipv4Addr),
        active: bool,
    ) -> (FastSource, Frame) {
        let mut warnings = Vec::new();
        if self.len < LEAST {
            warnings.push("warning: packet length < 60, defaulting to 60");
        }
        if self.len > MOST {
            args.error("LENGTH", format!("LENGTH: out of range, bound {MOST}"));
        }
        if self.rate > MOST_RATE {
            args.warn("RATE", format!("rate too large; lowered to {MOST_RATE}"));
        }
        let sending = Lock::new(Sending {
            rate: (self.rate > 0).then_some(self.rate.min(MOST_RATE)),
            due: Timestamp::ZERO,
            limit: u32::try_from(self.limit).ok(),
            count: 0,
            active,
            first: 0,
            last: 0,
        });
        let ethernet = EthernetHeader {
            dst: destination_ether,
            src: self.source_ether,
            ether_type: ether_type::IPV4.into(),
        };
        let len = self.len.clamp(LEAST, MOST) as usize;
        (
            FastSource { warnings, sending },
            Frame { len, ethernet, source: self.source, destination },
        )
    }
}

/// The minimum and the maximum length of a frame.
const LEAST: u32 = 60;
const MOST: u32 = 14 + 65_535;

/// Maximum number of flows at a time.
pub(super) const MOST_FLOWS: u32 = 1 << 22;

/// Maximum packets per second, as in Click.
const MOST_RATE: u32 = 1_000_000;

impl FastSource {
    pub(super) fn warn_of(&mut self, warning: &'static str) {
        self.warnings.insert(0, warning);
    }

    pub(super) fn initialize(&self, init: &Init<'_>) {
        self.warnings.iter().for_each(|warning| init.router().chatter(warning));
    }

    pub(super) fn sending(&self) -> MutexGuard<'_, Sending> {
        self.sending.lock()
    }

    /// Restarts the count at 0.
    pub(super) fn begin_anew(&self) {
        let mut sending = self.sending();
        (sending.count, sending.first, sending.last) = (0, 0, 0);
    }

    /// Declares the handlers of class `E`, which holds a source.
    pub(super) fn handlers<E: 'static>(handlers: &mut Handlers<E>, of: fn(&E) -> &Self) {
        let number = |name: &str, text: &str, call: &millrace_core::Call<'_>| {
            u32::parse(&text.into(), &call.scope())
                .map_err(|_| HandlerError::from(format!("{name} parameter must be integer >= 0")))
        };
        handlers.read("count", move |element, _| of(element).sending().count);
        handlers.read("rate", move |element, _| of(element).sending().reached_rate());
        handlers.write("rate", move |element, call| {
            let rate = number("rate", &call.text(), call)?;
            if rate > MOST_RATE {
                return Err(format!("rate too large; max is {MOST_RATE}").into());
            }
            of(element).sending().rate = Some(rate);
            Ok(())
        });
        handlers.write("limit", move |element, call| {
            of(element).sending().limit = Some(number("limit", &call.text(), call)?);
            Ok(())
        });
        handlers.write("reset", move |element, _| {
            of(element).begin_anew();
            Ok(())
        });
        handlers.write("active", move |element, call| {
            let active = call.parse().map_err(|_| "active parameter must be boolean")?;
            of(element).sending().active = active;
            if active {
                of(element).begin_anew();
            }
            Ok(())
        });
    }
}

impl Sending {
    pub(super) fn is_exhausted(&self) -> bool {
        self.limit.is_some_and(|limit| self.count >= limit)
    }

    /// Whether a packet may be sent now; the caller checks the limit.
    pub(super) fn is_due(&self, now: Timestamp) -> bool {
        self.active && self.rate.is_none_or(|rate| rate > 0 && now >= self.due)
    }

    /// Records that a packet is sent.
    pub(super) fn sent(&mut self, cx: &mut Context, now: Timestamp) {
        cx.created(1);
        if let Some(rate) = self.rate {
            // Packets that were due longer ago than this are not made up for.
            const MOST_BEHIND: Timestamp = Timestamp::from_secs(1);
            let gap = Timestamp::from_nanos(1_000_000_000 / i64::from(rate.max(1)));
            self.due = self.due.max(now - MOST_BEHIND) + gap;
            if self.count == 0 {
                self.due = now + gap;
            }
        }
        self.count = self.count.wrapping_add(1);
        if self.count == 1 {
            self.first = now.as_millis();
        }
        if self.is_exhausted() {
            self.last = now.as_millis();
        }
    }

    /// Packets per second until the limit was reached; 0 before that.
    fn reached_rate(&self) -> i64 {
        match self.last {
            0 => 0,
            last => i64::from(self.count) * 1000 / (last - self.first).max(1),
        }
    }
}

impl Frame {
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Changes the length, to the least at least. Returns whether it was another.
    pub(super) fn set_len(&mut self, len: u32) -> Result<bool, String> {
        if len > MOST {
            return Err(format!("length: out of range, bound {MOST}"));
        }
        let len = len.max(LEAST) as usize;
        Ok(std::mem::replace(&mut self.len, len) != len)
    }

    pub(super) fn set_source(&mut self, source: EtherAddress) {
        self.ethernet.src = source;
    }

    pub(super) fn set_destination(&mut self, destination: EtherAddress) {
        self.ethernet.dst = destination;
    }

    /// Bytes after the IP header.
    pub(super) fn data_len(&self) -> u16 {
        (self.len - size_of::<EthernetHeader>() - Ipv4Header::LEN) as u16
    }

    /// A frame with this transport header, whose checksum is zero, followed by zeros; and the sum of the bytes
    /// that the transport checksum covers.
    pub(super) fn packet(&self, protocol: u8, transport: &[u8]) -> Option<(Packet, Sum)> {
        let mut packet = Packet::with_len(self.len)?;
        let network = size_of::<EthernetHeader>();
        let ip = Ipv4Header {
            version_ihl: 0x45,
            tos: 0,
            total_len: ((self.len - network) as u16).into(),
            id: 0.into(),
            flags_fragment: 0.into(),
            ttl: 250,
            protocol,
            checksum: 0.into(),
            src: self.source.octets(),
            dst: self.destination.octets(),
        };
        let headers = [self.ethernet.as_bytes(), ip.as_bytes(), transport].concat();
        packet.data_mut().iter_mut().zip(headers).for_each(|(byte, header)| *byte = header);
        packet.set_network_header(network as isize, Ipv4Header::LEN);
        packet.set_dst_ip(self.destination);
        Ipv4Header::fill_checksum(packet.network_data_mut()?);
        let sum = Sum::of_pseudo_v4(self.source, self.destination, protocol, self.data_len());
        Some((packet, sum.add_bytes(transport)))
    }
}

/// A random port, chosen as by Click's flow sources, which put it into the header in the machine's byte order.
pub(super) fn random_port(random: &Random) -> u16 {
    (((random.draw() >> 2) % 0xffff) as u16).to_be()
}
