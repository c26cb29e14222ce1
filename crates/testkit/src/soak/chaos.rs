//! Doing what a fault is.

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use super::Fault;
use super::network::{COUNT, Network};
use super::router::{Router, Setting};
use super::windows::Windows;
use crate::Program;

/// Who does it, and to what.
pub(super) struct Chaos<'a> {
    pub(super) network: &'a Network,
    pub(super) setting: &'a Setting,
    pub(super) windows: &'a Windows,
    pub(super) random: fastrand::Rng,
}

impl Chaos<'_> {
    /// Does something to a router that runs, waits for a while, and undoes it.
    ///
    /// # Errors
    /// It cannot be done: why.
    pub(super) fn inject(&mut self, fault: Fault, router: &Router) -> Result<(), String> {
        let n = self.random.usize(..COUNT);
        self.windows.open(fault);
        let done = self.act(fault, n, router);
        self.windows.close();
        done
    }

    fn act(&mut self, fault: Fault, n: usize, router: &Router) -> Result<(), String> {
        let inside = &self.network.router;
        match fault {
            // These are not done to one life of a router.
            Fault::Swap | Fault::Kill | Fault::Term => {}
            Fault::Recreate => {
                inside.ip(&format!("link delete dev eth{n}"));
                self.wait(100, 1500);
                self.network.connect(n);
            }
            Fault::Rename => {
                let renamed = inside.run(&format!("ip link set dev eth{n} name away{n}"));
                if !renamed.status.success() {
                    return Err("this kernel renames no interface that is up".to_owned());
                }
                self.wait(200, 1500);
                inside.ip(&format!("link set dev away{n} name eth{n}"));
            }
            Fault::Mtu => {
                let mtu = self.random.usize(1501..=9000);
                // With a program for XDP not every length is possible.
                let changed = inside.run(&format!("ip link set dev eth{n} mtu {mtu}"));
                self.wait(200, 1500);
                if changed.status.success() {
                    inside.ip(&format!("link set dev eth{n} mtu 1500"));
                }
            }
            Fault::Down => {
                inside.ip(&format!("link set dev eth{n} down"));
                self.wait(100, 1500);
                inside.ip(&format!("link set dev eth{n} up"));
            }
            Fault::Taken => return self.take(n, router),
            Fault::Memory => {
                let group = self.setting.group.as_ref().ok_or("no control group")?;
                group.squeeze(true).map_err(|error| error.to_string())?;
                self.wait(500, 2000);
                group.squeeze(false).map_err(|error| error.to_string())?;
            }
            Fault::Stop => {
                signal(router, Signal::STOP)?;
                self.wait(20, 500);
                signal(router, Signal::CONT)?;
            }
            Fault::Clock => {
                let (_, offset) = self.setting.clock.as_ref().ok_or("no clock")?;
                // A second, an hour, ten years.
                let by = self.random.choice([1, 3600, 315_360_000]).unwrap_or(1);
                let by: i64 = if self.random.bool() { by } else { -by };
                step(offset, by)?;
                self.wait(500, 2000);
                step(offset, 0)?;
            }
            Fault::Disk => {
                let ballast = self.setting.disk.join("ballast");
                let mut file = File::create(&ballast).map_err(|error| error.to_string())?;
                // Until there is no room.
                while file.write_all(&[0; 4096]).is_ok() {}
                self.wait(500, 2500);
                fs::remove_file(ballast).map_err(|error| error.to_string())?;
            }
        }
        Ok(())
    }

    /// Has another program take an interface's packets. Where the router has a program of its own on the interface,
    /// the other one gets hold of it while the router is stopped and the interface is new.
    fn take(&mut self, n: usize, router: &Router) -> Result<(), String> {
        let inside = &self.network.router;
        let is_xdp = self.setting.method == "XDP";
        if is_xdp {
            signal(router, Signal::STOP)?;
            inside.ip(&format!("link delete dev eth{n}"));
            self.network.connect(n);
        }
        let mut command = inside.command(&self.setting.program.to_string_lossy());
        command.args(["run", "-e", &format!("FromXDPDevice(eth{n}) -> Discard")]);
        command.process_group(0);
        let other = Program::start(&mut command).map_err(|error| error.to_string());
        let end = Instant::now() + Duration::from_secs(10);
        let has_it = || {
            let link = inside.run(&format!("ip -d link show dev eth{n}"));
            String::from_utf8_lossy(&link.stdout).contains("prog/xdp")
        };
        while other.is_ok() && !has_it() && Instant::now() < end {
            sleep(Duration::from_millis(20));
        }
        let taken = has_it();
        if is_xdp {
            signal(router, Signal::CONT)?;
        }
        self.wait(500, 1500);
        other?.stop().map_err(|error| error.to_string())?;
        match taken {
            true => Ok(()),
            false => Err("no other program can take the interface".to_owned()),
        }
    }

    /// Waits for some milliseconds, at least and at most.
    pub(super) fn wait(&mut self, least: u64, most: u64) {
        sleep(Duration::from_millis(self.random.u64(least..=most)));
    }
}

fn signal(router: &Router, signal: Signal) -> Result<(), String> {
    router.signal(signal).map_err(|error| error.to_string())
}

fn step(offset: &Path, seconds: i64) -> Result<(), String> {
    // In place: the file is mapped.
    let file = File::options().write(true).open(offset);
    let written = file.and_then(|mut file| file.write_all(&seconds.to_ne_bytes()));
    written.map_err(|error| error.to_string())
}

/// Compiles the library by which a program's clock can be stepped.
///
/// # Errors
/// There is no C compiler, or it fails.
pub(super) fn clock_library(folder: &Path) -> Result<(PathBuf, PathBuf), String> {
    let (source, library, offset) =
        (folder.join("clock.c"), folder.join("clock.so"), folder.join("clock"));
    let written = fs::write(&source, include_str!("clock.c"))
        .and_then(|()| fs::write(&offset, 0i64.to_ne_bytes()));
    written.map_err(|error| error.to_string())?;
    let compiled = Command::new("cc")
        .args(["-shared", "-fPIC", "-O1", "-o"])
        .arg(&library)
        .arg(&source)
        .arg("-ldl")
        .stdin(Stdio::null())
        .output();
    match compiled {
        Ok(output) if output.status.success() => Ok((library, offset)),
        Ok(output) => Err(String::from_utf8_lossy(&output.stderr).trim().to_owned()),
        Err(error) => Err(format!("no C compiler: {error}")),
    }
}
