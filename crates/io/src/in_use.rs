//! Which interfaces the machine itself depends on.

use std::fs::{read_dir, read_to_string};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use nix::ifaddrs::getifaddrs;

/// What the machine's own network stack needs an interface for, in words: a default route, or an address that open
/// TCP connections use; its own, or those of a bridge, a bond or a VLAN that it carries. Empty if taking the interface
/// cuts nobody off, and if nothing is known about it.
pub fn uses(device: &str) -> Vec<String> {
    let mut found = own_uses(device);
    for upper in carried_by(device) {
        found
            .extend(own_uses(&upper).into_iter().map(|used| format!("it carries {upper}: {used}")));
    }
    found
}

/// The interfaces that send and receive by this one, directly or by others.
fn carried_by(device: &str) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    let mut todo = vec![device.to_owned()];
    while let Some(lower) = todo.pop() {
        let Ok(links) = read_dir(format!("/sys/class/net/{lower}")) else { continue };
        let names = links.filter_map(|link| link.ok()?.file_name().into_string().ok());
        for upper in names.filter_map(|name| Some(name.strip_prefix("upper_")?.to_owned())) {
            if upper != device && !all.contains(&upper) {
                todo.push(upper.clone());
                all.push(upper);
            }
        }
    }
    all
}

fn own_uses(device: &str) -> Vec<String> {
    let table =
        |name: &str| read_to_string(format!("/proc/thread-self/net/{name}")).unwrap_or_default();
    let mut uses = Vec::new();
    let table6 = table("ipv6_route");
    let mut six = default_routes_v6(&table6).filter(|(interface, _)| *interface == device);
    if default_routes_v4(&table("route")).any(|interface| interface == device) {
        uses.push("it has the default route".to_owned());
    } else if let Some((_, is_advertised)) = six.next() {
        uses.push(match is_advertised {
            false => "it has the default route".to_owned(),
            // Whoever gives the interface away seldom knows that the kernel listens to routers there.
            true => format!(
                "it has the default route, which a router has advertised: ‘sysctl net.ipv6.conf.{device}.accept_ra=0’ \
                 keeps this machine from listening to such, ‘ip -6 route flush dev {device} proto ra’ forgets it"
            ),
        });
    }
    let connected: Vec<IpAddr> =
        connected(&table("tcp")).chain(connected(&table("tcp6"))).collect();
    for address in addresses(device) {
        let count = connected.iter().filter(|local| **local == address).count();
        match count {
            0 => {}
            1 => uses.push(format!("a TCP connection uses its address {address}")),
            _ => uses.push(format!("{count} TCP connections use its address {address}")),
        }
    }
    uses
}

/// The addresses of an interface.
fn addresses(device: &str) -> Vec<IpAddr> {
    let Ok(all) = getifaddrs() else { return Vec::new() };
    let own = all.filter(|one| one.interface_name == device).filter_map(|one| one.address);
    own.filter_map(|address| match (address.as_sockaddr_in(), address.as_sockaddr_in6()) {
        (Some(v4), _) => Some(v4.ip().into()),
        (_, Some(v6)) => Some(v6.ip().into()),
        _ => None,
    })
    .collect()
}

/// The interfaces of default routes in the text of `/proc/net/route`: interface, destination, five fields, mask.
fn default_routes_v4(table: &str) -> impl Iterator<Item = &str> {
    table.lines().filter_map(|line| {
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        let is_zero = |at: usize| words.get(at).is_some_and(|word| word.bytes().all(|c| c == b'0'));
        (is_zero(1) && is_zero(7)).then(|| words.first().copied()).flatten()
    })
}

/// The interfaces of default routes in the text of `/proc/net/ipv6_route`: destination, its prefix length, six fields,
/// flags, interface. Returns the interface, and whether a router has advertised the route.
fn default_routes_v6(table: &str) -> impl Iterator<Item = (&str, bool)> {
    const REJECT: u32 = 0x200;
    const DEFAULT_AND_BY_ADVERTISEMENT: u32 = 0x5_0000;
    table.lines().filter_map(|line| {
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        let is_zero = |at: usize| words.get(at).is_some_and(|word| word.bytes().all(|c| c == b'0'));
        let flags = u32::from_str_radix(words.get(8)?, 16).ok()?;
        let is_default = is_zero(0) && is_zero(1) && flags & REJECT == 0;
        let is_advertised = flags & DEFAULT_AND_BY_ADVERTISEMENT == DEFAULT_AND_BY_ADVERTISEMENT;
        Some((words.get(9).copied().filter(|_| is_default)?, is_advertised))
    })
}

/// The local addresses of established connections in the text of `/proc/net/tcp` or `tcp6`: number, local address and
/// port, remote ones, state. An address is in words of four bytes in the machine's byte order.
fn connected(table: &str) -> impl Iterator<Item = IpAddr> {
    const ESTABLISHED: &str = "01";
    table.lines().filter_map(|line| {
        let mut words = line.split_ascii_whitespace();
        let local = words.nth(1)?;
        (words.nth(1)? == ESTABLISHED).then_some(())?;
        let (address, _port) = local.split_once(':')?;
        let word = |at: usize| {
            let digits = address.get(8 * at..8 * at + 8)?;
            Some(u32::from_str_radix(digits, 16).ok()?.to_ne_bytes())
        };
        if address.len() == 8 {
            return Some(Ipv4Addr::from(word(0)?).into());
        }
        let mut bytes = [0; 16];
        for (at, bytes) in bytes.chunks_exact_mut(4).enumerate() {
            bytes.copy_from_slice(&word(at)?);
        }
        Some(Ipv6Addr::from(bytes).to_canonical())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn default_routes_are_found_in_the_kernels_tables() {
        let v4 = "Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\tMTU\tWindow\tIRTT
eth0\t00000000\t0202000A\t0003\t0\t0\t0\t00000000\t0\t0\t0
eth1\t0000000A\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0\n";
        assert_eq!(default_routes_v4(v4).collect::<Vec<_>>(), ["eth0"]);
        let zero = "0".repeat(32);
        let v6 = format!(
            "{zero} 00 {zero} 00 fe800000000000000000000000000001 00000400 00000001 00000000 00450003 eth2\n\
             {zero} 00 {zero} 00 20010db8000000000000000000000001 00000400 00000001 00000000 00000003 eth3\n\
             {zero} 00 {zero} 00 {zero} ffffffff 00000001 00000000 00200200 lo\n"
        );
        assert_eq!(default_routes_v6(&v6).collect::<Vec<_>>(), [("eth2", true), ("eth3", false)]);
    }

    #[test]
    #[cfg(target_endian = "little")]
    fn established_connections_give_their_local_addresses() {
        let v4 = "  sl  local_address rem_address   st tx_queue rx_queue
   0: 0100007F:0016 00000000:0000 0A 00000000:00000000
   1: 0202000A:0016 0102000A:D2F0 01 00000000:00000000\n";
        assert_eq!(connected(v4).collect::<Vec<_>>(), [IpAddr::from([10, 0, 2, 2])]);
        let v6 = "   0: 0000000000000000FFFF00000202000A:0016 0000000000000000FFFF00000102000A:D2F0 01 0\n";
        assert_eq!(connected(v6).collect::<Vec<_>>(), [IpAddr::from([10, 0, 2, 2])]);
    }

    #[test]
    fn what_the_machine_does_not_use_may_be_taken() {
        assert_eq!(uses("no-such-name"), [""; 0]);
    }
}
