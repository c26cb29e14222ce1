//! `click-buildtool`: scripts and tests ask with it which classes and features exist. Its sub-commands that build
//! Click are not supported.

use std::collections::BTreeSet;
use std::io::Read;

use millrace_core::Registry;
use millrace_core::run::FEATURES;

use super::session::Session;
use super::tool::{Stop, Tool};

pub(super) const TOOL: Tool = Tool {
    name: "click-buildtool",
    about: "`click-buildtool provides WORD...` exits with 0 if all named classes and features \
            exist",
    options: "\
  -q, --query                 Print what there is.
  -l, --print                 Print 1 if it is there, otherwise 0.
  -r, --provide WORD          Take WORD as something that is there.
",
    run,
};

fn run(session: &mut Session, args: &[String]) -> Result<(), Stop> {
    let mut rest = args;
    while let Some((word, after)) = rest.split_first() {
        rest = after;
        match word.as_str() {
            "-V" | "--verbose" => {}
            "--help" | "-h" => {
                session.say(format_args!(
                    "{}.\n\nUsage: click-buildtool provides [OPTION]... [WORD]...\n   or: \
                     click-buildtool prefix\n\nOptions:\n{}",
                    TOOL.about, TOOL.options
                ));
                return Err(Stop::Answered);
            }
            "--version" => {
                let version = env!("CARGO_PKG_VERSION");
                session.print(format!("click-buildtool (Millrace) {version}\n"));
                return Err(Stop::Answered);
            }
            "provides" => return provides(session, rest),
            "prefix" => {
                let program = std::env::current_exe().ok();
                let prefix = program.as_deref().and_then(|path| path.parent()?.parent());
                session
                    .print(format!("{}\n", prefix.map_or("/".into(), |p| p.display().to_string())));
                return Ok(());
            }
            "findelem" | "elem2make" | "elem2export" | "elem2package" | "findpackage"
            | "quietlink" | "kversion" | "kbuild" | "makepackage" => {
                session.own_error(format_args!(
                    "{word}: builds Click’s packages, and Millrace has none"
                ));
                return Err(Stop::Failed);
            }
            _ => break,
        }
    }
    session.error(
        "Usage: click-buildtool TOOLNAME [ARGUMENTS]\n\
         Try ‘click-buildtool --help’ for more information.",
    );
    Err(Stop::Failed)
}

fn provides(session: &Session, args: &[String]) -> Result<(), Stop> {
    let registry = Registry::linked();
    let mut there: BTreeSet<String> = FEATURES.iter().map(|&word| word.to_owned()).collect();
    there.extend(registry.iter().map(|(name, _)| name.to_owned()));
    let (mut query, mut print) = (false, false);
    let mut wanted = String::new();
    let mut rest = args.iter();
    while let Some(arg) = rest.next() {
        match arg.as_str() {
            "-q" | "--query" => query = true,
            "-l" | "--print" => print = true,
            "-r" | "--provide" => {
                there.extend(
                    rest.next().iter().flat_map(|s| s.split_whitespace()).map(str::to_owned),
                );
            }
            "-h" | "--help" => {
                session.say(format_args!(
                    "{}.\n\nUsage: click-buildtool provides [OPTION]... [WORD]...\n\nOptions:\n{}",
                    TOOL.about, TOOL.options
                ));
                return Err(Stop::Answered);
            }
            "-" => {
                let mut text = Vec::new();
                // A file that cannot be read contains no requirements.
                let _ = std::io::stdin().lock().read_to_end(&mut text);
                wanted += &format!(" {}", String::from_utf8_lossy(&text));
            }
            option if option.starts_with('-') => {
                session.error(
                    "Usage: click-buildtool provides [REQS]\n\
                     Try ‘click-buildtool provides --help’ for more information.",
                );
                return Err(Stop::Failed);
            }
            word => wanted += &format!(" {word}"),
        }
    }
    if query {
        session.print(there.iter().map(|word| format!("{word}\n")).collect::<String>());
    }
    let all = wanted.split_whitespace().all(|word| holds(word, &there));
    if print {
        session.print(format!("{}\n", u8::from(all)));
    }
    if all { Ok(()) } else { Err(Stop::Failed) }
}

/// Whether a requirement holds: `A|B` requires one of the two, `!A` requires that A is missing.
fn holds(word: &str, there: &BTreeSet<String>) -> bool {
    word.split('|').filter(|one| !one.is_empty()).any(|one| match one.strip_prefix('!') {
        Some(one) => !there.contains(one),
        None => there.contains(one),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requirements_are_provided_or_not() {
        let there = ["batch", "Idle"].map(str::to_owned).into();
        for (word, expected) in [
            ("batch", true),
            ("dpdk", false),
            ("!dpdk", true),
            ("!Idle", false),
            ("dpdk|Idle", true),
            ("dpdk||Idle", true),
            ("dpdk|!batch", false),
        ] {
            assert_eq!(holds(word, &there), expected, "{word}");
        }
    }
}
