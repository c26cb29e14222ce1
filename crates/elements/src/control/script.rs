//! Script - runs a list of instructions
//!
//! # Synopsis
//! `Script(INSTRUCTION, ..., keyword TYPE)`
//!
//! # Description
//! Runs instructions one after the other: reads and writes handlers, prints, waits, computes,
//! stops the program.
//!
//! In the texts of instructions `$x` and `${x}` stand for the variable x, `$(HANDLER [ARG...])`
//! for what a read handler gives; handlers of the script itself need no element name. The forms
//! with a `q` remove a layer of quotes from the text when variables have been replaced.
//!
//! - `set VAR TEXT`, `setq`: sets a variable. `init`, `initq`: once, before the script runs.
//!   `export`, `exportq`: likewise, and the variable can be read as a handler of the script.
//! - `print [>FILE | >>FILE] TEXT`, `printq`: prints a line on standard output, or to a file. What
//!   starts with a letter is a handler to read; anything else is unquoted and printed. `printn`,
//!   `printnq`: without a newline.
//! - `read HANDLER [ARG...]`: prints a handler's name and value on standard error.
//! - `write HANDLER [TEXT]`: writes a handler; `$?` is then 0, or -1 when it refused.
//! - `save HANDLER FILE`, `append HANDLER FILE`: writes a handler's value to a file.
//! - `wait TIME`: waits. `pause [COUNT]`, `wait_step [COUNT]`: waits for so many writes to `step`.
//! - `label LABEL`, `goto LABEL [CONDITION]`, `loop [CONDITION]`: jumps. A script that jumps 1000
//!   times without waiting is ended.
//! - `end [CONDITION]`, `exit [CONDITION]`: ends the script. `stop [CONDITION]`: ends it and asks
//!   the program to stop. `return [VALUE]`, `returnq`: ends it with a value. `error [MESSAGE]`,
//!   `errorq`: ends it with an error.
//!
//! # Arguments
//! - INSTRUCTION: as above. Any number of them.
//! - TYPE: `ACTIVE`: runs from the start. `DRIVER`: likewise, and decides when the program stops
//!   (see DriverManager). `PASSIVE`: runs when the handler `run` is called; `$args` is what was
//!   given, `$1`, `$2`... its words, `$#` their number. `PROXY`: runs for every handler that it
//!   does not have; `$0` is its name, `$write` whether it is written. `PACKET`: runs for each
//!   packet; `$input` is the port, and the value returned is the output. Default: PACKET with
//!   ports, else ACTIVE. `SIGNAL` is refused: not supported yet.
//!
//! # Ports
//! Any number; the first of each side is agnostic, the others push. Only PACKET scripts use them.
//!
//! # Handlers
//! - `step` (write): ends one wait, or as many as given.
//! - `goto` (write): goes to a label.
//! - `run` (read, write): runs a passive script; the value that it returns.
//! - `get` (read), `set` (write): a variable's value; `VAR VALUE`.
//! - `now` (read): the time. `random` (read): a random integer; below N; from N1 to N2.
//! - `readable`, `writable` (read): whether all the handlers given exist and can be used so.
//! - `kill` (read): `SIGNAL PROCESS...` sends a signal.
//! - `add sub mul div idiv mod rem neg abs min max avg count eq ne gt ge lt le not and or nand nor
//!   if in first nth sort length unquote sprintf cat catq` (read): functions of their parameters.
//!
//! # Drops
//! - discarded: a PACKET script exited, or failed, or named an output that is not there.
//!
//! # Example
//! ```click
//! c :: InfiniteSource(LIMIT 10) -> Counter -> Discard;
//! Script(set x 0, label again, set x $(add $x 1), print "x is $x", goto again $(lt $x 3), stop);
//! ```
//!
//! # See also
//! DriverManager, ControlSocket

mod functions;
mod machine;
mod program;

use millrace_core::args::{self, HandlerRef, Word};
use millrace_core::element::{ANY_HANDLER, HandlerError, Text};
use millrace_core::{
    Args, Batch, Call, Class, Context, Element, Failed, Handlers, Init, Reason, Refused, Setup,
    register,
};

