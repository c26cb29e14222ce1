//! Round-trip times of pings.

use std::collections::HashMap;
use std::fmt::Write;

use foldhash::fast::RandomState;
use millrace_core::Timestamp;
use millrace_core::args::Seconds;

/// Requests, replies and round-trip times in microseconds.
#[derive(Default)]
pub(super) struct PingTimes {
    /// For each sequence number, when the request was sent and whether a reply has arrived.
    requests: HashMap<u16, (Timestamp, bool), RandomState>,
    /// Replies, including duplicates.
    received: u64,
    duplicates: u64,
    least: u32,
    most: u32,
    sum: u64,
    sum_of_squares: u64,
}

impl PingTimes {
    pub(super) fn sent(&mut self, number: u16, at: Timestamp) {
        self.requests.insert(number, (at, false));
    }

    /// Records a reply and returns its round-trip time, 0 if the reply has no timestamp. `None` if there was no such
    /// request.
    pub(super) fn received(&mut self, number: u16, at: Timestamp) -> Option<u32> {
        let (sent, replied) = self.requests.get_mut(&number)?;
        self.duplicates += u64::from(*replied);
        *replied = true;
        let mut time = 0;
        if !at.is_zero() {
            time = (at - *sent).as_micros() as u32;
            let first = self.received == 0;
            self.least = if first { time } else { self.least.min(time) };
            self.most = self.most.max(time);
            self.sum = self.sum.wrapping_add(time.into());
            self.sum_of_squares =
                self.sum_of_squares.wrapping_add(u64::from(time) * u64::from(time));
        }
        self.received += 1;
        Some(time)
    }

    pub(super) fn least(&self) -> u64 {
        self.least.into()
    }

    pub(super) fn most(&self) -> u64 {
        self.most.into()
    }

    pub(super) fn average(&self) -> u64 {
        self.sum / self.received.max(1)
    }

    /// The summary that ping prints at its end.
    pub(super) fn summary(&self, sent: u32) -> String {
        let different = self.received - self.duplicates;
        let mut text = format!("{sent} packets transmitted, {different} received");
        // Writing to a string cannot fail.
        if self.duplicates > 0 {
            let _ = write!(text, ", +{} duplicates", self.duplicates);
        }
        if sent > 0 {
            // Click's formula, which subtracts duplicates as well.
            let lost = u64::from(sent).wrapping_sub(self.received).wrapping_sub(self.duplicates);
            let percent = (lost.wrapping_mul(100) / u64::from(sent)) as i32;
            let _ = writeln!(text, ", {percent}% packet loss");
        }
        if let Some(mean_square) = self.sum_of_squares.checked_div(self.received) {
            let average = self.average();
            let variance = mean_square.wrapping_sub(average * average);
            let times = [self.least(), average, self.most(), variance.isqrt()];
            let [least, average, most, deviation] =
                times.map(|time| format!("{}.{:03}", time / 1000, time % 1000));
            let _ = writeln!(text, "rtt min/avg/max/mdev = {least}/{average}/{most}/{deviation}");
        }
        text
    }
}

/// A time in seconds.
pub(super) fn micros(time: u64) -> String {
    Seconds::from_nanos(time.saturating_mul(1000)).to_string()
}
