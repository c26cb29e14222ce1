//! RecordTimestamp - records when each packet passes, for TimestampDiff
//!
//! # Synopsis
//! `RecordTimestamp([N, keywords OFFSET, NET_ORDER])`
//!
//! # Description
//! Forwards packets and records the time at which each one passes, for a TimestampDiff downstream. With OFFSET, the
//! time is stored under the number that NumberPacket has written into the packet. Without it, times are stored under
//! the numbers 0, 1, 2, ... in order of arrival.
//!
//! # Arguments
//! - N: maximum number of times to store, at most 100 million; each needs eight bytes. Numbers from N on are not
//!   recorded. Positional, default 65536.
//! - OFFSET: position of the number, in bytes from the start of the packet; -1 for none. Keyword, default -1.
//! - NET_ORDER: whether the number is in network byte order. Keyword, default false.
//!
//! # Ports
//! One push input, one push output.
//!
//! # Handlers
//! None of its own.
//!
//! # Drops
//! None.
//!
//! # Example
//! ```click
//! RatedSource(LENGTH 64, RATE 100, LIMIT 9)
//!     -> NumberPacket
//!     -> r :: RecordTimestamp(OFFSET 40)
//!     -> Queue
//!     -> DelayUnqueue(5ms)
//!     -> d :: TimestampDiff(r)
//!     -> Discard;
//! ```
//!
//! # See also
//! NumberPacket, TimestampDiff

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering::Relaxed};

use millrace_core::args::Kind;
use millrace_core::{Batch, Class, Context, Element, Failed, Offers, Setup, Timestamp, register};

use super::number_packet::NumberPlace;
use crate::capability::PacketTimes;

/// The element; its manual is at the top of the file.
pub struct RecordTimestamp {
    place: Option<NumberPlace>,
    next: AtomicU64,
    /// Nanoseconds; 0 where none is recorded.
    times: Box<[AtomicI64]>,
}

register!(RecordTimestamp, "record_timestamp.rs");

/// The maximum number of times.
const MOST: u64 = 100_000_000;

impl Element for RecordTimestamp {
    const CLASS: Class = Class::new("RecordTimestamp", "1/1", "h/h");
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        let args = &mut setup.args;
        let n = args.in_range("N", Kind::Positional, 1..=MOST).unwrap_or(65_536);
        let offset = args.in_range("OFFSET", Kind::Keyword, -1..=65_000).unwrap_or(-1);
        let place = NumberPlace::at(args, usize::try_from(offset).unwrap_or(0));
        args.complete()?;
        let times = (0..n).map(|_| AtomicI64::new(0)).collect();
        Ok(Self { place: (offset >= 0).then_some(place), next: 0.into(), times })
    }

    fn capabilities(self: &Arc<Self>, offers: &mut Offers<'_>) {
        offers.provide::<dyn PacketTimes>(self.clone());
    }

    fn process(&self, cx: &mut Context, (): &mut (), batch: &mut Batch) {
        let now = cx.refresh_now().as_nanos();
        for packet in batch.iter() {
            let number = match self.place {
                Some(place) => place.read(packet.data()),
                None => Some(self.next.fetch_add(1, Relaxed)),
            };
            if let Some(time) = number.and_then(|number| self.slot(number)) {
                time.store(now, Relaxed);
            }
        }
    }
}

impl PacketTimes for RecordTimestamp {
    fn take(&self, number: u64) -> Option<Timestamp> {
        let time = self.slot(number)?.swap(0, Relaxed);
        (time != 0).then(|| Timestamp::from_nanos(time))
    }
}

impl RecordTimestamp {
    fn slot(&self, number: u64) -> Option<&AtomicI64> {
        self.times.get(usize::try_from(number).ok()?)
    }
}
