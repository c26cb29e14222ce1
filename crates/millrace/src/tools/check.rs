//! `click-check`: reports wrong connections of a configuration.

use super::clp::{Choice, flag, switch, valued};
use super::processing::Processing;
use super::session::Common::{self, ClickPath, Expression, File, Help, Output, Own, Version};
use super::session::Session;
use super::tool::{Stop, Tool};
use super::traits::Traits;

pub(super) const TOOL: Tool = Tool {
    name: "click-check",
    about: "Reports wrong connections of a configuration, without running it",
    options: "\
  -f, --file FILE             Read the configuration from FILE.
  -e, --expression EXPR       Take EXPR itself as the configuration.
  -o, --output FILE           If it is in order, write it, flat, to FILE.
  -p, --filter                If it is in order, write it to standard output.
  -q, --quiet                 Do not say that it is in order.
  -b, --bsdmodule             Check it for FreeBSD’s kernel.
  -l, --linuxmodule           Check it for Linux’ kernel.
  -u, --userlevel             Check it for the user-level driver.
  -C, --clickpath PATH        Look for libraries in PATH.
",
    run,
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Choose {
    Filter,
    Quiet,
    Driver(&'static str),
}

const CHOICES: &[Choice<Common<Choose>>] = &[
    switch("bsdmodule", Some('b'), Own(Choose::Driver("bsdmodule"))),
    valued("clickpath", Some('C'), ClickPath),
    valued("expression", Some('e'), Expression),
    valued("file", Some('f'), File),
    flag("filter", Some('p'), Own(Choose::Filter)),
    flag("help", None, Help),
    switch("kernel", Some('k'), Own(Choose::Driver("linuxmodule"))),
    switch("linuxmodule", Some('l'), Own(Choose::Driver("linuxmodule"))),
    valued("output", Some('o'), Output),
    switch("quiet", Some('q'), Own(Choose::Quiet)),
    switch("userlevel", Some('u'), Own(Choose::Driver("userlevel"))),
    flag("version", Some('v'), Version),
];

fn run(session: &mut Session, args: &[String]) -> Result<(), Stop> {
    let (mut quiet, mut named) = (false, false);
    let mut drivers: Vec<&str> = Vec::new();
    session.command_line(CHOICES, args, |session, option, _, negated| {
        match option {
            Choose::Filter => session.output("-".to_owned())?,
            Choose::Quiet => quiet = !negated,
            Choose::Driver(driver) => {
                named = true;
                drivers.retain(|other| *other != driver);
                if !negated {
                    drivers.push(driver);
                }
            }
        }
        Ok(())
    })?;
    let input = session.read()?;
    let name = session.name();
    let traits = Traits::new();
    if !named {
        drivers.push("userlevel");
    }
    drivers.sort_unstable();
    for driver in drivers {
        if driver != "userlevel" {
            session
                .error(format_args!("{name}: Click compiled without support for {driver} driver"));
            continue;
        }
        let (_, found) = Processing::new(&input.router, &traits);
        let fine = found.errors.is_empty() && found.warnings.is_empty();
        found.warnings.iter().for_each(|warning| session.say(warning));
        found.errors.iter().for_each(|error| session.error(error));
        if fine && !quiet && !session.writes() {
            session.say(format_args!("{name}: configuration OK in {driver} driver"));
        }
    }
    if session.errors() == 0 && session.writes() {
        session.write(&input.router, &input.archive)?;
    }
    Ok(())
}
