//! DPDK's telemetry: a socket on which every program that uses DPDK reports the counts of its ports.
//!
//! A request is a message of one line, and an answer is a message in JSON
//! (<https://doc.dpdk.org/guides/howto/telemetry.html>).

use std::fs::File;
use std::io::{Read, Write};
use std::path::Path;

use anyhow::Context;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};
use serde_json::Value;

/// The maximum length of an answer.
const LONGEST: usize = 1 << 14;

/// A connection to a program's telemetry.
pub(crate) struct Telemetry(File);

/// The counts of a port.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counts {
    pub(crate) received: u64,
    pub(crate) transmitted: u64,
}

impl Telemetry {
    /// Connects to the socket of this name.
    ///
    /// # Errors
    /// No program listens there.
    pub(crate) fn connect(path: &Path) -> anyhow::Result<Self> {
        let socket =
            socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
        connect(&socket, &SocketAddrUnix::new(path)?)?;
        let mut telemetry = Self(File::from(socket));
        // The program sends its greeting first.
        telemetry.receive()?;
        Ok(telemetry)
    }

    /// The counts of a port since its start.
    ///
    /// # Errors
    /// The program has ended, or has no such port.
    pub(crate) fn port(&mut self, port: usize) -> anyhow::Result<Counts> {
        self.0.write_all(format!("/ethdev/stats,{port}").as_bytes())?;
        let answer = self.receive()?;
        let count = |name: &str| {
            let count = answer["/ethdev/stats"][name].as_u64();
            count.with_context(|| format!("port {port} does not tell {name}: {answer}"))
        };
        Ok(Counts { received: count("ipackets")?, transmitted: count("opackets")? })
    }

    fn receive(&mut self) -> anyhow::Result<Value> {
        let mut answer = vec![0; LONGEST];
        let length = self.0.read(&mut answer)?;
        let answer = answer.get(..length).unwrap_or_default();
        serde_json::from_slice(answer).context("telemetry that is not JSON")
    }
}
