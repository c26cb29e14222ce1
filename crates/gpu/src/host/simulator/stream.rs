//! The simulated device's thread: it executes a step of the first batch of one lane, then of another lane.

use std::collections::VecDeque;
use std::ops::Range;
use std::slice;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Condvar, OnceLock, PoisonError, Weak};
use std::time::{Duration, Instant};

use fastrand::Rng;
use millrace_core::Lock;

use super::arena::Memory;
use super::faults::{Fault, Faults, Point};
use super::resident::{NEVER, RESIDENT, SimTable};
use super::settings::Settings;
use crate::device::slot::{Ranges, tiles};
use crate::device::{DeviceError, Table};
use crate::host::block::Block;
use crate::host::launch::HostLaunch;
use crate::kernel::TILE;
use crate::plan::Plan;

/// The state that the device's thread shares with the threads that submit work.
pub(super) struct Machine {
    settings: Settings,
    pub(super) faults: Faults,
    work: Lock<Work>,
    wake: Condvar,
    pub(super) lost: Arc<OnceLock<Instant>>,
    /// Tables that may still exist, whose red zones are checked.
    tables: Lock<Vec<Weak<SimTable>>>,
}

#[derive(Default)]
struct Work {
    streams: Vec<Stream>,
    uploads: VecDeque<Upload>,
    lanes: u64,
    stop: bool,
    rng: Rng,
}

/// The upload of a table.
pub(super) struct Upload {
    pub(super) table: Arc<SimTable>,
    pub(super) words: Arc<Vec<u32>>,
    /// The old table from which the new one is made, and the words that differ.
    pub(super) like: Option<(Arc<SimTable>, Vec<Range<usize>>)>,
}

/// A lane's batches, in order.
struct Stream {
    lane: u64,
    jobs: VecDeque<Job>,
    /// The time at which the next step can begin; `None` means never.
    from: Option<Instant>,
    /// The time at which the lane was dropped.
    abandoned: Option<Instant>,
}

/// The common data of a lane's batches.
pub(super) struct Program {
    pub(super) plan: Arc<Plan>,
    pub(super) launches: Vec<HostLaunch>,
}

/// A batch in flight. It owns all of its memory.
pub(super) struct Job {
    pub(super) program: Arc<Program>,
    pub(super) mailbox: Arc<Mailbox>,
    pub(super) slot: usize,
    pub(super) sequence: u32,
    pub(super) batch: u64,
    pub(super) rows: usize,
    pub(super) payload: usize,
    pub(super) host: Block,
    pub(super) device: Memory,
    pub(super) tables: Vec<Table>,
    pub(super) at: Point,
    /// Whether the pause and the fault of the current step have been applied.
    pub(super) paced: bool,
}

/// Where batches are returned to, by slot.
pub(super) struct Mailbox(Vec<Letter>);

struct Letter {
    /// The number of the last batch that was returned.
    word: AtomicU32,
    back: Lock<Option<Returned>>,
}

/// A batch that is no longer in flight.
pub(super) struct Returned {
    pub(super) host: Block,
    pub(super) device: Memory,
    pub(super) outcome: Result<(), DeviceError>,
}

impl Mailbox {
    pub(super) fn new(slots: usize) -> Arc<Self> {
        let letter = || Letter { word: AtomicU32::new(0), back: Lock::new(None) };
        Arc::new(Self((0..slots).map(|_| letter()).collect()))
    }

    /// Takes the returned batch, if it has this number.
    pub(super) fn take(&self, slot: usize, sequence: u32) -> Option<Returned> {
        let letter = self.0.get(slot)?;
        if letter.word.load(Ordering::Acquire) != sequence {
            return None;
        }
        letter.back.lock().take()
    }
}

enum Progress {
    Again,
    Wait(Duration),
    Never,
    Lose,
    Ended(Result<(), DeviceError>),
}

