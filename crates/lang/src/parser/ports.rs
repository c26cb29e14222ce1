//! Lists of ports: `[0, 2-4]`.

use super::{MAX_PORT, Parser};
use crate::ast::{PortRange, Ports, TextRange};
use crate::lexer::{Token, TokenKind};

impl Parser<'_> {
    /// Reads `[0, 2-4]`.
    pub(super) fn ports(&mut self) -> Option<Box<Ports>> {
        let open = self.peek();
        if !open.is('[') {
            return None;
        }
        self.bump();
        let mut ports = Ports { range: open.range, ranges: Vec::new(), open: false };
        let mut dash = false;
        loop {
            let token = self.peek();
            if token.is(']') && !dash {
                ports.open = true;
                break;
            }
            if token.kind != TokenKind::Ident {
                let found = self.describe(token);
                self.error(token.range, "syntax error: expected port number")
                    .label(format!("found {found}"));
                break;
            }
            self.bump();
            self.port(token, dash, &mut ports.ranges);
            let next = self.peek();
            if next.is('-') && !dash {
                dash = true;
            } else if next.is(',') {
                dash = false;
            } else {
                if !next.is(']') {
                    let found = self.describe(next);
                    self.error(next.range, "syntax error: expected ‘,’")
                        .label(format!("expected ‘,’ or ‘]’, found {found}"));
                }
                break;
            }
            self.bump();
        }
        if self.peek().is(']') {
            self.bump();
        }
        ports.range = open.range.to(TextRange { start: self.last_end, end: self.last_end });
        Some(Box::new(ports))
    }

    pub(super) fn port(&mut self, token: Token, ends_range: bool, ranges: &mut Vec<PortRange>) {
        let number = match port_number(token.range.of(self.text)) {
            Some(number) if number <= u64::from(MAX_PORT) => number as u32,
            Some(_) => {
                self.error(token.range, "port number too large")
                    .label(format!("the highest port is {MAX_PORT}"));
                return;
            }
            None => {
                self.error(token.range, "syntax error: port number should be integer");
                return;
            }
        };
        match ranges.last_mut() {
            Some(range) if ends_range && number >= range.last => range.last = number,
            Some(range) if ends_range => {
                let first = range.first;
                self.error(token.range, "syntax error: empty range of ports")
                    .label(format!("less than {first}, where the range starts"));
            }
            _ => ranges.push(PortRange { first: number, last: number }),
        }
    }
}

/// A number in Click's integer format: decimal, octal after `0`, hexadecimal after `0x`.
fn port_number(text: &str) -> Option<u64> {
    let (digits, radix) = match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(digits) => (digits, 16),
        None if text.len() > 1 && text.starts_with('0') => (text, 8),
        None => (text, 10),
    };
    if digits.is_empty() || !digits.chars().all(|c| c.is_digit(radix)) {
        return None;
    }
    Some(u64::from_str_radix(digits, radix).unwrap_or(u64::MAX))
}
