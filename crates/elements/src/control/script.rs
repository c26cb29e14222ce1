//! Script - runs a list of instructions
//!
//! # Synopsis
//! `Script(INSTRUCTION, ..., keyword TYPE)`
//!
//! # Description
//! Runs instructions in order: they read and write handlers, print, wait, compute, and stop the program.
//!
//! In the texts of instructions `$x` and `${x}` are replaced by the variable x, `$(HANDLER [ARG...])` by the value of a
//! read handler, `$?` by the status of the last `write` (0 on success, negative on failure), `$$` by the process ID.
//! The script's own handlers need no element name. An instruction that fails prints a message, and the script goes on;
//! the summary of `millrace run` says so, and its exit status indicates failure. The forms that end in `q` also remove a layer of quotes after
//! replacing variables.
//!
//! - `set VAR TEXT`, `setq`: sets a variable. `init`, `initq`: the same, once, before the script runs. `export`,
//!   `exportq`: as `init`, and the variable becomes a read handler of the script.
//! - `print [>FILE | >>FILE] TEXT`, `printq`: prints a line on standard output, or to a file. A TEXT that starts with a
//!   letter, `@` or `_` names a handler to read; any other is unquoted and printed. `printn`, `printnq`: without a
//!   newline.
//! - `read HANDLER [ARG...]`, `readq`: prints a handler's name and value on standard error.
//! - `write HANDLER [TEXT]`, `writeq`: writes a handler.
//! - `save HANDLER [FILE]`, `append HANDLER [FILE]`: prints a handler's value to a file. The file stays as it is if the
//!   handler fails.
//! - `wait TIME`, `wait_for`, `wait_time`: waits for a time, or a step. `pause [COUNT]`, `wait`, `wait_step [COUNT]`,
//!   `wait_stop [COUNT]`: waits for COUNT writes to `step`, or, in a driver script, for COUNT requests to stop.
//! - `label LABEL`, `goto LABEL [CONDITION]`, `loop`: jumps; the labels `loop` (or `begin`), `end`, `exit`, `stop` and
//!   `error` are predefined. A script that jumps 1000 times without waiting is ended.
//! - `end`: ends the script; a packet leaves by output 0, a signal is listened for again. `exit`: ends it; a packet is
//!   dropped, the next signal has its usual effect. `stop`: ends it and asks the program to stop. `return [VALUE]`,
//!   `returnq`: ends it with a value. `error [MESSAGE]`, `errorq`: ends it with an error.
//!
//! # Arguments
//! - INSTRUCTION: as above. Any number of them.
//! - TYPE: `ACTIVE`: runs from the start. `DRIVER`: the same, and decides when the program stops (see DriverManager).
//!   `PASSIVE`: runs when its `run` handler is called; `$args` is the parameter, `$1`, `$2`... its words, `$#` their
//!   number. `PROXY`: runs for every handler that the element does not have; `$0` is the handler's name, `$write`
//!   whether it is written. `PACKET`: runs for each packet; `$input` is the input port, and the value returned is the
//!   output. `SIGNAL SIGNAL...`: runs when one of these signals arrives, by number or by name (`HUP`, `USR1`...). A
//!   signal that arrives while the script runs or waits runs it again when it has ended with `end`; after any other end
//!   signals have their usual effect. Default: PACKET with ports, else ACTIVE.
//!
//! # Ports
//! Any number; the first input and output are agnostic, the others push. Only PACKET scripts use them.
//!
//! # Handlers
//! - `step` (write): ends one wait, or as many as given.
//! - `goto` (write): goes to a label and runs.
//! - `run` (read, write): runs the script from the start; returns its value.
//! - `get` (read), `set` (write): a variable's value; `VAR VALUE`. `shift` (read): removes and returns the first word
//!   of a variable, by default `args`.
//! - `now`, `now_steady` (read): the time. `random` (read): a random integer; below N; from N1 to N2.
//! - `readable`, `writable` (read): whether all the given handlers exist and can be read or written.
//! - `add sub mul div idiv mod rem neg abs ceil floor round min max avg count popcount gt_vec get_vec eq ne gt ge lt le
//!   not and or nand nor if in first nth sort length unquote sprintf htons htonl ntohs ntohl` (read): functions of
//!   their parameters.
//! - `cat`, `catq` (read): the contents of a file; `catq` quotes them. `kill` (read): `SIGNAL PROCESS...` sends a
//!   signal. Control sockets do not serve these three.
//!
//! # Drops
//! - discarded: a PACKET script exited, failed, or returned an output that does not exist.
//!
//! # Example
//! ```click
//! c :: InfiniteSource(LIMIT 10) -> Counter -> Discard;
//! Script(set x 0, label again, set x $(add $x 1), print "x is $x", goto again $(lt $x 3), stop);
//! ```
//!
//! # See also
//! DriverManager, ControlSocket

