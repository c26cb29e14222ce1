//! Filters as Berkeley Packet Filter instructions (McCanne and Jacobson, The BSD Packet Filter, USENIX Winter
//! 1993; `linux/filter.h`): runs them, and prepares them for the kernel.

/// An instruction: code, jump offsets for a test that succeeds and for one that fails, and the constant.
pub type Instruction = (u16, u8, u8, u32);

/// The maximum number of instructions that the kernel accepts (`BPF_MAXINSNS`).
pub const LONGEST: usize = 4096;

const LD: u16 = 0x00;
const LDX: u16 = 0x01;
const ST: u16 = 0x02;
const STX: u16 = 0x03;
const ALU: u16 = 0x04;
const JMP: u16 = 0x05;
const RET: u16 = 0x06;
const MISC: u16 = 0x07;

const HALF: u16 = 0x08;
const BYTE: u16 = 0x10;
const IMMEDIATE: u16 = 0x00;
const ABSOLUTE: u16 = 0x20;
const INDIRECT: u16 = 0x40;
const MEMORY: u16 = 0x60;
const LENGTH: u16 = 0x80;
const HEADER_LENGTH: u16 = 0xa0;

const X: u16 = 0x08;
const A: u16 = 0x10;

const JA: u16 = JMP;
const JEQ: u16 = JMP | 0x10;
const JGT: u16 = JMP | 0x20;

/// Runs a filter on a frame: returns how many of its bytes the filter accepts, 0 for none. On an invalid
/// operation (a load beyond the end of the frame, a jump beyond the end of the program, a division by 0) it
/// rejects the frame, as the kernel does. Loads of data that only the kernel has are beyond the end of any
/// frame.
pub fn run(program: &[Instruction], frame: &[u8]) -> u32 {
    State::default().run(program, frame).unwrap_or(0)
}

/// Whether a filter accepts a frame at all. A filter without instructions accepts all frames.
pub fn wants(program: &[Instruction], frame: &[u8]) -> bool {
    program.is_empty() || run(program, frame) > 0
}

#[derive(Default)]
struct State {
    a: u32,
    x: u32,
    memory: [u32; 16],
}

impl State {
    fn run(&mut self, program: &[Instruction], frame: &[u8]) -> Option<u32> {
        let mut at = 0usize;
        loop {
            let &(code, jt, jf, k) = program.get(at)?;
            at += 1;
            match code & 0x07 {
                LD => self.a = self.load(code, k, frame)?,
                LDX => self.x = self.load_index(code, k, frame)?,
                ST => *self.memory.get_mut(k as usize)? = self.a,
                STX => *self.memory.get_mut(k as usize)? = self.x,
                ALU => self.a = self.compute(code, k)?,
                // Jumps lead forward only, so this ends.
                JMP if code & 0xf0 == 0 => at = at.checked_add(k as usize)?,
                JMP => at += usize::from(if self.test(code, k)? { jt } else { jf }),
                RET if code & 0x18 == A => return Some(self.a),
                RET if code & 0x18 == X => return Some(self.x),
                RET => return Some(k),
                MISC if code & 0xf8 == 0x80 => self.a = self.x,
                MISC => self.x = self.a,
                _ => return None,
            }
        }
    }

    fn load(&self, code: u16, k: u32, frame: &[u8]) -> Option<u32> {
        let at = match code & 0xe0 {
            IMMEDIATE => return Some(k),
            LENGTH => return u32::try_from(frame.len()).ok(),
            MEMORY => return self.memory.get(k as usize).copied(),
            ABSOLUTE => k,
            INDIRECT => self.x.checked_add(k)?,
            _ => return None,
        };
        let bytes = frame.get(at as usize..)?;
        Some(match code & 0x18 {
            HALF => u16::from_be_bytes(*bytes.first_chunk()?).into(),
            BYTE => (*bytes.first()?).into(),
            _ => u32::from_be_bytes(*bytes.first_chunk()?),
        })
    }

    fn load_index(&self, code: u16, k: u32, frame: &[u8]) -> Option<u32> {
        match code & 0xe0 {
            IMMEDIATE => Some(k),
            LENGTH => u32::try_from(frame.len()).ok(),
            MEMORY => self.memory.get(k as usize).copied(),
            HEADER_LENGTH => Some(u32::from(frame.get(k as usize)? & 0x0f) * 4),
            _ => None,
        }
    }

