//! Reads the Internet's routes from files of Debian's python3-pyasn, which are made from RouteViews: one route per
//! line, the prefix and the number of the autonomous system that announces it. Lines that begin with `;` are
//! comments.

use std::fs;
use std::net::IpAddr;
use std::path::Path;
use std::str::FromStr;

use anyhow::{Context, ensure};
use millrace_elements::ip::lookup::{Address, Prefix};

/// The networks of one address family in a file, each with its autonomous system.
///
/// # Errors
/// The file cannot be read, or has another format.
pub(crate) fn read<A: Address + FromStr>(file: &Path) -> anyhow::Result<Vec<(Prefix<A>, u32)>> {
    let text = fs::read_to_string(file).with_context(|| file.display().to_string())?;
    let lines = (1..).zip(text.lines()).filter(|(_, line)| !line.starts_with(';'));
    let routes = lines.filter_map(|(number, line)| {
        parse(line).with_context(|| format!("{}, line {number}", file.display())).transpose()
    });
    routes.collect()
}

/// The neighbour, one of 64 as in a large router, to which the routes of a system lead. It depends only on the
/// system's number.
pub(crate) fn neighbour(system: u32) -> u32 {
    // The upper bits of a multiple of an odd number are distributed well (Knuth, The Art of Computer Programming,
    // 6.4).
    system.wrapping_mul(2_654_435_761) >> 26
}

/// The route of a line; `None` if it belongs to the other family.
fn parse<A: Address + FromStr>(line: &str) -> anyhow::Result<Option<(Prefix<A>, u32)>> {
    let mut words = line.split_whitespace();
    let prefix = words.next().and_then(|word| word.split_once('/'));
    let (address, length) = prefix.with_context(|| format!("‘{line}’ has no prefix"))?;
    let system = words.next().with_context(|| format!("‘{line}’ has no number"))?;
    let system = system.parse().with_context(|| system.to_owned())?;
    let length: u8 = length.parse().with_context(|| length.to_owned())?;
    address.parse::<IpAddr>().with_context(|| address.to_owned())?;
    let Ok(address) = address.parse::<A>() else { return Ok(None) };
    let prefix = Prefix::around(address.to_bits(), length);
    let is_network = length <= A::LENGTH && prefix.first() == address.to_bits();
    ensure!(is_network, "{address}/{length} is no network");
    Ok(Some((prefix, system)))
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, Ipv6Addr};

    use super::*;

    #[test]
    fn a_line_is_a_route_of_one_family() {
        let (prefix, system) = parse::<Ipv4Addr>("1.0.128.0/17\t9737").unwrap().unwrap();
        assert_eq!((prefix.to_string().as_str(), system), ("1.0.128.0/17", 9737));
        assert!(parse::<Ipv6Addr>("1.0.128.0/17\t9737").unwrap().is_none());
        let (prefix, system) = parse::<Ipv6Addr>("2001::/32\t3").unwrap().unwrap();
        assert_eq!((prefix.to_string().as_str(), system), ("2001::/32", 3));
        assert!(parse::<Ipv4Addr>("2001::/32\t3").unwrap().is_none());
        for line in
            ["1.0.128.0/17", "x 3", "x/8 3", "1.0.0.0/8 x", "1.0.0.1/24 3", "1.0.0.0/33 3", ""]
        {
            assert!(parse::<Ipv4Addr>(line).is_err(), "{line}");
        }
    }
}
