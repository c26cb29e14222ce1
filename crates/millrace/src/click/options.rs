//! Click's command line: short options in clusters (`-qe EXPR`, `-j4`), long options by any unambiguous prefix
//! (`--simt`), `VAR=value`, and the configuration.

use std::path::PathBuf;
use std::str::FromStr;

use crate::config::{Origin, Variable, variable};
use crate::control::Address;
use crate::sandbox::Wishes;

/// The result of reading the command line.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Options {
    pub(super) action: Action,
    /// The configuration; standard input if none is named.
    pub(super) origin: Option<Origin>,
    pub(super) variables: Vec<Variable>,
    /// Variables that are given more than once. The first value counts.
    pub(super) repeated: Vec<String>,
    /// Handlers to read when the router has stopped.
    pub(super) handlers: Vec<String>,
    /// The handler whose value is the exit status.
    pub(super) exit_handler: Option<String>,
    /// The file to write the flat configuration to.
    pub(super) output: Option<String>,
    /// True if the router is not to run.
    pub(super) quit: bool,
    /// True if the run time of the router is to be printed.
    pub(super) time: bool,
    pub(super) no_warnings: bool,
    /// True if the configuration may be replaced while the router runs.
    pub(super) reconfigure: bool,
    /// Control sockets. TCP ports come first, because Click numbers them so.
    pub(super) ports: Vec<Address>,
    pub(super) sockets: Vec<PathBuf>,
    pub(super) threads: Option<usize>,
    pub(super) first_core: Option<usize>,
    pub(super) simtime: Option<f64>,
    /// Nanoseconds of virtual time that pass each time it is read.
    pub(super) simtick: u32,
    /// True if the router may take interfaces that the machine itself depends on.
    pub(super) take_interface: bool,
    /// What the router keeps of its privileges.
    pub(super) sandbox: Wishes,
    /// Options for DPDK.
    pub(super) dpdk: Option<Vec<String>>,
    /// The path to search for libraries, instead of the environment's CLICKPATH.
    pub(super) click_path: Option<String>,
}

/// What the program is to do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Action {
    #[default]
    Run,
    Help,
    Version,
}

/// The reason why a command line is rejected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// It is invalid. The message is followed by a hint at `--help`.
    Usage(String),
    /// It asks for a feature that Millrace does not have.
    Unsupported(&'static str),
}

/// Whether an option takes a value.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Value {
    No,
    Yes,
    /// An optional value, which must be attached: `-a3`, `--affinity=3`.
    Attached,
    /// All words up to `--`. They are passed on as lines.
    Several,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Name {
    Reconfigure,
    ClickPath,
    Dpdk,
    Expression,
    File,
    Handler,
    Help,
    Output,
    Descriptor,
    Port,
    Quit,
    Simtime,
    Simtick,
    AllowPath,
    AllowUnixSockets,
    Sandbox,
    TakeInterface,
    Threads,
    Affinity,
    Time,
    UnixSocket,
    Version,
    Warnings,
    NoWarnings,
    ExitHandler,
}

/// Long name, short name, value, whether `--no-` negates the option, and the option.
const OPTIONS: &[(&str, Option<char>, Value, bool, Name)] = &[
    ("allow-reconfigure", Some('R'), Value::No, true, Name::Reconfigure),
    ("clickpath", Some('C'), Value::Yes, false, Name::ClickPath),
    ("expression", Some('e'), Value::Yes, false, Name::Expression),
    ("dpdk", None, Value::Several, false, Name::Dpdk),
    ("file", Some('f'), Value::Yes, false, Name::File),
    ("handler", Some('h'), Value::Yes, false, Name::Handler),
    ("help", None, Value::No, false, Name::Help),
    ("output", Some('o'), Value::Yes, false, Name::Output),
    ("socket", None, Value::Yes, false, Name::Descriptor),
    ("port", Some('p'), Value::Yes, false, Name::Port),
    ("quit", Some('q'), Value::No, false, Name::Quit),
    ("simtime", None, Value::Attached, false, Name::Simtime),
    ("simulation-time", None, Value::Attached, false, Name::Simtime),
    ("simtick", None, Value::Yes, false, Name::Simtick),
    ("threads", Some('j'), Value::Yes, false, Name::Threads),
    ("cpu", None, Value::Attached, true, Name::Affinity),
    ("affinity", Some('a'), Value::Attached, true, Name::Affinity),
    ("sandbox", None, Value::No, true, Name::Sandbox),
    ("allow-path", None, Value::Yes, false, Name::AllowPath),
    ("allow-unix-sockets", None, Value::No, false, Name::AllowUnixSockets),
    ("take-interface", None, Value::No, false, Name::TakeInterface),
    ("time", Some('t'), Value::No, false, Name::Time),
    ("unix-socket", Some('u'), Value::Yes, false, Name::UnixSocket),
    ("version", Some('v'), Value::No, false, Name::Version),
    ("warnings", None, Value::No, true, Name::Warnings),
    ("exit-handler", Some('x'), Value::Yes, false, Name::ExitHandler),
    ("", Some('w'), Value::No, false, Name::NoWarnings),
];

