//! Data that is not in the repository. `cargo xtask test` extracts it from packages and passes the folders to the
//! tests. If a folder is missing, the tests that need it are skipped with a message.

use std::fs;
use std::path::PathBuf;

use crate::generate::patterns;
use crate::{Reason, announce};

/// A folder with data for tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Data {
    /// The captures of the source package tcpdump: hundreds of small files, many malformed on purpose.
    Captures,
    /// NVIDIA's compiler for kernels, the Python package nvidia-cuda-nvrtc-cu12. The folder contains
    /// `libnvrtc.so.12`, possibly in a sub-folder.
    Nvrtc,
    /// The phrases of the package modsecurity-crs, files `*.data`.
    Phrases,
    /// The programs of the package prometheus: `prometheus` and `promtool`. Installing it would start a service.
    Prometheus,
    /// The Internet's routes of the package python3-pyasn: `ipasn_20140513.dat` and others.
    Routes,
    /// Text and web pages of the package debian-policy.
    Texts,
}

impl Data {
    /// All kinds.
    pub const ALL: [Self; 6] =
        [Self::Captures, Self::Nvrtc, Self::Phrases, Self::Prometheus, Self::Routes, Self::Texts];

    /// The environment variable that names the folder.
    #[must_use]
    pub fn variable(self) -> &'static str {
        match self {
            Self::Captures => crate::CAPTURES_VARIABLE,
            Self::Nvrtc => "MILLRACE_NVRTC",
            Self::Phrases => "MILLRACE_PHRASES",
            Self::Prometheus => "MILLRACE_PROMETHEUS",
            Self::Routes => "MILLRACE_ROUTES",
            Self::Texts => "MILLRACE_TEXTS",
        }
    }

    /// The contents of the folder, for messages.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Captures => "the captures",
            Self::Nvrtc => "the compiler for kernels",
            Self::Phrases => "the phrases",
            Self::Prometheus => "Prometheus",
            Self::Routes => "the routes",
            Self::Texts => "the texts",
        }
    }

    /// The folder, if it was fetched and named.
    #[must_use]
    pub fn folder(self) -> Option<PathBuf> {
        std::env::var_os(self.variable()).map(PathBuf::from).filter(|folder| folder.is_dir())
    }

    /// The folder. If it is missing, prints that the test is skipped, and returns `None`.
    #[must_use]
    pub fn folder_or_skip(self, test: &str) -> Option<PathBuf> {
        let folder = self.folder();
        if folder.is_none() {
            announce(test, &Reason::Data(self));
        }
        folder
    }
}

/// The Internet's IPv4 routes of 13 May 2014, 512,621 of them, each a network and the number of an autonomous system.
/// If they were not fetched, prints that the calling test is skipped, and returns `None`.
#[macro_export]
macro_rules! routes {
    () => {{
        fn here() {}
        $crate::data::routes_or_skip($crate::enclosing(here))
    }};
}

/// The phrases of the OWASP rules for web application firewalls, 3,640 of them, in lower case. If they were not
/// fetched, prints that the calling test is skipped, and returns `None`.
#[macro_export]
macro_rules! phrases {
    () => {{
        fn here() {}
        $crate::data::phrases_or_skip($crate::enclosing(here))
    }};
}

/// Some megabytes of harmless text and web pages. If they were not fetched, prints that the calling test is skipped,
/// and returns `None`.
#[macro_export]
macro_rules! texts {
    () => {{
        fn here() {}
        $crate::data::texts_or_skip($crate::enclosing(here))
    }};
}

/// A network's first address, the length of its prefix, and the number of the autonomous system that announces it.
pub type Route = (u32, u8, u32);

/// The function behind [`routes!`]. `test` is the name to print if the test is skipped.
#[must_use]
pub fn routes_or_skip(test: &str) -> Option<Vec<Route>> {
    let folder = Data::Routes.folder_or_skip(test)?;
    let text = fs::read_to_string(folder.join("ipasn_20140513.dat")).ok();
    let routes: Vec<Route> = text.iter().flat_map(|text| text.lines()).filter_map(route).collect();
    some_or_skip(routes, Data::Routes, test)
}

/// The function behind [`phrases!`]. `test` is the name to print if the test is skipped.
#[must_use]
pub fn phrases_or_skip(test: &str) -> Option<Vec<Vec<u8>>> {
    let folder = Data::Phrases.folder_or_skip(test)?;
    some_or_skip(patterns::phrases(&folder).unwrap_or_default(), Data::Phrases, test)
}

/// The function behind [`texts!`]. `test` is the name to print if the test is skipped.
#[must_use]
pub fn texts_or_skip(test: &str) -> Option<Vec<u8>> {
    let folder = Data::Texts.folder_or_skip(test)?;
    some_or_skip(texts(&folder).unwrap_or_default(), Data::Texts, test)
}

/// The concatenated files of a folder, sorted by name.
///
/// # Errors
/// The folder or one of its files cannot be read.
pub fn texts(folder: &std::path::Path) -> std::io::Result<Vec<u8>> {
    let entries: Result<Vec<_>, _> = fs::read_dir(folder)?.collect();
    let mut paths: Vec<PathBuf> = entries?.iter().map(fs::DirEntry::path).collect();
    paths.sort();
    let mut whole = Vec::new();
    for path in paths {
        whole.extend(fs::read(path)?);
    }
    Ok(whole)
}

fn some_or_skip<T>(found: Vec<T>, data: Data, test: &str) -> Option<Vec<T>> {
    if found.is_empty() {
        announce(test, &Reason::Data(data));
        return None;
    }
    Some(found)
}

/// The route of a line, `1.0.0.0/24<tab>15169`; `None` for a comment and for IPv6.
fn route(line: &str) -> Option<Route> {
    let (prefix, system) = line.split_once('\t')?;
    let (address, length) = prefix.split_once('/')?;
    let address: std::net::Ipv4Addr = address.parse().ok()?;
    Some((address.to_bits(), length.parse().ok()?, system.trim().parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_routes() {
        let cases = [
            ("1.0.0.0/24\t15169", Some((0x0100_0000, 24, 15169))),
            ("; a comment\t1", None),
            ("2001::/32\t3", None),
            ("1.0.0.0\t3", None),
            ("", None),
        ];
        for (line, expected) in cases {
            assert_eq!(route(line), expected, "{line}");
        }
    }

    #[test]
    fn the_number_of_real_routes_is_as_documented() {
        let Some(routes) = crate::routes!() else { return };
        assert_eq!(routes.len(), 512_621);
    }

    #[test]
    fn the_real_texts_are_mostly_letters() {
        let Some(text) = crate::texts!() else { return };
        assert!(text.len() > 1_000_000, "{}", text.len());
        let letters = text.iter().filter(|byte| byte.is_ascii_alphabetic() || **byte == b' ');
        assert!(letters.count() > text.len() / 2);
    }
}
