//! ListenEtherSwitch - forwards Ethernet frames as a learning switch, and copies all frames to an extra output
//!
//! # Synopsis
//! `ListenEtherSwitch([keywords TIMEOUT, CAPACITY])`
//!
//! # Description
//! An EtherSwitch with one more output than inputs. The last output emits a copy of every frame.
//!
//! # Arguments
//! - TIMEOUT: how many seconds after its last frame an address is remembered. With 0, nothing is
//!   learned. Default 300.
//! - CAPACITY: maximum number of addresses, as in EtherSwitch. Default 65536.
//!
//! # Ports
//! Any number of push inputs, one more push output.
//!
//! # Handlers
//! - `table` (read): the known addresses and their ports, one per line.
//! - `timeout` (read, write): the value of TIMEOUT.
//! - `unlearned` (read): as in EtherSwitch.
//!
//! # Drops
//! - truncated: the packet is shorter than an Ethernet header.
//! - no buffer: there was no memory for a copy of the frame.
//!
//! # Example
//! ```click
//! switch :: ListenEtherSwitch;
//! InfiniteSource(LENGTH 64, LIMIT 10) -> [0] switch [0] -> Discard;
//! InfiniteSource(LENGTH 64, LIMIT 10) -> [1] switch [1] -> Discard;
//! switch [2] -> Print(seen) -> Discard;
//! ```
//!
//! # See also
//! EtherSwitch

use millrace_core::{Class, Context, Packet, register};

use super::ether_switch::{Switch, SwitchClass, copy_to};

/// The class; its manual is at the top of the file.
pub struct ListenEtherSwitch;

register!(Switch<ListenEtherSwitch>, "listen_ether_switch.rs");

impl SwitchClass for ListenEtherSwitch {
    const CLASS: Class = Class::new("ListenEtherSwitch", "-/=+", "h/h").flow("#/[^#]");

    fn send(cx: &mut Context, from: usize, to: usize, packet: Packet) {
        let listener = cx.outputs().saturating_sub(1);
        if to == from {
            return cx.push(listener, packet);
        }
        copy_to(cx, listener, &packet);
        cx.push(to, packet);
    }
}
