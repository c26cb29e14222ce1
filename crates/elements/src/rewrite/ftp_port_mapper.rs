//! FTPPortMapper - translates the PORT commands of FTP connections through NAT
//!
//! # Synopsis
//! `FTPPortMapper(CONTROL_REWRITER, DATA_REWRITER, DATA_REWRITER_INPUT)`
//!
//! # Description
//! In active FTP (RFC 959), the client's PORT command gives the address and port that the server connects to. Behind an
//! address translator, nothing outside can reach that address. Send the packets of FTP control connections through this
//! element on their way to CONTROL_REWRITER. If a packet begins with a PORT command:
//! - DATA_REWRITER gets a mapping for the data connection, as if a packet of it had arrived at its input
//!   DATA_REWRITER_INPUT: from the address and port in the command to the packet's destination address and the port one
//!   below that of the control connection.
//! - The address and port in the command become those of the mapping.
//! - Lengths and checksums are corrected. CONTROL_REWRITER shifts the sequence numbers of later packets, because the
//!   command may have become longer or shorter.
//!
//! This element does not change the addresses and ports in headers. A packet passes unchanged if it does not begin with
//! a PORT command, if the command does not end within the packet, if CONTROL_REWRITER has no mapping for its
//! connection, or if DATA_REWRITER makes no mapping.
//!
//! # Arguments
//! - CONTROL_REWRITER: a TCPRewriter or IPRewriter, downstream of this element. Mandatory.
//! - DATA_REWRITER: a rewriter, the same or another one. Mandatory.
//! - DATA_REWRITER_INPUT: one of its inputs. Mandatory.
//!
//! # Ports
//! One agnostic input, one agnostic output.
//!
//! # Handlers
//! None of its own.
//!
//! # Drops
//! None.
//!
//! # Example
//! ```click
//! ftp :: FTPPortMapper(rw, rw, 0);
//! rw :: TCPRewriter(pattern 1.0.0.1 1024-65535 - - 0 1, drop);
//! Idle -> ftp -> rw -> Discard;
//! Idle -> [1] rw [1] -> Discard;
//! ```
//!
//! # See also
//! TCPRewriter, IPRewriter

use std::sync::{Arc, OnceLock};

use millrace_core::args::Word;
use millrace_core::checksum::Sum;
use millrace_core::headers::protocol;
use millrace_core::{
    Class, Element, Failed, Init, Moment, Packet, PerPacket, Refused, Setup, View, Way, register,
};

use super::mappings::family::Family;
use super::mappings::transport;
use super::rewriter::Rewriter;
use crate::flows::checksum::{field, update};
use crate::flows::key::FlowId;

/// The element; its manual is at the top of the file.
pub struct FtpPortMapper {
    control: String,
    data: String,
    input: usize,
    rewriters: OnceLock<[Arc<Rewriter>; 2]>,
}

register!(FtpPortMapper, "ftp_port_mapper.rs");

impl Element for FtpPortMapper {
    const CLASS: Class = Class::new("FTPPortMapper", "1/1", "a/a");
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        let control: Word = setup.args.mandatory("CONTROL_REWRITER");
        let data: Word = setup.args.mandatory("DATA_REWRITER");
        let input: i32 = setup.args.mandatory("DATA_REWRITER_INPUT");
        if input < 0 {
            setup.args.error("DATA_REWRITER_INPUT", "DATA_REWRITER_INPUT out of range");
        }
        setup.args.complete()?;
        Ok(Self {
            control: control.as_str().to_owned(),
            data: data.as_str().to_owned(),
            input: usize::try_from(input).unwrap_or(0),
            rewriters: OnceLock::new(),
        })
    }

    fn initialize(&self, init: &mut Init<'_>) -> Result<(), Refused> {
        let router = init.router();
        let rewriter = |name| router.offered::<Rewriter>(router.resolve(init.id(), name)?);
        let control = rewriter(&self.control)
            .filter(|rewriter| matches!(rewriter.family, Family::Ip | Family::Tcp))
            .ok_or("CONTROL_REWRITER: element type mismatch, expected TCPRewriter")?;
        let data = rewriter(&self.data)
            .ok_or("DATA_REWRITER: element type mismatch, expected IPRewriterBase")?;
        if self.input >= data.inputs().len() {
            return Err("DATA_REWRITER_INPUT out of range".into());
        }
        // An element is initialised only once.
        let _ = self.rewriters.set([control, data]);
        Ok(())
    }
}

impl PerPacket for FtpPortMapper {
    fn treat(&self, (): &mut (), packet: &mut View, at: &mut Moment) -> Way {
        packet.with_packet(|packet| self.translate(at, packet));
        Way::ON
    }
}

