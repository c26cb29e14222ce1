//! PokeHandlers - calls handlers at given times
//!
//! # Synopsis
//! `PokeHandlers(DIRECTIVE, ...)`
//!
//! # Description
//! Executes its directives in order. Script does the same, and more.
//!
//! - `write HANDLER [VALUE]`: writes a handler. `read HANDLER`, or `print HANDLER`: prints a handler's name and value
//!   on standard error.
//! - `wait TIME`, or just TIME: waits, in seconds.
//! - `pause`: waits until `unpause` is written.
//! - `loop`: starts again from the first directive. `stop`, or `quit`: asks the program to stop. Directives after these
//!   are ignored.
//!
//! # Arguments
//! - DIRECTIVE: as above. Any number of them.
//!
//! # Ports
//! None.
//!
//! # Handlers
//! - `unpause` (write): ends a pause.
//! - `paused` (read): whether it is paused.
//!
//! # Drops
//! None.
//!
//! # Example
//! ```click
//! c :: InfiniteSource(LIMIT 3) -> Counter -> Discard;
//! PokeHandlers(wait 1, write Counter@2.reset, stop);
//! ```
//!
//! # See also
//! Script

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};

use millrace_core::args::{ArgText, HandlerRef, Seconds};
use millrace_core::{
    Arg, Class, Context, Element, Failed, Handlers, Init, Need, Refused, Setup, Timer, Timestamp,
    register,
};

/// The element; its manual is at the top of the file.
pub struct PokeHandlers {
    /// What to do, and how long to wait first.
    steps: Vec<(Timestamp, Step)>,
    next: AtomicUsize,
    paused: AtomicBool,
    timer: Timer,
}

enum Step {
    Read(HandlerRef),
    Write(HandlerRef, String),
    Pause,
    Loop,
    Stop,
}

register!(PokeHandlers, "poke_handlers.rs");

impl Element for PokeHandlers {
    const CLASS: Class = Class::new("PokeHandlers", "0/0", "a/a");
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        let mut steps = Vec::new();
        let mut wait = Timestamp::ZERO;
        let arguments = setup.args.rest();
        for (at, argument) in arguments.iter().enumerate() {
            if argument.is_empty() {
                continue;
            }
            match directive(setup, argument) {
                Ok(Directive::Wait(time)) => wait += time,
                Ok(Directive::Step(step)) => {
                    let last = match step {
                        Step::Loop => Some("loop"),
                        Step::Stop => Some("stop"),
                        _ => None,
                    };
                    if let Step::Write(handler, text) = &step {
                        let need = Need::of_call(handler.handler(), text.as_bytes());
                        setup.args.needs(need);
                    }
                    steps.push((std::mem::replace(&mut wait, Timestamp::ZERO), step));
                    if let Some(word) = last {
                        if at + 1 < arguments.len() {
                            let message = format!("arguments after ‘{word}’ directive ignored");
                            setup.args.warn(argument, message);
                        }
                        break;
                    }
                }
                Err(message) => setup.args.error(argument, message),
            }
        }
        setup.args.complete()?;
        Ok(Self { steps, next: 0.into(), paused: false.into(), timer: setup.timer() })
    }

    fn initialize(&self, init: &mut Init<'_>) -> Result<(), Refused> {
        if let Some((wait, _)) = self.steps.first() {
            self.timer.schedule_at(init.clock().now() + *wait + Timestamp::from_millis(1));
        }
        Ok(())
    }

    fn run_timer(&self, cx: &mut Context, (): &mut ()) {
        let mut at = self.next.load(Relaxed);
        while let Some((_, step)) = self.steps.get(at) {
            at += 1;
            match step {
                Step::Stop => {
                    cx.router().request_stop();
                    break;
                }
                Step::Loop => {
                    at = 0;
                    break;
                }
                Step::Pause => {
                    self.paused.store(true, Relaxed);
                    break;
                }
                Step::Read(handler) => read(cx, handler),
                Step::Write(handler, text) => {
                    let written = cx.router().write_to(cx.element(), handler, text.as_bytes());
                    if let Err(error) = written {
                        complain(cx, &error.to_string());
                    }
                }
            }
            if self.steps.get(at).is_none_or(|(wait, _)| *wait > Timestamp::ZERO) {
                break;
            }
        }
        self.next.store(at, Relaxed);
        if !self.paused.load(Relaxed) {
            self.go_on(cx.now());
        }
    }

    fn handlers(handlers: &mut Handlers<Self>) {
        handlers.read("paused", |poke, _| poke.paused.load(Relaxed));
        handlers.write("unpause", |poke, call| {
            if poke.paused.swap(false, Relaxed) {
                poke.go_on(call.now());
            }
            Ok(())
        });
    }
}

