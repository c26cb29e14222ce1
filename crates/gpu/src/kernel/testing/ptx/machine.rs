//! Threads, warps and blocks.

use fastrand::Rng;

use super::memory::{Memory, Who};
use super::parse::{Compare, Instruction, Math, Operand, Operation, Program, Space, Type};
use crate::kernel::TILE;

const WARP: usize = 32;

/// The maximum number of instructions of a thread; more mean that it hangs.
const PATIENCE: u64 = 20_000_000;

/// The contents of registers before they are written.
const POISON: u64 = 0xdead_beef_dead_beef;

/// Where a thread waits for the others of its warp, or whether it has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Runs,
    /// It waits at the previous instruction.
    Meets,
    Ended,
}

struct Thread {
    registers: Vec<u64>,
    at: usize,
    who: Who,
    block: u32,
    state: State,
    steps: u64,
}

/// Runs the threads of a block, warps and threads in random order, and returns the number of instructions. Of the
/// warps whose threads have no row, which are those after the first `busy` threads, only one is run.
pub(super) fn run_block(
    program: &Program,
    block: u32,
    busy: usize,
    memory: &mut Memory<'_>,
    rng: &mut Rng,
) -> Result<u64, String> {
    let mut warps: Vec<usize> = (0..(busy.div_ceil(WARP) + 1).min(TILE / WARP)).collect();
    rng.shuffle(&mut warps);
    let poison = vec![POISON; program.registers];
    let mut steps = 0;
    for warp in warps {
        let first = block * TILE as u32 + (warp * WARP) as u32;
        let thread = |lane: usize| Thread {
            registers: poison.clone(),
            at: 0,
            who: Who { thread: first + lane as u32, epoch: 0 },
            block,
            state: State::Runs,
            steps: 0,
        };
        let mut threads: Vec<Thread> = (0..WARP).map(thread).collect();
        let mut order: Vec<usize> = (0..WARP).collect();
        while threads.iter().any(|thread| thread.state != State::Ended) {
            rng.shuffle(&mut order);
            for &lane in &order {
                threads[lane].run(program, memory)?;
            }
            meet(program, &mut threads)?;
        }
        steps += threads.iter().map(|thread| thread.steps).sum::<u64>();
    }
    Ok(steps)
}

/// All threads of a warp wait, and must wait at the same instruction.
fn meet(program: &Program, threads: &mut [Thread]) -> Result<(), String> {
    let Some(at) = threads.iter().find(|thread| thread.state == State::Meets).map(|one| one.at)
    else {
        return Ok(());
    };
    let instruction = &program.code[at - 1];
    if let Some(apart) = threads.iter().find(|other| other.state != State::Meets || other.at != at)
    {
        let who = apart.who;
        return Err(format!("line {}: thread {} is not there", instruction.line, who.thread));
    }
    match &instruction.operation {
        Operation::Exchange { to, there, value, bits, mask } => {
            let values: Vec<u64> = threads.iter().map(|thread| thread.value(*value, B32)).collect();
            for (lane, thread) in threads.iter_mut().enumerate() {
                thread.takes_all(instruction, *mask)?;
                let from = lane ^ thread.value(*bits, B32) as usize;
                if from >= WARP {
                    return Err(format!("line {}: no thread {from} in a warp", instruction.line));
                }
                thread.registers[*to] = values[from];
                if let Some(there) = there {
                    thread.registers[*there] = 1;
                }
            }
        }
        Operation::SyncWarp { mask } => {
            for thread in threads.iter_mut() {
                thread.takes_all(instruction, *mask)?;
                thread.who.epoch += 1;
            }
        }
        other => return Err(format!("line {}: {other:?} is no meeting", instruction.line)),
    }
    for thread in threads {
        thread.state = State::Runs;
    }
    Ok(())
}

const B32: Type = Type { bits: 32, signed: false };
const B64: Type = Type { bits: 64, signed: false };

impl Thread {
    /// Runs until the thread ends or has to wait for the others.
    fn run(&mut self, program: &Program, memory: &mut Memory<'_>) -> Result<(), String> {
        while self.state == State::Runs {
            let Some(instruction) = program.code.get(self.at) else {
                return Err("runs beyond the end".to_owned());
            };
            self.at += 1;
            self.steps += 1;
            let result = match instruction.guard {
                Some((register, wanted)) if (self.registers[register] == 1) != wanted => Ok(()),
                _ if self.steps > PATIENCE => Err("hangs".to_owned()),
                _ => self.execute(&instruction.operation, memory),
            };
            let who = self.who.thread;
            result.map_err(|error| format!("line {}: thread {who} {error}", instruction.line))?;
        }
        Ok(())
    }

    fn takes_all(&self, instruction: &Instruction, mask: Operand) -> Result<(), String> {
        match self.value(mask, B32) {
            0xffff_ffff => Ok(()),
            mask => Err(format!("line {}: not the whole warp, {mask:#x}", instruction.line)),
        }
    }

    fn value(&self, operand: Operand, of: Type) -> u64 {
        let value = match operand {
            Operand::Register(number) => self.registers[number],
            Operand::Immediate(value) => value,
            Operand::Thread => u64::from(self.who.thread) % TILE as u64,
            Operand::Block => self.block.into(),
        };
        of.cut(value)
    }

