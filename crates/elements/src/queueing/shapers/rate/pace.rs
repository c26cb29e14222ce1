//! A rate in packets or bytes, with a burst, for RatedUnqueue, RatedSplitter and their variants for bandwidths.

use millrace_core::args::{Args, Bandwidth, Kind, Seconds};
use millrace_core::element::Call;
use millrace_core::{HandlerError, Packet, Timestamp};

use super::token_bucket::TokenBucket;

/// What is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unit {
    Packets,
    Bytes,
}

/// A token bucket of credit for packets.
#[derive(Debug)]
pub(crate) struct Pace {
    unit: Unit,
    burst: Burst,
    bucket: TokenBucket,
}

#[derive(Clone, Copy, Debug)]
enum Burst {
    Amount(u32),
    Duration(Seconds),
}

/// With at least this many tokens a packet passes, whatever its length. A bucket of bytes holds this much in addition
/// to the burst.
const BYTES_BESIDE: u64 = 131_072;

impl Pace {
    /// Reads RATE, BURST_DURATION, and BURST_SIZE or BURST_BYTES.
    pub(crate) fn configure(args: &mut Args<'_>, unit: Unit) -> Self {
        let (rate, name) = match unit {
            Unit::Packets => (args.mandatory::<u32>("RATE").into(), "BURST_SIZE"),
            Unit::Bytes => (bandwidth(args, "RATE"), "BURST_BYTES"),
        };
        let duration: Option<Seconds> = args.read("BURST_DURATION", Kind::Keyword);
        let amount: Option<u32> = args.read(name, Kind::Keyword);
        if duration.is_some() && amount.is_some() {
            args.error(name, "cannot specify both BURST_DURATION and BURST_SIZE");
        }
        let duration = duration.unwrap_or(Seconds::from_millis(20));
        let burst = amount.map_or(Burst::Duration(duration), Burst::Amount);
        Self { unit, burst, bucket: TokenBucket::new(rate, burst.capacity(unit, rate)) }
    }

    /// Whether a packet can pass at `now`.
    pub(crate) fn is_due(&mut self, now: Timestamp) -> bool {
        self.bucket.refill(now);
        self.bucket.contains(self.unit.least())
    }

    /// Counts a packet that passes.
    pub(crate) fn spend(&mut self, packet: &Packet) {
        self.bucket.remove(match self.unit {
            Unit::Packets => 1,
            Unit::Bytes => packet.len() as u64,
        });
    }

    /// How long until a packet can pass; `None` means never.
    pub(crate) fn wait(&self) -> Option<Timestamp> {
        self.bucket.time_until(self.unit.least())
    }

    /// The rate as text for handlers.
    pub(crate) fn rate_text(&self) -> String {
        match self.unit {
            Unit::Packets => self.bucket.rate().to_string(),
            Unit::Bytes => Bandwidth::from_bytes(self.bucket.rate()).to_string(),
        }
    }

    /// Takes over the rate and the burst of another one; the bucket stays as full as it is.
    pub(crate) fn adopt(&mut self, new: &Self) {
        self.burst = new.burst;
        self.bucket.assign_as(&new.bucket);
    }

    /// Sets the rate from the value written to a handler.
    pub(crate) fn write_rate(&mut self, call: &Call<'_>) -> Result<(), HandlerError> {
        let rate = match self.unit {
            Unit::Packets => call.parse::<u32>()?.into(),
            Unit::Bytes => written_bandwidth(call)?,
        };
        self.bucket.assign(rate, self.burst.capacity(self.unit, rate));
        Ok(())
    }
}

/// A mandatory bandwidth in bytes per second, with advice if its unit is missing.
pub(crate) fn bandwidth(args: &mut Args<'_>, name: &str) -> u64 {
    let bandwidth: Bandwidth = args.mandatory(name);
    if bandwidth.is_unitless() {
        args.advise(
            name,
            format!(
                "{name} has no unit, so it counts bytes per second (‘Bps’); bits are ‘kbps’, ‘Mbps’"
            ),
        );
    }
    bandwidth.as_bytes()
}

/// A bandwidth written to a handler, in bytes per second, with a warning if its unit is missing.
pub(crate) fn written_bandwidth(call: &Call<'_>) -> Result<u64, HandlerError> {
    let bandwidth: Bandwidth = call.parse()?;
    if bandwidth.is_unitless() {
        call.warn("no units on bandwidth, assuming Bps");
    }
    Ok(bandwidth.as_bytes())
}

impl Unit {
    /// How many tokens the bucket needs for a packet to pass.
    fn least(self) -> u64 {
        match self {
            Self::Packets => 1,
            Self::Bytes => BYTES_BESIDE,
        }
    }
}

impl Burst {
    /// The capacity of the bucket, at least 1.
    fn capacity(self, unit: Unit, rate: u64) -> u64 {
        let tokens = match self {
            Self::Amount(amount) => amount.into(),
            Self::Duration(time) => {
                let tokens = u128::from(rate) * u128::from(time.as_millis()) / 1000;
                u64::try_from(tokens).unwrap_or(u64::MAX)
            }
        };
        match unit {
            Unit::Packets => tokens.max(1),
            Unit::Bytes => tokens.saturating_add(BYTES_BESIDE),
        }
    }
}
