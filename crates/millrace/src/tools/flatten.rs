//! `click-flatten`: prints a configuration without compound elements.

use std::collections::BTreeSet;

use millrace_lang::Variables;

use super::clp::{Choice, flag, switch, valued};
use super::session::Common::{self, ClickPath, Expression, File, Help, Output, Own, Version};
use super::session::Session;
use super::tool::{Stop, Tool};

pub(super) const TOOL: Tool = Tool {
    name: "click-flatten",
    about: "Expands a configuration's compound elements and writes the result",
    options: "\
  -c, --classes               Write the names of the classes that it uses.
  -n, --names                 Write the names of its elements.
  -d, --declarations          Write the declarations of its elements.
  -f, --file FILE             Read the configuration from FILE.
  -e, --expression EXPR       Take EXPR itself as the configuration.
      --config                Write the configuration alone, not an archive.
      --expand-vars           Replace the file’s variables, too.
  -o, --output FILE           Write to FILE.
  -C, --clickpath PATH        Look for libraries in PATH.
",
    run,
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Choose {
    Classes,
    Config,
    Declarations,
    Elements,
    ExpandVariables,
}

const CHOICES: &[Choice<Common<Choose>>] = &[
    flag("classes", Some('c'), Own(Choose::Classes)),
    valued("clickpath", Some('C'), ClickPath),
    flag("config", None, Own(Choose::Config)),
    flag("decls", Some('d'), Own(Choose::Declarations)),
    flag("declarations", Some('d'), Own(Choose::Declarations)),
    flag("elements", Some('n'), Own(Choose::Elements)),
    switch("expand-vars", None, Own(Choose::ExpandVariables)),
    valued("expression", Some('e'), Expression),
    valued("file", Some('f'), File),
    flag("help", None, Help),
    flag("names", Some('n'), Own(Choose::Elements)),
    valued("output", Some('o'), Output),
    flag("version", Some('v'), Version),
];

fn run(session: &mut Session, args: &[String]) -> Result<(), Stop> {
    let mut what = None;
    let mut variables = Variables::Keep;
    session.command_line(CHOICES, args, |_, option, _, negated| {
        match option {
            Choose::ExpandVariables if negated => variables = Variables::Keep,
            Choose::ExpandVariables => variables = Variables::Replace,
            option => what = Some(option),
        }
        Ok(())
    })?;
    let input = session.read_with(variables)?;
    let elements = input.router.iter().map(|(_, element)| element);
    let mut lines: Vec<String> = match what {
        Some(Choose::Config) => return session.write_text(input.router.text().as_bytes()),
        Some(Choose::Classes) => {
            let classes: BTreeSet<&str> = elements.map(|element| element.class()).collect();
            classes.into_iter().map(str::to_owned).collect()
        }
        Some(Choose::Declarations) => elements.map(|element| element.declaration()).collect(),
        Some(Choose::Elements) => elements.map(|element| element.name.clone()).collect(),
        _ => return session.write(&input.router, &input.archive),
    };
    lines.sort();
    let text: String = lines.into_iter().map(|line| line + "\n").collect();
    session.write_text(text.as_bytes())
}
