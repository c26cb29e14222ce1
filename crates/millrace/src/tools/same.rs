//! Tools that do nothing here: Millrace needs no classes compiled for one configuration, and it is not part of a
//! kernel.

use super::clp::{Choice, Word, flag, switch, valued};
use super::session::Common::{self, ClickPath, Expression, File, Help, Output, Own, Version};
use super::session::Session;
use super::tool::{Stop, Tool};

pub(super) const FASTCLASSIFIER: Tool = Tool {
    name: "click-fastclassifier",
    about: "Writes the configuration as it is, flat: Millrace compiles its classifiers itself",
    options: OPTIONS,
    run: keep,
};

pub(super) const DEVIRTUALIZE: Tool = Tool {
    name: "click-devirtualize",
    about: "Writes the configuration as it is, flat: Millrace resolves its calls itself",
    options: OPTIONS,
    run: keep,
};

pub(super) const INSTALL: Tool = Tool {
    name: "click-install",
    about: "Not supported: it would install a configuration in the kernel; `click` runs it in \
            user space",
    options: "",
    run: no_kernel,
};

pub(super) const UNINSTALL: Tool = Tool {
    name: "click-uninstall",
    about: "Not supported: there is no configuration in the kernel",
    options: "",
    run: no_kernel,
};

pub(super) const MKMINDRIVER: Tool = Tool {
    name: "click-mkmindriver",
    about: "Not supported: it would build a program with only the classes of a configuration",
    options: "",
    run: one_program,
};

const OPTIONS: &str = "\
  -f, --file FILE             Read the configuration from FILE.
  -e, --expression EXPR       Take EXPR itself as the configuration.
  -o, --output FILE           Write to FILE.
  -c, --config                Write the configuration alone, not an archive.
  -C, --clickpath PATH        Look for libraries in PATH.
  -k, -u, -s, -r, -q, -n, -i  Mean nothing here.
";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Choose {
    Config,
    Nothing,
}

const CHOICES: &[Choice<Common<Choose>>] = &[
    valued("clickpath", Some('C'), ClickPath),
    flag("combined", None, Own(Choose::Nothing)),
    flag("compile", None, Own(Choose::Nothing)),
    switch("config", Some('c'), Own(Choose::Config)),
    valued("directory", None, Own(Choose::Nothing)),
    valued("expression", Some('e'), Expression),
    valued("file", Some('f'), File),
    flag("help", None, Help),
    valued("instructions", Some('i'), Own(Choose::Nothing)),
    flag("kernel", Some('k'), Own(Choose::Nothing)),
    flag("linuxmodule", Some('l'), Own(Choose::Nothing)),
    valued("no-devirtualize", Some('n'), Own(Choose::Nothing)),
    valued("output", Some('o'), Output),
    valued("package", None, Own(Choose::Nothing)),
    flag("quiet", Some('q'), Own(Choose::Nothing)),
    flag("reverse", Some('r'), Own(Choose::Nothing)),
    flag("source", Some('s'), Own(Choose::Nothing)),
    flag("user", Some('u'), Own(Choose::Nothing)),
    flag("userlevel", None, Own(Choose::Nothing)),
    flag("verbose", Some('V'), Own(Choose::Nothing)),
    flag("version", Some('v'), Version),
];

fn keep(session: &mut Session, args: &[String]) -> Result<(), Stop> {
    let mut config_only = false;
    session.command_line(CHOICES, args, |_, option, _, negated| {
        if option == Choose::Config {
            config_only = !negated;
        }
        Ok(())
    })?;
    let input = session.read()?;
    match config_only {
        true => session.write_text(input.router.text().as_bytes()),
        false => session.write(&input.router, &input.archive),
    }
}

fn no_kernel(session: &mut Session, args: &[String]) -> Result<(), Stop> {
    refuse(session, args, "Millrace runs in user space; there is no kernel module to install into")
}

fn one_program(session: &mut Session, args: &[String]) -> Result<(), Stop> {
    refuse(session, args, "Millrace is one program with all classes; there is no smaller one")
}

fn refuse(session: &Session, args: &[String], why: &str) -> Result<(), Stop> {
    const ASKED: &[Choice<Common<()>>] =
        &[flag("help", None, Help), flag("version", Some('v'), Version)];
    let asks = |arg: &&String| ["--help", "--version", "-v"].contains(&arg.as_str());
    let asked: Vec<String> = args.iter().filter(asks).cloned().collect();
    let _: Vec<Word<Common<()>>> = session.words(ASKED, &asked)?;
    session.own_error(why);
    Err(Stop::Failed)
}
