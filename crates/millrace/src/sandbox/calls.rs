//! System calls (seccomp(2)): all threads make only those that a packet processor and its elements need.
//!
//! The list is what ordinary programs call (as systemd's `@system-service` has it) without what acts on the machine, on
//! other processes or on privileges. Any other call fails with EPERM, so a forgotten one is an error message of whoever
//! made it. If it is not known what the elements need, only what none can need is forbidden.

use std::collections::BTreeMap;
use std::env::consts::ARCH;

use libc::{
    CLONE_NEWCGROUP, CLONE_NEWIPC, CLONE_NEWNET, CLONE_NEWNS, CLONE_NEWPID, CLONE_NEWUSER,
    CLONE_NEWUTS, CLONE_THREAD, ENOSYS, EPERM, c_long,
};
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, apply_filter_all_threads, sock_filter,
};

use super::policy::Policy;

mod numbers;

use numbers::{ALWAYS, FOR_PROGRAMS, NEVER};

/// The rules of one filter: calls, and the arguments with which they match; without rules, any.
type Rules = BTreeMap<c_long, Vec<SeccompRule>>;

/// Restricts all threads of the process.
///
/// # Errors
/// The kernel refuses.
pub(super) fn restrict(policy: &Policy) -> Result<(), String> {
    // The same calls have other numbers there.
    #[cfg(target_arch = "x86_64")]
    apply_filter_all_threads(&foreign_numbers()).map_err(|error| error.to_string())?;
    if policy.unknown.is_some() {
        return apply(refused()?, Matching::Refused);
    }
    let own = u64::from(std::process::id());
    let mut rules = allowed(policy, own)?;
    // The C library does with clone(2) then, whose arguments a filter can see. This filter comes first, for the other
    // one allows no further filters; of two answers the stricter one counts.
    apply([(libc::SYS_clone3, Vec::new())].into(), Matching::Missing)?;
    rules.insert(libc::SYS_clone3, Vec::new());
    apply(rules, Matching::Allowed)
}

/// Refuses calls by their numbers of the x32 interface, which the kernel takes for calls of this architecture (seccomp(2)).
/// Each filter ends a process that makes calls by the numbers of another architecture.
#[cfg(target_arch = "x86_64")]
fn foreign_numbers() -> BpfProgram {
    /// A = the number of the call: the first field of `struct seccomp_data`.
    const LOAD_NUMBER: u16 = 0x20;
    const JUMP_IF_NOT_LESS: u16 = 0x35;
    const RETURN: u16 = 0x06;
    const X32: u32 = 0x4000_0000;
    let then = |code, jt, jf, k| sock_filter { code, jt, jf, k };
    vec![
        then(LOAD_NUMBER, 0, 0, 0),
        then(JUMP_IF_NOT_LESS, 0, 1, X32),
        then(RETURN, 0, 0, libc::SECCOMP_RET_ERRNO | EPERM as u32),
        then(RETURN, 0, 0, libc::SECCOMP_RET_ALLOW),
    ]
}

/// What happens to calls that match a rule; all others get the contrary.
#[derive(Clone, Copy)]
enum Matching {
    Allowed,
    Refused,
    Missing,
}

fn apply(rules: Rules, matching: Matching) -> Result<(), String> {
    let (matching, other) = match matching {
        Matching::Allowed => (SeccompAction::Allow, SeccompAction::Errno(EPERM as u32)),
        Matching::Refused => (SeccompAction::Errno(EPERM as u32), SeccompAction::Allow),
        Matching::Missing => (SeccompAction::Errno(ENOSYS as u32), SeccompAction::Allow),
    };
    let arch = ARCH.try_into().map_err(|_| format!("not known for {ARCH}"))?;
    let filter = SeccompFilter::new(rules, other, matching, arch);
    let program: BpfProgram =
        filter.and_then(TryInto::try_into).map_err(|error| error.to_string())?;
    apply_filter_all_threads(&program).map_err(|error| error.to_string())
}

