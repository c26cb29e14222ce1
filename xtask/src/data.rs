//! Data that tests and benchmarks use and that is not in the repository. It is fetched once to Cargo's target
//! directory.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use millrace_testkit::data::Data;
use millrace_testkit::find_program;

use crate::apt::{Apt, Kind};
use crate::shell;

/// The folder with data for tests. If it does not exist, prints a message and fetches it.
///
/// # Errors
/// It does not exist and cannot be fetched.
pub(crate) fn fetch(data: Data) -> Result<PathBuf> {
    match data {
        Data::Captures => tcpdump_captures(),
        Data::Nvrtc => nvrtc(),
        Data::Phrases => phrases(),
        Data::Prometheus => prometheus(),
        Data::Routes => routes(),
        Data::Texts => texts(),
    }
}

/// The folder of [`fetch`], if it exists.
pub(crate) fn fetched(data: Data) -> Option<PathBuf> {
    Some(place(data)).filter(|folder| folder.is_dir())
}

fn place(data: Data) -> PathBuf {
    shell::target().join(match data {
        Data::Captures => "xtask/tcpdump-captures",
        Data::Nvrtc => "xtask/nvrtc-12.0.140",
        Data::Phrases => "xtask/phrases",
        Data::Prometheus => "xtask/prometheus",
        Data::Routes => "xtask/routes",
        Data::Texts => "xtask/texts",
    })
}

/// The folder with the captures of Debian's tcpdump source package: some hundreds of small files, many of them
/// malformed on purpose.
fn tcpdump_captures() -> Result<PathBuf> {
    once(place(Data::Captures), |work| {
        need(&["tar"], "the captures of Debian's tcpdump")?;
        println!("fetching the captures of Debian's tcpdump source package (10 MB of lists, 2 MB)");
        let apt = Apt::new(work, Kind::Source, "the captures of Debian's tcpdump")?;
        let tree = work.join("tcpdump");
        unpack(&apt.fetch("tcpdump")?, &tree, &[])?;
        Ok(tree.join("tests"))
    })
}

/// The oldest NVRTC of CUDA 12. Every driver of that and later versions accepts its PTX. It is a requirement for pip,
/// which rejects any other file.
const NVRTC: &str = "nvidia-cuda-nvrtc-cu12==12.0.140 \
    --hash=sha256:8e94e991d85c422de4da87bdc7472fdc1364367bd4aace7000b559cd33122071";

/// A folder with NVIDIA's compiler library, from the Python package nvidia-cuda-nvrtc-cu12. It needs no GPU. For
/// x86-64 processors.
fn nvrtc() -> Result<PathBuf> {
    once(place(Data::Nvrtc), |work| {
        let purpose = "the compiler for kernels";
        need(&["python3"], purpose)?;
        if !shell::succeeds(Command::new("python3").args(["-m", "pip", "--version"])) {
            bail!("fetching {purpose} needs pip (Debian: apt-get install python3-pip)");
        }
        println!("fetching the Python package nvidia-cuda-nvrtc-cu12 (23 MB)");
        let (list, tree) = (work.join("nvrtc.txt"), work.join("nvrtc"));
        fs::write(&list, format!("{NVRTC}\n"))?;
        let mut pip = Command::new("python3");
        pip.args(["-m", "pip", "--quiet", "--disable-pip-version-check", "install"]);
        pip.args(["--no-deps", "--no-compile", "--only-binary=:all:", "--require-hashes"]);
        shell::run(pip.arg("--target").arg(&tree).arg("--requirement").arg(&list))?;
        Ok(tree)
    })
}

/// A folder with the phrases of the OWASP rules for web application firewalls, from Debian's package modsecurity-crs:
/// files `*.data`, one phrase per line.
fn phrases() -> Result<PathBuf> {
    once(place(Data::Phrases), |work| {
        println!(
            "fetching the phrases in Debian's package modsecurity-crs (10 MB of lists, 160 KB)"
        );
        let tree = extract(work, "modsecurity-crs", "phrases of a web application firewall")?;
        Ok(tree.join("usr/share/modsecurity-crs/rules"))
    })
}

/// A folder with the programs of Debian's package prometheus, which is not installed: that would start a service.
fn prometheus() -> Result<PathBuf> {
    once(place(Data::Prometheus), |work| {
        println!("fetching Debian's package prometheus (10 MB of lists, 19 MB)");
        Ok(extract(work, "prometheus", "Prometheus")?.join("usr/bin"))
    })
}

/// A folder with text and web pages, 2 MB, from Debian's package debian-policy.
fn texts() -> Result<PathBuf> {
    once(place(Data::Texts), |work| {
        need(&["gzip"], "texts")?;
        println!("fetching the texts in Debian's package debian-policy (10 MB of lists, 2 MB)");
        let tree = extract(work, "debian-policy", "texts")?.join("usr/share/doc/debian-policy");
        shell::run(Command::new("gzip").arg("--decompress").arg(tree.join("policy.txt.gz")))?;
        let texts = work.join("texts");
        fs::create_dir(&texts)?;
        for folder in [tree.clone(), tree.join("policy.html"), tree.join("fhs")] {
            for entry in fs::read_dir(&folder).with_context(|| folder.display().to_string())? {
                let path = entry?.path();
                let is_text = path.extension().is_some_and(|end| end == "html" || end == "txt");
                if let Some(name) = path.file_name().filter(|_| is_text && path.is_file()) {
                    fs::rename(&path, texts.join(name))?;
                }
            }
        }
        Ok(texts)
    })
}

/// Extracts a binary package without installing it, and returns the folder.
fn extract(work: &Path, package: &str, purpose: &str) -> Result<PathBuf> {
    need(&["dpkg-deb"], purpose)?;
    let tree = work.join("tree");
    let file = Apt::new(work, Kind::Binary, purpose)?.fetch(package)?;
    shell::run(Command::new("dpkg-deb").arg("--extract").arg(file).arg(&tree))?;
    Ok(tree)
}

/// A folder with the Internet's routes as seen by RouteViews, from Debian's package python3-pyasn:
/// `ipasn_20140513.dat` has the 512,621 IPv4 routes of 13 May 2014, `ipasn_20080501_v12.dat` the 270,849 of 1 May
/// 2008, and `ipasn6_20151101.dat` those of both families of 1 November 2015. Each line is a prefix and the number of
/// an autonomous system. Lines that begin with `;` are comments. If the folder does not exist, prints a message and
/// fetches it.
///
/// # Errors
/// It does not exist and cannot be fetched.
pub(crate) fn routes() -> Result<PathBuf> {
    once(place(Data::Routes), |work| {
        need(&["gzip"], "routes of the Internet")?;
        println!("fetching the routes in Debian's package python3-pyasn (10 MB of lists, 10 MB)");
        let tree = extract(work, "python3-pyasn", "routes of the Internet")?;
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

/// The file or folder at `place`. If it does not exist, `make` creates it in a temporary folder, and it is moved to
/// its place in one step, so that an interrupted run leaves nothing incomplete.
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

/// Unpacks an archive into a folder, without the archive's outermost folder: all of it, or the files and folders with
/// these names (with wildcards).
pub(crate) fn unpack(archive: &Path, folder: &Path, members: &[&str]) -> Result<()> {
    fs::create_dir_all(folder)?;
    let mut command = Command::new("tar");
    command.current_dir(folder).args(["--extract", "--strip-components=1", "--wildcards"]);
    shell::run(command.arg("--file").arg(archive).args(members))
}
