//! Compiles the kernels for the host, as C.

use std::path::PathBuf;
use std::process::ExitCode;
use std::{env, fs};

fn main() -> ExitCode {
    println!("cargo::rerun-if-changed=kernels");
    let kernels = PathBuf::from("kernels");
    let out = PathBuf::from(env::var_os("OUT_DIR").unwrap_or_default());
    let mut build = cc::Build::new();
    build.include(&kernels).file(kernels.join("layout.c"));
    let mut found: Vec<PathBuf> = match fs::read_dir(&kernels) {
        Ok(entries) => entries.flatten().map(|entry| entry.path()).collect(),
        Err(error) => return fail(&format!("{}: {error}", kernels.display())),
    };
    found.retain(|path| path.extension().is_some_and(|end| end == "cu"));
    found.sort();
    for path in found {
        // A C compiler takes `.cu` for something to link.
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let unit = out.join(&*name).with_extension("c");
        if let Err(error) = fs::write(&unit, format!("#include \"{name}\"\n")) {
            return fail(&format!("{}: {error}", unit.display()));
        }
        build.file(unit);
    }
    // Columns and tables are read through pointers of several types. Kernels are what a batch costs on the host: fast in
    // every profile.
    build.std("c11").opt_level(3).flag("-fno-strict-aliasing");
    build.warnings(true).extra_warnings(true);
    match build.try_compile("millrace_kernels") {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => fail(&format!(
            "the kernels need a C compiler, like the linker `cc` of Rust itself (Debian: apt-get install gcc libc6-dev; \
             CC names another): {error}"
        )),
    }
}

fn fail(message: &str) -> ExitCode {
    for line in message.lines() {
        println!("cargo::error={line}");
    }
    ExitCode::FAILURE
}
