//! The program that the kernel runs on each packet: it sends the selected packets to the socket of their
//! queue, and leaves the others to the kernel.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::os::fd::{AsRawFd, OwnedFd};

use super::sys::Instruction;
use crate::rule::{IP, IP6, Network, Rule, Side};

/// The selected packets: those that match one of the rules of `only`, if there are any, and none of `except`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Selection {
    pub(super) only: Vec<Rule>,
    pub(super) except: Vec<Rule>,
}

impl Selection {
    pub(super) fn is_everything(&self) -> bool {
        self.only.is_empty() && self.except.is_empty()
    }
}

// Registers. 0 holds results, 1 to 5 arguments, 6 to 9 survive calls, 10 is the stack's end.
const RESULT: u8 = 0;
const ARG1: u8 = 1;
const ARG2: u8 = 2;
const ARG3: u8 = 3;
const SCRATCH: u8 = 4;
const END: u8 = 3;
/// The current header.
const HEADER: u8 = 2;
const CONTEXT: u8 = 6;
const ETHER_TYPE: u8 = 7;
const PROTOCOL: u8 = 8;
/// 1 if the ports are known.
const HAS_PORTS: u8 = 9;
const STACK: u8 = 10;

// What is kept on the stack, in the machine's byte order.
const SOURCE_PORT: i16 = -4;
const DESTINATION_PORT: i16 = -8;
const SOURCE_V4: i16 = -12;
const DESTINATION_V4: i16 = -16;
const SOURCE_V6: i16 = -32;
const DESTINATION_V6: i16 = -48;

// Operations (RFC 9669, section 4 and 5).
const ADD: u8 = 0x07;
const AND32: u8 = 0x54;
const SHIFT_LEFT: u8 = 0x67;
const MOVE: u8 = 0xbf;
const MOVE_VALUE: u8 = 0xb7;
const ADD_REGISTER: u8 = 0x0f;
const TO_BIG_ENDIAN: u8 = 0xdc;
const LOAD8: u8 = 0x71;
const LOAD16: u8 = 0x69;
const LOAD32: u8 = 0x61;
const STORE32: u8 = 0x63;
const STORE32_VALUE: u8 = 0x62;
const LOAD_MAP: u8 = 0x18;
const CALL: u8 = 0x85;
const EXIT: u8 = 0x95;
const GO: u8 = 0x05;
const IF_EQUAL: u8 = 0x15;
const IF_NOT_EQUAL: u8 = 0x55;
const IF_NOT_EQUAL32: u8 = 0x56;
const IF_GREATER: u8 = 0x25;
const IF_LESS: u8 = 0xa5;
const IF_GREATER_REGISTER: u8 = 0x2d;

// Fields of the context (`struct xdp_md`).
const DATA: i16 = 0;
const DATA_END: i16 = 4;
const QUEUE: i16 = 16;

const XDP_PASS: i32 = 2;
const BPF_FUNC_REDIRECT_MAP: i32 = 51;

/// A target of jumps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Label(usize);

/// A program under construction.
#[derive(Debug, Default)]
struct Assembler {
    instructions: Vec<Instruction>,
    /// The position of each label.
    places: Vec<Option<usize>>,
    /// Jumps, with their targets.
    jumps: Vec<(usize, Label)>,
}

impl Assembler {
    fn emit(&mut self, code: u8, to: u8, from: u8, offset: i16, value: i32) {
        self.instructions.push(Instruction { code, registers: from << 4 | to, offset, value });
    }

    fn label(&mut self) -> Label {
        self.places.push(None);
        Label(self.places.len() - 1)
    }

    fn place(&mut self, label: Label) {
        if let Some(place) = self.places.get_mut(label.0) {
            *place = Some(self.instructions.len());
        }
    }

    fn jump(&mut self, code: u8, register: u8, value: i32, to: Label) {
        self.jumps.push((self.instructions.len(), to));
        self.emit(code, register, 0, 0, value);
    }

    fn go(&mut self, to: Label) {
        self.jump(GO, 0, 0, to);
    }

    /// Jumps to `otherwise` unless the packet has `bytes` bytes from the current header on.
    fn need(&mut self, bytes: i32, otherwise: Label) {
        self.emit(MOVE, SCRATCH, HEADER, 0, 0);
        self.emit(ADD, SCRATCH, 0, 0, bytes);
        self.jumps.push((self.instructions.len(), otherwise));
        self.emit(IF_GREATER_REGISTER, SCRATCH, END, 0, 0);
    }

    /// Loads a field of the current header, in the machine's byte order.
    fn load(&mut self, to: u8, at: i16, bits: i32) {
        let code = match bits {
            8 => LOAD8,
            16 => LOAD16,
            _ => LOAD32,
        };
        self.emit(code, to, HEADER, at, 0);
        if bits > 8 {
            self.emit(TO_BIG_ENDIAN, to, 0, 0, bits);
        }
    }

