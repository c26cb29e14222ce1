//! What connections take in memory: in a program, and in the kernel.

use std::fs;

use anyhow::Context;

use super::hosts::Hosts;
use super::output;

const SLABS: &str = "/proc/slabinfo";

/// Bytes of a process that are in memory.
///
/// # Errors
/// It has ended.
pub(crate) fn resident(process: u32) -> anyhow::Result<f64> {
    let path = format!("/proc/{process}/status");
    let text = fs::read_to_string(&path).with_context(|| path.clone())?;
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:")).context(path)?;
    let kilobytes: f64 = line.trim().trim_end_matches(" kB").parse()?;
    Ok(kilobytes * 1024.0)
}

/// Bytes of the kernel's objects for connections: the entries, and the caches of general use that have what belongs to
/// an entry. Others use these caches, too, so this says something for many connections only.
///
/// # Errors
/// The kernel does not say.
pub(crate) fn of_conntrack() -> anyhow::Result<f64> {
    let text = fs::read_to_string(SLABS).context(SLABS)?;
    let caches = text.lines().filter_map(cache);
    let wanted = caches.filter(|(name, ..)| *name == "nf_conntrack" || is_extension(name));
    Ok(wanted.map(|(_, count, size)| count * size).sum())
}

/// The size of an object of a cache in bytes.
///
/// # Errors
/// There is no such cache.
pub(crate) fn object_size(wanted: &str) -> anyhow::Result<f64> {
    let text = fs::read_to_string(SLABS).context(SLABS)?;
    let size = text.lines().filter_map(cache).find(|(name, ..)| *name == wanted);
    Ok(size.with_context(|| format!("{SLABS} has no {wanted}"))?.2)
}

/// How many connections the kernel knows.
///
/// # Errors
/// It does not say.
pub(crate) fn connections(hosts: &Hosts) -> anyhow::Result<u64> {
    let mut command = hosts.between.command("sysctl");
    let said = output(command.args(["-n", "net.netfilter.nf_conntrack_count"]))?;
    Ok(said.trim().parse()?)
}

/// The sizes that the part of an entry may have which depends on what the rules need.
fn is_extension(name: &str) -> bool {
    ["kmalloc-96", "kmalloc-128", "kmalloc-192", "kmalloc-256"].contains(&name)
}

/// A line's cache, its objects in use, and their size.
fn cache(line: &str) -> Option<(&str, f64, f64)> {
    let mut fields = line.split_whitespace();
    let (name, count, _, size) = (fields.next()?, fields.next()?, fields.next()?, fields.next()?);
    Some((name, count.parse().ok()?, size.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_slabinfo_are_read() {
        let line = "nf_conntrack 32 64 256 16 1 : tunables 0 0 0 : slabdata 2 2 0";
        assert_eq!(cache(line), Some(("nf_conntrack", 32.0, 256.0)));
        assert_eq!(cache("# name <active_objs> <num_objs> <objsize>"), None);
    }
}
