//! The program `millrace`. The name by which it is called selects its options.

fn main() -> std::process::ExitCode {
    millrace::main()
}
