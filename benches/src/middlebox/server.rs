//! Servers on the server's host: nginx with pages, and iperf3.

use std::fs;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use millrace_testkit::{Namespace, Program};
use tempfile::TempDir;

use super::output;

/// A server that runs, until this is dropped.
pub(crate) struct Server {
    _program: Program,
    _place: Option<TempDir>,
}

/// One process, so that it takes one core; connections stay open as long as the client wants.
const NGINX: &str = "
daemon off;
master_process off;
pid PLACE/pid;
error_log PLACE/errors;
events { worker_connections 60000; multi_accept on; }
http {
    access_log off;
    sendfile on;
    tcp_nopush on;
    keepalive_timeout 3600s;
    keepalive_requests 1000000;
    default_type text/plain;
    server {
        listen 80 backlog=16384;
        listen [::]:80 backlog=16384;
        root PLACE;
    }
}
";

impl Server {
    /// Serves pages on port 80: their names and contents.
    ///
    /// # Errors
    /// nginx does not start.
    pub(crate) fn nginx(host: &Namespace, pages: &[(&str, &[u8])]) -> anyhow::Result<Self> {
        let place = in_memory()?;
        let folder = place.path().display().to_string();
        for (name, content) in pages {
            fs::write(place.path().join(name), content)?;
        }
        let settings = place.path().join("conf");
        fs::write(&settings, NGINX.replace("PLACE", &folder))?;
        let mut command = host.command("nginx");
        command.args(["-p", &folder, "-e", &format!("{folder}/errors"), "-c"]).arg(settings);
        let program = Program::start(&mut command).context("nginx")?;
        Self { _program: program, _place: Some(place) }.when_it_listens(host, 80)
    }

    /// Waits for tests of iperf3, one after the other.
    ///
    /// # Errors
    /// iperf3 does not start.
    pub(crate) fn iperf(host: &Namespace) -> anyhow::Result<Self> {
        let program = Program::start(host.command("iperf3").arg("-s")).context("iperf3")?;
        Self { _program: program, _place: None }.when_it_listens(host, 5201)
    }

    fn when_it_listens(self, host: &Namespace, port: u16) -> anyhow::Result<Self> {
        const PATIENCE: Duration = Duration::from_secs(20);
        // In hexadecimal, of a socket in the state LISTEN.
        let (port, state) = (format!(":{port:04X} "), " 0A ");
        let end = Instant::now() + PATIENCE;
        loop {
            let sockets = output(host.command("cat").args(["/proc/net/tcp", "/proc/net/tcp6"]))?;
            if sockets.lines().any(|line| line.contains(&port) && line.contains(state)) {
                return Ok(self);
            }
            ensure!(Instant::now() < end, "the server does not listen");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

/// A folder in memory, if there is such a file system, so that no disk is measured.
///
/// # Errors
/// It cannot be made.
pub(crate) fn in_memory() -> anyhow::Result<TempDir> {
    let memory = std::path::Path::new("/dev/shm");
    let place = if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() };
    place.context("a folder for pages")
}
