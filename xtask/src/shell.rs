//! Runs programs, and finds folders.

use std::env;
use std::ffi::OsString;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};

/// The root of the repository.
pub(crate) fn root() -> PathBuf {
    // Cargo sets it for every `cargo xtask`. The compiled-in path is for a direct call.
    let manifest = env::var_os("CARGO_MANIFEST_DIR")
        .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
    manifest.parent().map_or_else(|| manifest.clone(), Path::to_path_buf)
}

/// Cargo's target directory.
pub(crate) fn target() -> PathBuf {
    env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from)
}

/// The profile for measurements and packages: slow to build, and with the fastest code.
pub(crate) const DIST: &str = "dist";

/// A command that runs the same Cargo as this program's, in the root of the repository.
pub(crate) fn cargo() -> Command {
    let program = env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo"));
    let mut command = Command::new(program);
    command.current_dir(root());
    command
}

/// A command as it would be typed.
pub(crate) fn describe(command: &Command) -> String {
    let program = Path::new(command.get_program());
    let name = program.file_name().unwrap_or(program.as_os_str()).to_string_lossy();
    let mut words = vec![name.into_owned()];
    words.extend(command.get_args().map(|word| word.to_string_lossy().into_owned()));
    words.join(" ")
}

/// Runs a command that shares our input and output.
///
/// # Errors
/// It cannot be started, or its status is not 0.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    let status = command.status().with_context(|| format!("cannot run {}", describe(command)))?;
    if !status.success() {
        bail!("{} ended with {status}", describe(command));
    }
    Ok(())
}

/// The standard output of a command.
///
/// # Errors
/// As [`run`]; or the output is not text.
pub(crate) fn output(command: &mut Command) -> Result<String> {
    let output = command.output().with_context(|| format!("cannot run {}", describe(command)))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        bail!("{} ended with {}: {}", describe(command), output.status, said.trim_end());
    }
    Ok(String::from_utf8(output.stdout)?)
}

/// True if a command can be started and ends with status 0. Its output is discarded.
pub(crate) fn succeeds(command: &mut Command) -> bool {
    let quiet = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    quiet.status().is_ok_and(|status| status.success())
}

/// Runs a command, prints its standard output, and calls `look` for every line.
///
/// # Errors
/// As [`run`].
pub(crate) fn run_watched(command: &mut Command, mut look: impl FnMut(&str)) -> Result<()> {
    let mut child = command
        .stdout(Stdio::piped())
        .spawn()
        .with_context(|| format!("cannot run {}", describe(command)))?;
    if let Some(output) = child.stdout.take() {
        let mut output = BufReader::new(output);
        let mut line = Vec::new();
        while output.read_until(b'\n', &mut line)? > 0 {
            std::io::stdout().lock().write_all(&line)?;
            look(&String::from_utf8_lossy(&line));
            line.clear();
        }
    }
    let status = child.wait()?;
    if !status.success() {
        bail!("{} ended with {status}", describe(command));
    }
    Ok(())
}

/// What a compiler, such as `rustc`, calls the machine that it compiles for.
///
/// # Errors
/// It cannot be run, or does not say.
pub(crate) fn host(rustc: &mut Command) -> Result<String> {
    let version = output(rustc.arg("-vV"))?;
    let host = version.lines().find_map(|line| line.strip_prefix("host: "));
    host.map(str::to_owned).context("rustc does not say what it compiles for")
}

/// A time such as `90s`, `10min` or `2h`; a number alone is seconds.
///
/// # Errors
/// It is none, or too long for a machine.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let expected = || "expected a time such as 90s, 10min or 2h".to_owned();
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let number: u64 = number.parse().map_err(|_| expected())?;
    let unit = match unit {
        "s" | "" => 1,
        "min" | "m" => 60,
        "h" => 3600,
        _ => return Err(expected()),
    };
    number.checked_mul(unit).map(Duration::from_secs).ok_or_else(expected)
}

/// True if the effective user is root.
pub(crate) fn is_root() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    // Uid: real, effective, saved, file system (proc(5)).
    let user = status.lines().find_map(|line| line.strip_prefix("Uid:"));
    user.and_then(|ids| ids.split_whitespace().nth(1)) == Some("0")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_units() {
        let times = [("90", 90), ("90s", 90), ("10m", 600), ("3min", 180), ("2h", 7200)];
        for (text, seconds) in times {
            assert_eq!(duration(text), Ok(Duration::from_secs(seconds)), "{text}");
        }
        for text in ["", "m", "1d", "-1s", "1.5h", "18446744073709551615h"] {
            assert!(duration(text).is_err(), "{text}");
        }
    }
}
