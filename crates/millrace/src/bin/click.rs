//! The program under this name; the name it is called by chooses its options.

fn main() -> std::process::ExitCode {
    millrace::main()
}
