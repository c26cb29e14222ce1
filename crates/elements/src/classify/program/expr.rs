//! Expressions over tests, and their translation into instructions.

use super::insn::{Insn, Jump, Test};

/// A condition on a packet, composed of conditions of type `T`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Expr<T> {
    /// A condition that is not composed of others.
    Is(T),
    /// Every one of these holds. There is at least one.
    All(Vec<Expr<T>>),
    /// At least one of these holds. There is at least one.
    Any(Vec<Expr<T>>),
    /// `condition, then, condition, then, ..., otherwise`: Click's `a ? b : c`, which chains.
    Choose(Vec<Expr<T>>),
    /// The condition does not hold.
    Not {
        /// The condition.
        of: Box<Expr<T>>,
        /// What happens to packets too short for a test of the condition. `false`: the test fails, so `not` of it
        /// holds. `true`: they take the test's other way, so a packet without a port satisfies neither `port == 5` nor
        /// `port != 5`.
        turns_short: bool,
    },
}

impl<T> Expr<T> {
    /// The negation under which a packet that is too short for the test passes.
    pub fn negate(self) -> Self {
        Expr::Not { of: Box::new(self), turns_short: false }
    }

    /// The negation under which a packet that is too short for the test fails, as without negation.
    pub fn negate_present(self) -> Self {
        Expr::Not { of: Box::new(self), turns_short: true }
    }

    /// Whether any of its conditions is one of these.
    pub fn has(&self, wanted: &impl Fn(&T) -> bool) -> bool {
        match self {
            Expr::Is(condition) => wanted(condition),
            Expr::All(list) | Expr::Any(list) | Expr::Choose(list) => {
                list.iter().any(|expr| expr.has(wanted))
            }
            Expr::Not { of, .. } => of.has(wanted),
        }
    }

    /// Replaces each condition by an expression.
    pub fn flat_map<U>(&self, each: &mut impl FnMut(&T) -> Expr<U>) -> Expr<U> {
        let mut all = |list: &[Expr<T>]| list.iter().map(|expr| expr.flat_map(each)).collect();
        match self {
            Expr::Is(condition) => each(condition),
            Expr::All(list) => Expr::All(all(list)),
            Expr::Any(list) => Expr::Any(all(list)),
            Expr::Choose(list) => Expr::Choose(all(list)),
            Expr::Not { of, turns_short } => {
                Expr::Not { of: Box::new(of.flat_map(each)), turns_short: *turns_short }
            }
        }
    }
}

/// An expression whose outcome may be the same for all packets.
pub(super) enum Folded {
    Always,
    Never,
    Depends(Expr<Test>),
}

impl Expr<Test> {
    /// Leaves out what is decided by tests of no bits, which every packet passes.
    pub(super) fn folded(self) -> Folded {
        use Folded::{Always, Depends, Never};
        match self {
            Expr::Is(Test { mask: 0, .. }) => Always,
            Expr::Is(test) => Depends(Expr::Is(test)),
            Expr::Not { of, turns_short } => match of.folded() {
                Always => Never,
                Never => Always,
                Depends(expr) => Depends(Expr::Not { of: Box::new(expr), turns_short }),
            },
            Expr::All(list) => {
                let mut rest = Vec::new();
                for expr in list {
                    match expr.folded() {
                        Always => {}
                        Never => return Never,
                        Depends(expr) => rest.push(expr),
                    }
                }
                if rest.is_empty() { Always } else { Depends(Expr::All(rest)) }
            }
            Expr::Any(list) => {
                let mut rest = Vec::new();
                for expr in list {
                    match expr.folded() {
                        Always => return Always,
                        Never => {}
                        Depends(expr) => rest.push(expr),
                    }
                }
                if rest.is_empty() { Never } else { Depends(Expr::Any(rest)) }
            }
            Expr::Choose(list) => folded_choice(list),
        }
    }

    /// Appends the instructions of this expression, one for each test, in the order of the tests. They lead to
    /// [`Jump::Success`] and [`Jump::Failure`].
    pub(super) fn emit(&self, insns: &mut Vec<Insn>) {
        match self {
            Expr::Is(test) => insns.push(Insn::new(*test)),
            Expr::All(list) => emit_chain(list, insns, |next| (next, Jump::Failure)),
            Expr::Any(list) => emit_chain(list, insns, |next| (Jump::Success, next)),
            Expr::Choose(list) => emit_choice(list, insns),
            Expr::Not { of, turns_short } => {
                let start = insns.len();
                of.emit(insns);
                for insn in insns.iter_mut().skip(start) {
                    insn.short ^= turns_short;
                }
                redirect(insns, start, Jump::Failure, Jump::Success);
            }
        }
    }
}

fn folded_choice(list: Vec<Expr<Test>>) -> Folded {
    let whole = |folded| match folded {
        Folded::Always => Expr::Is(Test::new(0, 0, 0)),
        Folded::Never => Expr::Is(Test::new(0, 0, 0)).negate(),
        Folded::Depends(expr) => expr,
    };
    let mut rest = Vec::new();
    let mut parts = list.into_iter();
    while let Some(condition) = parts.next() {
        let condition = condition.folded();
        let Some(then) = parts.next() else {
            // The last part is what holds otherwise.
            return match rest.is_empty() {
                true => condition,
                false => {
                    rest.push(whole(condition));
                    Folded::Depends(Expr::Choose(rest))
                }
            };
        };
        match condition {
            Folded::Never => {}
            Folded::Always if rest.is_empty() => return then.folded(),
            Folded::Always => {
                rest.push(whole(then.folded()));
                return Folded::Depends(Expr::Choose(rest));
            }
            Folded::Depends(condition) => rest.extend([condition, whole(then.folded())]),
        }
    }
    // Without a last part, nothing holds otherwise.
    if rest.is_empty() { Folded::Never } else { Folded::Depends(Expr::Choose(rest)) }
}

/// Emits conditions one after another; `ways` returns the destinations of success and failure of all but the last,
/// given the place of the next.
fn emit_chain(list: &[Expr<Test>], insns: &mut Vec<Insn>, ways: impl Fn(Jump) -> (Jump, Jump)) {
    for (nth, expr) in list.iter().enumerate() {
        let start = insns.len();
        expr.emit(insns);
        if nth + 1 < list.len() {
            let (success, failure) = ways(Jump::to(insns.len()));
            redirect(insns, start, success, failure);
        }
    }
}

fn emit_choice(list: &[Expr<Test>], insns: &mut Vec<Insn>) {
    let mut rest = list;
    while let [condition, then, otherwise @ ..] = rest {
        let start = insns.len();
        condition.emit(insns);
        let middle = insns.len();
        then.emit(insns);
        let failure = if otherwise.is_empty() { Jump::Failure } else { Jump::to(insns.len()) };
        for insn in insns.iter_mut().take(middle).skip(start) {
            insn.redirect(Jump::to(middle), failure);
        }
        rest = otherwise;
    }
    for last in rest {
        last.emit(insns);
    }
}

/// Redirects success and failure of the instructions from `start` on.
fn redirect(insns: &mut [Insn], start: usize, success: Jump, failure: Jump) {
    for insn in insns.iter_mut().skip(start) {
        insn.redirect(success, failure);
    }
}

impl Insn {
    /// Redirects success and failure.
    pub(super) fn redirect(&mut self, success: Jump, failure: Jump) {
        for jump in &mut self.jump {
            match jump {
                Jump::Success => *jump = success,
                Jump::Failure => *jump = failure,
                _ => {}
            }
        }
    }
}
