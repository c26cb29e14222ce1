//! What an idle thread sleeps on: packets of an interface, and the interface's return.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use rustix::event::epoll;
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};

/// A descriptor that stays the same when the socket behind it is replaced.
#[derive(Debug)]
pub(super) struct Watch {
    all: OwnedFd,
    timer: OwnedFd,
}

/// How often an interface that is gone or down is looked for.
pub(super) const LOOK: Duration = Duration::from_millis(100);

impl Watch {
    pub(super) fn new() -> io::Result<Self> {
        let all = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let flags = TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK;
        let timer = timerfd_create(TimerfdClockId::Monotonic, flags)?;
        let watch = Self { all, timer };
        watch.follow(&watch.timer)?;
        Ok(watch)
    }

    /// Becomes readable, too, when `source` is or has failed, until that is closed.
    pub(super) fn follow(&self, source: impl AsFd) -> io::Result<()> {
        Ok(epoll::add(&self.all, source, epoll::EventData::new_u64(0), epoll::EventFlags::IN)?)
    }

    /// Becomes readable every [`LOOK`], or no more.
    pub(super) fn tick(&self, on: bool) {
        let nanos = if on { LOOK.subsec_nanos().into() } else { 0 };
        let every = Timespec { tv_sec: 0, tv_nsec: nanos };
        let setting = Itimerspec { it_interval: every, it_value: every };
        // It cannot fail: the descriptor is a timer's, and the times are valid.
        let _ = timerfd_settime(&self.timer, TimerfdTimerFlags::empty(), &setting);
    }

    /// Takes note of a tick.
    pub(super) fn clear(&self) {
        // There may be none.
        let _ = rustix::io::read(&self.timer, &mut [0u8; 8]);
    }

    /// A descriptor of its own for a thread to sleep on.
    pub(super) fn duplicate(&self) -> io::Result<OwnedFd> {
        self.all.try_clone()
    }
}
