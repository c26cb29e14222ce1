//! What an idle thread sleeps on: the packets of a queue, and other events that the queue waits for.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use rustix::event::epoll;
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};

/// A descriptor that stays the same when the sources behind it are replaced, and that does not keep them
/// open.
#[derive(Debug)]
pub(crate) struct Watch {
    all: OwnedFd,
    /// Created when first needed.
    timer: Option<OwnedFd>,
}

impl Watch {
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self { all: epoll::create(epoll::CreateFlags::CLOEXEC)?, timer: None })
    }

    /// Makes this readable also when `source` is readable or has failed, until that is closed.
    pub(crate) fn follow(&self, source: impl AsFd) -> io::Result<()> {
        Ok(epoll::add(&self.all, source, epoll::EventData::new_u64(0), epoll::EventFlags::IN)?)
    }

    /// Stops following a source that has failed for good.
    pub(crate) fn forget(&self, source: impl AsFd) {
        // It may have been forgotten before.
        let _ = epoll::delete(&self.all, source);
    }

    /// Makes this readable at regular intervals, or stops that.
    pub(crate) fn tick(&mut self, every: Option<Duration>) {
        if self.timer.is_none() && every.is_some() {
            let flags = TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK;
            let timer = timerfd_create(TimerfdClockId::Monotonic, flags);
            // Without one, a thread looks whenever it ends its sleep, which is once a second.
            self.timer = timer.ok().filter(|timer| self.follow(timer).is_ok());
        }
        let every = every.unwrap_or_default();
        let every = Timespec {
            tv_sec: i64::try_from(every.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: every.subsec_nanos().into(),
        };
        let setting = Itimerspec { it_interval: every, it_value: every };
        if let Some(timer) = &self.timer {
            // It cannot fail: the descriptor is a timer's, and the times are valid.
            let _ = timerfd_settime(timer, TimerfdTimerFlags::empty(), &setting);
        }
    }

    /// Acknowledges a tick.
    pub(crate) fn clear(&self) {
        if let Some(timer) = &self.timer {
            // There may be none.
            let _ = rustix::io::read(timer, &mut [0u8; 8]);
        }
    }

    /// A duplicate for a thread to sleep on.
    pub(crate) fn duplicate(&self) -> io::Result<OwnedFd> {
        self.all.try_clone()
    }
}