    fn operand(&self, code: u16, k: u32) -> u32 {
        if code & X != 0 { self.x } else { k }
    }

    fn compute(&self, code: u16, k: u32) -> Option<u32> {
        let (a, b) = (self.a, self.operand(code, k));
        Some(match code & 0xf0 {
            0x00 => a.wrapping_add(b),
            0x10 => a.wrapping_sub(b),
            0x20 => a.wrapping_mul(b),
            0x30 => a.checked_div(b)?,
            0x40 => a | b,
            0x50 => a & b,
            0x60 => a.checked_shl(b).unwrap_or(0),
            0x70 => a.checked_shr(b).unwrap_or(0),
            0x80 => a.wrapping_neg(),
            0x90 => a.checked_rem(b)?,
            0xa0 => a ^ b,
            _ => return None,
        })
    }

    fn test(&self, code: u16, k: u32) -> Option<bool> {
        let (a, b) = (self.a, self.operand(code, k));
        Some(match code & 0xf0 {
            0x10 => a == b,
            0x20 => a > b,
            0x30 => a >= b,
            0x40 => a & b != 0,
            _ => return None,
        })
    }
}

/// A filter for the frames of one EtherType that `further` also accepts.
pub fn of_protocol(protocol: u16, further: &[Instruction]) -> Vec<Instruction> {
    const ETHER_TYPE: u32 = 12;
    let mut program = vec![
        (LD | ABSOLUTE | HALF, 0, 0, ETHER_TYPE),
        (JEQ, 1, 0, protocol.into()),
        (RET, 0, 0, 0),
    ];
    match further {
        [] => program.push((RET, 0, 0, u32::MAX)),
        further => program.extend(further),
    }
    program
}

/// The form of a filter that the kernel runs on packet sockets. It truncates frames to `snap` bytes, except
/// those longer than `longest`, which are still to be cut into packets and stay whole.
///
/// It accepts all frames with a VLAN tag: the kernel has removed the tag, and the filter, which looks for it
/// in the frame, must run again after it has been restored.
pub fn for_kernel(filter: &[Instruction], snap: u32, longest: u32) -> Vec<Instruction> {
    /// Whether there is a tag: `SKF_AD_OFF + SKF_AD_VLAN_TAG_PRESENT`.
    const TAG_PRESENT: u32 = (-0x1000i32 + 48) as u32;
    /// Length of the longest possible frame in bytes.
    const WHOLE: u32 = 0x4_0000;
    if filter.is_empty() && snap >= WHOLE {
        return Vec::new();
    }
    let mut program = Vec::with_capacity(filter.len() + 7);
    if !filter.is_empty() {
        let past_the_filter = u32::try_from(filter.len()).unwrap_or(u32::MAX);
        program.push((LD | ABSOLUTE, 0, 0, TAG_PRESENT));
        program.push((JEQ, 1, 0, 0));
        program.push((JA, 0, 0, past_the_filter));
    }
    for (index, &(code, jt, jf, k)) in filter.iter().enumerate() {
        let ahead = u32::try_from(filter.len() - index - 1).unwrap_or(u32::MAX);
        let accepts = code & 0x07 == RET && code & 0x18 == 0 && k != 0;
        program.push(if accepts { (JA, 0, 0, ahead) } else { (code, jt, jf, k) });
    }
    program.extend([
        (LD | LENGTH, 0, 0, 0),
        (JGT, 0, 1, longest),
        (RET, 0, 0, WHOLE),
        (RET, 0, 0, snap.min(WHOLE)),
    ]);
    program
}

/// Whether a filter computes how much of a frame it accepts.
pub fn computes_lengths(filter: &[Instruction]) -> bool {
    filter.iter().any(|&(code, ..)| code & 0x07 == RET && code & 0x18 != 0)
}

/// A filter that rejects every frame.
pub const NOTHING: &[Instruction] = &[(RET, 0, 0, 0)];

#[cfg(test)]
mod tests {
    use super::*;