use functions::FUNCTIONS;
use machine::{Arguments, Ended, Kind, Machine, Place};
use program::Program;

/// The element; its manual is at the top of the file.
pub struct Script {
    machine: Machine,
}

register!(Script, "script.rs");

impl Element for Script {
    const CLASS: Class =
        Class::new("Script", "-/-", "ah/ah").phase(Class::PHASE_LAST).per_packet().ordered();
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        let kind = match kind_argument(&mut setup.args)? {
            Some(kind) => kind,
            None if setup.inputs() + setup.outputs() > 0 => Kind::Packet,
            None => Kind::Active,
        };
        Self::configure_as(setup, kind)
    }

    fn initialize(&self, init: &mut Init<'_>) -> Result<(), Refused> {
        self.machine.start(init.router(), init.id(), init.clock().now());
        Ok(())
    }

    fn process(&self, cx: &mut Context, (): &mut (), batch: &mut Batch) {
        batch.map_filter(|packet| match self.output_for(cx, 0) {
            Some(0) => Some(packet),
            Some(port) => {
                cx.push_or_drop(port, packet, Reason::Discarded);
                None
            }
            None => cx.drop(packet, Reason::Discarded),
        });
    }

    fn push(&self, cx: &mut Context, (): &mut (), port: usize, batch: &mut Batch) {
        for packet in batch.drain() {
            match self.output_for(cx, port) {
                Some(output) => cx.push_or_drop(output, packet, Reason::Discarded),
                None => {
                    cx.drop(packet, Reason::Discarded);
                }
            }
        }
    }

    fn run_timer(&self, cx: &mut Context, (): &mut ()) {
        self.machine.go_on(Place { router: cx.router(), element: cx.element() });
    }

    fn stop_requested(&self, cx: &mut Context, (): &mut ()) -> bool {
        self.machine.outlives_stop(cx.now())
    }

    fn handlers(handlers: &mut Handlers<Self>) {
        script_handlers(handlers, |script| script);
    }
}

impl Script {
    /// A script of a kind, its instructions being what is left of the arguments.
    pub(super) fn configure_as_driver(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        Self::configure_as(setup, Kind::Driver)
    }

    fn configure_as(setup: &mut Setup<'_>, kind: Kind) -> Result<Self, Failed> {
        let program = Program::read(&mut setup.args);
        setup.args.complete()?;
        if kind == Kind::Driver {
            setup.drive();
        }
        let timer = setup.timer();
        Ok(Self { machine: Machine::new(program, kind, timer) })
    }

    /// The output for a packet; none to drop it.
    fn output_for(&self, cx: &Context, input: usize) -> Option<usize> {
        if self.machine.kind != Kind::Packet {
            return None;
        }
        let place = Place { router: cx.router(), element: cx.element() };
        match self.machine.call(place, Arguments { input, ..Arguments::default() }) {
            Ended::End => Some(0),
            Ended::Return(port) => String::from_utf8_lossy(&port).trim().parse().ok(),
            Ended::Stop => {
                cx.router().request_stop();
                None
            }
            Ended::Error(message) => {
                let name = cx.router().name_of(cx.element());
                cx.router().chatter(&format!("{name}: {message}"));
                None
            }
            Ended::Exit | Ended::Waits => None,
        }
    }

    /// Runs the script for a handler.
    fn answer(&self, call: &Call<'_>, writes: bool) -> Result<Text, HandlerError> {
        let router = call.router();
        let arguments = Arguments {
            handler: call.handler().to_owned(),
            text: String::from_utf8_lossy(call.bytes()).into_owned(),
            writes,
            input: 0,
        };
        let place = Place { router, element: call.element() };
        match self.machine.call(place, arguments) {
            Ended::Return(value) => Ok(value),
            Ended::Error(message) => Err(HandlerError::Refused(message)),
            Ended::Stop => {
                router.request_stop();
                Ok(Text::new())
            }
            Ended::End | Ended::Exit | Ended::Waits => Ok(Text::new()),
        }
    }
}