    /// Stores a field of the current header on the stack.
    fn keep(&mut self, at: i16, bits: i32, place: i16) {
        self.load(SCRATCH, at, bits);
        self.emit(STORE32, STACK, SCRATCH, place, 0);
    }

    fn finish(mut self) -> Option<Vec<Instruction>> {
        for (from, to) in &self.jumps {
            let place = self.places.get(to.0).copied().flatten()?;
            let distance = place.checked_sub(from + 1)?;
            self.instructions.get_mut(*from)?.offset = i16::try_from(distance).ok()?;
        }
        Some(self.instructions)
    }
}

/// The program for a map of sockets by queue. `None` when there are more rules than fit in a program.
pub(super) fn assemble(map: &OwnedFd, selection: &Selection) -> Option<Vec<Instruction>> {
    build(map.as_raw_fd(), selection)
}

fn build(map: i32, selection: &Selection) -> Option<Vec<Instruction>> {
    let mut a = Assembler::default();
    let [take, pass] = [a.label(), a.label()];
    a.emit(MOVE, CONTEXT, ARG1, 0, 0);
    if !selection.is_everything() {
        dissect(&mut a, pass);
        for rule in &selection.except {
            match_rule(&mut a, rule, pass);
        }
        for rule in &selection.only {
            match_rule(&mut a, rule, take);
        }
        if !selection.only.is_empty() {
            a.go(pass);
        }
    }
    a.place(take);
    const PSEUDO_MAP_FD: u8 = 1;
    a.emit(LOAD_MAP, ARG1, PSEUDO_MAP_FD, 0, map);
    a.emit(0, 0, 0, 0, 0);
    a.emit(LOAD32, ARG2, CONTEXT, QUEUE, 0);
    // What happens to packets of queues that have no socket.
    a.emit(MOVE_VALUE, ARG3, 0, 0, XDP_PASS);
    a.emit(CALL, 0, 0, 0, BPF_FUNC_REDIRECT_MAP);
    a.emit(EXIT, 0, 0, 0, 0);
    if !selection.is_everything() {
        // The kernel refuses instructions that nothing leads to.
        a.place(pass);
        a.emit(MOVE_VALUE, RESULT, 0, 0, XDP_PASS);
        a.emit(EXIT, 0, 0, 0, 0);
    }
    a.finish()
}

/// Finds the EtherType, the addresses, the protocol and the ports.
fn dissect(a: &mut Assembler, pass: Label) {
    const NO_PROTOCOL: i32 = 256;
    a.emit(LOAD32, HEADER, CONTEXT, DATA, 0);
    a.emit(LOAD32, END, CONTEXT, DATA_END, 0);
    a.emit(MOVE_VALUE, PROTOCOL, 0, 0, NO_PROTOCOL);
    a.emit(MOVE_VALUE, HAS_PORTS, 0, 0, 0);
    for place in (DESTINATION_V6..=SOURCE_PORT).step_by(4) {
        a.emit(STORE32_VALUE, STACK, 0, place, 0);
    }
    a.need(14, pass);
    a.load(ETHER_TYPE, 12, 16);
    let [network, v6, ports, done] = [a.label(), a.label(), a.label(), a.label()];
    for _ in 0..2 {
        let tagged = a.label();
        a.jump(IF_EQUAL, ETHER_TYPE, 0x8100, tagged);
        a.jump(IF_NOT_EQUAL, ETHER_TYPE, 0x88a8, network);
        a.place(tagged);
        a.emit(ADD, HEADER, 0, 0, 4);
        a.need(14, pass);
        a.load(ETHER_TYPE, 12, 16);
    }
    a.place(network);
    a.emit(ADD, HEADER, 0, 0, 14);
    a.jump(IF_EQUAL, ETHER_TYPE, IP6.into(), v6);
    a.jump(IF_NOT_EQUAL, ETHER_TYPE, IP.into(), done);

    a.need(20, done);
    a.load(PROTOCOL, 9, 8);
    a.keep(12, 32, SOURCE_V4);
    a.keep(16, 32, DESTINATION_V4);
    // A fragment that does not begin the packet has no ports.
    a.load(SCRATCH, 6, 16);
    a.emit(AND32, SCRATCH, 0, 0, 0x1fff);
    a.jump(IF_NOT_EQUAL, SCRATCH, 0, done);
    a.load(SCRATCH, 0, 8);
    a.emit(AND32, SCRATCH, 0, 0, 0x0f);
    a.emit(SHIFT_LEFT, SCRATCH, 0, 0, 2);
    a.emit(ADD_REGISTER, HEADER, SCRATCH, 0, 0);
    a.go(ports);

    a.place(v6);
    a.need(40, done);
    a.load(PROTOCOL, 6, 8);
    for word in (0..16).step_by(4) {
        a.keep(8 + word, 32, SOURCE_V6 + word);
        a.keep(24 + word, 32, DESTINATION_V6 + word);
    }
    a.emit(ADD, HEADER, 0, 0, 40);

    a.place(ports);
    let known = a.label();
    for protocol in [6, 17] {
        a.jump(IF_EQUAL, PROTOCOL, protocol, known);
    }
    a.jump(IF_NOT_EQUAL, PROTOCOL, 132, done);
    a.place(known);
    a.need(4, done);
    a.keep(0, 16, SOURCE_PORT);
    a.keep(2, 16, DESTINATION_PORT);
    a.emit(MOVE_VALUE, HAS_PORTS, 0, 0, 1);
    a.place(done);
}

