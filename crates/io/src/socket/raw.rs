//! Raw IPv4 sockets (raw(7)).

#![allow(unsafe_code, reason = "socket options that rustix does not have")]

use std::io;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::AsRawFd;

use libc::{c_int, socklen_t};
use rustix::net::{AddressFamily, Protocol, SocketFlags, SocketType, sockopt};

use super::{Address, Failure, Options, Socket, step};

/// A raw socket and the port that it reserves.
#[derive(Debug)]
pub struct Raw {
    /// The socket.
    pub socket: Socket,
    /// Reserves a port, so that no other program uses it and the kernel does not answer for it.
    _claim: Option<Socket>,
}

const TCP: u8 = 6;
const UDP: u8 = 17;
const ICMP: u8 = 1;
const GRE: u8 = 47;

impl Raw {
    /// A socket that receives the machine's incoming IP packets of a protocol, including headers, and sends
    /// IP packets. With a port it receives only packets to that port: a port of TCP or UDP, the identifier of
    /// ICMP queries and replies, the key of GRE (or the call of PPTP, its lower half). Needs root or
    /// CAP_NET_RAW.
    ///
    /// # Errors
    /// The system refuses an operation.
    pub fn open(protocol: u8, port: Option<u16>) -> Result<Self, Failure> {
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let number = std::num::NonZeroU32::new(protocol.into()).map(Protocol::from_raw);
        let (inet, raw) = (AddressFamily::INET, SocketType::RAW);
        let fd = rustix::net::socket_with(inet, raw, flags, number)
            .map_err(|error| Failure { needs: Some("cap_net_raw"), ..step("socket")(error) })?;
        let socket = Socket { fd, file: None };
        set(&socket, libc::IPPROTO_IP, libc::IP_HDRINCL, &1).map_err(step("IP_HDRINCL"))?;
        sockopt::set_socket_broadcast(&socket.fd, true).map_err(step("SO_BROADCAST"))?;
        let claim = port.map(|port| claim(protocol, port)).transpose()?.flatten();
        if let Some(port) = port {
            attach(&socket, &filter(protocol, port)).map_err(step("SO_ATTACH_FILTER"))?;
        }
        Ok(Self { socket, _claim: claim })
    }
}

/// Reserves a port of TCP or UDP.
fn claim(protocol: u8, port: u16) -> Result<Option<Socket>, Failure> {
    let address = Address::Inet(SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, port));
    let kind = match protocol {
        TCP => SocketType::STREAM,
        UDP => SocketType::DGRAM,
        _ => return Ok(None),
    };
    let socket = Socket::new(&address, kind, &Options::default())?.bound_to(&address)?;
    // What comes is not to pile up there.
    attach(&socket, &[(RETURN, 0, 0, 0)]).map_err(step("SO_ATTACH_FILTER"))?;
    Ok(Some(socket))
}

/// A BPF instruction: code, jump if true, jump if false, operand (bpf(4)).
type Instruction = (u16, u8, u8, u32);

/// Accepts this many bytes of the packet.
const RETURN: u16 = 0x06;

/// A program that accepts packets to a port. Packets begin with their IP header.
fn filter(protocol: u8, port: u16) -> Vec<Instruction> {
    /// X = 4 * (P[k] & 0xf): the length of the IP header.
    const LOAD_HEADER_LENGTH: u16 = 0xb1;
    /// A = the 16 or 8 bits at X + k, or the 16 at k.
    const LOAD_16_BEHIND: u16 = 0x48;
    const LOAD_8_BEHIND: u16 = 0x50;
    const LOAD_16: u16 = 0x28;
    const AND: u16 = 0x54;
    const JUMP_IF_EQUAL: u16 = 0x15;
    const JUMP_IF_SET: u16 = 0x45;
    const WHOLE: Instruction = (RETURN, 0, 0, u32::MAX);
    const NOTHING: Instruction = (RETURN, 0, 0, 0);
    let port = u32::from(port);
    let header = (LOAD_HEADER_LENGTH, 0, 0, 0);
    // Fragments but the first have no port.
    let first = |others: u8| [(LOAD_16, 0, 0, 6), (JUMP_IF_SET, others, 0, 0x1fff)];
    match protocol {
        TCP | UDP => {
            let [load, jump] = first(4);
            vec![
                load,
                jump,
                header,
                (LOAD_16_BEHIND, 0, 0, 2),
                (JUMP_IF_EQUAL, 0, 1, port),
                WHOLE,
                NOTHING,
            ]
        }
        ICMP => {
            let [load, jump] = first(4);
            vec![
                load,
                jump,
                header,
                (LOAD_16_BEHIND, 0, 0, 4),
                (JUMP_IF_EQUAL, 0, 1, port),
                WHOLE,
                NOTHING,
            ]
        }
        GRE => {
            // The key follows the flags and the protocol, and a checksum if the first flag is set; PPTP
            // has no checksum. Its lower half, where a call's number is, comes last.
            let [load, jump] = first(10);
            vec![
                load,
                jump,
                header,
                (LOAD_8_BEHIND, 0, 0, 0),
                (JUMP_IF_SET, 0, 7, 0x20),
                (AND, 0, 0, 0x80),
                (JUMP_IF_EQUAL, 0, 2, 0),
                (LOAD_16_BEHIND, 0, 0, 6),
                (JUMP_IF_EQUAL, 2, 3, port),
                (LOAD_16_BEHIND, 0, 0, 10),
                (JUMP_IF_EQUAL, 0, 1, port),
                WHOLE,
                NOTHING,
            ]
        }
        _ => vec![WHOLE],
    }
}

/// Makes the kernel keep packets that a program rejects from the socket.
fn attach(socket: &Socket, program: &[Instruction]) -> io::Result<()> {
    let instruction = |&(code, jt, jf, k): &Instruction| libc::sock_filter { code, jt, jf, k };
    let mut instructions: Vec<libc::sock_filter> = program.iter().map(instruction).collect();
    let len = u16::try_from(instructions.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
    // The kernel copies the instructions while `set` runs; they live until after it.
    let program = libc::sock_fprog { len, filter: instructions.as_mut_ptr() };
    set(socket, libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, &program)
}

fn set<T: Copy>(socket: &Socket, level: c_int, option: c_int, value: &T) -> io::Result<()> {
    // SAFETY: `value` is valid for reading, and its size is given.
    let result = unsafe {
        libc::setsockopt(
            socket.fd.as_raw_fd(),
            level,
            option,
            std::ptr::from_ref(value).cast(),
            size_of::<T>() as socklen_t,
        )
    };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
