//! Millrace with the elements of this crate beside its own.

// Naming the crate is what links it, and with it the classes that it registers.
use skeleton_crate as _;

fn main() -> std::process::ExitCode {
    millrace::main()
}