/// The handlers of a script that is part of element `E`.
pub(super) fn script_handlers<E: 'static>(handlers: &mut Handlers<E>, script: fn(&E) -> &Script) {
    handlers.write("step", move |e, call| {
        let text = call.text();
        let n = if text.is_empty() { 1 } else { call.parse()? };
        script(e).machine.step(n, call.now());
        Ok(())
    });
    handlers.write("goto", move |e, call| {
        match script(e).machine.go_to(&call.text(), call.now()) {
            true => Ok(()),
            false => Err(format!("no such label ‘{}’", call.text()).into()),
        }
    });
    handlers.try_read("run", move |e, call| script(e).answer(call, false));
    handlers.write("run", move |e, call| script(e).answer(call, true).map(drop));
    handlers.try_read("get", move |e, call| {
        let value = script(e).machine.get(&call.text());
        value.ok_or_else(|| HandlerError::from(format!("no variable ‘{}’", call.text())))
    });
    handlers.write("set", move |e, call| {
        let text = call.text();
        let (variable, value) = program::split(&text);
        script(e).machine.set(variable, value.as_bytes().to_vec());
        Ok(())
    });
    handlers.read("now", |_, call| call.now());
    handlers.try_read("random", |_, call| random(&call.text()));
    handlers.try_read("readable", |_, call| handlers_exist(call, |(readable, _)| readable));
    handlers.try_read("writable", |_, call| handlers_exist(call, |(_, writable)| writable));
    handlers.try_read("kill", |_, call| kill(&call.text()));
    for (name, function) in FUNCTIONS {
        handlers.try_read(name, move |_, call| {
            function(&String::from_utf8_lossy(call.bytes())).map_err(HandlerError::Refused)
        });
    }
    handlers.try_read(ANY_HANDLER, move |e, call| {
        let script = script(e);
        match script.machine.exported(call.handler()) {
            Some(value) => Ok(value),
            None if script.machine.kind == Kind::Proxy => script.answer(call, false),
            None => Err(HandlerError::NoHandler(call.handler().to_owned())),
        }
    });
    handlers.write(ANY_HANDLER, move |e, call| match script(e).machine.kind {
        Kind::Proxy => script(e).answer(call, true).map(drop),
        _ => Err(HandlerError::NoHandler(call.handler().to_owned())),
    });
}

fn kind_argument(args: &mut Args<'_>) -> Result<Option<Kind>, Failed> {
    let Some(Word(word)) = args.optional_keyword("TYPE") else { return Ok(None) };
    let kind = match word.to_ascii_uppercase().as_str() {
        "ACTIVE" => Kind::Active,
        "DRIVER" => Kind::Driver,
        "PASSIVE" => Kind::Passive,
        "PROXY" => Kind::Proxy,
        "PACKET" | "PUSH" => Kind::Packet,
        "SIGNAL" => {
            args.error("TYPE", "scripts on signals are not supported yet");
            return Err(Failed);
        }
        _ => {
            let message = "bad TYPE; expected ACTIVE, DRIVER, PACKET, PASSIVE or PROXY";
            args.error("TYPE", message);
            return Err(Failed);
        }
    };
    Ok(Some(kind))
}

fn random(text: &str) -> Result<u64, HandlerError> {
    let bounds: Result<Vec<u64>, _> = text.split_whitespace().map(str::parse).collect();
    match bounds.map_err(|_| "expected integers")?.as_slice() {
        [] => Ok(fastrand::u64(0..=0x7fff_ffff)),
        [n] if *n > 0 => Ok(fastrand::u64(0..*n)),
        [low, high] if low <= high => Ok(fastrand::u64(*low..=*high)),
        _ => Err("expected no argument, N, or N1 and N2".into()),
    }
}

fn handlers_exist(call: &Call<'_>, usable: fn((bool, bool)) -> bool) -> Result<bool, HandlerError> {
    let text = call.text();
    let all = text.split_whitespace().all(|name| {
        args::parse::<HandlerRef>(name, &call.scope())
            .ok()
            .and_then(|handler| call.router().access_from(call.element(), &handler).ok())
            .is_some_and(usable)
    });
    Ok(all)
}