/// Reads the arguments after the program's name.
pub(super) fn parse(args: &[String]) -> Result<Options, Refusal> {
    let mut options = Options::default();
    let mut rest = args.iter();
    let mut only_words = false;
    while let Some(arg) = rest.next() {
        if only_words || arg == "-" || !arg.starts_with('-') {
            options.word(arg)?;
        } else if arg == "--" {
            only_words = true;
        } else if let Some(long) = arg.strip_prefix("--") {
            options.long(long, &mut rest)?;
        } else {
            options.cluster(arg.get(1..).unwrap_or_default(), &mut rest)?;
        }
        if options.action != Action::Run {
            break;
        }
    }
    Ok(options)
}

impl Options {
    fn long<'a>(
        &mut self,
        text: &str,
        rest: &mut impl Iterator<Item = &'a String>,
    ) -> Result<(), Refusal> {
        let (name, attached) = match text.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (text, None),
        };
        let (option, value, negated) = find_long(name)?;
        let shown = format!("--{name}");
        let value = match (value, attached) {
            (Value::No, Some(_)) => {
                return Err(usage(format!("‘{shown}’ can’t take an argument")));
            }
            (Value::Yes, None) => Some(next(rest, &shown)?),
            (Value::Several, attached) => {
                let words = rest.by_ref().take_while(|word| *word != "--").cloned();
                let words: Vec<String> =
                    attached.map(str::to_owned).into_iter().chain(words).collect();
                Some(words.join("\n"))
            }
            (_, attached) => attached.map(str::to_owned),
        };
        self.set(option, &shown, value, negated)
    }

    /// Reads options of one letter, such as `-qtj4`. The value of an option is the rest of the word, or the next
    /// word.
    fn cluster<'a>(
        &mut self,
        letters: &str,
        rest: &mut impl Iterator<Item = &'a String>,
    ) -> Result<(), Refusal> {
        let mut letters = letters.chars();
        while let Some(letter) = letters.next() {
            let shown = format!("-{letter}");
            let found = OPTIONS.iter().find(|option| option.1 == Some(letter));
            let &(_, _, value, _, name) =
                found.ok_or_else(|| usage(format!("unrecognized option ‘{shown}’")))?;
            if value == Value::No {
                self.set(name, &shown, None, false)?;
                continue;
            }
            let value = match (value, letters.as_str()) {
                (Value::Yes, "") => Some(next(rest, &shown)?),
                (_, "") => None,
                (_, attached) => Some(attached.to_owned()),
            };
            return self.set(name, &shown, value, false);
        }
        Ok(())
    }

    fn set(
        &mut self,
        name: Name,
        shown: &str,
        value: Option<String>,
        negated: bool,
    ) -> Result<(), Refusal> {
        let text = value.clone().unwrap_or_default();
        match name {
            Name::Reconfigure => self.reconfigure = !negated,
            Name::Dpdk => self.dpdk = value.map(|text| text.lines().map(str::to_owned).collect()),
            Name::Descriptor => {
                return Err(Refusal::Unsupported(
                    "--socket: control over an open descriptor is not supported; use -u or -p",
                ));
            }
            Name::ClickPath => self.click_path = value,
            Name::Expression => self.configuration(Origin::Expression(text))?,
            Name::File => self.configuration(file(&text))?,
            Name::Handler => self.handlers.push(text),
            Name::Help => self.action = Action::Help,
            Name::Version => self.action = Action::Version,
            Name::Output => once(&mut self.output, text, "output file")?,
            Name::ExitHandler => once(&mut self.exit_handler, text, "--exit-handler")?,
            Name::Port => self.ports.push(port(shown, &text)?),
            Name::UnixSocket => self.sockets.push(text.into()),
            Name::Quit => self.quit = true,
            Name::Sandbox => self.sandbox.no_sandbox = negated,
            Name::AllowPath => self.sandbox.allow_path.push(text.into()),
            Name::AllowUnixSockets => self.sandbox.allow_unix_sockets = true,
            Name::TakeInterface => self.take_interface = true,
            Name::Time => self.time = true,
            Name::NoWarnings => self.no_warnings = true,
            Name::Warnings => self.no_warnings = negated,
            Name::Threads => {
                let threads: i64 = number(shown, &text, "an integer")?;
                self.threads = Some(usize::try_from(threads).unwrap_or(1).max(1));
            }
            Name::Affinity if negated => self.first_core = None,
            Name::Affinity => {
                self.first_core = Some(match value {
                    Some(text) => number(shown, &text, "a core’s number")?,
                    None => 0,
                });
            }
            Name::Simtick => self.simtick = number(shown, &text, "nanoseconds")?,
            Name::Simtime => {
                self.simtime = Some(match value {
                    Some(text) => number(shown, &text, "a real number")?,
                    None => 1e9,
                });
            }
        }
        Ok(())
    }

    fn word(&mut self, word: &str) -> Result<(), Refusal> {
        match variable(word) {
            Some((name, _)) if self.variables.iter().any(|(known, _)| *known == name) => {
                self.repeated.push(name);
            }
            Some(variable) => self.variables.push(variable),
            None => self.configuration(file(word))?,
        }
        Ok(())
    }

    fn configuration(&mut self, origin: Origin) -> Result<(), Refusal> {
        match self.origin.replace(origin) {
            None => Ok(()),
            Some(_) => Err(usage("router configuration specified twice".to_owned())),
        }
    }
}