mod errors;
mod functions;
mod machine;
mod names;
mod names_checked;
mod program;
mod signals;

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use millrace_core::args::{ArgText, Kind as ArgKind, Scope};
use millrace_core::element::{ANY_HANDLER, HandlerError, Inspection, Text};
use millrace_core::{
    Args, Batch, Call, Class, Context, Element, Failed, Handlers, Init, Offers, Reason, Refused,
    Setup, register,
};
use millrace_lang::config::unquote;

use crate::capability::Failures;
use errors::Errors;
use functions::{FUNCTIONS, PRIVATE_FUNCTIONS};
pub(super) use machine::Kind;
use machine::{Ended, How, Machine, Place};
use names::Arguments;
use program::{Program, split};

/// The element; its manual is at the top of the file.
pub struct Script {
    machine: Machine,
}

register!(Script, "script.rs");

impl Element for Script {
    const CLASS: Class = Class::new("Script", "-/-", "ah/ah")
        .phase(Class::PHASE_LAST)
        .shows_packets()
        .own_variables();
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        let ported = setup.inputs() + setup.outputs() > 0;
        Self::configure_as(setup, if ported { Kind::Packet } else { Kind::Active })
    }

    fn inspect(&self, inspection: &mut Inspection<'_>) {
        names_checked::advise(&self.machine.program, inspection);
    }

    fn initialize(&self, init: &mut Init<'_>) -> Result<(), Refused> {
        self.machine.start(init.router(), init.id());
        if let Kind::Signal(signals) = &self.machine.kind {
            self.machine.listen(Place { router: init.router(), element: init.id() }, signals);
        }
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
        self.machine.wake(Place { router: cx.router(), element: cx.element() });
    }

    fn stop_requested(&self, cx: &mut Context, (): &mut ()) -> bool {
        self.machine.outlives_stop(Place { router: cx.router(), element: cx.element() })
    }

    fn capabilities(self: &Arc<Self>, offers: &mut Offers<'_>) {
        offers.provide::<dyn Failures>(self.clone());
    }

    fn handlers(handlers: &mut Handlers<Self>) {
        script_handlers(handlers, |script| script);
    }
}

impl Failures for Script {
    fn failures(&self) -> Option<String> {
        match self.machine.failures.load(Relaxed) {
            0 => None,
            1 => Some("an instruction failed".to_owned()),
            n => Some(format!("{n} instructions failed")),
        }
    }
}

impl Script {
    /// A script of this type, unless TYPE names another. The other arguments are its instructions.
    pub(super) fn configure_as(setup: &mut Setup<'_>, default: Kind) -> Result<Self, Failed> {
        let kind = kind_argument(&mut setup.args)?.unwrap_or(default);
        if kind == Kind::Driver && !setup.drive() {
            setup.args.error((), "router has more than one driver script");
            return Err(Failed);
        }
        let ported = setup.inputs() + setup.outputs() > 0;
        if kind == Kind::Packet && setup.inputs() == 0 {
            setup.args.error((), "PACKET script must have inputs");
            return Err(Failed);
        }
        if kind != Kind::Packet && ported {
            setup.args.error((), "ports allowed only on PACKET scripts");
            return Err(Failed);
        }
        let program = Program::read(&mut setup.args, kind == Kind::Driver);
        setup.args.complete()?;
        setup.args.needs(program.files());
        let timer = setup.timer();
        Ok(Self { machine: Machine::new(program, kind, timer) })
    }

    /// The output for a packet; `None` to drop it.
    fn output_for(&self, cx: &Context, input: usize) -> Option<usize> {
        let place = Place { router: cx.router(), element: cx.element() };
        let errors = Errors::executing(place.router, place.element, &self.machine.failures);
        match self.machine.call(place, &errors, Arguments { input, ..Arguments::default() }) {
            Ended::Well(port) => String::from_utf8_lossy(&port).trim().parse().ok(),
            Ended::Stop | Ended::Error => None,
        }
    }

    /// Runs the script for a handler.
    fn answer(&self, call: &Call<'_>, writes: bool) -> Result<Text, HandlerError> {
        let arguments = Arguments {
            handler: call.handler().to_owned(),
            text: String::from_utf8_lossy(call.bytes()).into_owned(),
            writes,
            input: 0,
        };
        told(call, |place, errors| Ok(self.machine.call(place, errors, arguments)))
    }
}