    /// `ip and udp dst port 53`, as printed by `tcpdump -d`.
    const DNS: &[Instruction] = &[
        (0x28, 0, 0, 12),
        (0x15, 0, 8, 0x800),
        (0x30, 0, 0, 23),
        (0x15, 0, 6, 17),
        (0x28, 0, 0, 20),
        (0x45, 4, 0, 0x1fff),
        (0xb1, 0, 0, 14),
        (0x48, 0, 0, 16),
        (0x15, 0, 1, 53),
        (0x06, 0, 0, 0x4_0000),
        (0x06, 0, 0, 0),
    ];

    fn udp(port: u16, options: usize) -> Vec<u8> {
        let mut frame = vec![0; 14 + 20 + options + 8];
        frame[12] = 8;
        frame[14] = 0x45 + (options / 4) as u8;
        frame[23] = 17;
        frame[34 + options + 2..][..2].copy_from_slice(&port.to_be_bytes());
        frame
    }

    #[test]
    fn filters_judge_frames() {
        let fragment = {
            let mut frame = udp(53, 0);
            frame[21] = 1;
            frame
        };
        let cases = [
            (udp(53, 0), true),
            (udp(53, 8), true),
            (udp(54, 0), false),
            (fragment, false),
            (udp(53, 0)[..30].to_vec(), false),
            (Vec::new(), false),
        ];
        for (frame, wanted) in cases {
            assert_eq!(run(DNS, &frame) != 0, wanted, "{frame:02x?}");
            // The tag load is beyond the frame here, so what the kernel gets starts behind it.
            let fitted = for_kernel(DNS, 20, 1518);
            assert_eq!(run(&fitted[3..], &frame), if wanted { 20 } else { 0 }, "{frame:02x?}");
            let both = of_protocol(0x800, DNS);
            assert_eq!(run(&both, &frame) != 0, wanted);
            assert_eq!(run(&of_protocol(0x806, DNS), &frame), 0);
        }
    }

    #[test]
    fn every_operation_does_what_its_name_says() {
        let compute = |operation: u16, a: u32, b: u32| {
            run(&[(0x00, 0, 0, a), (ALU | operation, 0, 0, b), (0x16, 0, 0, 0)], &[])
        };
        let cases = [
            (0x00, 7, 3, 10),
            (0x10, 7, 8, u32::MAX),
            (0x20, 7, 3, 21),
            (0x30, 7, 3, 2),
            (0x30, 7, 0, 0),
            (0x40, 5, 2, 7),
            (0x50, 7, 3, 3),
            (0x60, 1, 4, 16),
            (0x60, 1, 40, 0),
            (0x70, 16, 4, 1),
            (0x80, 1, 0, u32::MAX),
            (0x90, 7, 4, 3),
            (0x90, 7, 0, 0),
            (0xa0, 5, 1, 4),
        ];
        for (operation, a, b, result) in cases {
            assert_eq!(compute(operation, a, b), result, "{operation:#x} {a} {b}");
        }
        // Memory, the index register and its transfers.
        let program = [
            (0x00, 0, 0, 9),
            (0x02, 0, 0, 15),
            (0x61, 0, 0, 15),
            (0x07, 0, 0, 0),
            (0x87, 0, 0, 0),
            (0x1d, 0, 1, 0),
            (0x06, 0, 0, 1),
            (0x06, 0, 0, 0),
        ];
        assert_eq!(run(&program, &[]), 1);
        assert_eq!(run(&[(0x80, 0, 0, 0), (0x16, 0, 0, 0)], &[0; 77]), 77);
    }

    #[test]
    fn nonsense_refuses() {
        for program in
            [&[][..], &[(0x02, 0, 0, 16)], &[(0x05, 0, 0, u32::MAX)], &[(0x15, 9, 9, 0)], NOTHING]
        {
            assert_eq!(run(program, &[1, 2, 3]), 0, "{program:?}");
        }
    }

    #[test]
    fn long_frames_stay_whole() {
        assert!(for_kernel(&[], u32::MAX, 1518).is_empty());
        let program = for_kernel(&[], 64, 1518);
        assert_eq!(run(&program, &[0; 1518]), 64);
        assert_eq!(run(&program, &[0; 1519]), 0x4_0000);
    }
}
