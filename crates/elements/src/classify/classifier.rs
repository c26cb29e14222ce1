//! Classifier - classifies packets by their bytes at given offsets
//!
//! # Synopsis
//! `Classifier(PATTERN_1, ..., PATTERN_N)`
//!
//! # Description
//! Sends each packet to the output of the first pattern that it matches, and drops packets that
//! match none.
//!
//! A pattern consists of clauses separated by spaces, all of which must match. A clause `OFFSET/VALUE` matches packets
//! that have the bytes VALUE from byte OFFSET on. OFFSET is decimal; VALUE is hexadecimal, two digits per byte, where
//! `?` matches any digit. `OFFSET/VALUE%MASK` compares only bits that are 1 in MASK, which has as many digits as VALUE.
//! A clause after `!` must not match. The pattern `-` matches every packet.
//!
//! If a packet is too short to have some of the bytes, the clause does not match; a clause after `!` is then satisfied.
//!
//! Patterns are compiled into a decision program with as few tests as possible; `program` shows it. Packets that end
//! within four bytes that the program tests at once take a slower path to the same result.
//!
//! # Arguments
//! - PATTERN: one for each output.
//!
//! # Ports
//! One push input; as many push outputs as there are patterns.
//!
//! # Handlers
//! - `program` (read): the decision program, as in Click. Each line tests whether four bytes of the packet, under a
//!   mask, have a value, and states the next step; `[X]` drops.
//! - `config` (read, write): the patterns. New ones take effect at once, or, if any has an error, not at all.
//!
//! # Drops
//! - no match: the packet matches no pattern.
//!
//! # Example
//! ```click
//! InfiniteSource(DATA \<ffffffffffff 020000000001 0806 0001 0800 06 04 0001>, LIMIT 10)
//!     -> c :: Classifier(12/0806 20/0001, 12/0806 20/0002, 12/0800, -);
//! c [0] -> Counter -> Discard;  // ARP requests
//! c [1] -> Discard;  // ARP replies
//! c [2] -> Discard;  // IP
//! c [3] -> Discard;  // others
//! ```
//!
//! # See also
//! IPClassifier, IPFilter

use millrace_core::args::Args;
use millrace_core::element::HandlerError;
use millrace_core::{
    Call, Class, Element, Failed, Handlers, Moment, PerPacket, Reason, Setup, View, Way, register,
};

use super::patterns::arguments::Patterns;
use super::patterns::in_force::{self, Exchangeable, InForce};
use super::program::PatternProgram;

/// The element; its manual is at the top of the file.
pub struct Classifier {
    outputs: usize,
    current: InForce<PatternProgram>,
}

register!(Classifier, "classifier.rs");

impl Element for Classifier {
    const CLASS: Class = Class::new("Classifier", "1/-", "h/h");
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        let outputs = setup.outputs();
        let program = compile(&mut setup.args, outputs)?;
        Ok(Self { outputs, current: InForce::new(program) })
    }

    fn handlers(handlers: &mut Handlers<Self>) {
        in_force::handlers(handlers);
    }
}

impl PerPacket for Classifier {
    const ROUTES: bool = true;

    #[inline(always)]
    fn treat(&self, (): &mut (), packet: &mut View, at: &mut Moment) -> Way {
        match self.current.get(at).classify_at_once(packet.data()) {
            Some(output) => way(output),
            None => Way::MORE,
        }
    }

    fn treat_more(&self, (): &mut (), packet: &mut View, at: &mut Moment) -> Way {
        way(u16::try_from(self.current.get(at).classify(packet.data())).unwrap_or(u16::MAX))
    }
}

/// The way for an output; `u16::MAX` is none.
#[inline(always)]
fn way(output: u16) -> Way {
    Way::output_or_drop(output, Reason::NoMatch)
}

impl Exchangeable for Classifier {
    type Rules = PatternProgram;

    fn in_force(&self) -> &InForce<PatternProgram> {
        &self.current
    }

    fn recompile(&self, call: &Call<'_>) -> Result<PatternProgram, HandlerError> {
        let mut args = call.args();
        let program = compile(&mut args, self.outputs);
        Ok(program.map_err(|Failed| args.messages())?)
    }

    fn program(program: &PatternProgram) -> String {
        program.to_string()
    }
}

