//! Measures the cost of the bus, of a launch and of a submission on this machine, which limit every section; and how
//! many threads should share a text in pattern matching.
//!
//! Each figure is the median of [`ROUNDS`] rounds, by the host's clock. With the fake driver of the tests, the
//! figures have no meaning.

mod threads;

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::context::{Context, DeviceMemory, HostMemory, Stream};
use crate::device::{DeviceError, DeviceLane, Poll, SlotId, WhyNot};
use crate::kernel::{Column, Kernel, Launch, TILE};
use crate::plan::{Area, Plan, Step};

/// Rounds of each measurement.
pub const ROUNDS: usize = 7;

/// The results of a measurement.
#[derive(Clone, Debug, PartialEq)]
pub struct Calibration {
    /// The device's name.
    pub device: String,
    /// The number of bytes of each copy for the rates.
    pub bytes: usize,
    /// Bytes per second from pinned memory to the device.
    pub to_device: f64,
    /// Bytes per second from the device to pinned memory.
    pub to_host: f64,
    /// Bytes per second to the device during an equal copy to the host.
    pub to_device_beside: f64,
    /// Bytes per second to the host during an equal copy to the device.
    pub to_host_beside: f64,
    /// The time of a copy of 4 KiB to the device, from the call to its end.
    pub small_copy: Duration,
    /// The time of the call that launches the smallest kernel, without waiting for its end.
    pub launch: Duration,
    /// The same, including its end.
    pub launch_and_wait: Duration,
    /// The time of the calls that submit a batch of one tile with one kernel and both copies.
    pub submit: Duration,
    /// The time from before that submission until the host sees that the batch is done.
    pub round_trip: Duration,
    /// Bits per second of texts that the pattern kernel searches, for each number of threads per text. See
    /// [`PAYLOAD_LANES`](crate::kernel::PAYLOAD_LANES).
    pub threads: Vec<(u32, f64)>,
}

/// Measures a GPU. `bytes` is the size of the copies for the rates; 64 MiB are enough to show the rate of long
/// copies.
///
/// # Errors
/// The GPU cannot be opened, has too little memory, or fails.
pub fn calibrate(ordinal: usize, bytes: usize) -> Result<Calibration, WhyNot> {
    let gpu = super::open_gpu(ordinal)?;
    gpu.measure(bytes).map_err(|error| WhyNot(error.to_string()))
}

impl super::Gpu {
    fn measure(&self, bytes: usize) -> Result<Calibration, DeviceError> {
        let buffers = Buffers::new(&self.context, bytes)?;
        let (to_device, _) = buffers.rates(true, false)?;
        let (_, to_host) = buffers.rates(false, true)?;
        let (to_device_beside, to_host_beside) = buffers.rates(true, true)?;
        let (launch, launch_and_wait) = self.launches(&buffers)?;
        let (submit, round_trip) = self.submissions()?;
        Ok(Calibration {
            device: self.caps.name.clone(),
            bytes,
            to_device,
            to_host,
            to_device_beside,
            to_host_beside,
            small_copy: buffers.small_copy()?,
            launch,
            launch_and_wait,
            submit,
            round_trip,
            // 1,024 of them where 64 MiB are copied.
            threads: threads::measure(self, (bytes >> 16).clamp(16, 1024))?,
        })
    }

    fn launches(&self, buffers: &Buffers) -> Result<(Duration, Duration), DeviceError> {
        let mut calls = Vec::new();
        let mut waits = Vec::new();
        let (mut slot, mut word) = (buffers.device_in.address(), buffers.host.device());
        for _ in 0..ROUNDS {
            let start = Instant::now();
            let mut arguments = [(&raw mut slot).cast(), (&raw mut word).cast()];
            // SAFETY: the kernel's parameters: it reads a word of the first buffer and writes one of the second.
            unsafe { buffers.there.launch(&self.complete, 1, 1, &mut arguments) }?;
            calls.push(start.elapsed());
            buffers.there.synchronize()?;
            waits.push(start.elapsed());
        }
        Ok((median(calls), median(waits)))
    }

