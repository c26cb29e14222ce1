//! `millrace graph`: draws a configuration.

use std::process::ExitCode;

use anyhow::Context;
use clap::ValueEnum;

use crate::config::{Input, load};
use crate::drawing::{Drawing, dot, mermaid, svg};
use crate::messages::show;
use crate::model::Model;
use crate::output;
use crate::session::{Choices, Reach, configure, services};

/// Draws a configuration: elements, ports and connections
#[derive(clap::Args)]
pub(crate) struct Graph {
    #[command(flatten)]
    input: Input,

    /// The format of the drawing
    #[arg(long, value_enum, default_value_t = Format::Dot)]
    format: Format,
}

#[derive(Clone, Copy, ValueEnum)]
enum Format {
    /// The language of Graphviz
    Dot,
    /// An image
    Svg,
    /// A flowchart for Markdown
    Mermaid,
}

impl Graph {
    /// Runs the sub-command. A configuration whose connections are consistent is drawn even if it has other errors;
    /// these are printed on standard error.
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        let (origin, variables) = self.input.resolve()?;
        let mut loaded = load(&origin, &variables, None)?;
        let drawable = !loaded.has_errors();
        let options = Choices::default().options(services(Reach::Guarded, &Model::default()))?;
        let router = configure(&mut loaded, options);
        show(&loaded.diagnostics, &loaded.map);
        if drawable {
            let drawing = Drawing::new(&loaded.graph, router.as_deref());
            output::print(match self.format {
                Format::Dot => dot(&drawing),
                Format::Svg => svg(&drawing)
                    .context("the graph is too large for a picture; `--format dot` writes any")?,
                Format::Mermaid => mermaid(&drawing),
            })?;
        }
        Ok(if router.is_some() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }
}