fn file(path: &str) -> Origin {
    if path == "-" { Origin::Stdin } else { Origin::File(path.into()) }
}

/// A TCP port of this machine's loopback address. (In Click, on all addresses.)
fn port(shown: &str, text: &str) -> Result<Address, Refusal> {
    let is_port = text.strip_suffix('+').unwrap_or(text).parse::<u16>().is_ok_and(|port| port > 0);
    let address = Address::local(text).ok();
    address
        .filter(|_| is_port)
        .ok_or_else(|| usage(format!("‘{shown}’ expects a TCP port number, not ‘{text}’")))
}

fn usage(message: String) -> Refusal {
    Refusal::Usage(message)
}

fn next<'a>(rest: &mut impl Iterator<Item = &'a String>, shown: &str) -> Result<String, Refusal> {
    rest.next().cloned().ok_or_else(|| usage(format!("‘{shown}’ requires an argument")))
}

fn once(place: &mut Option<String>, value: String, what: &str) -> Result<(), Refusal> {
    match place.replace(value) {
        None => Ok(()),
        Some(_) => Err(usage(format!("{what} specified twice"))),
    }
}

fn number<T: FromStr>(shown: &str, text: &str, expected: &str) -> Result<T, Refusal> {
    text.parse().map_err(|_| usage(format!("‘{shown}’ expects {expected}, not ‘{text}’")))
}