/// Compiles the patterns in the arguments.
fn compile(args: &mut Args<'_>, outputs: usize) -> Result<PatternProgram, Failed> {
    let patterns = Patterns::take(args);
    patterns.expect(outputs, args);
    let program = PatternProgram::compile(&patterns.plain, 0);
    if let Err(findings) = &program {
        patterns.report(findings, args);
    }
    args.complete()?;
    let program = program.map_err(|_| Failed)?;
    patterns.warn_of_unused(|output| program.reaches(output), args);
    Ok(program)
}

#[cfg(test)]
mod tests {
    use millrace_core::Reason;
    use millrace_core::testing::Rig;

    const ETHERNET: &str = "Classifier(12/0806 20/0001, 12/0806 20/0002, 12/0800, -)";

    fn frame(ether_type: u16, operation: u16) -> Vec<u8> {
        let mut frame = vec![0; 42];
        frame[12..14].copy_from_slice(&ether_type.to_be_bytes());
        frame[20..22].copy_from_slice(&operation.to_be_bytes());
        frame
    }

    #[test]
    fn packets_leave_by_the_first_pattern_that_matches() {
        let mut rig = Rig::new(ETHERNET, 1, 4).unwrap();
        let frames = [
            frame(0x0800, 0),
            frame(0x0806, 2),
            frame(0x0806, 1),
            frame(0x86dd, 0),
            frame(0x0806, 3),
            frame(0x0800, 1),
            vec![0; 13],
            vec![],
        ];
        let out = rig.push(0, &frames);
        assert_eq!(out[0], [frame(0x0806, 1)]);
        assert_eq!(out[1], [frame(0x0806, 2)]);
        assert_eq!(out[2], [frame(0x0800, 0), frame(0x0800, 1)]);
        assert_eq!(out[3], [frame(0x86dd, 0), frame(0x0806, 3), vec![0; 13], vec![]]);
        assert!(rig.stats().balanced());
    }

    #[test]
    fn packets_that_match_nothing_are_dropped() {
        let mut rig = Rig::new("Classifier(0/61, 0/62)", 1, 2).unwrap();
        let out = rig.push(0, &["a", "b", "c", ""]);
        assert_eq!(out, [[b"a".to_vec()], [b"b".to_vec()]]);
        assert_eq!(rig.stats().drops, [(Reason::NoMatch, 2)]);
        assert!(rig.stats().balanced());
    }

    #[test]
    fn the_program_can_be_read() {
        let rig = Rig::new(ETHERNET, 1, 4).unwrap();
        assert_eq!(
            rig.read("program").unwrap(),
            " 0  12/08060000%ffff0000  yes->step 1  no->step 3
 1  20/00010000%ffff0000  yes->[0]  no->step 2
 2  20/00020000%ffff0000  yes->[1]  no->[3]
 3  12/08000000%ffff0000  yes->[2]  no->[3]
safe length 22
alignment offset 0
"
        );
    }

    #[test]
    fn patterns_can_be_exchanged() {
        let mut rig = Rig::new("Classifier(0/61, -)", 1, 2).unwrap();
        assert_eq!(rig.read("config").unwrap(), "0/61, -");
        rig.write("config", "0/62, -").unwrap();
        assert_eq!(rig.read("config").unwrap(), "0/62, -");
        assert_eq!(rig.push(0, &["a", "b"]), [[b"b".to_vec()], [b"a".to_vec()]]);
        for wrong in ["0/62", "0/6, -", "0/61, -, -"] {
            assert!(rig.write("config", wrong).is_err());
        }
        assert_eq!(rig.push(0, &["b"])[0].len(), 1);
    }

    #[test]
    fn errors_are_reported() {
        let messages = |element, outputs| -> Vec<String> {
            let Err(diagnostics) = Rig::new(element, 1, outputs) else { return Vec::new() };
            diagnostics.iter().map(|diagnostic| diagnostic.message.clone()).collect()
        };
        assert_eq!(
            messages("Classifier(0/6, x, -)", 3),
            ["pattern 0: value has less than 2 hex digits", "pattern 1: expected a digit"]
        );
        let number = "need 2 arguments, one per output port";
        assert_eq!(messages("Classifier(-)", 2), [number]);
        assert_eq!(messages("Classifier(-, -)", 2), [""; 0]);
    }
}
