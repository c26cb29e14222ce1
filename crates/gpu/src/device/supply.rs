//! Where devices come from, at the start and after a loss.

use std::mem;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use super::{Device, WhyNot};

/// Opens a device, at the start and again after a loss. May take a second.
pub type Opener = Box<dyn Fn() -> Result<Arc<dyn Device>, WhyNot> + Send + Sync>;

/// How long to wait after a loss before the first try.
const FIRST: Duration = Duration::from_millis(50);
/// How long to wait between tries at most; the wait doubles from [`FIRST`].
const MOST: Duration = Duration::from_secs(5);

/// The device that all lanes of a section share, and another one after it was lost.
pub struct Supply {
    open: Opener,
    state: Mutex<State>,
}

enum State {
    /// It was there when somebody asked last.
    Open(Arc<dyn Device>),
    /// A thread tries to open it.
    Opening { why: WhyNot, wait: Duration },
    /// To be tried from then on.
    Closed { why: WhyNot, wait: Duration, from: Instant },
}

impl Supply {
    /// Opens the first device.
    ///
    /// # Errors
    /// There is none.
    pub fn new(open: Opener) -> Result<Arc<Self>, WhyNot> {
        let device = open()?;
        Ok(Arc::new(Self { open, state: Mutex::new(State::Open(device)) }))
    }

    /// The device, when there is one. When it was lost, begins to open it anew, on a thread of its own and with growing
    /// pauses. Never waits, so it can be asked from a packet thread; who holds something of a lost device drops it first,
    /// since a GPU can only be opened again when all of it is let go.
    ///
    /// # Errors
    /// There is none now, and why.
    pub fn device(self: &Arc<Self>) -> Result<Arc<dyn Device>, WhyNot> {
        let mut state = self.lock();
        if let State::Open(device) = &*state {
            if !device.is_lost() {
                return Ok(device.clone());
            }
            let why = WhyNot(format!("{} was lost", device.caps().name));
            let lost = mem::replace(
                &mut *state,
                State::Closed { why, wait: FIRST, from: Instant::now() + FIRST },
            );
            drop(lost);
        }
        match &*state {
            State::Closed { why, wait, from } if Instant::now() >= *from => {
                let (why, wait) = (why.clone(), *wait);
                let answer = why.clone();
                *state = State::Opening { why: why.clone(), wait };
                let supply = self.clone();
                let started =
                    thread::Builder::new().name("gpu-open".into()).spawn(move || supply.reopen());
                if started.is_err() {
                    *state = State::closed(why, wait);
                }
                Err(answer)
            }
            State::Closed { why, .. } | State::Opening { why, .. } => Err(why.clone()),
            State::Open(device) => Ok(device.clone()),
        }
    }

    fn reopen(&self) {
        let opened = (self.open)();
        let mut state = self.lock();
        let wait = match &*state {
            State::Opening { wait, .. } => *wait,
            State::Open(_) | State::Closed { .. } => FIRST,
        };
        *state = match opened {
            Ok(device) => State::Open(device),
            Err(why) => State::closed(why, wait),
        };
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // No code panics with the lock held, and the state is whole between any two statements.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// To be tried again after `wait`, and after twice as long the time after that.
    fn closed(why: WhyNot, wait: Duration) -> Self {
        Self::Closed { why, wait: (wait * 2).min(MOST), from: Instant::now() + wait }
    }
}
