//! The programs in C beside which the benchmarks run our engines, in `benches/rivals`: built against what is installed.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result};

use crate::{data, shell};

/// A program, the library that it shows, as pkg-config calls it, and the package that has it.
pub(crate) struct Rival {
    name: &'static str,
    library: &'static str,
    package: &'static str,
    /// By which the benchmarks are told where the program is.
    pub(crate) variable: &'static str,
}

/// All of them.
pub(crate) const RIVALS: [Rival; 2] = [
    Rival {
        name: "acl",
        library: "libdpdk",
        package: "libdpdk-dev",
        variable: "MILLRACE_RIVAL_ACL",
    },
    Rival {
        name: "hyperscan",
        library: "libhs",
        package: "libhyperscan-dev",
        variable: "MILLRACE_RIVAL_HYPERSCAN",
    },
];

impl Rival {
    /// The program, built anew, which takes a moment.
    ///
    /// # Errors
    /// The library is not installed, or the program cannot be built.
    pub(crate) fn program(&self) -> Result<PathBuf> {
        let flags =
            shell::output(Command::new("pkg-config").args(["--cflags", "--libs", self.library]))
                .with_context(|| {
                    format!(
                        "there is no {}: apt-get install {} pkgconf",
                        self.library, self.package
                    )
                })?;
        data::need(&["cc"], "nothing, but building a rival of the benchmarks")?;
        let folder = shell::target().join("xtask/rivals");
        std::fs::create_dir_all(&folder)?;
        let program = folder.join(self.name);
        let source = shell::root().join(format!("benches/rivals/{}.c", self.name));
        let mut command = Command::new("cc");
        command.args(["-std=gnu11", "-O3", "-Wall", "-Wextra", "-Werror"]).arg(source);
        command.arg("-o").arg(&program).args(flags.split_whitespace());
        shell::run(&mut command)?;
        Ok(program)
    }
}
