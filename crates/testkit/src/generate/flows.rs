//! Numbered frames: what is lost on the way, doubled, reordered or damaged is found.
//!
//! ```
//! use millrace_testkit::generate::flows::{Flows, Ledger, Report};
//! use millrace_testkit::generate::trace;
//!
//! let mut random = fastrand::Rng::with_seed(1);
//! let mut flows = Flows::new(std::iter::repeat_with(|| trace::anything(&mut random)).take(2));
//! let mut ledger = Ledger::default();
//! let frames = [flows.next(0, 60), flows.next(1, 200), flows.next(0, 60), flows.next(0, 1514)];
//! for arrived in [0, 3, 2] {
//!     ledger.receive(&frames[arrived]);
//! }
//! let report = ledger.report(&flows);
//! assert_eq!(report, Report { received: 3, lost: 1, reordered: 1, ..Report::default() });
//! ```

use std::collections::{HashMap, HashSet};

use super::frame::{self, Frame};
use super::rules::Header;

/// The length of the stamp at the end of the payload: a hash of the rest and of both numbers; the number of the flow,
/// 4 bytes; the number of the frame in its flow, 8 bytes.
const STAMP: usize = 16;

/// Flows, and the number of frames that were made for each.
#[derive(Clone, Debug)]
pub struct Flows {
    headers: Vec<Header>,
    made: Vec<u64>,
}

/// Records the frames that arrive.
#[derive(Clone, Debug, Default)]
pub struct Ledger {
    seen: HashSet<(u32, u64)>,
    /// The highest number of each flow.
    highest: HashMap<u32, u64>,
    reordered: u64,
    doubled: u64,
    damaged: u64,
}

/// The result for all frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Different frames that arrived intact.
    pub received: u64,
    /// Frames that were made and have not arrived.
    pub lost: u64,
    /// Frames that arrived after one of their flow that was made later (RFC 4737, type P).
    pub reordered: u64,
    /// Frames that had already arrived.
    pub doubled: u64,
    /// Frames whose payload has changed, and frames that were never made.
    pub damaged: u64,
}

impl Flows {
    /// Flows with these headers, numbered from 0.
    #[must_use]
    pub fn new(headers: impl IntoIterator<Item = Header>) -> Self {
        let headers: Vec<Header> = headers.into_iter().collect();
        Self { made: vec![0; headers.len()], headers }
    }

    /// The number of flows.
    #[must_use]
    pub fn len(&self) -> usize {
        self.headers.len()
    }

    /// True if there are no flows.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.headers.is_empty()
    }

    /// The number of frames that were made.
    #[must_use]
    pub fn made(&self) -> u64 {
        self.made.iter().sum()
    }

    /// The next frame of a flow, with `length` bytes, or more if its headers and its stamp need them (60 bytes for
    /// UDP, 70 for TCP). Its payload consists of letters that depend on its number.
    ///
    /// # Panics
    /// There is no such flow.
    pub fn next(&mut self, flow: usize, length: usize) -> Vec<u8> {
        let headers = Frame::new(self.headers[flow], &[]).headers();
        let mut random = fastrand::Rng::with_seed((flow as u64) << 40 ^ self.made[flow]);
        let body = length.max(frame::SHORTEST).saturating_sub(headers + STAMP);
        let body: Vec<u8> = std::iter::repeat_with(|| random.u8(b'a'..=b'z')).take(body).collect();
        self.next_with(flow, &body)
    }

    /// The next frame of a flow, with a payload before its stamp.
    ///
    /// # Panics
    /// There is no such flow.
    pub fn next_with(&mut self, flow: usize, payload: &[u8]) -> Vec<u8> {
        let header = self.headers[flow];
        let headers = Frame::new(header, &[]).headers();
        let mut whole = payload.to_vec();
        // The stamp is at the end, so there must be no padding after it.
        whole.resize(payload.len().max(frame::SHORTEST.saturating_sub(headers + STAMP)), b'.');
        whole.extend(stamp(&whole, flow as u32, self.made[flow]));
        self.made[flow] += 1;
        Frame::new(header, &whole).bytes()
    }
}

impl Ledger {
    /// Records a frame that has arrived.
    pub fn receive(&mut self, frame: &[u8]) {
        let Some((flow, number)) = number(frame) else {
            self.damaged += 1;
            return;
        };
        if !self.seen.insert((flow, number)) {
            self.doubled += 1;
            return;
        }
        let highest = self.highest.entry(flow).or_insert(number);
        if number < *highest {
            self.reordered += 1;
        }
        *highest = number.max(*highest);
    }

