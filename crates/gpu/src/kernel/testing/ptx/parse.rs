//! Parses PTX text into instructions.

use std::collections::HashMap;

/// An entry's instructions.
#[derive(Debug)]
pub(super) struct Program {
    pub(super) code: Vec<Instruction>,
    pub(super) registers: usize,
    /// The number of bytes of the parameters.
    pub(super) parameters: usize,
}

#[derive(Debug)]
pub(super) struct Instruction {
    /// The line of the text, from 1 on.
    pub(super) line: usize,
    /// The instruction is executed only if this predicate has this value.
    pub(super) guard: Option<(usize, bool)>,
    pub(super) operation: Operation,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Type {
    /// The width in bits; 1 for a predicate.
    pub(super) bits: u32,
    pub(super) signed: bool,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Operand {
    Register(usize),
    /// A number, or the offset of a parameter.
    Immediate(u64),
    /// `%tid.x` and `%ctaid.x`.
    Thread,
    Block,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Address {
    pub(super) base: Operand,
    pub(super) offset: i64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Space {
    Param,
    Global,
    /// Global memory through the read-only cache (`.nc`).
    Cached,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Math {
    Mov,
    Add,
    Sub,
    Mul,
    /// The result is twice as wide as the operands.
    MulWide,
    Div,
    Rem,
    Min,
    Max,
    And,
    Or,
    Xor,
    Not,
    Neg,
    Shl,
    Shr,
    Popc,
    Selp,
    Prmt,
    Bfi,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Compare {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

#[derive(Debug)]
pub(super) enum Operation {
    Math {
        math: Math,
        of: Type,
        to: usize,
        from: Vec<Operand>,
    },
    Convert {
        of: Type,
        into: Type,
        to: usize,
        from: Operand,
    },
    Set {
        compare: Compare,
        of: Type,
        to: usize,
        from: [Operand; 2],
    },
    Load {
        space: Space,
        of: Type,
        to: Vec<usize>,
        from: Address,
    },
    Store {
        of: Type,
        to: Address,
        from: Vec<Operand>,
    },
    Branch(usize),
    Return,
    /// `shfl.sync.bfly`: the value of the thread whose number differs in these bits.
    Exchange {
        to: usize,
        there: Option<usize>,
        value: Operand,
        bits: Operand,
        mask: Operand,
    },
    /// `bar.warp.sync`.
    SyncWarp {
        mask: Operand,
    },
    /// `membar.sys`.
    Fence,
}

type Result<T> = std::result::Result<T, String>;

/// Names and their meanings.
#[derive(Default)]
struct Names {
    registers: HashMap<String, usize>,
    parameters: HashMap<String, u64>,
    labels: HashMap<String, usize>,
}

impl Program {
    /// Parses a module with one entry.
    pub(super) fn parse(text: &str) -> Result<Self> {
        let mut names = Names::default();
        let mut parameters = 0_usize;
        // Each statement is on a line of its own. Labels are known after all lines are read.
        let mut statements = Vec::new();
        let mut inside = false;
        for (index, line) in text.lines().enumerate() {
            let line = line.split("//").next().unwrap_or_default().trim();
            let fail = |what: &str| Err(format!("line {}: {what}: {line}", index + 1));
            if let Some(parameter) = line.strip_prefix(".param") {
                parameters = names.parameter(parameter, parameters)?;
            } else if !inside {
                inside = line == "{";
            } else if let Some(label) = line.strip_suffix(':') {
                names.labels.insert(label.to_owned(), statements.len());
            } else if let Some(declared) = line.strip_prefix(".reg") {
                names.declare(declared)?;
            } else if line == "}" {
                break;
            } else if !line.is_empty() && !line.starts_with(".pragma") {
                let Some(statement) = line.strip_suffix(';') else {
                    return fail("not one statement");
                };
                statements.push((index + 1, statement.trim()));
            }
        }
        let instruction = |&(line, statement): &(usize, &str)| {
            names.instruction(line, statement).map_err(|error| format!("line {line}: {error}"))
        };
        let code = statements.iter().map(instruction).collect::<Result<_>>()?;
        Ok(Self { code, registers: names.registers.len(), parameters })
    }
}

/// The parts between commas that are not inside brackets.
fn pieces(text: &str) -> Vec<&str> {
    let mut depth = 0;
    let outside = |symbol: char| {
        match symbol {
            '{' | '[' => depth += 1,
            '}' | ']' => depth -= 1,
            _ => {}
        }
        symbol == ',' && depth == 0
    };
    text.split(outside).map(str::trim).filter(|piece| !piece.is_empty()).collect()
}

fn number(text: &str) -> Option<u64> {
    if let Some(hex) = text.strip_prefix("0x") {
        return u64::from_str_radix(hex, 16).ok();
    }
    text.parse::<u64>().ok().or_else(|| text.parse::<i64>().ok().map(i64::cast_unsigned))
}

fn type_of(name: &str) -> Result<Type> {
    if name == "pred" {
        return Ok(Type { bits: 1, signed: false });
    }
    let bits = name.get(1..).and_then(|bits| bits.parse().ok());
    match (name.chars().next(), bits) {
        (Some(kind @ ('u' | 's' | 'b')), Some(bits @ (8 | 16 | 32 | 64))) => {
            Ok(Type { bits, signed: kind == 's' })
        }
        _ => Err(format!("no type that is known: {name}")),
    }
}

impl Names {
    /// `.align 4 .b8 name[292],` or `.u64 name`: placed after `end`; returns its end.
    fn parameter(&mut self, text: &str, end: usize) -> Result<usize> {
        let fail = || format!("no parameter that is known: {text}");
        let text = text.trim_end_matches(',').trim();
        let name = text.split_whitespace().next_back().ok_or_else(fail)?;
        let (name, bytes, align) =
            match name.strip_suffix(']').and_then(|name| name.split_once('[')) {
                Some((name, bytes)) => (name, bytes.parse().map_err(|_| fail())?, 4),
                None if text.starts_with(".u64") => (name, 8, 8),
                None => return Err(fail()),
            };
        let at = end.next_multiple_of(align);
        self.parameters.insert(name.to_owned(), at as u64);
        Ok(at + bytes)
    }

    /// `.b32 %r<4>;` or `.b64 %from, %to;`.
    fn declare(&mut self, text: &str) -> Result<()> {
        let text = text.trim().trim_end_matches(';');
        let (_, names) = text.split_once(char::is_whitespace).ok_or("registers without a name")?;
        for name in names.split(',').map(str::trim) {
            match name.strip_suffix('>').and_then(|name| name.split_once('<')) {
                Some((name, count)) => {
                    for index in 0..count.parse::<usize>().map_err(|error| error.to_string())? {
                        self.add(format!("{name}{index}"));
                    }
                }
                None => self.add(name.to_owned()),
            }
        }
        Ok(())
    }

    fn add(&mut self, name: String) {
        let number = self.registers.len();
        self.registers.insert(name, number);
    }

    fn register(&self, name: &str) -> Result<usize> {
        self.registers.get(name).copied().ok_or_else(|| format!("no register {name}"))
    }

    fn operand(&self, text: &str) -> Result<Operand> {
        match text {
            "%tid.x" => return Ok(Operand::Thread),
            "%ctaid.x" => return Ok(Operand::Block),
            _ => {}
        }
        if text.starts_with('%') {
            return self.register(text).map(Operand::Register);
        }
        number(text)
            .or_else(|| self.parameters.get(text).copied())
            .map(Operand::Immediate)
            .ok_or_else(|| format!("no operand that is known: {text}"))
    }

    /// `[%rd1+4]`, `[name+4]`, `[%rd1]`.
    fn address(&self, text: &str) -> Result<Address> {
        let inner = text.strip_prefix('[').and_then(|text| text.strip_suffix(']'));
        let inner = inner.ok_or_else(|| format!("no address: {text}"))?;
        let (base, offset) = inner.split_once('+').unwrap_or((inner, "0"));
        let offset = offset.parse().map_err(|_| format!("no offset: {text}"))?;
        Ok(Address { base: self.operand(base)?, offset })
    }

    /// One register, or several in braces.
    fn group<'a>(&self, text: &'a str) -> Vec<&'a str> {
        match text.strip_prefix('{').and_then(|text| text.strip_suffix('}')) {
            Some(inner) => pieces(inner),
            None => vec![text],
        }
    }

    fn instruction(&self, line: usize, statement: &str) -> Result<Instruction> {
        let (guard, statement) = match statement.strip_prefix('@') {
            None => (None, statement),
            Some(rest) => {
                let (name, rest) = rest.split_once(char::is_whitespace).ok_or("a guard alone")?;
                let wanted = !name.starts_with('!');
                (Some((self.register(name.trim_start_matches('!'))?, wanted)), rest.trim())
            }
        };
        let (name, operands) = statement.split_once(char::is_whitespace).unwrap_or((statement, ""));
        let operation = self.operation(name, &pieces(operands))?;
        Ok(Instruction { line, guard, operation })
    }

    fn operation(&self, name: &str, operands: &[&str]) -> Result<Operation> {
        let unknown = || format!("no instruction that is known: {name} {}", operands.join(", "));
        let parts: Vec<&str> = name.split('.').collect();
        Ok(match (parts.as_slice(), operands) {
            (["ret"], []) => Operation::Return,
            (["membar", "sys"], []) => Operation::Fence,
            (["bar", "warp", "sync"], [mask]) => Operation::SyncWarp { mask: self.operand(mask)? },
            (["bra"] | ["bra", "uni"], [label]) => {
                Operation::Branch(*self.labels.get(*label).ok_or_else(unknown)?)
            }
            // Clamped to the whole warp: 31.
            (["shfl", "sync", "bfly", "b32"], [to, value, bits, clamp, mask]) => {
                let (to, there) = match to.split_once('|') {
                    Some((to, there)) => (to, Some(self.register(there)?)),
                    None => (*to, None),
                };
                // The instruction that says so was parsed before, as a load into a register.
                self.operand(clamp)?;
                Operation::Exchange {
                    to: self.register(to)?,
                    there,
                    value: self.operand(value)?,
                    bits: self.operand(bits)?,
                    mask: self.operand(mask)?,
                }
            }
            (["ld", modifiers @ .., of], [to, from]) => {
                let space = match modifiers {
                    ["param"] => Space::Param,
                    ["global"] | ["volatile", "global"] => Space::Global,
                    ["global", "nc"] | ["global", "nc", "v2" | "v4"] => Space::Cached,
                    _ => return Err(unknown()),
                };
                let to = self.group(to).into_iter().map(|name| self.register(name));
                let to = to.collect::<Result<_>>()?;
                Operation::Load { space, of: type_of(of)?, to, from: self.address(from)? }
            }
            (["st", "global", of] | ["st", "volatile", "global", of], [to, from]) => {
                let from = self.group(from).into_iter().map(|from| self.operand(from));
                let from = from.collect::<Result<_>>()?;
                Operation::Store { of: type_of(of)?, to: self.address(to)?, from }
            }
            (["setp", compare, of], [to, left, right]) => {
                let compare = match *compare {
                    "eq" => Compare::Equal,
                    "ne" => Compare::NotEqual,
                    "lt" => Compare::Less,
                    "le" => Compare::LessOrEqual,
                    "gt" => Compare::Greater,
                    "ge" => Compare::GreaterOrEqual,
                    _ => return Err(unknown()),
                };
                let from = [self.operand(left)?, self.operand(right)?];
                Operation::Set { compare, of: type_of(of)?, to: self.register(to)?, from }
            }
            (["cvt", into, of], [to, from]) => Operation::Convert {
                of: type_of(of)?,
                into: type_of(into)?,
                to: self.register(to)?,
                from: self.operand(from)?,
            },
            ([name, mode @ .., of], [to, from @ ..]) => {
                let (math, count) = match (*name, mode) {
                    ("mov", []) | ("cvta", ["to", "global"]) => (Math::Mov, 1),
                    ("not", []) => (Math::Not, 1),
                    ("neg", []) => (Math::Neg, 1),
                    ("popc", []) => (Math::Popc, 1),
                    ("add", []) => (Math::Add, 2),
                    ("sub", []) => (Math::Sub, 2),
                    ("mul", ["lo"]) => (Math::Mul, 2),
                    ("mul", ["wide"]) => (Math::MulWide, 2),
                    ("div", []) => (Math::Div, 2),
                    ("rem", []) => (Math::Rem, 2),
                    ("min", []) => (Math::Min, 2),
                    ("max", []) => (Math::Max, 2),
                    ("and", []) => (Math::And, 2),
                    ("or", []) => (Math::Or, 2),
                    ("xor", []) => (Math::Xor, 2),
                    ("shl", []) => (Math::Shl, 2),
                    ("shr", []) => (Math::Shr, 2),
                    ("selp", []) => (Math::Selp, 3),
                    ("prmt", []) => (Math::Prmt, 3),
                    ("bfi", []) => (Math::Bfi, 4),
                    _ => return Err(unknown()),
                };
                if from.len() != count {
                    return Err(unknown());
                }
                let from = from.iter().map(|from| self.operand(from)).collect::<Result<_>>()?;
                Operation::Math { math, of: type_of(of)?, to: self.register(to)?, from }
            }
            _ => return Err(unknown()),
        })
    }
}
