//! Data that the repository does not hold: `cargo xtask test` fetches it out of packages and names the folders to the
//! tests. Where that has not been done, a test that wants it is left out, aloud.

use std::fs;
use std::path::PathBuf;

use crate::generate::patterns;
use crate::{Reason, announce};

/// A folder with data for tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Data {
    /// The captures of the source package tcpdump: hundreds of small ones, many malformed on purpose.
    Captures,
    /// NVIDIA's compiler for kernels, the Python package nvidia-cuda-nvrtc-cu12: `libnvrtc.so.12` somewhere below.
    Nvrtc,
    /// The phrases of the package modsecurity-crs, files `*.data`.
    Phrases,
    /// The Internet's routes of the package python3-pyasn: `ipasn_20140513.dat` and others.
    Routes,
    /// Text and web pages of the package debian-policy.
    Texts,
}

impl Data {
    /// All of them.
    pub const ALL: [Self; 5] =
        [Self::Captures, Self::Nvrtc, Self::Phrases, Self::Routes, Self::Texts];

    /// The variable that names the folder.
    #[must_use]
    pub fn variable(self) -> &'static str {
        match self {
            Self::Captures => crate::CAPTURES_VARIABLE,
            Self::Nvrtc => "MILLRACE_NVRTC",
            Self::Phrases => "MILLRACE_PHRASES",
            Self::Routes => "MILLRACE_ROUTES",
            Self::Texts => "MILLRACE_TEXTS",
        }
    }

    /// What is in the folder, for messages.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Captures => "the captures",
            Self::Nvrtc => "the compiler for kernels",
            Self::Phrases => "the phrases",
            Self::Routes => "the routes",
            Self::Texts => "the texts",
        }
    }

    /// The folder, where it has been fetched and named.
    #[must_use]
    pub fn folder(self) -> Option<PathBuf> {
        std::env::var_os(self.variable()).map(PathBuf::from).filter(|folder| folder.is_dir())
    }

    /// The folder; where it is not there, says that the test is left out and gives `None`.
    #[must_use]
    pub fn folder_or_skip(self, test: &str) -> Option<PathBuf> {
        let folder = self.folder();
        if folder.is_none() {
            announce(test, &Reason::Data(self));
        }
        folder
    }
}

/// The Internet's routes for IPv4 of 13 May 2014, 512,621 of them, each a network and the number of an autonomous system;
/// where they have not been fetched, says that the calling test is left out and gives `None`.
#[macro_export]
macro_rules! routes {
    () => {{
        fn here() {}
        $crate::data::routes_or_skip($crate::enclosing(here))
    }};
}

/// The phrases of the OWASP rules for web application firewalls, 3,640 of them in lower case; where they have not been
/// fetched, says that the calling test is left out and gives `None`.
#[macro_export]
macro_rules! phrases {
    () => {{
        fn here() {}
        $crate::data::phrases_or_skip($crate::enclosing(here))
    }};
}

/// Some megabytes of text and of web pages, harmless ones; where they have not been fetched, says that the calling test is left out
/// and gives `None`.
#[macro_export]
macro_rules! texts {
    () => {{
        fn here() {}
        $crate::data::texts_or_skip($crate::enclosing(here))
    }};
}

/// A network's first address, the length of its prefix, and the number of the autonomous system that announces it.
pub type Route = (u32, u8, u32);

/// What [`routes!`] calls: `test` is the name to print when the test is left out.
#[must_use]
pub fn routes_or_skip(test: &str) -> Option<Vec<Route>> {
    let folder = Data::Routes.folder_or_skip(test)?;
    let text = fs::read_to_string(folder.join("ipasn_20140513.dat")).ok();
    let routes: Vec<Route> = text.iter().flat_map(|text| text.lines()).filter_map(route).collect();
    some_or_skip(routes, Data::Routes, test)
}

/// What [`phrases!`] calls: `test` is the name to print when the test is left out.
#[must_use]
pub fn phrases_or_skip(test: &str) -> Option<Vec<Vec<u8>>> {
    let folder = Data::Phrases.folder_or_skip(test)?;
    some_or_skip(patterns::phrases(&folder).unwrap_or_default(), Data::Phrases, test)
}

/// What [`texts!`] calls: `test` is the name to print when the test is left out.
#[must_use]
pub fn texts_or_skip(test: &str) -> Option<Vec<u8>> {
    let folder = Data::Texts.folder_or_skip(test)?;
    some_or_skip(texts(&folder).unwrap_or_default(), Data::Texts, test)
}

/// The files of a folder of texts, one behind the other, in order of name.
///
/// # Errors
/// The folder or a file of it cannot be read.
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
    fn the_real_routes_are_as_many_as_we_say() {
        let Some(routes) = crate::routes!() else { return };
        assert_eq!(routes.len(), 512_621);
    }

    #[test]
    fn the_real_texts_are_text() {
        let Some(text) = crate::texts!() else { return };
        assert!(text.len() > 1_000_000, "{}", text.len());
        let letters = text.iter().filter(|byte| byte.is_ascii_alphabetic() || **byte == b' ');
        assert!(letters.count() > text.len() / 2);
    }
}
