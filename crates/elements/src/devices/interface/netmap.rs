//! Parses names of netmap ports: `netmap:eth0`, `netmap:eth0-2`, `vale0:eth1`.

use millrace_core::Args;

/// A port's interface, and optionally one of its queues.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Port {
    /// The interface's name.
    pub interface: String,
    /// The queue; None for all queues.
    pub queue: Option<usize>,
}

/// Reads DEVNAME.
pub(crate) fn port(args: &mut Args<'_>) -> Port {
    let name: String = args.mandatory("DEVNAME");
    parse(&name).unwrap_or_else(|problem| {
        args.error("DEVNAME", format!("‘{name}’: {problem}"));
        Port { interface: name, queue: None }
    })
}

/// Rejects FastClick's arguments that allow only one value here.
pub(crate) fn refuse_others(args: &mut Args<'_>) {
    for keyword in ["VLAN_FILTER", "VLAN_STRIP", "VLAN_EXTEND", "LRO", "JUMBO"] {
        if args.positional(keyword, false) {
            let problem = format!("{keyword} is not set up here: use ethtool or ip link before");
            args.error(keyword, problem);
        }
    }
}

/// The interface that a netmap port name denotes (netmap(4), `nm_open` in `net/netmap_user.h`). A
/// port of a VALE switch denotes the interface after the colon, which would be attached to the
/// switch.
///
/// The name denotes no interface; the error is part of a sentence.
pub fn parse(name: &str) -> Result<Port, &'static str> {
    const SWITCH: &str = "a port of netmap's own switch that has no name of an interface";
    let name = match name.strip_prefix("netmap:") {
        Some(name) => name,
        None if name.starts_with("vale") => name.split_once(':').ok_or(SWITCH)?.1,
        None => name,
    };
    let (name, flags) = name.split_once('/').unwrap_or((name, ""));
    // Flags for exclusive use or one direction make no difference here.
    if flags.contains(|flag| !"xRT".contains(flag)) {
        return Err("monitors are a matter of netmap; use Tee");
    }
    if name.contains(['^', '*', '{', '}', '@']) {
        return Err("the kernel's rings, pipes and memory regions are a matter of netmap");
    }
    let numbered = name.rsplit_once('-').and_then(|(interface, queue)| {
        let digits = !queue.is_empty() && queue.bytes().all(|byte| byte.is_ascii_digit());
        let queue = queue.parse().ok().filter(|_| digits && !interface.is_empty())?;
        Some(Port { interface: interface.to_owned(), queue: Some(queue) })
    });
    let port = numbered.unwrap_or_else(|| Port { interface: name.to_owned(), queue: None });
    if port.interface.is_empty() { Err("there is no name of an interface") } else { Ok(port) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn port_names_are_parsed() {
        for (name, interface, queue) in [
            ("netmap:eth0", "eth0", None),
            ("netmap:eth0-2", "eth0", Some(2)),
            ("netmap:br-lan", "br-lan", None),
            ("netmap:br-lan-0/x", "br-lan", Some(0)),
            ("eth1", "eth1", None),
            ("vale0:veth7", "veth7", None),
        ] {
            let port = Port { interface: interface.to_owned(), queue };
            assert_eq!(parse(name), Ok(port), "{name}");
        }
        for bad in ["", "netmap:", "vale0", "netmap:eth0^", "netmap:eth0{1", "netmap:eth0/z"] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }
}
