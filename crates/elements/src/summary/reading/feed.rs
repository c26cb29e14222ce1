//! The common part of elements that create packets from the lines of a file.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{MutexGuard, OnceLock};

use millrace_core::args::{Scope, UFixed};
use millrace_core::{
    Args, Batch, Class, Context, Element, Failed, Handlers, Init, Lock, Notifier, Packet, Reason,
    Refused, Router, Setup, Task, Timer, Timestamp,
};

use super::lines::{Failure, LineFile};
use super::reader::{Found, Remark};
use super::several::{Several, Split};
use crate::devices::playback::pace::{self, Due, Pace};
use crate::task_handlers::task_handlers;

/// A kind of file.
pub trait LineFormat: Send + Sized + 'static {
    /// The class of the element that reads such files.
    const CLASS: Class;
    /// Whether the element has the argument SAMPLE and its handlers.
    const IS_SAMPLED: bool = true;
    /// The message for a bad value of the `active` handler.
    const BAD_ACTIVE: &'static str = "type mismatch";

    /// Reads the element's arguments.
    ///
    /// # Errors
    /// Those of the arguments.
    fn configure(setup: &mut Setup<'_>) -> Result<(Self, Wishes), Failed>;

    /// The file.
    fn file(&mut self) -> &mut LineFile;

    /// Reads the first lines.
    fn begin(&mut self, remarks: &mut Vec<Remark>);

    /// The next line, which may or may not be a packet.
    fn next(&mut self, scope: Scope<'_>, remarks: &mut Vec<Remark>) -> Found;
}

/// The values of the arguments that all these elements have.
#[derive(Debug)]
pub struct Wishes {
    pub(crate) stop: bool,
    pub(crate) active: bool,
    pub(crate) timing: bool,
    pub(crate) multipacket: bool,
    pub(crate) allow_nonexistent: bool,
    /// The probability of a packet, in units of 1/[`CERTAIN`].
    pub(crate) sample: u32,
    /// How many packets a run of the task emits at most.
    pub(crate) burst: usize,
}

/// A probability of 1 in fixed point.
const CERTAIN: u32 = 1 << 28;

impl Wishes {
    /// Reads STOP and ACTIVE.
    pub(crate) fn configure(args: &mut Args<'_>) -> Self {
        Self {
            stop: args.keyword("STOP", false),
            active: args.keyword("ACTIVE", true),
            timing: false,
            multipacket: false,
            allow_nonexistent: false,
            sample: CERTAIN,
            burst: 1,
        }
    }

    /// Reads SAMPLE.
    pub(crate) fn configure_sample(&mut self, args: &mut Args<'_>) {
        let sample: UFixed<28> = args.keyword("SAMPLE", UFixed(CERTAIN));
        if sample.0 > CERTAIN {
            args.warn("SAMPLE", "SAMPLE probability reduced to 1");
        } else if sample.0 == 0 {
            args.warn("SAMPLE", "SAMPLE probability is 0; emitting no packets");
        }
        self.sample = sample.0.min(CERTAIN);
    }
}

/// An element that reads files of one format.
pub struct Feed<F> {
    wishes: Wishes,
    active: AtomicBool,
    /// The lock is for the handlers; only one thread reads packets.
    state: Lock<State<F>>,
    task: Task,
    timer: Timer,
    notifier: Notifier,
    is_push: OnceLock<bool>,
}

struct State<F> {
    format: F,
    pace: Option<Pace>,
    /// A packet that waits for its time, or stands for several.
    pending: Option<Several>,
}

impl<F: LineFormat> Element for Feed<F> {
    const CLASS: Class = F::CLASS;
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        let (format, wishes) = F::configure(setup)?;
        let pace = wishes.timing.then(|| Pace::new(100));
        Ok(Self {
            active: wishes.active.into(),
            wishes,
            state: Lock::new(State { format, pace, pending: None }),
            task: setup.task(),
            timer: setup.timer(),
            notifier: Notifier::default(),
            is_push: OnceLock::new(),
        })
    }

    fn initialize(&self, init: &mut Init<'_>) -> Result<(), Refused> {
        // An element is initialised once.
        let _ = self.is_push.set(!init.is_pull_output(0));
        self.wake();
        let mut state = self.state();
        let file = state.format.file();
        if !file.is_open() {
            match LineFile::open(file.path()) {
                Ok(opened) => *file = opened,
                Err(Failure::Missing(_) | Failure::Empty) if self.wishes.allow_nonexistent => {
                    return Ok(());
                }
                Err(failure) => return Err(failure.refuse(init, file.path())),
            }
        }
        let mut remarks = Vec::new();
        state.format.begin(&mut remarks);
        for Remark { landmark, is_error, message } in remarks {
            match is_error {
                true => return Err(init.refuse_at(landmark, message)),
                false => init.warn_at(landmark, message),
            }
        }
        Ok(())
    }

    fn pull(&self, cx: &mut Context, (): &mut (), _port: usize, max: usize, batch: &mut Batch) {
        while batch.len() < max.min(batch.room()) {
            if !self.active.load(Relaxed) {
                return self.notifier.sleep_unless(|| self.active.load(Relaxed));
            }
            match self.step(cx, batch) {
                Step::Sent => {}
                Step::Nothing => return,
                Step::Wait(time) => {
                    self.notifier.sleep();
                    self.timer.schedule_at(time);
                    return;
                }
                Step::End => {
                    // Packets already returned arrive before the program stops.
                    if batch.is_empty() {
                        self.notifier.sleep();
                        self.end(cx);
                    }
                    return;
                }
            }
        }
    }

    fn run_task(&self, cx: &mut Context, (): &mut ()) -> bool {
        if !self.active.load(Relaxed) {
            self.task.rest();
            return false;
        }
        let mut batch = cx.take_batch();
        let mut step = self.step(cx, &mut batch);
        while matches!(step, Step::Sent) && batch.len() < self.wishes.burst && batch.room() > 0 {
            step = self.step(cx, &mut batch);
        }
        cx.push_batch(0, &mut batch);
        cx.give_batch(batch);
        match step {
            Step::Sent | Step::Nothing => true,
            Step::Wait(time) => pace::wait(cx, &self.task, &self.timer, time),
            Step::End => {
                self.task.rest();
                self.end(cx);
                false
            }
        }
    }

    fn run_timer(&self, _cx: &mut Context, (): &mut ()) {
        self.wake();
    }

    fn notifier(&self, _port: usize) -> Option<&Notifier> {
        Some(&self.notifier)
    }

    fn handlers(handlers: &mut Handlers<Self>) {
        handlers.read("active", |feed, _| feed.active.load(Relaxed));
        handlers.write("active", |feed, call| {
            let active = call.parse().map_err(|_| F::BAD_ACTIVE)?;
            feed.active.store(active, Relaxed);
            feed.wake();
            Ok(())
        });
        handlers.read("encap", |_, _| "IP");
        handlers.read("filename", |feed, _| feed.state().format.file().name().to_owned());
        handlers.read("filesize", |feed, _| {
            let length = feed.state().format.file().len();
            length.map_or("-".to_owned(), |length| length.to_string())
        });
        handlers.read("filepos", |feed, _| feed.state().format.file().position());
        task_handlers(handlers, |feed| &feed.task);
        if !F::IS_SAMPLED {
            return;
        }
        handlers.read("sampling_prob", |feed, _| UFixed::<28>(feed.wishes.sample).to_string());
        handlers.write("stop", |feed, call| {
            feed.active.store(false, Relaxed);
            call.router().request_stop();
            Ok(())
        });
    }

    fn held(&self) -> usize {
        usize::from(self.state().pending.is_some())
    }

    fn cleanup(&self, _router: &Router) -> Result<(), Refused> {
        // A packet that waits stays: it was created, and is counted as held.
        self.state().format.file().close();
        Ok(())
    }
}

