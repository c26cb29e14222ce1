//! The program as Click: its options, its messages, its exit statuses.
use std::ffi::OsString;
use std::process::ExitCode;

/// Runs Click.
pub(crate) fn main(_args: Vec<OsString>) -> ExitCode {
    ExitCode::FAILURE
}