/// The answer of a handler that runs the script: a value, or the errors.
fn told(
    call: &Call<'_>,
    run: impl FnOnce(Place<'_>, &Errors<'_>) -> Result<Ended, HandlerError>,
) -> Result<Text, HandlerError> {
    let place = Place { router: call.router(), element: call.element() };
    let errors = Errors::to_caller(place.router);
    let ended = run(place, &errors)?;
    match (errors.count(), ended) {
        (0, Ended::Well(value)) => Ok(value),
        (0, Ended::Stop) => Ok(Text::new()),
        _ => Err(HandlerError::Refused(errors.into_messages())),
    }
}

/// The handlers of a script that is part of element `E`.
pub(super) fn script_handlers<E: 'static>(handlers: &mut Handlers<E>, script: fn(&E) -> &Script) {
    handlers.write("step", move |e, call| {
        let text = call.text();
        let (n, how) = match &*text {
            "" => (1, How::Step),
            "router" => (1, How::Router),
            text => (text.parse().map_err(|_| "syntax error")?, How::Step),
        };
        let machine = &script(e).machine;
        told(call, |place, errors| Ok(machine.step(place, errors, n, how).0)).map(drop)
    });
    handlers.write("goto", move |e, call| {
        let machine = &script(e).machine;
        let go = |place: Place<'_>, errors: &Errors<'_>| {
            let gone = machine.go_to(place, errors, &call.text());
            gone.ok_or_else(|| "jump to nonexistent label".into())
        };
        told(call, go).map(drop)
    });
    handlers.try_read("run", move |e, call| script(e).answer(call, false));
    handlers.write("run", move |e, call| script(e).answer(call, true).map(drop));
    for (name, function) in FUNCTIONS {
        handlers.try_read(name, move |e, call| match exported(script(e), call.handler()) {
            Some(value) => Ok(value),
            None => function(&String::from_utf8_lossy(call.bytes())).map_err(HandlerError::Refused),
        });
    }
    handlers.try_read("random", |_, call| random(call));
    handlers.read("now", |_, call| call.now());
    handlers.read("now_steady", |_, call| call.now());
    handlers.try_read("readable", |_, call| handlers_exist(call, |(readable, _)| readable));
    handlers.try_read("writable", |_, call| handlers_exist(call, |(_, writable)| writable));
    for (name, function) in PRIVATE_FUNCTIONS {
        handlers.try_read(name, move |_, call| {
            function(&String::from_utf8_lossy(call.bytes())).map_err(HandlerError::Refused)
        });
        handlers.hide(name);
    }
    handlers.try_read("kill", |_, call| signals::kill(&call.text()));
    handlers.hide("kill");
    handlers.try_read("get", move |e, call| variable(script(e), call, false));
    handlers.write("set", move |e, call| {
        let text = String::from_utf8_lossy(call.bytes());
        let (name, value) = split(&text);
        let machine = &script(e).machine;
        match name {
            "" => return Err("no variable".into()),
            "args" => machine.arguments().text = value.to_owned(),
            _ => machine.set(name, value.as_bytes().to_vec()),
        }
        Ok(())
    });
    handlers.try_read("shift", move |e, call| variable(script(e), call, true));
    handlers.try_read(ANY_HANDLER, move |e, call| {
        let script = script(e);
        match (exported(script, call.handler()), &script.machine.kind) {
            (Some(value), _) => Ok(value),
            (None, Kind::Proxy) => script.answer(call, false),
            (None, _) => Err(HandlerError::NoHandler(call.handler().to_owned())),
        }
    });
    handlers.write(ANY_HANDLER, move |e, call| match script(e).machine.kind {
        Kind::Proxy => script(e).answer(call, true).map(drop),
        _ => Err(HandlerError::NoHandler(call.handler().to_owned())),
    });
    handlers.answers(move |e, name| {
        let machine = &script(e).machine;
        let proxy = machine.kind == Kind::Proxy;
        (proxy || machine.exports(name), proxy)
    });
}

/// The value of an exported variable: its handler replaces a function of the same name.
fn exported(script: &Script, name: &str) -> Option<Text> {
    let machine = &script.machine;
    machine.exports(name).then(|| machine.get(name).unwrap_or_default())
}

