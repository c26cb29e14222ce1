//! Compiles the fake driver and the fake compiler.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

/// Puts both libraries into `folder`, and the driver alone into `folder/bare`. `gpu` is the folder of the crate.
pub(crate) fn build(gpu: &Path, folder: &Path) -> Result<(), String> {
    let compile = |name: &str, units: &[PathBuf]| {
        let mut cc = Command::new(env::var_os("CC").unwrap_or_else(|| "cc".into()));
        cc.args(["-shared", "-fPIC", "-O1", "-g", "-std=gnu11", "-fno-strict-aliasing", "-Wall"]);
        cc.arg("-I").arg(gpu.join("kernels")).arg("-o").arg(folder.join(name));
        cc.args(["-x", "c"]).args(units).args(["-lpthread", "-ldl"]);
        let output = cc.output().map_err(|error| format!("cc: {error}"))?;
        let messages = String::from_utf8_lossy(&output.stderr).into_owned();
        if output.status.success() { Ok(()) } else { Err(messages) }
    };
    let mut units = vec![gpu.join("tests/fake/libcuda.c")];
    let kernels = fs::read_dir(gpu.join("kernels")).map_err(|error| error.to_string())?;
    let kernels = kernels.flatten().map(|entry| entry.path());
    units.extend(kernels.filter(|path| path.extension().is_some_and(|end| end == "cu")));
    compile("libcuda.so.1", &units)?;
    compile("libnvrtc.so.12", &[gpu.join("tests/fake/libnvrtc.c")])?;
    // cudarc looks for this name first.
    let copy = || {
        fs::create_dir(folder.join("bare"))?;
        fs::copy(folder.join("libcuda.so.1"), folder.join("libcuda.so"))?;
        fs::copy(folder.join("libcuda.so.1"), folder.join("bare/libcuda.so"))
    };
    copy().map(drop).map_err(|error| error.to_string())
}