impl FtpPortMapper {
    /// Rewrites a PORT command, if the packet has one. Returns `None` if the packet stays unchanged.
    fn translate(&self, at: &mut Moment, packet: &mut Packet) -> Option<()> {
        let [control, data] = self.rewriters.get()?;
        let (flow, protocol) = transport::read(packet).ok()?;
        let bytes = packet.network_data().filter(|_| protocol == protocol::TCP)?;
        let header_len = usize::from(bytes.first()? & 0xf) * 4;
        let tcp = bytes.get(header_len..)?;
        let payload_at = header_len + usize::from(tcp.get(12)? >> 4) * 4;
        let payload = bytes.get(payload_at..).filter(|_| payload_at >= header_len + 20)?;
        let command = Command::parse(payload)?;
        let now = at.now();
        let (set, found, key) = control.lookup(protocol::TCP, flow, false, None)?;
        let destination = (flow.destination(), flow.destination_port().wrapping_sub(1));
        let wanted = FlowId::new((command.address, command.port), destination);
        let make = Some((self.input, now));
        let (data_set, data_found, data_key) = data.lookup(protocol::TCP, wanted, false, make)?;
        let to = data_set.table.view(data_found, data_key)?.to;
        let view = set.table.view(found, key)?;
        let ([a, b, c, d], [high, low]) =
            (to.source().to_be_bytes(), to.source_port().to_be_bytes());
        let text = format!("{a},{b},{c},{d},{high},{low}");
        let (place, old_payload) = (command.place, payload.len());
        let new: Vec<u8> =
            [payload.get(..place.start)?, text.as_bytes(), payload.get(place.end..)?].concat();
        let by = i32::try_from(new.len()).ok()? - i32::try_from(old_payload).ok()?;
        let sequence = u32::from_be_bytes(*tcp.get(4..)?.first_chunk()?);
        // The shift starts after this packet.
        let from = sequence.wrapping_add(u32::try_from(old_payload).ok()?);
        set.shifts().entry(found.record).or_default().add(found.reply, from, by);
        Rewriter::mark_shifted(&view);
        data_set.table.record(data_found.record)?.take_annotation(view.state);
        write(packet, (header_len, payload_at), &new)
    }
}

/// Replaces the payload of a segment, and corrects lengths and checksums.
fn write(packet: &mut Packet, (header_len, payload_at): (usize, usize), new: &[u8]) -> Option<()> {
    let old = packet.network_data()?.len() - payload_at;
    match new.len().checked_sub(old) {
        Some(more) => {
            packet.append(more);
        }
        // This is at most the length of the packet.
        None => drop(packet.trim(old - new.len())),
    }
    let bytes = packet.network_data_mut()?;
    bytes.get_mut(payload_at..)?.copy_from_slice(new);
    let total = u16::try_from(bytes.len()).unwrap_or(u16::MAX);
    let len = field::<2>(bytes, 2)?;
    let old = u16::from_be_bytes(*len);
    *len = total.to_be_bytes();
    let sum = u32::from(!old) + u32::from(total);
    update(field(bytes, 10), ((sum & 0xffff) + (sum >> 16)) as u16);
    let head: [u8; 20] = *bytes.first_chunk()?;
    let tcp = bytes.get_mut(header_len..)?;
    *field(tcp, 16)? = [0, 0];
    let addresses: [u8; 8] = *head.last_chunk()?;
    let sum = Sum::of(&addresses).add_u16(protocol::TCP.into());
    let sum = sum.add_u16(u16::try_from(tcp.len()).unwrap_or(u16::MAX)).add_bytes(tcp);
    *field(tcp, 16)? = sum.finish().to_be_bytes();
    Some(())
}

/// The address and port in a PORT command, and the position of its argument.
#[derive(Debug, PartialEq, Eq)]
struct Command {
    address: u32,
    port: u16,
    place: std::ops::Range<usize>,
}

impl Command {
    fn parse(payload: &[u8]) -> Option<Self> {
        let (word, rest) = payload.split_at_checked(5)?;
        if !word.eq_ignore_ascii_case(b"PORT ") {
            return None;
        }
        let spaces = rest.iter().take_while(|byte| **byte == b' ').count();
        let rest = rest.get(spaces..)?;
        let len = rest.iter().position(|byte| !byte.is_ascii_digit() && *byte != b',')?;
        let (argument, end) = rest.split_at_checked(len)?;
        if !matches!(end.first(), Some(b'\r' | b'\n')) {
            return None;
        }
        let number = |digits: &[u8]| {
            let add =
                |sum: u32, digit: &u8| sum.saturating_mul(10).saturating_add((digit - b'0').into());
            u8::try_from(digits.iter().fold(0, add)).ok()
        };
        let numbers = argument.split(|byte| *byte == b',').map(number);
        let numbers: Vec<u8> = numbers.collect::<Option<_>>()?;
        let [a, b, c, d, high, low] = *numbers.as_slice() else { return None };
        let start = 5 + spaces;
        Some(Self {
            address: u32::from_be_bytes([a, b, c, d]),
            port: u16::from_be_bytes([high, low]),
            place: start..start + len,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_parsed() {
        let command = |text: &str| Command::parse(text.as_bytes());
        let wanted = Command { address: 0x0102_0304, port: 5 * 256 + 6, place: 7..18 };
        assert_eq!(command("port   1,2,3,4,5,6\r\n"), Some(wanted));
        for wrong in [
            "PORT 1,2,3,4,5,6",
            "PORT 1,2,3,4,5\n",
            "PORT 1,2,3,4,5,256\n",
            "PORT 1,2,3,4,5,6,7\n",
            "PORT 1,2,3,4,5,6 \n",
            "PASV\n",
            "PORT ",
        ] {
            assert_eq!(command(wrong), None, "{wrong}");
        }
    }
}