/// Sends a signal, by the system's own program, to processes.
fn kill(text: &str) -> Result<Text, HandlerError> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let [signal, processes @ ..] = words.as_slice() else {
        return Err("expected a signal and processes".into());
    };
    let status = std::process::Command::new("kill")
        .arg(format!("-{}", signal.trim_start_matches("SIG")))
        .args(processes)
        .status();
    match status {
        Ok(status) if status.success() => Ok(Text::new()),
        Ok(_) => Err("kill failed".into()),
        Err(error) => Err(error.to_string().into()),
    }
}

#[cfg(test)]
mod tests {
    use millrace_core::testing::Rig;
    use millrace_core::{Reason, Timestamp};

    fn run(script: &str) -> Rig {
        let mut rig = Rig::new(&format!("Script({script})"), 0, 0).unwrap();
        rig.pass(Timestamp::from_millis(1));
        rig
    }

    fn value(rig: &Rig, variable: &str) -> String {
        rig.read_with("get", variable).unwrap()
    }

    #[test]
    fn loops_and_computes() {
        let rig = run("set x 0, label l, set x $(add $x 1), goto l $(lt $x 5), set y $(mul $x 2)");
        assert_eq!((value(&rig, "x").as_str(), value(&rig, "y").as_str()), ("5", "10"));
    }

    #[test]
    fn quotes_are_kept_or_removed() {
        let rig = run(r#"set a "1 $(add 1 1)", setq b "1 2", set c ${b}x, set d '$b'"#);
        assert_eq!(value(&rig, "a"), "\"1 2\"");
        assert_eq!(value(&rig, "b"), "1 2");
        assert_eq!(value(&rig, "c"), "1 2x");
        assert_eq!(value(&rig, "d"), "'$b'");
    }

    #[test]
    fn waits_for_time_and_steps() {
        let mut rig = run("set x 1, wait 2s, set x 2, pause 2, set x 3");
        assert_eq!(value(&rig, "x"), "1");
        rig.pass(Timestamp::from_secs(3));
        assert_eq!(value(&rig, "x"), "2");
        rig.write("step", "").unwrap();
        assert_eq!(value(&rig, "x"), "2");
        rig.write("step", "").unwrap();
        assert_eq!(value(&rig, "x"), "3");
    }

    #[test]
    fn an_endless_script_is_ended() {
        let rig = run("set x 1, loop");
        assert_eq!(value(&rig, "x"), "1");
    }

    #[test]
    fn passive_scripts_answer() {
        let rig = Rig::new("Script(TYPE PASSIVE, return $(add $1 $2 $#))", 0, 0).unwrap();
        assert_eq!(rig.read_with("run", "3 4").unwrap(), "9");
        let rig = Rig::new("Script(TYPE PROXY, returnq \"you called '$0'\")", 0, 0).unwrap();
        assert_eq!(rig.read("anything").unwrap(), "you called 'anything'");
        assert!(Rig::new("Script(TYPE PASSIVE, wait 1)", 0, 0).unwrap().read("run").is_err());
    }

    #[test]
    fn exported_variables_are_handlers() {
        let rig = run("export v 7, set w 8");
        assert_eq!(rig.read("v").unwrap(), "7");
        assert!(rig.read("w").is_err());
    }

    #[test]
    fn packet_scripts_route() {
        let mut rig = Rig::new("Script(return $(sub 1 $input))", 2, 2).unwrap();
        assert_eq!(rig.push(0, &["a"]), [vec![], vec![b"a".to_vec()]]);
        assert_eq!(rig.push(1, &["b"]), [vec![b"b".to_vec()], vec![]]);
        let mut rig = Rig::new("Script(exit)", 1, 1).unwrap();
        rig.push(0, &["a"]);
        assert_eq!(rig.stats().drops, [(Reason::Discarded, 1)]);
    }

    #[test]
    fn wrong_scripts_are_refused() {
        for script in [
            "fly",
            "goto nowhere",
            "set 1+1 2",
            "wait_time",
            "label a, label a",
            "TYPE SIGNAL INT, stop",
        ] {
            assert!(Rig::new(&format!("Script({script})"), 0, 0).is_err(), "{script}");
        }
    }
}
