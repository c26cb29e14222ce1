//! Signal names, and sending signals.

use millrace_core::element::{HandlerError, Text};
use millrace_core::os_error_text;
use rustix::process::{Pid, Signal, kill_process};

use super::functions;

/// The signals that scripts may name.
const NAMES: &[(&str, Signal)] = &[
    ("ABRT", Signal::ABORT),
    ("ALRM", Signal::ALARM),
    ("HUP", Signal::HUP),
    ("INT", Signal::INT),
    ("IO", Signal::IO),
    ("PIPE", Signal::PIPE),
    ("QUIT", Signal::QUIT),
    ("TERM", Signal::TERM),
    ("TSTP", Signal::TSTP),
    ("USR1", Signal::USR1),
    ("USR2", Signal::USR2),
];

/// The number of a signal, given by name or number.
pub(super) fn number(text: &str) -> Option<i32> {
    let named = NAMES.iter().find(|(name, _)| *name == text);
    let number = named.map(|(_, signal)| signal.as_raw()).or_else(|| text.parse().ok())?;
    (0..32).contains(&number).then_some(number)
}

/// Sends a signal to processes: `SIGNAL PROCESS...`.
pub(super) fn kill(text: &str) -> Result<Text, HandlerError> {
    let words = functions::words(text);
    let (&signal, processes) = words.split_first().ok_or("bad SIGNO")?;
    let number = number(signal).ok_or("bad SIGNO")?;
    for process in processes {
        let id: i32 = process.parse().map_err(|_| "bad PID")?;
        let sent = match (Pid::from_raw(id), Signal::from_named_raw(number)) {
            (Some(pid), Some(signal)) => kill_process(pid, signal),
            _ => Err(rustix::io::Errno::INVAL),
        };
        if let Err(error) = sent {
            let reason = os_error_text(&error.into());
            return Err(format!("kill({id}, {number}): {reason}").into());
        }
    }
    Ok(Text::new())
}
