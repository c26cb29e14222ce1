//! HashSwitch - distributes packets over outputs by a hash of their bytes
//!
//! # Synopsis
//! `HashSwitch(OFFSET, LENGTH)`
//!
//! # Description
//! Adds up LENGTH bytes of each packet, starting at OFFSET. The sum selects the output, so packets with the same
//! bytes there leave by the same output. Packets that are too short leave by output 0.
//!
//! # Arguments
//! - OFFSET: offset of the first byte. Positional, mandatory.
//! - LENGTH: number of bytes, at least 1. Positional, mandatory.
//!
//! # Ports
//! One push input, one or more push outputs.
//!
//! # Handlers
//! None of its own.
//!
//! # Drops
//! None.
//!
//! # Example
//! ```click
//! InfiniteSource(LENGTH 64, LIMIT 10) -> s :: HashSwitch(26, 8);
//! s [0] -> Discard;
//! s [1] -> Discard;
//! ```
//!
//! # See also
//! RoundRobinSwitch, RandomSwitch, Switch

use millrace_core::{Class, Element, Failed, Moment, PerPacket, Setup, View, Way, register};

/// The element; its manual is at the top of the file.
pub struct HashSwitch {
    offset: usize,
    length: usize,
    outputs: usize,
}

register!(HashSwitch, "hash_switch.rs");

impl Element for HashSwitch {
    const CLASS: Class = Class::new("HashSwitch", "1/1-", "h/h");
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        let offset: u32 = setup.args.mandatory("OFFSET");
        let length: u32 = setup.args.mandatory("LENGTH");
        setup.args.complete()?;
        if length == 0 {
            setup.args.error("LENGTH", "length must be > 0");
            return Err(Failed);
        }
        let outputs = setup.outputs().max(1);
        Ok(Self { offset: offset as usize, length: length as usize, outputs })
    }
}

impl PerPacket for HashSwitch {
    const ROUTES: bool = true;

    #[inline(always)]
    fn treat(&self, (): &mut (), packet: &mut View, _: &mut Moment) -> Way {
        Way::output(self.choose(packet.data()) as u16)
    }
}

impl HashSwitch {
    /// The output for a packet; the same as in Click.
    fn choose(&self, data: &[u8]) -> usize {
        let Some(bytes) = data.get(self.offset..self.offset + self.length) else {
            return 0;
        };
        let sum: usize = bytes.iter().map(|&byte| usize::from(byte)).sum();
        match self.outputs {
            2 | 4 | 8 => (sum ^ sum >> 4) % self.outputs,
            _ => sum % self.outputs,
        }
    }
}

#[cfg(test)]
mod tests {
    use millrace_core::testing::Rig;

    #[test]
    fn the_sum_of_the_bytes_selects_the_output() {
        let mut rig = Rig::new("HashSwitch(1, 2)", 1, 3).unwrap();
        // 7 + 3 = 10, 10 % 3 = 1; 0 + 2; too short.
        let out = rig.push(0, &[vec![9, 7, 3, 9], vec![9, 0, 2], vec![9, 7]]);
        assert_eq!(out, [vec![vec![9, 7]], vec![vec![9, 7, 3, 9]], vec![vec![9, 0, 2]]]);
        let mut rig = Rig::new("HashSwitch(0, 1)", 1, 4).unwrap();
        // 0x35 ^ 3 = 0x36; its last two bits are 2.
        assert_eq!(rig.push(0, &[[0x35]])[2], [[0x35]]);
        assert!(Rig::new("HashSwitch(0, 0)", 1, 2).is_err());
        assert!(Rig::new("HashSwitch(0)", 1, 2).is_err());
    }
}
