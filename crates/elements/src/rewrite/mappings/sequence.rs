//! Shifts of the sequence numbers of a TCP connection whose data changed in length.

/// The shifts of both directions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct SequenceShifts([Vec<Shift>; 2]);

/// `by` is added to sequence numbers from `from` on. The newest shift of a direction comes last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Shift {
    /// `None` if the shift applies to every number.
    from: Option<u32>,
    by: i32,
}

/// Sequence numbers this far behind are treated as new ones after a wrap (RFC 9293, 3.4).
const HORIZON: u32 = 1 << 30;

/// Whether a sequence number equals another one or comes after it.
fn reached(number: u32, other: u32) -> bool {
    number.wrapping_sub(other) < 1 << 31
}

impl SequenceShifts {
    /// Shifts the numbers of one direction by `by` more from `from` on. Returns false if there already is a shift
    /// that begins later.
    pub(crate) fn add(&mut self, reply: bool, from: u32, by: i32) -> bool {
        let shifts = self.of_mut(reply);
        if let Some(Shift { from: Some(last), .. }) = shifts.last() {
            if !reached(from, *last) {
                return false;
            }
            if *last == from {
                shifts.pop();
            }
        }
        let before = shifts.last().map_or(0, |shift| shift.by);
        shifts.push(Shift { from: Some(from), by: before.wrapping_add(by) });
        let old = |shift: &Shift| {
            shift.from.is_none_or(|first| reached(from, first.wrapping_add(HORIZON)))
        };
        // Of the old shifts, only the last one matters: it applies to all numbers before the next shift.
        if let Some(base) = shifts.iter().rposition(old) {
            shifts.drain(..base);
            if let Some(base) = shifts.first_mut() {
                base.from = None;
            }
        }
        true
    }

    /// Converts a sequence number that one side sends to the number that the other side must see.
    pub(crate) fn sequence(&self, reply: bool, number: u32) -> u32 {
        let holds = |shift: &&Shift| shift.from.is_none_or(|from| reached(number, from));
        let shift = self.of(reply).iter().rev().find(holds);
        number.wrapping_add_signed(shift.map_or(0, |shift| shift.by))
    }

    /// Converts an acknowledgment that one side sends to the number that the other side must see.
    pub(crate) fn acknowledgment(&self, reply: bool, number: u32) -> u32 {
        let back = |shift: &Shift| number.wrapping_sub(shift.by.cast_unsigned());
        let holds = |shift: &&Shift| shift.from.is_none_or(|from| reached(back(shift), from));
        let shift = self.of(!reply).iter().rev().find(holds);
        shift.map_or(number, back)
    }

    /// Forgets where a shift starts once the numbers are far beyond.
    pub(crate) fn age(&mut self, reply: bool, number: u32) {
        let shifts = self.of_mut(reply);
        if let Some(last) = shifts.last_mut()
            && last.from.is_some_and(|from| reached(number, from.wrapping_add(HORIZON)))
        {
            last.from = None;
            shifts.drain(..shifts.len() - 1);
        }
    }

    /// The newest shift of a direction.
    pub(crate) fn newest(&self, reply: bool) -> i32 {
        self.of(reply).last().map_or(0, |shift| shift.by)
    }

    /// Whether any numbers of a direction are shifted.
    pub(crate) fn shifts(&self, reply: bool) -> bool {
        !self.of(reply).is_empty()
    }

    fn of(&self, reply: bool) -> &[Shift] {
        let [forward, replies] = &self.0;
        if reply { replies } else { forward }
    }

    fn of_mut(&mut self, reply: bool) -> &mut Vec<Shift> {
        let [forward, replies] = &mut self.0;
        if reply { replies } else { forward }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_shifted_from_where_the_data_changed() {
        let mut shifts = SequenceShifts::default();
        assert!(shifts.add(false, 100, -5));
        assert!(shifts.add(false, 200, 7));
        assert!(!shifts.add(false, 150, 1), "not in the middle");
        assert_eq!([99, 100, 199, 200].map(|n| shifts.sequence(false, n)), [99, 95, 194, 202]);
        assert_eq!([94, 95, 194, 202].map(|n| shifts.acknowledgment(true, n)), [94, 100, 199, 200]);
        assert_eq!((shifts.sequence(true, 7), shifts.acknowledgment(false, 7)), (7, 7));
        assert_eq!((shifts.newest(false), shifts.newest(true)), (2, 0));
    }

    #[test]
    fn the_start_of_an_old_shift_is_forgotten() {
        let mut shifts = SequenceShifts::default();
        assert!(shifts.add(true, u32::MAX - 5, 3));
        assert_eq!(shifts.sequence(true, 4), 7);
        shifts.age(true, HORIZON + 10);
        assert_eq!(shifts.sequence(true, HORIZON + 10), HORIZON + 13);
        assert_eq!(shifts.sequence(true, 1 << 31), (1 << 31) + 3);
    }
}
