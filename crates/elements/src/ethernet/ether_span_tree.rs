//! EtherSpanTree - removes loops from a network of Ethernet switches by the spanning tree protocol
//!
//! # Synopsis
//! `EtherSpanTree(ADDR, INPUT_SUPPRESSOR, OUTPUT_SUPPRESSOR, SWITCH)`
//!
//! # Description
//! Implements the spanning tree protocol of IEEE 802.1D for a switch between two Suppressors. Each pair
//! of an input and the output with the same number is a LAN; the ports of the switch and of the
//! Suppressors have the same numbering. The inputs receive the messages of other bridges (frames with
//! 0x4242 at offset 14), and the outputs emit the element's own messages. A port starts to forward 30
//! seconds after it is found to belong to the tree. Ports that would close a loop are blocked.
//!
//! The element prints the state changes of ports on standard error.
//!
//! # Arguments
//! - ADDR: the switch's Ethernet address. Positional, mandatory.
//! - INPUT_SUPPRESSOR: the Suppressor in front of the switch. Positional, mandatory.
//! - OUTPUT_SUPPRESSOR: the Suppressor after the switch. Positional, mandatory.
//! - SWITCH: the EtherSwitch. Positional, mandatory.
//!
//! # Ports
//! Any number of push inputs, the same number of push outputs.
//!
//! # Handlers
//! - `msgs` (read): the best message that each port has received, one per line, and the best of all.
//!
//! # Drops
//! - unexpected: the packet is not a configuration message of the protocol.
//! - no buffer: there was no packet for a message.
//!
//! # Example
//! ```click
//! in, out :: Suppressor;
//! switch :: EtherSwitch;
//! tree :: EtherSpanTree(2:0:0:0:0:1, in, out, switch);
//! c0, c1 :: Classifier(14/4242, -);
//! InfiniteSource(LENGTH 64, LIMIT 10) -> c0;
//! InfiniteSource(LENGTH 64, LIMIT 10) -> c1;
//! c0 [0] -> [0] tree [0] -> d :: Discard;
//! c1 [0] -> [1] tree [1] -> d;
//! c0 [1] -> [0] in [0] -> [0] switch [0] -> [0] out [0] -> d;
//! c1 [1] -> [1] in [1] -> [1] switch [1] -> [1] out [1] -> d;
//! ```
//!
//! # See also
//! EtherSwitch, Suppressor

mod bridge_message;

use std::cmp::Ordering;
use std::sync::{Arc, OnceLock};

use millrace_core::args::ElementRef;
use millrace_core::net::EtherAddress;
use millrace_core::{
    Batch, Class, Context, Element, Failed, Handlers, Init, Lock, Packet, Reason, Refused, Router,
    Setup, Timer, Timestamp, register,
};
use zerocopy::IntoBytes;

use crate::capability::{Gates, StationTable};
use bridge_message::BridgeMessage;

/// The element; its manual is at the top of the file.
pub struct EtherSpanTree {
    address: EtherAddress,
    /// Priority and address.
    id: u64,
    suppressors: [ElementRef; 2],
    switch: ElementRef,
    gates: OnceLock<[Arc<dyn Gates>; 2]>,
    tree: Lock<Tree>,
    timer: Timer,
}

/// The current knowledge of the tree.
struct Tree {
    best: BridgeMessage,
    ports: Vec<Port>,
}

struct Port {
    state: State,
    since: Timestamp,
    message: BridgeMessage,
}

/// The state of a port, in the order of its way to forwarding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Nothing.
    Block,
    /// Nothing, but it will learn.
    Listen,
    /// Accepts frames, but does not emit any.
    Learn,
    Forward,
}

register!(EtherSpanTree, "ether_span_tree.rs");

/// The bridge priority, as in Click: unlikely to become the root.
const PRIORITY: u64 = 0xdead;

