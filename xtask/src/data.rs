//! Data that tests and benchmarks use and the repository does not hold, fetched once into Cargo's target
//! directory.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use millrace_testkit::find_program;

use crate::apt::{Apt, Kind};
use crate::shell;

/// The folder with the captures of Debian's tcpdump source package: some hundreds of small files,
/// many of them malformed on purpose. Fetches them, saying so, when they are not there yet.
///
/// # Errors
/// They are not there and cannot be fetched.
pub(crate) fn tcpdump_captures() -> Result<PathBuf> {
    once(captures_folder(), |work| {
        need(&["tar"], "the captures of Debian's tcpdump")?;
        println!("fetching the captures of Debian's tcpdump source package (10 MB of lists, 2 MB)");
        let apt = Apt::new(work, Kind::Source, "the captures of Debian's tcpdump")?;
        let tree = work.join("tcpdump");
        unpack(&apt.fetch("tcpdump")?, &tree, &[])?;
        Ok(tree.join("tests"))
    })
}

/// The folder of [`tcpdump_captures`] when it is there.
pub(crate) fn fetched_captures() -> Option<PathBuf> {
    Some(captures_folder()).filter(|folder| folder.is_dir())
}

fn captures_folder() -> PathBuf {
    shell::target().join("xtask/tcpdump-captures")
}

/// A folder with the Internet's routes as RouteViews had them, out of Debian's package python3-pyasn:
/// `ipasn_20140513.dat` has the 512,621 for IPv4 of 13 May 2014, `ipasn_20080501_v12.dat` the 270,849 of 1 May
/// 2008, `ipasn6_20151101.dat` those for both families of 1 November 2015. Each line is a prefix and an
/// autonomous system's number; `;` stands before what is no route. Fetches them, saying so, when they are
/// not there yet.
///
/// # Errors
/// They are not there and cannot be fetched.
pub(crate) fn routes() -> Result<PathBuf> {
    once(shell::target().join("xtask/routes"), |work| {
        need(&["dpkg-deb", "gzip"], "routes of the Internet")?;
        println!("fetching the routes in Debian's package python3-pyasn (10 MB of lists, 10 MB)");
        let apt = Apt::new(work, Kind::Binary, "routes of the Internet")?;
        let tree = work.join("pyasn");
        let package = apt.fetch("python3-pyasn")?;
        shell::run(Command::new("dpkg-deb").arg("--extract").arg(package).arg(&tree))?;
        let data = tree.join("usr/lib/python3/dist-packages/data");
        let routes = work.join("routes");
        fs::create_dir(&routes)?;
        let tables = ["ipasn_20140513", "ipasn_20080501_v12", "ipasn6_20151101"];
        for name in tables.map(|table| format!("{table}.dat.gz")) {
            fs::rename(data.join(&name), routes.join(&name))?;
            shell::run(Command::new("gzip").arg("--decompress").arg(routes.join(&name)))?;
        }
        Ok(routes)
    })
}

/// What is at `place`. When nothing is there, `make` makes it somewhere in a folder that it is given, and it
/// is moved into place in one step, so that a run that is cut short leaves nothing half done.
pub(crate) fn once(place: PathBuf, make: impl FnOnce(&Path) -> Result<PathBuf>) -> Result<PathBuf> {
    if place.exists() {
        return Ok(place);
    }
    let work = shell::target().join(format!("xtask/fetch-{}", std::process::id()));
    fs::create_dir_all(&work).with_context(|| work.display().to_string())?;
    let made = make(&work)
        .and_then(|made| fs::rename(&made, &place).with_context(|| place.display().to_string()));
    let removed = fs::remove_dir_all(&work);
    made?;
    removed.with_context(|| work.display().to_string())?;
    Ok(place)
}

/// # Errors
/// One of the programs is not installed.
pub(crate) fn need(programs: &[&str], purpose: &str) -> Result<()> {
    for program in programs {
        if find_program(program).is_none() {
            bail!("fetching {purpose} needs {program}");
        }
    }
    Ok(())
}

/// Unpacks a released archive into a folder without the archive's own outermost one: all of it, or the
/// files and folders of these names (with wildcards).
pub(crate) fn unpack(archive: &Path, folder: &Path, members: &[&str]) -> Result<()> {
    fs::create_dir_all(folder)?;
    let mut command = Command::new("tar");
    command.current_dir(folder).args(["--extract", "--strip-components=1", "--wildcards"]);
    shell::run(command.arg("--file").arg(archive).args(members))
}