    fn submissions(&self) -> Result<(Duration, Duration), DeviceError> {
        let mut lane = self.lane(&Arc::new(small_plan()), 1)?;
        let (mut calls, mut trips) = (Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            let start = Instant::now();
            let ticket = lane.submit(SlotId(0), TILE, 0, &[])?;
            calls.push(start.elapsed());
            loop {
                match lane.poll(ticket) {
                    Poll::Pending if start.elapsed() < Duration::from_secs(10) => {}
                    Poll::Pending => {
                        return Err(DeviceError::Step("a batch takes 10 s".to_owned()));
                    }
                    Poll::Done => break,
                    Poll::Failed(error) => return Err(error),
                }
            }
            trips.push(start.elapsed());
        }
        Ok((median(calls), median(trips)))
    }
}

/// A plan with one slice of four bytes, which is copied to the device, inverted and copied back.
fn small_plan() -> Plan {
    let at = 256;
    let column = Column { at, tile: 4 * TILE as u32, stride: 4 };
    let mut launch = Launch { constants: [4, 0, 0, 0], ..Launch::default() };
    if let Some(input) = launch.input.first_mut() {
        *input = column;
    }
    Plan {
        capacity: TILE,
        steps: vec![Step { kernel: Kernel::Invert, launch, has_table: false, field: None }],
        both: Area { at, tile: column.tile },
        slot_bytes: at as usize + 4 * TILE,
        ..Plan::default()
    }
}

/// Memory on the host and on the device, twice, and a stream for each direction.
struct Buffers {
    bytes: usize,
    there: Stream,
    back: Stream,
    device_in: DeviceMemory,
    device_out: DeviceMemory,
    host: HostMemory,
}

impl Buffers {
    fn new(context: &Arc<Context>, bytes: usize) -> Result<Self, DeviceError> {
        let bytes = bytes.max(4096);
        let buffers = Self {
            bytes,
            there: Stream::new(context)?,
            back: Stream::new(context)?,
            device_in: DeviceMemory::new(context, bytes)?,
            device_out: DeviceMemory::new(context, bytes)?,
            host: HostMemory::new(context, 2 * bytes)?,
        };
        // The first copy of a page may cost more than the others.
        buffers.copies(bytes, true, true)?;
        Ok(buffers)
    }

    /// Bytes per second in the requested directions, at the same time.
    fn rates(&self, there: bool, back: bool) -> Result<(f64, f64), DeviceError> {
        let mut times = (Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            let (to, from) = self.copies(self.bytes, there, back)?;
            times.0.push(to);
            times.1.push(from);
        }
        let rate = |time: Vec<Duration>| self.bytes as f64 / median(time).as_secs_f64().max(1e-9);
        Ok((rate(times.0), rate(times.1)))
    }

    fn small_copy(&self) -> Result<Duration, DeviceError> {
        let times: Result<Vec<_>, _> =
            (0..ROUNDS).map(|_| self.copies(4096, true, false).map(|(time, _)| time)).collect();
        Ok(median(times?))
    }

    /// The time that the copies take, from before the first call until each stream is done.
    fn copies(
        &self,
        bytes: usize,
        there: bool,
        back: bool,
    ) -> Result<(Duration, Duration), DeviceError> {
        let start = Instant::now();
        if there {
            // SAFETY: both are as long as that, and freed after the stream is done.
            unsafe { self.there.copy_in(self.device_in.address(), self.host.host(), bytes) }?;
        }
        if back {
            let to = self.host.host().wrapping_add(self.bytes);
            // SAFETY: as above; the host's part lies behind the other copy's.
            unsafe { self.back.copy_out(to, self.device_out.address(), bytes) }?;
        }
        // By queries: which way ends first is not known.
        let (mut to, mut from) = (None, None);
        while to.is_none() || from.is_none() {
            if to.is_none() && self.there.is_idle()? {
                to = Some(start.elapsed());
            }
            if from.is_none() && self.back.is_idle()? {
                from = Some(start.elapsed());
            }
        }
        Ok((to.unwrap_or_default(), from.unwrap_or_default()))
    }
}

impl Drop for Buffers {
    fn drop(&mut self) {
        // After an error, copies that are still running use the memory.
        let _ = self.there.synchronize();
        let _ = self.back.synchronize();
    }
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times.get(times.len() / 2).copied().unwrap_or_default()
}
