//! The names defined on this machine: `/etc/services` and `/etc/protocols`, services(5) and protocols(5).

use std::collections::HashMap;
use std::sync::LazyLock;

use super::builtin;
use super::kind::NumberKind;

/// The number for a name on this machine.
pub(super) fn number(kind: NumberKind, name: &str) -> Option<u32> {
    static SERVICES: LazyLock<Names> = LazyLock::new(|| {
        let protocols = parse_protocols(&read("/etc/protocols"));
        parse_services(&read("/etc/services"), protocols)
    });
    SERVICES.get(&(kind, name.to_owned())).copied()
}

/// The text of a file. If the file does not exist, there are only the built-in names.
fn read(path: &str) -> String {
    std::fs::read(path).map_or(String::new(), |text| String::from_utf8_lossy(&text).into_owned())
}

type Names = HashMap<(NumberKind, String), u32>;

/// Reads lines of the form `NAME NUMBER [ALIAS...]`.
fn parse_protocols(text: &str) -> Names {
    let mut names = Names::new();
    for (name, place, aliases) in lines(text) {
        let Ok(number) = place.parse::<u8>() else { continue };
        for name in aliases.chain([name]) {
            names.entry((NumberKind::IpProtocol, name.to_owned())).or_insert(number.into());
        }
    }
    names
}

/// Reads lines of the form `NAME PORT/PROTOCOL [ALIAS...]`; the first line for a name counts.
fn parse_services(text: &str, mut names: Names) -> Names {
    for (name, place, aliases) in lines(text) {
        let Some((port, protocol)) = place.split_once('/') else { continue };
        let known = builtin::number(NumberKind::IpProtocol, protocol);
        let known =
            known.or_else(|| names.get(&(NumberKind::IpProtocol, protocol.to_owned())).copied());
        let Some(protocol) = known.and_then(|number| u8::try_from(number).ok()) else { continue };
        let Ok(port) = port.parse::<u16>() else { continue };
        for name in aliases.chain([name]) {
            let kind = NumberKind::Port(protocol);
            names.entry((kind, name.to_owned())).or_insert(port.into());
        }
    }
    names
}

/// The first word, the second word and the rest of each line, without comments.
fn lines(text: &str) -> impl Iterator<Item = (&str, &str, std::str::SplitAsciiWhitespace<'_>)> {
    text.lines().filter_map(|line| {
        let mut words = line.split('#').next()?.split_ascii_whitespace();
        Some((words.next()?, words.next()?, words))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_files_are_read() {
        let protocols = parse_protocols("# c\nesp 50 ESP # x\nx 256\n");
        let text = "# c\nhttp\t80/tcp www # W\nx 1/udp\nx 2/udp\nbad\ny z/tcp\nk 500/esp\nn 1/none";
        let names = parse_services(text, protocols);
        for (kind, name, number) in [
            (NumberKind::Port(6), "http", Some(80)),
            (NumberKind::Port(6), "www", Some(80)),
            (NumberKind::Port(17), "http", None),
            (NumberKind::Port(17), "x", Some(1)),
            (NumberKind::Port(50), "k", Some(500)),
            (NumberKind::IpProtocol, "ESP", Some(50)),
            (NumberKind::IpProtocol, "x", None),
        ] {
            assert_eq!(names.get(&(kind, name.to_owned())).copied(), number, "{name}");
        }
        assert_eq!(names.len(), 6);
    }
}
