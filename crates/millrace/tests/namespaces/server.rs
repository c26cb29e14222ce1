//! Programs that serve on a host.

use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use millrace_testkit::Namespace;

use crate::stdout;

/// A server; it is killed in the end.
pub(crate) struct Server(Child);

impl Server {
    /// Starts a program, and waits until it listens on a port.
    pub(crate) fn start(
        host: &Namespace,
        program: &str,
        arguments: &[&str],
        port: u16,
        patience: Duration,
    ) -> Self {
        let server =
            Self(host.command(program).args(arguments).stdout(Stdio::null()).spawn().unwrap());
        let end = Instant::now() + patience;
        while !stdout(&host.run("ss -Htln")).contains(&format!(":{port} ")) {
            assert!(Instant::now() < end, "{program} does not listen");
            std::thread::sleep(Duration::from_millis(50));
        }
        server
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