    fn execute(&mut self, operation: &Operation, memory: &mut Memory<'_>) -> Result<(), String> {
        match operation {
            Operation::Math { math, of, to, from } => {
                let value = self.math(*math, *of, from)?;
                let wide = Type { bits: of.bits * 2, ..*of };
                let of = if *math == Math::MulWide { wide } else { *of };
                self.registers[*to] = of.cut(value);
            }
            Operation::Convert { of, into, to, from } => {
                let value = self.value(*from, *of);
                self.registers[*to] = into.cut(if of.signed { of.extend(value) } else { value });
            }
            Operation::Set { compare, of, to, from } => {
                let [left, right] = from.map(|from| self.value(from, *of));
                let order = of.compare(left, right);
                let holds = match compare {
                    Compare::Equal => order.is_eq(),
                    Compare::NotEqual => order.is_ne(),
                    Compare::Less => order.is_lt(),
                    Compare::LessOrEqual => order.is_le(),
                    Compare::Greater => order.is_gt(),
                    Compare::GreaterOrEqual => order.is_ge(),
                };
                self.registers[*to] = holds.into();
            }
            Operation::Load { space, of, to, from } => {
                let (address, bytes) = (self.address(from.base, from.offset), of.bytes());
                if *space != Space::Param {
                    check_alignment(address, bytes * to.len())?;
                }
                for (index, to) in to.iter().enumerate() {
                    let at = address + (index * bytes) as u64;
                    let value = memory.load(*space, self.who, at, bytes)?;
                    self.registers[*to] = if of.signed { of.extend(value) } else { value };
                }
            }
            Operation::Store { of, to, from } => {
                let (address, bytes) = (self.address(to.base, to.offset), of.bytes());
                check_alignment(address, bytes * from.len())?;
                for (index, from) in from.iter().enumerate() {
                    let at = address + (index * bytes) as u64;
                    memory.store(self.who, at, bytes, self.value(*from, *of))?;
                }
            }
            Operation::Branch(to) => self.at = *to,
            Operation::Return => self.state = State::Ended,
            Operation::Exchange { .. } | Operation::SyncWarp { .. } => self.state = State::Meets,
            Operation::Fence => {}
        }
        Ok(())
    }

    fn address(&self, base: Operand, offset: i64) -> u64 {
        self.value(base, B64).wrapping_add_signed(offset)
    }

    fn math(&self, math: Math, of: Type, from: &[Operand]) -> Result<u64, String> {
        let value = |index: usize| from.get(index).map_or(0, |from| self.value(*from, of));
        let (a, b) = (value(0), value(1));
        // Counts and positions have 32 bits, whatever is shifted.
        let count = |index: usize| {
            from.get(index).map_or(0, |from| self.value(*from, B32)).min(of.bits.into()) as u32
        };
        if matches!(math, Math::Div | Math::Rem | Math::MulWide) && of.signed {
            return Err(format!("{math:?} of signed numbers is not known"));
        }
        Ok(match math {
            Math::Mov => a,
            Math::Add => a.wrapping_add(b),
            Math::Sub => a.wrapping_sub(b),
            Math::Mul | Math::MulWide => a.wrapping_mul(b),
            Math::Div => a.checked_div(b).ok_or("divides by 0")?,
            Math::Rem => a.checked_rem(b).ok_or("divides by 0")?,
            Math::Min => {
                if of.compare(a, b).is_lt() {
                    a
                } else {
                    b
                }
            }
            Math::Max => {
                if of.compare(a, b).is_gt() {
                    a
                } else {
                    b
                }
            }
            Math::And => a & b,
            Math::Or => a | b,
            Math::Xor => a ^ b,
            Math::Not => !a,
            Math::Neg => a.wrapping_neg(),
            Math::Shl => a.checked_shl(count(1)).unwrap_or(0),
            Math::Shr if of.signed => {
                (of.extend(a).cast_signed() >> count(1).min(63)).cast_unsigned()
            }
            Math::Shr => a.checked_shr(count(1)).unwrap_or(0),
            Math::Popc => a.count_ones().into(),
            Math::Selp => {
                let Some(Operand::Register(predicate)) = from.get(2) else {
                    return Err("selects by no predicate".to_owned());
                };
                if self.registers[*predicate] == 1 { a } else { b }
            }
            Math::Prmt => permute(a, b, value(2)),
            Math::Bfi => {
                let (at, bits) = (count(2), count(3));
                let field = 1_u64.checked_shl(bits).map_or(u64::MAX, |top| top - 1);
                let shifted = |value: u64| value.checked_shl(at).unwrap_or(0);
                (b & !shifted(field)) | shifted(a & field)
            }
        })
    }
}

/// `prmt.b32`: each nibble of `selector` selects a byte of `b:a`, or its sign.
fn permute(a: u64, b: u64, selector: u64) -> u64 {
    let bytes = (b << 32 | a).to_le_bytes();
    let chosen = |index: usize| {
        let nibble = selector >> (4 * index) & 0xf;
        let byte = bytes[(nibble & 7) as usize];
        if nibble & 8 == 0 { byte } else { 0_u8.wrapping_sub(byte >> 7) }
    };
    u32::from_le_bytes(std::array::from_fn(chosen)).into()
}

fn check_alignment(address: u64, bytes: usize) -> Result<(), String> {
    if address.is_multiple_of(bytes as u64) {
        return Ok(());
    }
    Err(format!("goes to {bytes} bytes at {address:#x}, which is unaligned"))
}

impl Type {
    fn bytes(self) -> usize {
        (self.bits / 8) as usize
    }

    /// The bits that a register of this width keeps.
    fn cut(self, value: u64) -> u64 {
        value & (u64::MAX >> (64 - self.bits))
    }

    fn extend(self, value: u64) -> u64 {
        let unused = 64 - self.bits;
        ((value << unused).cast_signed() >> unused).cast_unsigned()
    }

    fn compare(self, left: u64, right: u64) -> std::cmp::Ordering {
        if self.signed {
            self.extend(left).cast_signed().cmp(&self.extend(right).cast_signed())
        } else {
            left.cmp(&right)
        }
    }
}
