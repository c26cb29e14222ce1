//! DPDK's telemetry: a socket by which every program that uses DPDK tells what its ports counted.
//!
//! A request is a message of one line, an answer a message of JSON
//! (<https://doc.dpdk.org/guides/howto/telemetry.html>).

use std::fs::File;
use std::io::{Read, Write};
use std::path::Path;

use anyhow::Context;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};
use serde_json::Value;

/// The longest answer.
const LONGEST: usize = 1 << 14;

/// A connection to a program's telemetry.
pub(crate) struct Telemetry(File);

/// What a port has counted.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counts {
    pub(crate) received: u64,
    pub(crate) transmitted: u64,
}

impl Telemetry {
    /// Connects to the socket of that name.
    ///
    /// # Errors
    /// Nobody listens there.
    pub(crate) fn connect(path: &Path) -> anyhow::Result<Self> {
        let socket =
            socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
        connect(&socket, &SocketAddrUnix::new(path)?)?;
        let mut telemetry = Self(File::from(socket));
        // It begins by saying who it is.
        telemetry.receive()?;
        Ok(telemetry)
    }

    /// What a port has counted since it was started.
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
