//! C programs in `benches/rivals` that the benchmarks compare our engines with. They are built against installed
//! libraries.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result};

use crate::{data, shell};

/// A program, the pkg-config name of its library, and the library's package.
pub(crate) struct Rival {
    name: &'static str,
    library: &'static str,
    package: &'static str,
    /// The variable by which the benchmarks find the program.
    pub(crate) variable: &'static str,
}

/// All programs.
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
    /// Builds the program, and returns its path.
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