impl Element for EtherSpanTree {
    const CLASS: Class = Class::new("EtherSpanTree", "-/=", "h/h");
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        let timer = setup.timer();
        let outputs = setup.outputs();
        let args = &mut setup.args;
        let address: EtherAddress = args.mandatory("ADDR");
        let suppressors = [args.mandatory("INPUT_SUPPRESSOR"), args.mandatory("OUTPUT_SUPPRESSOR")];
        let switch = args.mandatory("SWITCH");
        args.complete()?;
        // As in Click, the address's last byte comes first.
        let [a, b, c, d, e, f] = address.octets();
        let id = PRIORITY << 48 | u64::from_be_bytes([0, 0, f, e, d, c, b, a]);
        let port = |_| Port {
            state: State::Block,
            since: Timestamp::ZERO,
            message: BridgeMessage::NOTHING,
        };
        let ports = (0..outputs).map(port).collect();
        let tree = Lock::new(Tree { best: BridgeMessage::of_root(id), ports });
        Ok(Self { address, id, suppressors, switch, gates: OnceLock::new(), tree, timer })
    }

    fn initialize(&self, init: &mut Init<'_>) -> Result<(), Refused> {
        let [ElementRef(input), ElementRef(output)] = self.suppressors;
        // An element is initialised once.
        let _ = self.gates.set([init.require(input)?, init.require(output)?]);
        init.require::<dyn StationTable>(self.switch.0)?;
        let router = init.router();
        let now = init.clock().now();
        let mut tree = self.tree.lock();
        for number in 0..tree.ports.len() {
            self.advance(router, &mut tree, number, now);
        }
        self.timer.schedule_at(now + tree.hello());
        Ok(())
    }

    fn push(&self, cx: &mut Context, (): &mut (), port: usize, batch: &mut Batch) {
        let now = cx.now();
        for packet in batch.drain() {
            let Some((message, _)) = BridgeMessage::from_wire(packet.data(), now) else {
                cx.drop(packet, Reason::Unexpected);
                continue;
            };
            let mut tree = self.tree.lock();
            if let Some(port) = tree.ports.get_mut(port)
                && port.message.compare(&message) != Ordering::Greater
            {
                port.message = message;
            }
            self.find_tree(cx.router(), &mut tree, now);
            drop(packet);
            cx.consumed(1);
        }
    }

    fn run_timer(&self, cx: &mut Context, (): &mut ()) {
        let now = cx.now();
        let mut tree = self.tree.lock();
        self.age(cx.router(), &mut tree, now);
        self.find_tree(cx.router(), &mut tree, now);
        let best = tree.best;
        for (number, port) in tree.ports.iter().enumerate() {
            // If the port has received a better message, this bridge is silent there.
            if best.compare(&port.message) == Ordering::Greater {
                let wire = best.to_wire(self.address, self.id, number as u16, now);
                cx.created(1);
                match Packet::from_bytes(wire.as_bytes()) {
                    Some(packet) => cx.push(number, packet),
                    None => cx.dropped(1, Reason::NoBuffer),
                }
            }
        }
        self.timer.schedule_at(now + tree.hello());
    }

    fn handlers(handlers: &mut Handlers<Self>) {
        handlers.read("msgs", |element, _| {
            let tree = element.tree.lock();
            let messages = tree.ports.iter().map(|port| &port.message).chain([&tree.best]);
            messages.map(|message| format!("{message}\n")).collect::<String>()
        });
    }
}

impl EtherSpanTree {
    /// Advances ports that have waited long enough, and forgets old messages.
    fn age(&self, router: &Router, tree: &mut Tree, now: Timestamp) {
        let waited = now - Timestamp::from_secs(tree.best.forward_delay.into());
        let too_old = now - Timestamp::from_secs(tree.best.max_age.into());
        for number in 0..tree.ports.len() {
            let port = &tree.ports[number];
            if matches!(port.state, State::Listen | State::Learn) && port.since < waited {
                self.advance(router, tree, number, now);
            }
        }
        for (number, port) in tree.ports.iter_mut().enumerate() {
            if port.message.expire(too_old) {
                router.chatter(&format!("Expiring message on port {number}"));
            }
        }
    }

    /// Determines which ports belong to the tree: the one with the best path to the root, and those
    /// where no other bridge has a better one.
    fn find_tree(&self, router: &Router, tree: &mut Tree, now: Timestamp) {
        tree.best = BridgeMessage::of_root(self.id);
        let mut root_port = None;
        for (number, port) in tree.ports.iter().enumerate() {
            let way = port.message.one_farther();
            if tree.best.compare(&way) == Ordering::Less {
                tree.best = way;
                root_port = Some(number);
            }
        }
        for number in 0..tree.ports.len() {
            let port = &tree.ports[number];
            let better = tree.best.compare_as(&port.message, self.id, number as u16);
            if root_port != Some(number) && better == Ordering::Less {
                self.block(router, tree, number, now);
            } else if port.state == State::Block {
                self.advance(router, tree, number, now);
            }
        }
    }

    /// Advances a port one step towards forwarding.
    fn advance(&self, router: &Router, tree: &mut Tree, number: usize, now: Timestamp) {
        let state = match tree.ports[number].state {
            State::Block => State::Listen,
            State::Listen => State::Learn,
            State::Learn => State::Forward,
            State::Forward => return,
        };
        if state == State::Listen {
            router.chatter(&format!("Setting send_tc_msg: BLOCK -> FORWARD on {number}"));
        }
        self.set_state(router, tree, number, state, now);
    }

    fn block(&self, router: &Router, tree: &mut Tree, number: usize, now: Timestamp) {
        if tree.ports[number].state != State::Block {
            router.chatter(&format!("Setting send_tc_msg: FORWARD -> BLOCK on {number}"));
            self.set_state(router, tree, number, State::Block, now);
        }
    }

    fn set_state(
        &self,
        router: &Router,
        tree: &mut Tree,
        number: usize,
        state: State,
        now: Timestamp,
    ) {
        let port = &mut tree.ports[number];
        let (old, new) = (port.state as u8, state as u8);
        router.chatter(&format!("Changing port {number} from {old} to {new}"));
        (port.state, port.since) = (state, now);
        let open =
            [matches!(state, State::Learn | State::Forward), matches!(state, State::Forward)];
        for (gates, open) in self.gates.get().into_iter().flatten().zip(open) {
            gates.set_open(number, open);
        }
    }
}

impl Tree {
    /// The time between messages.
    fn hello(&self) -> Timestamp {
        Timestamp::from_secs(self.best.hello_time.max(1).into())
    }
}