/// The option with this long name, or the only one whose name begins with it; and whether it is negated.
fn find_long(name: &str) -> Result<(Name, Value, bool), Refusal> {
    let negative = name.strip_prefix("no-");
    let mut found: Vec<(Name, Value, bool)> = Vec::new();
    for &(long, _, value, negatable, option) in OPTIONS.iter().filter(|o| !o.0.is_empty()) {
        let round = negatable && negative.is_some_and(|name| long.starts_with(name));
        if long == name || negatable && negative == Some(long) {
            return Ok((option, value, round));
        }
        if long.starts_with(name) || round {
            found.push((option, value, round));
        }
    }
    found.dedup_by_key(|found| found.0);
    match found[..] {
        [one] => Ok(one),
        [] => Err(usage(format!("unrecognized option ‘--{name}’"))),
        _ => Err(usage(format!("option ‘--{name}’ is ambiguous"))),
    }
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr};

    use super::*;

    fn parsed(line: &str) -> Result<Options, Refusal> {
        let args: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        parse(&args)
    }

    fn options(line: &str) -> Options {
        parsed(line).unwrap()
    }

    fn complaint(line: &str) -> String {
        match parsed(line) {
            Err(Refusal::Usage(message)) => message,
            other => panic!("{line}: {other:?}"),
        }
    }

    #[test]
    fn letters_stand_in_clusters() {
        let wanted = Options {
            quit: true,
            origin: Some(Origin::Expression("Idle".to_owned())),
            ..Options::default()
        };
        for line in ["-qe Idle", "-q -eIdle", "-q --expression=Idle", "--qu --exp Idle"] {
            assert_eq!(options(line), wanted, "{line}");
        }
        assert_eq!(options("-qo-").output.as_deref(), Some("-"));
        assert_eq!(options("-j4 x").threads, Some(4));
        assert_eq!(options("-j -3").threads, Some(1));
    }

    #[test]
    fn values_of_some_options_must_be_attached() {
        assert_eq!(options("-a x").first_core, Some(0));
        assert_eq!(options("-a3").first_core, Some(3));
        assert_eq!(options("--affinity=2 --no-affinity").first_core, None);
        assert_eq!(options("--simtime x").simtime, Some(1e9));
        assert_eq!(options("--simtim=5.5").simtime, Some(5.5));
        assert_eq!(options("--simtick 250").simtick, 250);
        assert_eq!(options("--simtime x").origin, Some(Origin::File("x".into())));
    }

    #[test]
    fn words_are_variables_or_the_configuration() {
        let all = options("A=1 -h c.count B=x=y -- -odd");
        assert_eq!(all.variables, [("A".into(), "1".into()), ("B".into(), "x=y".into())]);
        assert_eq!(all.handlers, ["c.count"]);
        assert_eq!(all.origin, Some(Origin::File("-odd".into())));
        assert_eq!(options("-").origin, Some(Origin::Stdin));
        assert_eq!(options("A=1 A=2").repeated, ["A"]);
        assert_eq!(options("A=1 A=2").variables.len(), 1);
    }

    #[test]
    fn ports_may_move_on() {
        let host = IpAddr::V4(Ipv4Addr::LOCALHOST);
        let port = |port, or_next| Address::Tcp { host, port, or_next };
        assert_eq!(options("-p 7 -p8+").ports, [port(7, false), port(8, true)]);
        assert_eq!(complaint("-p x"), "‘-p’ expects a TCP port number, not ‘x’");
        assert_eq!(complaint("--port 99999"), "‘--port’ expects a TCP port number, not ‘99999’");
        assert_eq!(complaint("-p 1.2.3.4:5"), "‘-p’ expects a TCP port number, not ‘1.2.3.4:5’");
    }

    #[test]
    fn nonsense_is_refused() {
        assert_eq!(complaint("a b"), "router configuration specified twice");
        assert_eq!(complaint("-e Idle b"), "router configuration specified twice");
        assert_eq!(complaint("-o a -o b"), "output file specified twice");
        assert_eq!(complaint("-x a -x b"), "--exit-handler specified twice");
        assert_eq!(complaint("-Z"), "unrecognized option ‘-Z’");
        assert_eq!(complaint("--zebra"), "unrecognized option ‘--zebra’");
        assert_eq!(complaint("--e x"), "option ‘--e’ is ambiguous");
        assert_eq!(complaint("-h"), "‘-h’ requires an argument");
        assert_eq!(complaint("--quit=1"), "‘--quit’ can’t take an argument");
        assert_eq!(complaint("-jx"), "‘-j’ expects an integer, not ‘x’");
    }

    #[test]
    fn unsupported_options_are_rejected_with_a_message() {
        assert!(matches!(parsed("--socket 3"), Err(Refusal::Unsupported(_))));
        assert!(options("-R").reconfigure);
        assert!(!options("-R --no-allow-reconfigure").reconfigure);
    }

    #[test]
    fn options_of_dpdk_reach_to_two_hyphens() {
        let all = options("--dpdk -c 1 --no-pci -- x A=1");
        assert_eq!(all.dpdk, Some(["-c", "1", "--no-pci"].map(str::to_owned).to_vec()));
        assert_eq!(all.origin, Some(Origin::File("x".into())));
        assert_eq!(options("--dpdk -- x").dpdk, Some(Vec::new()));
    }

    #[test]
    fn help_and_version_end_the_reading() {
        assert_eq!(options("--help --zebra").action, Action::Help);
        assert_eq!(options("-v").action, Action::Version);
    }
}