impl PokeHandlers {
    fn go_on(&self, now: Timestamp) {
        if let Some((wait, _)) = self.steps.get(self.next.load(Relaxed)) {
            // A loop without waits runs once a millisecond.
            self.timer.schedule_at(now + (*wait).max(Timestamp::from_millis(1)));
        }
    }
}

enum Directive {
    Wait(Timestamp),
    Step(Step),
}

fn directive(setup: &Setup<'_>, argument: &ArgText) -> Result<Directive, String> {
    let scope = *setup.args.scope();
    let (word, rest) = argument.split_first_word();
    let handler = |text: &ArgText| {
        HandlerRef::parse(text, &scope).map_err(|error| match error.message() {
            "" => "bad handler name format".to_owned(),
            message => message.to_owned(),
        })
    };
    let time = |text: &ArgText| {
        let time = Seconds::parse(text, &scope).ok()?;
        Some(Timestamp::from_nanos(i64::try_from(time.as_nanos()).ok()?))
    };
    Ok(match word.as_str() {
        "quit" | "stop" if rest.is_empty() => Directive::Step(Step::Stop),
        "loop" if rest.is_empty() => Directive::Step(Step::Loop),
        "pause" if rest.is_empty() => Directive::Step(Step::Pause),
        "read" | "print" => Directive::Step(Step::Read(handler(&rest)?)),
        "write" => {
            let (name, text) = rest.split_first_word();
            Directive::Step(Step::Write(handler(&name)?, text.as_str().trim().to_owned()))
        }
        "wait" => Directive::Wait(time(&rest).ok_or("missing time in ‘wait TIME’")?),
        _ if rest.is_empty() && time(&word).is_some() => {
            Directive::Wait(time(&word).unwrap_or(Timestamp::ZERO))
        }
        other => return Err(format!("unknown directive ‘{other}’")),
    })
}

fn read(cx: &Context, handler: &HandlerRef) {
    let router = cx.router();
    match router.read_from(cx.element(), handler, b"") {
        Ok(value) => {
            let name = match handler {
                HandlerRef::Of { element, handler } => {
                    format!("{}.{handler}", router.name_of(*element))
                }
                other => other.handler().to_owned(),
            };
            let text = format!("{name}:\n{}", String::from_utf8_lossy(&value));
            router.chatter(text.strip_suffix('\n').unwrap_or(&text));
        }
        Err(error) => complain(cx, &error.to_string()),
    }
}

fn complain(cx: &Context, message: &str) {
    cx.router().chatter(&format!("{}: {message}", cx.router().name_of(cx.element())));
}

#[cfg(test)]
mod tests {
    use millrace_core::Timestamp;
    use millrace_core::testing::Rig;

    #[test]
    fn directives_are_checked() {
        for wrong in ["jump", "wait", "write nobody.reset 1", "read a."] {
            assert!(Rig::new(&format!("PokeHandlers({wrong})"), 0, 0).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_pause_lasts_until_unpause_is_written() {
        let mut rig = Rig::new("PokeHandlers(1, pause, stop)", 0, 0).unwrap();
        rig.pass(Timestamp::from_secs(2));
        assert_eq!(rig.read("paused").unwrap(), "true");
        rig.write("unpause", "").unwrap();
        rig.pass(Timestamp::from_secs(1));
        assert!(!rig.router().is_running());
    }
}
