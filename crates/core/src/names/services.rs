//! The port names of this machine: `/etc/services`, services(5).

use std::collections::HashMap;
use std::sync::LazyLock;

use super::{NumberKind, TCP, UDP};

/// The port with this name.
pub(super) fn number(kind: NumberKind, name: &str) -> Option<u32> {
    static SERVICES: LazyLock<Services> = LazyLock::new(|| {
        // Without the file there are no more names than the built-in ones.
        parse(&std::fs::read_to_string("/etc/services").unwrap_or_default())
    });
    let NumberKind::Port(protocol) = kind else { return None };
    SERVICES.get(&(protocol, name.to_owned())).map(|&port| port.into())
}

type Services = HashMap<(u8, String), u16>;

/// Reads lines of the form `NAME PORT/PROTOCOL [ALIAS...]`; the first line of a name counts.
fn parse(text: &str) -> Services {
    let mut services = Services::new();
    for line in text.lines() {
        let line = line.split('#').next().unwrap_or_default();
        let mut words = line.split_ascii_whitespace();
        let (Some(name), Some(place)) = (words.next(), words.next()) else { continue };
        let Some((port, protocol)) = place.split_once('/') else { continue };
        let protocol = match protocol {
            "tcp" => TCP,
            "udp" => UDP,
            _ => continue,
        };
        let Ok(port) = port.parse() else { continue };
        for name in std::iter::once(name).chain(words) {
            services.entry((protocol, name.to_owned())).or_insert(port);
        }
    }
    services
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_services_are_read() {
        let services = parse("# c\nhttp\t80/tcp www # W\nx 1/udp\nx 2/udp\nbad\ny z/tcp\n");
        let port = |protocol, name: &str| services.get(&(protocol, name.to_owned())).copied();
        assert_eq!(port(TCP, "http"), Some(80));
        assert_eq!(port(TCP, "www"), Some(80));
        assert_eq!(port(UDP, "http"), None);
        assert_eq!(port(UDP, "x"), Some(1));
        assert_eq!(services.len(), 3);
    }
}