/// A variable's value, or its first word, which is removed.
fn variable(script: &Script, call: &Call<'_>, shifts: bool) -> Result<Text, HandlerError> {
    let text = call.text();
    let (name, rest) = split(&text);
    let name = if name.is_empty() && shifts { "args" } else { name };
    if name.is_empty() {
        return Err("no variable".into());
    }
    if !rest.is_empty() {
        return Err("too many arguments".into());
    }
    let machine = &script.machine;
    if name == "args" {
        let mut arguments = machine.arguments();
        return Ok(match shifts {
            true => names::shift(&mut arguments.text),
            false => arguments.text.clone().into_bytes(),
        });
    }
    let Some(value) = machine.get(name) else {
        return Err(format!("undefined variable ‘{name}’").into());
    };
    if !shifts {
        return Ok(value);
    }
    let mut value = String::from_utf8_lossy(&value).into_owned();
    let word = names::shift(&mut value);
    machine.set(name, value.into_bytes());
    Ok(word)
}

fn kind_argument(args: &mut Args<'_>) -> Result<Option<Kind>, Failed> {
    let raw = |text: &ArgText, _: &Scope<'_>| Ok::<_, String>(text.clone());
    let Some(text) = args.with("TYPE", ArgKind::Keyword, "a type of script", raw) else {
        return Ok(None);
    };
    let words = text.words();
    let words: Vec<&str> = words.iter().map(ArgText::as_str).collect();
    let kind = match words.as_slice() {
        [] => return Ok(None),
        ["ACTIVE"] => Kind::Active,
        ["PASSIVE"] => Kind::Passive,
        ["PACKET" | "PUSH"] => Kind::Packet,
        ["PROXY"] => Kind::Proxy,
        ["DRIVER"] => Kind::Driver,
        ["SIGNAL", names @ ..] => {
            let numbers: Option<Vec<i32>> =
                names.iter().map(|name| signals::number(name)).collect();
            match numbers.filter(|numbers| !numbers.is_empty()) {
                Some(numbers) => Kind::Signal(numbers),
                None => {
                    args.error("TYPE", "bad signal number");
                    return Err(Failed);
                }
            }
        }
        _ => {
            args.error("TYPE", "bad TYPE");
            return Err(Failed);
        }
    };
    Ok(Some(kind))
}

fn random(call: &Call<'_>) -> Result<u32, HandlerError> {
    let text = call.text();
    let words = functions::words(&text);
    let numbers: Result<Vec<u32>, _> =
        words.iter().map(|word| millrace_core::args::parse(word, &call.scope())).collect();
    let numbers = numbers.map_err(|_| "bad N")?;
    let random = call.router().random();
    match numbers.as_slice() {
        [] => Ok(random.draw()),
        &[n] if n > 0 => Ok(random.between(0, n - 1)),
        &[low, high] if low <= high => Ok(random.between(low, high)),
        [_] | [_, _] => Err("bad N".into()),
        _ => Err("too many arguments; expected ‘N1, [N2]’".into()),
    }
}

fn handlers_exist(call: &Call<'_>, usable: fn((bool, bool)) -> bool) -> Result<bool, HandlerError> {
    let text = call.text();
    let exists = |name: &str| {
        let name = String::from_utf8_lossy(&unquote(name)).into_owned();
        let router = call.router();
        let (element, handler) = match name.split_once('.') {
            None => match router.access_of(Some(call.element()), &name) {
                Some(_) => (Some(call.element()), name.as_str()),
                None => (None, name.as_str()),
            },
            Some(("", handler)) => (None, handler),
            Some((element, handler)) => (Some(router.resolve(call.element(), element)?), handler),
        };
        router.access_of(element, handler)
    };
    Ok(functions::words(&text).into_iter().all(|name| exists(name).is_some_and(usable)))
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
    fn a_script_that_loops_forever_is_ended() {
        let rig = run("set x 1, loop");
        assert_eq!(value(&rig, "x"), "1");
    }

    #[test]
    fn passive_and_proxy_scripts_return_values() {
        let rig = Rig::new("Script(TYPE PASSIVE, return $(add $1 $2 $#))", 0, 0).unwrap();
        assert_eq!(rig.read_with("run", "3 4").unwrap(), "9");
        let rig = Rig::new("Script(TYPE PROXY, returnq \"you called '$0'\")", 0, 0).unwrap();
        assert_eq!(rig.read("anything").unwrap(), "you called 'anything'");
        let mut rig = Rig::new("Script(TYPE PASSIVE, wait 1, set x $1)", 0, 0).unwrap();
        assert_eq!(rig.read_with("run", "a").unwrap(), "");
        rig.pass(Timestamp::from_secs(2));
        assert_eq!(value(&rig, "x"), "a");
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
    fn invalid_scripts_are_refused() {
        for script in ["fly", "goto nowhere", "set x", "stop now", "TYPE SIGNAL NOPE, stop"] {
            assert!(Rig::new(&format!("Script({script})"), 0, 0).is_err(), "{script}");
        }
    }
}