impl Machine {
    pub(super) fn new(seed: u64, settings: Settings, faults: Faults) -> Arc<Self> {
        let work = Work { rng: Rng::with_seed(seed), ..Work::default() };
        Arc::new(Self {
            settings,
            faults,
            work: Lock::new(work),
            wake: Condvar::new(),
            lost: Arc::default(),
            tables: Lock::default(),
        })
    }

    pub(super) fn is_lost(&self) -> bool {
        self.lost.get().is_some()
    }

    fn lose(&self) {
        let _ = self.lost.set(Instant::now());
    }

    pub(super) fn watch(&self, table: &Arc<SimTable>) {
        let mut tables = self.tables.lock();
        tables.retain(|table| table.strong_count() != 0);
        tables.push(Arc::downgrade(table));
    }

    /// True if nothing was written next to a table. Restores red zones that were overwritten.
    fn tables_are_intact(&self) -> bool {
        let tables = self.tables.lock();
        let mut intact = true;
        for table in tables.iter().filter_map(Weak::upgrade) {
            let mut memory = table.memory.lock();
            if !memory.is_intact() {
                intact = false;
                memory.mend();
            }
        }
        intact
    }

    /// Begins a stream.
    pub(super) fn open(&self) -> u64 {
        let mut work = self.work.lock();
        let lane = work.lanes;
        work.lanes += 1;
        let from = Some(Instant::now());
        work.streams.push(Stream { lane, jobs: VecDeque::new(), from, abandoned: None });
        lane
    }

    /// Appends a batch to a stream.
    pub(super) fn submit(&self, lane: u64, job: Job) {
        let mut work = self.work.lock();
        if let Some(stream) = work.streams.iter_mut().find(|stream| stream.lane == lane) {
            stream.jobs.push_back(job);
        }
        self.wake.notify_one();
    }

    /// The device's own data of a table on this device.
    pub(super) fn table(&self, table: &Table) -> Option<Arc<SimTable>> {
        let tables = self.tables.lock();
        let mut tables = tables.iter().filter_map(Weak::upgrade);
        tables.find(|one| one.device == table.device() && one.address == table.address())
    }

    pub(super) fn upload(&self, upload: Upload) {
        self.work.lock().uploads.push_back(upload);
        self.wake.notify_one();
    }

    /// Lets a stream finish its work by itself.
    pub(super) fn abandon(&self, lane: u64) {
        let mut work = self.work.lock();
        if let Some(stream) = work.streams.iter_mut().find(|stream| stream.lane == lane) {
            stream.abandoned = Some(Instant::now());
        }
        self.wake.notify_one();
    }

    /// The number of dropped lanes with work in flight. If one of them takes too long, the device is lost.
    pub(super) fn abandoned(&self) -> usize {
        let work = self.work.lock();
        let since = work.streams.iter().filter(|stream| !stream.jobs.is_empty());
        let since: Vec<Instant> = since.filter_map(|stream| stream.abandoned).collect();
        if since.iter().any(|since| since.elapsed() > self.settings.patience) {
            self.lose();
            self.wake.notify_one();
        }
        since.len()
    }

    pub(super) fn stop(&self) {
        self.work.lock().stop = true;
        self.wake.notify_one();
    }

    /// The device's thread.
    pub(super) fn run(&self) {
        let mut work = self.work.lock();
        while !work.stop {
            if self.is_lost() {
                // As with a GPU, nobody can be certain that it does not write any more, so batches are not returned.
                let left = work.end_all();
                drop(work);
                drop(left);
                work = self.work.lock();
            }
            work.streams.retain(|stream| stream.abandoned.is_none() || !stream.jobs.is_empty());
            work = match work.choose() {
                Choice::Upload(upload) => {
                    drop(work);
                    upload.run();
                    self.work.lock()
                }
                Choice::Job(lane, mut job, mut rng) => {
                    drop(work);
                    let progress = job.advance(self, &mut rng);
                    let ended = match progress {
                        Progress::Ended(outcome) => {
                            job.end(outcome);
                            None
                        }
                        progress => Some((job, progress)),
                    };
                    let mut work = self.work.lock();
                    if let Some((job, progress)) = ended {
                        let stream = work.streams.iter_mut().find(|stream| stream.lane == lane);
                        if let Some(stream) = stream {
                            stream.jobs.push_front(job);
                            match progress {
                                Progress::Wait(time) => stream.from = Some(Instant::now() + time),
                                Progress::Never => stream.from = None,
                                Progress::Lose => self.lose(),
                                Progress::Again | Progress::Ended(_) => {}
                            }
                        }
                    }
                    work
                }
                Choice::Nothing(until) => {
                    let most = Duration::from_millis(50);
                    let wait = until.map_or(most, |until| until.duration_since(Instant::now()));
                    let woken = self.wake.wait_timeout(work, wait.min(most));
                    woken.unwrap_or_else(PoisonError::into_inner).0
                }
            };
        }
    }
}