/// The commands of a call, in its second argument, that no element needs.
///
/// Characters put into the terminal would be commands of whoever types there next. The owner of a file may be any process
/// of the same user, and gets a signal when the file becomes ready, of any number.
const COMMANDS: [(c_long, &[u64]); 2] = [
    (libc::SYS_ioctl, &[libc::TIOCSTI, libc::TIOCLINUX, FIOSETOWN, SIOCSPGRP]),
    (libc::SYS_fcntl, &[libc::F_SETOWN as u64, F_SETSIG, F_SETOWN_EX]),
];
/// Of `asm-generic/sockios.h` and `asm-generic/fcntl.h`.
const FIOSETOWN: u64 = 0x8901;
const SIOCSPGRP: u64 = 0x8902;
const F_SETSIG: u64 = 10;
const F_SETOWN_EX: u64 = 15;

/// The calls that nothing is allowed.
fn refused() -> Result<Rules, String> {
    let mut rules: Rules = NEVER.iter().map(|&call| (call, Vec::new())).collect();
    for (call, commands) in COMMANDS {
        let each: Result<Vec<_>, _> = commands.iter().map(|&it| rule([equals(1, it)?])).collect();
        rules.insert(call, each?);
    }
    Ok(rules)
}

/// The calls that a policy allows to the process with this number.
fn allowed(policy: &Policy, own: u64) -> Result<Rules, String> {
    let mut rules: Rules = ALWAYS.iter().map(|&call| (call, Vec::new())).collect();
    for (call, commands) in COMMANDS {
        let others: Result<Vec<_>, _> = commands.iter().map(|&it| equals_not(1, it)).collect();
        rules.insert(call, vec![rule(others?)?]);
    }
    rules.insert(libc::SYS_tgkill, vec![rule([equals(0, own)?])?]);
    rules.insert(libc::SYS_clone, vec![rule([has(0, CLONE_THREAD)?])?]);
    rules.insert(libc::SYS_kill, vec![rule([equals(0, own)?])?]);
    rules.insert(libc::SYS_prlimit64, vec![rule([equals(0, 0)?])?, rule([equals(0, own)?])?]);
    // Control sockets take rights away from others; nobody gives them any.
    rules.insert(libc::SYS_fchmod, vec![rule([has_none(1, !0o600)?])?]);
    // Of a pair of datagram sockets each could send to any other one of the machine.
    let pairs = [is_kind(libc::SOCK_STREAM)?, is_kind(libc::SOCK_SEQPACKET)?];
    let pairs: Result<Vec<SeccompRule>, String> =
        pairs.into_iter().map(|kind| rule([kind])).collect();
    rules.insert(libc::SYS_socketpair, pairs?);
    if !policy.programs.is_empty() {
        rules.extend(FOR_PROGRAMS.iter().map(|&call| (call, Vec::new())));
        const NAMESPACES: i32 = CLONE_NEWCGROUP
            | CLONE_NEWIPC
            | CLONE_NEWNET
            | CLONE_NEWNS
            | CLONE_NEWPID
            | CLONE_NEWUSER
            | CLONE_NEWUTS;
        rules.insert(libc::SYS_clone, vec![rule([has_none(0, NAMESPACES)?])?]);
    }
    if policy.kernel_programs {
        rules.insert(libc::SYS_bpf, Vec::new());
    }
    if policy.connects() {
        rules.insert(libc::SYS_connect, Vec::new());
    }
    let sockets = sockets(policy)?;
    if !sockets.is_empty() {
        rules.insert(libc::SYS_socket, sockets);
    }
    Ok(rules)
}

/// The sockets that may be opened.
fn sockets(policy: &Policy) -> Result<Vec<SeccompRule>, String> {
    let mut families = Vec::new();
    if policy.unix_sockets_anywhere {
        families.push(libc::AF_UNIX);
    }
    if policy.inet_sockets {
        families.extend([libc::AF_INET, libc::AF_INET6]);
    }
    if policy.raw_sockets {
        families.push(libc::AF_PACKET);
    }
    if policy.network_settings || policy.kernel_programs {
        families.push(libc::AF_NETLINK);
    }
    if policy.kernel_programs {
        families.push(libc::AF_XDP);
    }
    let mut rules = Vec::new();
    for &family in &families {
        rules.push(rule([equals(0, family as u64)?])?);
    }
    let has_devices = policy.raw_sockets || policy.network_settings || policy.kernel_programs;
    if has_devices && !policy.inet_sockets {
        // With which one asks about interfaces.
        let datagrams = is_kind(libc::SOCK_DGRAM)?;
        rules.push(rule([equals(0, libc::AF_INET as u64)?, datagrams])?);
    }
    let streams = |family: i32| rule([equals(0, family as u64)?, is_kind(libc::SOCK_STREAM)?]);
    if policy.unix_listeners && !policy.unix_sockets_anywhere {
        // Without connect(2), they reach nobody.
        rules.push(streams(libc::AF_UNIX)?);
    }
    if !policy.tcp_ports.is_empty() && !policy.inet_sockets {
        rules.push(streams(libc::AF_INET)?);
        rules.push(streams(libc::AF_INET6)?);
    }
    Ok(rules)
}

