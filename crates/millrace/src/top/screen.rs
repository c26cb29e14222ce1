//! The terminal, while the view has it. Whatever happens, it is given back as it was.

use std::fs::File;
use std::io::{self, IsTerminal, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Once;
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use millrace_core::Lock;
use ratatui_core::backend::Backend;
use ratatui_core::buffer::Buffer;
use ratatui_core::layout::Rect;
use ratatui_crossterm::CrosstermBackend;
use ratatui_crossterm::crossterm::event::KeyEvent;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::stdio::{dup2_stderr, stderr, stdout};
use rustix::termios::{
    LocalModes, OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcgetpgrp, tcgetwinsize,
    tcsetattr,
};

use super::keyboard::Keyboard;
use super::messages::Messages;

/// The alternate screen, without a cursor, and empty; and back.
const TAKE: &[u8] = b"\x1b[?1049h\x1b[?25l\x1b[2J";
const LEAVE: &[u8] = b"\x1b[0m\x1b[?25h\x1b[?1049l";

/// What the terminal was before the view has taken it; none while it has not.
static HELD: Lock<Option<Held>> = Lock::new(None);

struct Held {
    modes: Termios,
    /// Standard error as it was, if it is led to the view.
    stderr: Option<OwnedFd>,
}

/// Gives the terminal back, if the view has it: for whoever ends the program without the view. Waits for nobody for long.
pub(crate) fn release() {
    let Some(held) = taken() else { return };
    if is_in_foreground() {
        // The terminal may be gone, or its user may have stopped it.
        if wait(stdout(), PollFlags::OUT, Duration::ZERO) {
            let _ = rustix::io::write(stdout(), LEAVE);
        }
        let _ = tcsetattr(stdout(), OptionalActions::Now, &held.modes);
    }
    if let Some(before) = held.stderr {
        let _ = dup2_stderr(before);
    }
}

fn taken() -> Option<Held> {
    // The lock is held for moments, unless it is a thread that panics that has it.
    for _ in 0..50 {
        if let Some(mut held) = HELD.try_lock() {
            return held.take();
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    None
}

/// Whether this process may use the terminal: else the system stops it when it tries.
pub(super) fn is_in_foreground() -> bool {
    // Where there is no control of jobs, nobody is in the background.
    tcgetpgrp(stdout()).map_or(true, |group| group == rustix::process::getpgrp())
}

/// Waits until a file is ready; false if it is not by then.
fn wait(file: impl AsFd, what: PollFlags, patience: Duration) -> bool {
    let mut files = [PollFd::new(&file, what)];
    let patience = timespec(patience);
    poll(&mut files, Some(&patience)).is_ok_and(|ready| ready > 0)
}

fn timespec(time: Duration) -> Timespec {
    let (secs, nanos) = (time.as_secs(), time.subsec_nanos());
    Timespec { tv_sec: secs.try_into().unwrap_or(i64::MAX), tv_nsec: nanos.into() }
}

/// The terminal.
pub(super) struct Screen {
    backend: CrosstermBackend<Output>,
    shown: Buffer,
    keys: Keys,
    messages: Option<Messages>,
    /// Keeps what comes on standard error.
    keeper: Option<JoinHandle<()>>,
}

/// What waiting for keys has found.
pub(super) enum Waited {
    Keys(Vec<KeyEvent>),
    /// The terminal is gone.
    Gone,
}

impl Screen {
    /// Takes the terminal. With `messages`, what is written on standard error goes there, if it would go to a terminal.
    ///
    /// # Errors
    /// Standard output is no terminal.
    pub(super) fn take(messages: Option<Messages>) -> io::Result<Self> {
        static HOOK: Once = Once::new();
        HOOK.call_once(|| {
            let before = std::panic::take_hook();
            std::panic::set_hook(Box::new(move |panic| {
                release();
                before(panic);
            }));
        });
        let mut screen = Self {
            backend: CrosstermBackend::new(Output(Vec::new())),
            shown: Buffer::default(),
            keys: Keys::open(),
            messages: messages.filter(|_| io::stderr().is_terminal()),
            keeper: None,
        };
        screen.take_again()?;
        Ok(screen)
    }

    /// Takes the terminal after it was given back.
    ///
    /// # Errors
    /// The terminal is gone.
    pub(super) fn take_again(&mut self) -> io::Result<()> {
        let modes = tcgetattr(stdout())?;
        let mut raw = modes.clone();
        raw.make_raw();
        // Ctrl-C is a signal as ever, also to a program that does not come on. Other keys for signals would leave the
        // terminal as it is.
        raw.local_modes |= LocalModes::ISIG;
        for code in [SpecialCodeIndex::VQUIT, SpecialCodeIndex::VSUSP] {
            raw.special_codes[code] = DISABLED;
        }
        let stderr = self.lead_messages()?;
        *HELD.lock() = Some(Held { modes, stderr });
        tcsetattr(stdout(), OptionalActions::Now, &raw)?;
        self.backend.write_all(TAKE)?;
        self.redraw();
        Ok(())
    }

    /// Leads standard error to the messages. Returns what it was before.
    fn lead_messages(&mut self) -> io::Result<Option<OwnedFd>> {
        let Some(messages) = self.messages.clone() else { return Ok(None) };
        let (reader, writer) = pipe_with(PipeFlags::CLOEXEC)?;
        let before = rustix::io::fcntl_dupfd_cloexec(stderr(), 3)?;
        let keep = move || messages.keep(reader);
        self.keeper = Some(Builder::new().name("messages".to_owned()).spawn(keep)?);
        dup2_stderr(writer)?;
        Ok(Some(before))
    }

    /// Gives the terminal back, and writes the messages that have come meanwhile.
    pub(super) fn give_back(&mut self) {
        release();
        let Some(keeper) = self.keeper.take() else { return };
        // It ends when nobody can write any more; a program that was started may still do.
        let until = Instant::now() + Duration::from_millis(200);
        while !keeper.is_finished() && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(1));
        }
        self.messages.iter().for_each(|messages| messages.write(io::stderr().lock()));
    }

    /// False if somebody else has given the terminal back, because the program ends.
    pub(super) fn is_held() -> bool {
        HELD.lock().is_some()
    }

    /// Whether messages are led to the view.
    pub(super) fn has_messages(&self) -> bool {
        self.messages.is_some()
    }

    /// The next drawing draws all.
    pub(super) fn redraw(&mut self) {
        self.shown = Buffer::default();
    }

    /// An empty screen of the terminal's size.
    pub(super) fn empty(&self) -> Buffer {
        let (columns, rows) = match tcgetwinsize(stdout()) {
            Ok(size) if size.ws_row > 0 && size.ws_col > 0 => (size.ws_col, size.ws_row),
            _ => (80, 24),
        };
        Buffer::empty(Rect::new(0, 0, columns.min(MOST_COLUMNS), rows.min(MOST_ROWS)))
    }

    /// Whether the terminal has another size than when it was last drawn.
    pub(super) fn is_resized(&self) -> bool {
        self.empty().area != self.shown.area
    }

    /// Shows this.
    ///
    /// # Errors
    /// The terminal is gone.
    pub(super) fn draw(&mut self, next: Buffer) -> io::Result<()> {
        if next.area != self.shown.area {
            self.shown = Buffer::empty(next.area);
            self.backend.clear()?;
        }
        self.backend.draw(self.shown.diff(&next).into_iter())?;
        Backend::flush(&mut self.backend)?;
        self.shown = next;
        Ok(())
    }

    /// Waits for keys, or until `wake` is ready, but no longer than this.
    pub(super) fn wait(&mut self, wake: &OwnedFd, patience: Duration) -> Waited {
        self.keys.wait(wake, patience)
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        self.give_back();
    }
}

/// No key is this one (termios(3)).
const DISABLED: u8 = 0;

/// Larger screens are not filled.
const MOST_COLUMNS: u16 = 500;
const MOST_ROWS: u16 = 300;

/// Where keys come from.
struct Keys {
    terminal: Option<File>,
    keyboard: Keyboard,
}

/// The bytes of a key come within this time.
const TOGETHER: Duration = Duration::from_millis(30);

impl Keys {
    /// Standard input, or the terminal if that is something else.
    fn open() -> Self {
        let stdin = io::stdin();
        let terminal = match stdin.is_terminal() {
            true => stdin.as_fd().try_clone_to_owned().map(File::from),
            false => File::open("/dev/tty"),
        };
        Self { terminal: terminal.ok(), keyboard: Keyboard::default() }
    }

    fn wait(&mut self, wake: &OwnedFd, patience: Duration) -> Waited {
        let patience = if self.keyboard.is_pending() { patience.min(TOGETHER) } else { patience };
        let mut files = vec![PollFd::new(wake, PollFlags::IN)];
        files.extend(self.terminal.as_ref().map(|file| PollFd::new(file, PollFlags::IN)));
        // Whatever interrupts it is looked after by who calls.
        if poll(&mut files, Some(&timespec(patience))).is_err() {
            return Waited::Keys(Vec::new());
        }
        let ready = |at: usize| files.get(at).map_or(PollFlags::empty(), PollFd::revents);
        if ready(0).contains(PollFlags::IN) {
            let _ = rustix::io::read(wake, &mut [0; 8]);
        }
        let Some(terminal) = self.terminal.as_ref().filter(|_| !ready(1).is_empty()) else {
            let is_over = ready(0).is_empty();
            return Waited::Keys(if is_over { self.keyboard.settle() } else { Vec::new() });
        };
        let mut bytes = [0; 1024];
        match rustix::io::read(terminal, &mut bytes) {
            Ok(0) => Waited::Gone,
            Ok(n) => Waited::Keys(self.keyboard.take(bytes.get(..n).unwrap_or_default())),
            Err(Errno::INTR | Errno::AGAIN) => Waited::Keys(Vec::new()),
            Err(_) => Waited::Gone,
        }
    }
}

/// Standard output, by pieces as they are flushed, and without its lock: somebody else may have that.
struct Output(Vec<u8>);

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        let text = std::mem::take(&mut self.0);
        let mut rest = &text[..];
        while !rest.is_empty() {
            match rustix::io::write(stdout(), rest) {
                Ok(n) => rest = rest.get(n..).unwrap_or_default(),
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => {
                    wait(stdout(), PollFlags::OUT, Duration::from_secs(1));
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }
}
