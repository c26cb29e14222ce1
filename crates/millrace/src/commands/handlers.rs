//! `millrace handlers`: lists the handlers of a configuration's elements.

use std::fmt::Write;
use std::process::ExitCode;

use anyhow::bail;
use millrace_core::Router;
use millrace_lang::nearest;

use crate::config::{Input, load};
use crate::messages::show;
use crate::model::Model;
use crate::output;
use crate::session::{Choices, Reach, configure, services};

/// Lists the handlers of a configuration's elements: r means readable, w means writable
#[derive(clap::Args)]
pub(crate) struct Handlers {
    /// Takes EXPR itself as the configuration
    #[arg(short = 'e', long = "expression", value_name = "EXPR")]
    expression: Option<String>,

    /// The configuration, `-` for standard input; values of its variables; and the element whose handlers to list
    #[arg(value_name = "FILE|VAR=VALUE|ELEMENT")]
    words: Vec<String>,
}

impl Handlers {
    /// Runs the sub-command.
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        let (input, element) = self.split();
        let (origin, variables) = input.resolve()?;
        let mut loaded = load(&origin, &variables, None)?;
        let options = Choices::default().options(services(Reach::Guarded, &Model::default()))?;
        let router = configure(&mut loaded, options);
        show(&loaded.diagnostics, &loaded.map);
        let Some(router) = router else { return Ok(ExitCode::FAILURE) };
        let mut text = String::new();
        match element {
            Some(name) => list(&router, find(&router, &name)?, &mut text),
            None => {
                text.push_str("(router)\n");
                lines(&router.global_handlers(), &mut text);
                for (id, element) in router.elements().enumerate() {
                    let _ = writeln!(text, "\n{} :: {}", element.name, element.class.name);
                    list(&router, id, &mut text);
                }
            }
        }
        output::print(text)?;
        Ok(ExitCode::SUCCESS)
    }

    /// The configuration and the element. The element is the last word, if another word names the configuration.
    fn split(self) -> (Input, Option<String>) {
        let mut words = self.words;
        let names = words.iter().filter(|word| crate::config::variable(word).is_none()).count();
        let configurations = usize::from(self.expression.is_some());
        let last_is_name = words.last().is_some_and(|w| crate::config::variable(w).is_none());
        let element = if names + configurations == 2 && last_is_name { words.pop() } else { None };
        (Input { expression: self.expression, words }, element)
    }
}

fn find(router: &Router, name: &str) -> anyhow::Result<usize> {
    if let Some(id) = router.find(name) {
        return Ok(id);
    }
    match nearest(name, router.elements().map(|element| element.name)) {
        Some(near) => bail!("there is no element ‘{name}’; did you mean ‘{near}’?"),
        None => bail!("there is no element ‘{name}’"),
    }
}

fn list(router: &Router, id: usize, text: &mut String) {
    lines(&router.handlers_of(id), text);
}

fn lines(handlers: &[(String, bool, bool)], text: &mut String) {
    for (name, read, write) in handlers {
        let mode =
            [(*read, 'r'), (*write, 'w')].map(|(can, letter)| if can { letter } else { '-' });
        let [read, write] = mode;
        let _ = writeln!(text, "  {read}{write}  {name}");
    }
}
