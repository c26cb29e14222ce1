//! The plugin, built once for all tests.

/// Ends the test, aloud, where there is no DPDK.
macro_rules! needs_dpdk {
    () => {{
        fn here() {}
        let program = std::path::Path::new(env!("CARGO_BIN_EXE_millrace"));
        if !millrace_testkit::has_dpdk_plugin(program, millrace_testkit::enclosing(here)) {
            return;
        }
    }};
}

pub(crate) use needs_dpdk;