    /// The result for the frames of these flows.
    #[must_use]
    pub fn report(&self, flows: &Flows) -> Report {
        let was_made = |(flow, number): &&(u32, u64)| {
            flows.made.get(*flow as usize).is_some_and(|made| number < made)
        };
        let received = self.seen.iter().filter(was_made).count() as u64;
        let strange = self.seen.len() as u64 - received;
        Report {
            received,
            lost: flows.made() - received,
            reordered: self.reordered,
            doubled: self.doubled,
            damaged: self.damaged + strange,
        }
    }
}

impl Report {
    /// The report of a run in which every frame arrived once, intact and in order.
    #[must_use]
    pub fn perfect(flows: &Flows) -> Self {
        Self { received: flows.made(), ..Self::default() }
    }
}

/// The numbers of a frame's flow and of the frame, if its payload is unchanged.
#[must_use]
pub fn number(frame: &[u8]) -> Option<(u32, u64)> {
    let (body, found) = frame::payload(frame)?.split_last_chunk::<STAMP>()?;
    let flow = u32::from_be_bytes(found[4..8].try_into().ok()?);
    let number = u64::from_be_bytes(found[8..].try_into().ok()?);
    (stamp(body, flow, number) == *found).then_some((flow, number))
}

fn stamp(body: &[u8], flow: u32, number: u64) -> [u8; STAMP] {
    let mut stamp = [0; STAMP];
    stamp[4..8].copy_from_slice(&flow.to_be_bytes());
    stamp[8..].copy_from_slice(&number.to_be_bytes());
    // FNV-1a.
    let hash = body
        .iter()
        .chain(&stamp[4..])
        .fold(0x811c_9dc5, |hash: u32, byte| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193));
    stamp[..4].copy_from_slice(&hash.to_be_bytes());
    stamp
}

#[cfg(test)]
mod tests {
    use super::super::rules::{TCP, UDP};
    use super::super::trace;
    use super::*;

    fn flows(protocols: &[u8]) -> Flows {
        let mut random = fastrand::Rng::with_seed(1);
        let header = |&protocol| Header { protocol, ..trace::anything(&mut random) };
        Flows::new(protocols.iter().map(header))
    }

    #[test]
    fn frames_are_as_long_as_asked() {
        let mut flows = flows(&[UDP, TCP]);
        for (flow, length, expected) in
            [(0, 0, 60), (0, 60, 60), (0, 61, 61), (0, 1514, 1514), (1, 60, 70), (1, 100, 100)]
        {
            let frame = flows.next(flow, length);
            assert_eq!(frame.len(), expected, "{flow} {length}");
            assert_eq!(number(&frame).map(|(flow, _)| flow), Some(flow as u32));
        }
        assert_eq!(flows.made(), 6);
        let frame = flows.next_with(0, b"GET /");
        assert!(frame::payload(&frame).is_some_and(|payload| payload.starts_with(b"GET /")));
        assert_eq!(number(&frame), Some((0, 4)));
    }

    #[test]
    fn every_changed_byte_of_the_payload_is_damage() {
        let mut flows = flows(&[UDP]);
        let frame = flows.next(0, 100);
        for at in 42..100 {
            let mut changed = frame.clone();
            changed[at] ^= 0x20;
            assert_eq!(number(&changed), None, "{at}");
        }
        // Changes that a router makes do not count as damage.
        let mut routed = frame;
        routed[22] -= 1;
        assert_eq!(number(&routed), Some((0, 0)));
    }

    #[test]
    fn the_ledger_counts_loss_damage_and_reordering() {
        let mut flows = flows(&[UDP, UDP]);
        let first: Vec<_> = (0..5).map(|_| flows.next(0, 60)).collect();
        let second: Vec<_> = (0..3).map(|_| flows.next(1, 60)).collect();
        let mut ledger = Ledger::default();
        for frame in first.iter().chain(&second) {
            ledger.receive(frame);
        }
        assert_eq!(ledger.report(&flows), Report::perfect(&flows));

        let mut ledger = Ledger::default();
        for frame in [&first[0], &second[2], &first[2], &first[1], &first[2], &second[0]] {
            ledger.receive(frame);
        }
        ledger.receive(b"no frame");
        let expected = Report { received: 5, lost: 3, reordered: 2, doubled: 1, damaged: 1 };
        assert_eq!(ledger.report(&flows), expected);
        // Frames that were never made.
        let mut strangers = super::tests::flows(&[UDP, UDP, UDP]);
        ledger.receive(&strangers.next(2, 60));
        assert_eq!(ledger.report(&flows).damaged, 2);
    }
}