enum Choice {
    Upload(Upload),
    Job(u64, Job, Rng),
    Nothing(Option<Instant>),
}

impl Work {
    /// Chooses at random among the steps that can be executed now.
    fn choose(&mut self) -> Choice {
        let now = Instant::now();
        let ready = |stream: &Stream| {
            !stream.jobs.is_empty() && stream.from.is_some_and(|from| from <= now)
        };
        let count = self.streams.iter().filter(|stream| ready(stream)).count();
        let all = count + usize::from(!self.uploads.is_empty());
        if all == 0 {
            let waiting = self.streams.iter().filter(|stream| !stream.jobs.is_empty());
            return Choice::Nothing(waiting.filter_map(|stream| stream.from).min());
        }
        let chosen = self.rng.usize(..all);
        let rng = self.rng.fork();
        let mut streams = self.streams.iter_mut().filter(|stream| ready(stream));
        if let Some(stream) = streams.nth(chosen)
            && let Some(job) = stream.jobs.pop_front()
        {
            return Choice::Job(stream.lane, job, rng);
        }
        match self.uploads.pop_front() {
            Some(upload) => Choice::Upload(upload),
            None => Choice::Nothing(Some(now)),
        }
    }

    /// Removes all batches from the device.
    fn end_all(&mut self) -> Vec<Job> {
        for upload in self.uploads.drain(..) {
            upload.table.state.store(NEVER, Ordering::Release);
        }
        self.streams.iter_mut().flat_map(|stream| stream.jobs.drain(..)).collect()
    }
}

impl Upload {
    fn run(self) {
        let all = 0..self.words.len();
        let mut memory = self.table.memory.lock();
        let changed = match &self.like {
            None => slice::from_ref(&all),
            Some((like, changed)) => {
                let mut like = like.memory.lock();
                for (to, from) in memory.bytes_mut().iter_mut().zip(like.bytes_mut()) {
                    *to = *from;
                }
                changed
            }
        };
        for range in changed {
            let bytes = memory.bytes_mut().get_mut(4 * range.start..4 * range.end);
            let words = self.words.get(range.clone()).unwrap_or_default();
            for (to, from) in bytes.unwrap_or_default().chunks_exact_mut(4).zip(words) {
                to.copy_from_slice(&from.to_ne_bytes());
            }
        }
        drop(memory);
        self.table.state.store(RESIDENT, Ordering::Release);
    }
}

impl Job {
    /// Executes the next step, or pauses before it.
    fn advance(&mut self, machine: &Machine, rng: &mut Rng) -> Progress {
        let delay = machine.settings.delay;
        let mut fails = false;
        if !self.paced {
            self.paced = true;
            match machine.faults.next(self.batch, self.at) {
                Some(Fault::Late(time)) => return Progress::Wait(time),
                Some(Fault::Hang) => return Progress::Never,
                Some(Fault::Lose) => return Progress::Lose,
                Some(Fault::Fail) => fails = true,
                None if rng.bool() && !delay.is_zero() => {
                    return Progress::Wait(delay.mul_f64(rng.f64()));
                }
                None => {}
            }
        }
        self.paced = false;
        let done = match self.at {
            Point::CopyIn => self.copy_in(fails, rng),
            Point::Launch(number) => self.launch(number, fails, machine, rng),
            Point::CopyOut => self.copy_out(fails),
            Point::Completion if fails => Err("completion failed (injected)".to_owned()),
            Point::Completion => return Progress::Ended(Ok(())),
        };
        match done {
            Ok(next) => {
                self.at = next;
                Progress::Again
            }
            Err(why) => Progress::Ended(Err(DeviceError::Step(why))),
        }
    }