/// The result of one step.
enum Step {
    Sent,
    /// A line that is not a packet.
    Nothing,
    /// The next packet is due at this time.
    Wait(Timestamp),
    End,
}

impl<F: LineFormat> Feed<F> {
    fn state(&self) -> MutexGuard<'_, State<F>> {
        self.state.lock()
    }

    /// Adds the next packet to a batch, if the packet is due.
    fn step(&self, cx: &mut Context, batch: &mut Batch) -> Step {
        let mut state = self.state();
        loop {
            let Some(several) = state.pending.take() else {
                match self.read(cx, &mut state) {
                    Found::Packet(packet) => {
                        cx.created(1);
                        state.pending = Some(Several::new(packet));
                        continue;
                    }
                    Found::Nothing => return Step::Nothing,
                    Found::NoBuffer => {
                        cx.created(1);
                        cx.dropped(1, Reason::NoBuffer);
                        return Step::Nothing;
                    }
                    Found::End => return Step::End,
                }
            };
            if let Some(pace) = &mut state.pace {
                cx.refresh_now();
                if let Due::At(time) = pace.due(several.timestamp(), cx.now()) {
                    state.pending = Some(several);
                    return Step::Wait(time);
                }
            }
            let packet = match self.wishes.multipacket {
                true => {
                    let Split { packet, rest } = several.split();
                    if rest.is_some() {
                        cx.created(1);
                    }
                    state.pending = rest;
                    packet
                }
                false => Some(several.into_packet()),
            };
            let Some(packet) = packet else {
                cx.dropped(1, Reason::NoBuffer);
                continue;
            };
            if self.wishes.sample < CERTAIN && cx.random().u32(0..CERTAIN) >= self.wishes.sample {
                let _: Option<Packet> = cx.drop(packet, Reason::Filtered);
                continue;
            }
            // The caller checks for room.
            let _ = batch.push(packet);
            return Step::Sent;
        }
    }

    fn read(&self, cx: &mut Context, state: &mut State<F>) -> Found {
        if !state.format.file().is_open() {
            return Found::End;
        }
        let mut remarks = Vec::new();
        let found = state.format.next(cx.router().scope_of(cx.element()), &mut remarks);
        for remark in remarks {
            cx.router().chatter(&remark.text());
        }
        found
    }

    fn end(&self, cx: &Context) {
        if self.wishes.stop {
            cx.router().request_stop();
        }
    }

    /// Starts emitting packets if the element is active.
    fn wake(&self) {
        if !self.active.load(Relaxed) {
            return;
        }
        match self.is_push.get() {
            Some(true) => self.task.schedule(),
            _ => self.notifier.wake_unlocked(),
        }
    }
}
