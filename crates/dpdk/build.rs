//! Compiles the shim against the DPDK that pkg-config finds.

use std::process::ExitCode;

/// The DPDK whose `rte_mbuf` our packet descriptor is laid out like (the shim's assertions have the last word).
const OLDEST: &str = "22.11";

fn main() -> ExitCode {
    for file in ["shim.c", "pool.c", "pool.h"] {
        println!("cargo::rerun-if-changed=src/{file}");
    }
    // The linker gets libraries by name and looks for them when the plugin is linked, not here.
    let found =
        pkg_config::Config::new().atleast_version(OLDEST).cargo_metadata(false).probe("libdpdk");
    let library = match found {
        Ok(library) => library,
        Err(error) => {
            let reason = error.to_string();
            let reason = reason.lines().find(|line| !line.trim().is_empty()).unwrap_or_default();
            println!(
                "cargo::error=the plugin needs DPDK {OLDEST} or later and its headers: on Debian and Ubuntu, \
                 `apt-get install libdpdk-dev pkg-config` ({reason})"
            );
            return ExitCode::FAILURE;
        }
    };
    let mut shim = cc::Build::new();
    shim.files(["src/shim.c", "src/pool.c"]).includes(&library.include_paths).std("gnu11");
    // DPDK's inline functions need what DPDK itself was compiled with at the least.
    shim.flag("-include").flag("rte_config.h");
    if std::env::var("CARGO_CFG_TARGET_ARCH").is_ok_and(|arch| arch == "x86_64") {
        shim.flag("-march=corei7");
    }
    shim.flag("-O3").warnings(true).extra_warnings(true).flag("-Wno-unused-parameter");
    shim.compile("millrace_dpdk_shim");
    for path in &library.link_paths {
        println!("cargo::rustc-link-search=native={}", path.display());
    }
    for name in ["rte_ethdev", "rte_mbuf", "rte_mempool", "rte_ring", "rte_eal"] {
        println!("cargo::rustc-link-lib=dylib={name}");
    }
    ExitCode::SUCCESS
}