    fn copy_in(&mut self, fails: bool, rng: &mut Rng) -> Result<Point, String> {
        self.device.poison(rng);
        if fails {
            return Err("copy in failed (injected)".to_owned());
        }
        let ranges = Ranges::to_device(&self.program.plan, self.rows, self.payload);
        let device = self.device.bytes_mut();
        for range in ranges.iter() {
            copy(device.get_mut(range.clone()), self.host.bytes().get(range))?;
        }
        Ok(self.launch_or_out(0))
    }

    fn launch(
        &mut self,
        number: usize,
        fails: bool,
        machine: &Machine,
        rng: &mut Rng,
    ) -> Result<Point, String> {
        let Some(launch) = self.program.launches.get(number) else { return Ok(Point::CopyOut) };
        let rows = if fails { self.rows / 2 } else { self.rows };
        run_in_any_order(launch, self.device.bytes_mut(), rows, rng);
        if !self.device.is_intact() || !machine.tables_are_intact() {
            let what = format!("batch {}: {} wrote outside of its slot", self.batch, launch.name);
            machine.faults.violation(what.clone());
            self.device.mend();
            return Err(what);
        }
        if fails {
            return Err(format!("launch {number}, {}, failed (injected)", launch.name));
        }
        Ok(self.launch_or_out(number + 1))
    }

    fn copy_out(&mut self, fails: bool) -> Result<Point, String> {
        if fails {
            return Err("copy out failed (injected)".to_owned());
        }
        let ranges = Ranges::to_host(&self.program.plan, self.rows);
        let device = self.device.bytes_mut();
        for range in ranges.iter() {
            copy(self.host.bytes_mut().get_mut(range.clone()), device.get(range))?;
        }
        Ok(Point::Completion)
    }

    fn launch_or_out(&self, number: usize) -> Point {
        if number < self.program.launches.len() { Point::Launch(number) } else { Point::CopyOut }
    }

    /// Returns the batch.
    fn end(mut self, outcome: Result<(), DeviceError>) {
        if outcome.is_err() {
            for range in Ranges::to_host(&self.program.plan, self.rows).iter() {
                if let Some(worthless) = self.host.bytes_mut().get_mut(range) {
                    worthless.fill(0xee);
                }
            }
        }
        // This happens before the word is written, because a host that sees the word may assume that the tables are
        // free.
        drop(self.tables);
        if let Some(letter) = self.mailbox.0.get(self.slot) {
            let returned = Returned { host: self.host, device: self.device, outcome };
            *letter.back.lock() = Some(returned);
            letter.word.store(self.sequence, Ordering::Release);
        }
    }
}

/// Rows are independent: tiles are processed in any order, and so are the rows of a tile.
fn run_in_any_order(launch: &HostLaunch, slot: &mut [u8], rows: usize, rng: &mut Rng) {
    let mut order: Vec<usize> = (0..tiles(rows)).collect();
    rng.shuffle(&mut order);
    for tile in order {
        let (factor, first) = (rng.usize(..TILE) | 1, rng.usize(..TILE));
        for index in 0..TILE {
            let row = tile * TILE + (index * factor + first) % TILE;
            if row < rows {
                launch.run(slot, row, 1);
            }
        }
    }
}

fn copy(to: Option<&mut [u8]>, from: Option<&[u8]>) -> Result<(), String> {
    match (to, from) {
        (Some(to), Some(from)) => {
            to.copy_from_slice(from);
            Ok(())
        }
        _ => Err("a copy outside of the slot".to_owned()),
    }
}
