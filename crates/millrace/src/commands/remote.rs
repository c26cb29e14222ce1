//! `millrace read`, `millrace write` and `millrace hotswap`: clients of a running router.

use std::io::Read as _;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, bail};
use millrace_core::os_error_text;

use crate::control::{Access, Address, Client, ClientError};
use crate::messages::say;
use crate::output;

/// Reads a handler of a running router
#[derive(clap::Args)]
pub(crate) struct Read {
    /// The handler: ELEMENT.HANDLER, or HANDLER for the router's own
    handler: String,

    /// A parameter for the handler, if it takes one
    #[arg(default_value = "")]
    parameter: String,

    #[command(flatten)]
    place: Place,
}

/// Writes a handler of a running router
#[derive(clap::Args)]
pub(crate) struct Write {
    /// The handler: ELEMENT.HANDLER, or HANDLER for the router's own
    handler: String,

    /// The value to write; `-` reads it from standard input
    #[arg(default_value = "")]
    value: String,

    #[command(flatten)]
    place: Place,
}

/// Replaces the configuration of a running router, which was started with `click -R`
#[derive(clap::Args)]
pub(crate) struct Hotswap {
    /// The new configuration: a file, or `-` for standard input
    file: PathBuf,

    #[command(flatten)]
    place: Place,
}

/// The address of the router's control socket.
#[derive(Clone, clap::Args)]
pub(super) struct Place {
    #[command(flatten)]
    socket: Socket,

    /// A file whose first line is the token that the control socket asks for
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
}

#[derive(Clone, clap::Args)]
#[group(required = true, multiple = false)]
struct Socket {
    /// The Unix socket, as given to the router with `-u`
    #[arg(short = 'u', long, value_name = "PATH")]
    socket: Option<PathBuf>,

    /// The TCP port, as given to the router with `-p`: PORT on this machine, or HOST:PORT
    #[arg(short = 'p', long, value_name = "[HOST:]PORT")]
    port: Option<String>,
}

impl Read {
    /// Runs the sub-command.
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        let mut client = self.place.connect()?;
        let value = client.read(&self.handler, self.parameter.as_bytes()).map_err(explain)?;
        output::print(&value)?;
        if value.last().is_some_and(|&byte| byte != b'\n') {
            output::print("\n")?;
        }
        Ok(ExitCode::SUCCESS)
    }
}

impl Write {
    /// Runs the sub-command.
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        let mut value = self.value.into_bytes();
        if value == b"-" {
            value.clear();
            std::io::stdin().lock().read_to_end(&mut value).context("<stdin>")?;
        }
        let mut client = self.place.connect()?;
        warn(&client.write(&self.handler, &value).map_err(explain)?);
        Ok(ExitCode::SUCCESS)
    }
}

impl Hotswap {
    /// Runs the sub-command.
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        let mut text = Vec::new();
        if self.file.as_os_str() == "-" {
            std::io::stdin().lock().read_to_end(&mut text).context("<stdin>")?;
        } else {
            text = std::fs::read(&self.file)
                .map_err(|error| anyhow::anyhow!(os_error_text(&error)))
                .with_context(|| self.file.display().to_string())?;
        }
        let mut client = self.place.connect()?;
        match client.write("hotconfig", &text) {
            Ok(warnings) => {
                warn(&warnings);
                Ok(ExitCode::SUCCESS)
            }
            Err(ClientError::Refused { code: 511, .. }) => {
                bail!(
                    "the router does not allow its configuration to be replaced: start it with \
                     ‘click -R’"
                )
            }
            Err(error) => Err(explain(error)),
        }
    }
}

/// Prints what a handler warned of.
fn warn(warnings: &str) {
    warnings.lines().for_each(|warning| say(format_args!("warning: {warning}")));
}

impl Place {
    /// Connects to the router.
    pub(super) fn connect(&self) -> anyhow::Result<Client> {
        let token = self.token_file.as_deref().map(Access::token_in).transpose();
        let token = token.map_err(anyhow::Error::msg).context("--token-file")?;
        let mut client = self.socket.connect()?;
        if let Some(token) = token {
            client.authenticate(&token).map_err(explain)?;
        }
        Ok(client)
    }
}

impl Socket {
    fn connect(&self) -> anyhow::Result<Client> {
        match (&self.socket, &self.port) {
            (Some(path), _) => Client::connect(&Address::Unix(path.clone()))
                .map_err(explain)
                .with_context(|| path.display().to_string()),
            (None, Some(port)) => {
                let place =
                    if port.contains(':') { port.clone() } else { format!("localhost:{port}") };
                Client::connect_to(&*place).map_err(explain).context(place)
            }
            (None, None) => bail!("no control socket is given: use --socket PATH or --port PORT"),
        }
    }
}

/// The router's message, without the words that the protocol adds.
pub(crate) fn explain(error: ClientError) -> anyhow::Error {
    match error {
        ClientError::Io(error) => anyhow::anyhow!(os_error_text(&error)),
        ClientError::Refused { code: 520 | 590, message } => {
            let said = message.split_once('\n').map_or(message.as_str(), |(_, said)| said);
            anyhow::anyhow!(said.to_owned())
        }
        other => other.into(),
    }
}