/// Jumps to `then` if the packet matches the rule.
fn match_rule(a: &mut Assembler, rule: &Rule, then: Label) {
    let not = a.label();
    if let Some(ether_type) = rule.ether_type {
        a.jump(IF_NOT_EQUAL, ETHER_TYPE, ether_type.into(), not);
    }
    if let Some(protocol) = rule.protocol {
        a.jump(IF_NOT_EQUAL, PROTOCOL, protocol.into(), not);
    }
    if !rule.ports.is_empty() {
        a.jump(IF_EQUAL, HAS_PORTS, 0, not);
    }
    for (side, ports) in &rule.ports {
        match_side(a, *side, SOURCE_PORT, DESTINATION_PORT, not, |a, at, miss| {
            a.emit(LOAD32, SCRATCH, STACK, at, 0);
            a.jump(IF_LESS, SCRATCH, (*ports.start()).into(), miss);
            a.jump(IF_GREATER, SCRATCH, (*ports.end()).into(), miss);
        });
    }
    for (side, network) in &rule.networks {
        match *network {
            Network::V4(net) => {
                let (address, mask) = (net.network(), net.mask());
                match_side(a, *side, SOURCE_V4, DESTINATION_V4, not, |a, at, miss| {
                    match_word(a, at, bits(address), bits(mask), miss);
                });
            }
            Network::V6(net) => {
                let words = words(net.network()).into_iter().zip(words(net.mask()));
                match_side(a, *side, SOURCE_V6, DESTINATION_V6, not, |a, at, miss| {
                    for (word, (address, mask)) in (0..).step_by(4).zip(words.clone()) {
                        match_word(a, at + word, address, mask, miss);
                    }
                });
            }
        }
    }
    a.go(then);
    a.place(not);
}

/// Jumps to `not` unless the named side, or one of the two, passes the test.
fn match_side(
    a: &mut Assembler,
    side: Side,
    source: i16,
    destination: i16,
    not: Label,
    test: impl Fn(&mut Assembler, i16, Label),
) {
    match side {
        Side::Source => test(a, source, not),
        Side::Destination => test(a, destination, not),
        Side::Either => {
            let [second, fulfilled] = [a.label(), a.label()];
            test(a, source, second);
            a.go(fulfilled);
            a.place(second);
            test(a, destination, not);
            a.place(fulfilled);
        }
    }
}

fn match_word(a: &mut Assembler, at: i16, address: u32, mask: u32, not: Label) {
    if mask != 0 {
        a.emit(LOAD32, SCRATCH, STACK, at, 0);
        a.emit(AND32, SCRATCH, 0, 0, mask.cast_signed());
        a.jump(IF_NOT_EQUAL32, SCRATCH, address.cast_signed(), not);
    }
}

fn bits(address: Ipv4Addr) -> u32 {
    address.to_bits()
}

fn words(address: Ipv6Addr) -> [u32; 4] {
    let bits = address.to_bits();
    [96, 64, 32, 0].map(|shift| (bits >> shift) as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_takes_a_few_instructions() {
        let program = build(7, &Selection::default()).unwrap();
        assert_eq!(program.len(), 7);
        assert_eq!(program[1].value, 7);
        assert_eq!(program[1].registers, 0x11);
    }

    #[test]
    fn jumps_lead_forward_and_stay_inside() {
        let only =
            Rule::list("arp, udp port 53, tcp src net 10.0.0.0/8 dst net 10.1.0.0/16").unwrap();
        let except = Rule::list("net 2001:db8::/32 dst port 22").unwrap();
        let program = build(7, &Selection { only, except }).unwrap();
        for (at, instruction) in program.iter().enumerate() {
            let is_jump = instruction.code & 7 == 5 || instruction.code & 7 == 6;
            if is_jump && ![CALL, EXIT].contains(&instruction.code) {
                let to = at + 1 + usize::try_from(instruction.offset).unwrap();
                assert!(to < program.len());
            }
        }
    }

    #[test]
    fn more_rules_than_fit_are_refused() {
        let only = vec!["port 53".parse().unwrap(); 9000];
        assert_eq!(build(7, &Selection { only, except: Vec::new() }), None);
    }
}