fn rule(conditions: impl Into<Vec<SeccompCondition>>) -> Result<SeccompRule, String> {
    SeccompRule::new(conditions.into()).map_err(|error| error.to_string())
}

fn condition(argument: u8, is: SeccompCmpOp, value: u64) -> Result<SeccompCondition, String> {
    SeccompCondition::new(argument, SeccompCmpArgLen::Dword, is, value)
        .map_err(|error| error.to_string())
}

fn equals(argument: u8, value: u64) -> Result<SeccompCondition, String> {
    condition(argument, SeccompCmpOp::Eq, value)
}

fn equals_not(argument: u8, value: u64) -> Result<SeccompCondition, String> {
    condition(argument, SeccompCmpOp::Ne, value)
}

/// The kind of socket(2) and socketpair(2), without flags.
fn is_kind(kind: i32) -> Result<SeccompCondition, String> {
    const KIND: u64 = 0xf;
    condition(1, SeccompCmpOp::MaskedEq(KIND), u64::from(kind.cast_unsigned()))
}

fn has(argument: u8, flag: i32) -> Result<SeccompCondition, String> {
    let flag = u64::from(flag.cast_unsigned());
    condition(argument, SeccompCmpOp::MaskedEq(flag), flag)
}

fn has_none(argument: u8, flags: i32) -> Result<SeccompCondition, String> {
    condition(argument, SeccompCmpOp::MaskedEq(u64::from(flags.cast_unsigned())), 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_never_allowed_is_not_allowed_either_when_all_is_needed() {
        let policy = Policy {
            inet_sockets: true,
            unix_sockets_anywhere: true,
            raw_sockets: true,
            network_settings: true,
            programs: ["gzip".to_owned()].into(),
            ..Policy::default()
        };
        let rules = allowed(&policy, 1).unwrap();
        let forbidden: Vec<_> = NEVER.iter().filter(|call| rules.contains_key(call)).collect();
        assert!(forbidden.is_empty(), "{forbidden:?}");
        assert!(!rules.contains_key(&libc::SYS_bpf));
    }

    #[test]
    fn no_other_process_gets_a_signal_even_where_programs_are_started() {
        let policy = Policy { programs: ["gzip".to_owned()].into(), ..Policy::default() };
        let rules = allowed(&policy, 77).unwrap();
        let own = vec![rule([equals(0, 77).unwrap()]).unwrap()];
        assert_eq!(rules[&libc::SYS_kill], own);
        assert_eq!(rules[&libc::SYS_tgkill], own);
        // The owner of a file gets signals, too; each allowing rule excludes the commands that name one.
        let fcntl = &rules[&libc::SYS_fcntl];
        let excluded = [8, F_SETSIG, F_SETOWN_EX].map(|it| equals_not(1, it).unwrap());
        assert_eq!(*fcntl, [rule(excluded).unwrap()]);
        for call in [libc::SYS_pidfd_send_signal, libc::SYS_tkill, libc::SYS_rt_sigqueueinfo] {
            assert!(!rules.contains_key(&call), "{call}");
        }
    }

    #[test]
    fn programs_and_sockets_are_for_those_who_need_them() {
        let rules = allowed(&Policy::default(), 1).unwrap();
        assert!(!rules.contains_key(&libc::SYS_execve));
        assert!(!rules.contains_key(&libc::SYS_socket));
        assert!(!rules.contains_key(&libc::SYS_connect));
        assert!(!rules.contains_key(&libc::SYS_fchmodat));
        let policy = Policy { raw_sockets: true, ..Policy::default() };
        // Packets, and questions.
        assert_eq!(allowed(&policy, 1).unwrap()[&libc::SYS_socket].len(), 2);
    }
}
