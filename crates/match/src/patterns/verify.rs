//! Verifies a hit: decides whether the rule alerts whose trigger was found.

use memchr::memmem::{self, Finder};

use super::{Content, Kinds, PatternSet, Rule, Text};

/// The rules of a set, prepared for verification.
#[derive(Debug)]
pub(super) struct Verifier {
    rules: Vec<Verified>,
    /// True if a rule has more contents than its trigger.
    several: bool,
}

#[derive(Debug)]
struct Verified {
    kinds: Kinds,
    /// True if the trigger is case-sensitive and was found ignoring case.
    compare: bool,
    trigger: Window,
    others: Box<[Window]>,
}

/// A content, and where it may occur.
#[derive(Debug)]
struct Window {
    bytes: Box<[u8]>,
    nocase: bool,
    offset: usize,
    end: usize,
    /// Finds the bytes, if they are case-sensitive and not a trigger.
    finder: Option<Box<Finder<'static>>>,
}

/// The rules that certainly do not alert in the present texts, because a content other than the trigger is missing.
/// Without this, a text that repeats a trigger would be searched again for each occurrence.
#[derive(Debug, Default)]
pub(super) struct Missed {
    /// For each rule and lane, the number of the text in which the rule cannot alert.
    texts: Vec<u32>,
    /// The number of the last text; 0 means none.
    last: u32,
}

/// The number of texts that are searched side by side. With 16, the states do not fit the registers, and harmless
/// texts take four times as long.
pub(super) const LANES: usize = 8;

/// The mark of a text in [`Missed`].
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Mark {
    lane: usize,
    text: u32,
}

impl Verifier {
    /// If `folds` is true, case-sensitive triggers are found ignoring case.
    pub(super) fn new(set: &PatternSet, folds: bool) -> Self {
        let verified = |rule: &Rule| {
            let trigger = rule.trigger();
            let others = rule.contents.iter().enumerate().filter(|&(at, _)| at != trigger);
            Verified {
                kinds: rule.kinds,
                compare: folds && rule.contents[trigger].has_case(),
                trigger: Window::of(&rule.contents[trigger]),
                others: others.map(|(_, content)| Window::of(content).with_finder()).collect(),
            }
        };
        let rules: Vec<Verified> = set.rules().iter().map(verified).collect();
        let several = rules.iter().any(|rule| !rule.others.is_empty());
        Self { rules, several }
    }

    /// True if the rule alerts whose trigger was found to end before position `end` of the text.
    #[inline]
    pub(super) fn alerts(
        &self,
        rule: u32,
        text: Text<'_>,
        end: usize,
        missed: &mut Missed,
        mark: Mark,
    ) -> bool {
        let Some(verified) = self.rules.get(rule as usize) else { return false };
        verified.kinds.has(text.kind)
            && verified.trigger.ends_at(end, text.bytes, verified.compare)
            && (verified.others.is_empty() || self.others(rule, verified, text, missed, mark))
    }

    fn others(
        &self,
        rule: u32,
        verified: &Verified,
        text: Text<'_>,
        missed: &mut Missed,
        mark: Mark,
    ) -> bool {
        let known = missed.texts.get_mut(rule as usize * LANES + mark.lane);
        if known.as_deref() == Some(&mark.text) {
            return false;
        }
        let found = verified.others.iter().all(|window| window.occurs(text.bytes));
        if let Some(known) = known
            && !found
        {
            *known = mark.text;
        }
        found
    }

    /// Calls `tell` for the rules that alert in a text, by searching for one after the other.
    pub(super) fn search(&self, text: Text<'_>, mut tell: impl FnMut(u32)) {
        for (index, rule) in (0..).zip(&self.rules) {
            let mut contents = rule.others.iter().chain([&rule.trigger]);
            if rule.kinds.has(text.kind) && contents.all(|window| window.occurs(text.bytes)) {
                tell(index);
            }
        }
    }

    /// The size in bytes.
    pub(super) fn memory(&self) -> usize {
        let windows = self.rules.iter().flat_map(|rule| rule.others.iter().chain([&rule.trigger]));
        let bytes = |window: &Window| {
            let finder = window.finder.as_ref().map_or(0, |_| size_of::<Finder<'_>>());
            let copies = if window.finder.is_some() { 2 } else { 1 };
            size_of::<Window>() + finder + copies * window.bytes.len()
        };
        self.rules.len() * size_of::<Verified>() + windows.map(bytes).sum::<usize>()
    }
}

impl Window {
    fn of(content: &Content) -> Self {
        Self {
            nocase: content.nocase,
            offset: content.offset as usize,
            end: match content.end() {
                u32::MAX => usize::MAX,
                end => end as usize,
            },
            bytes: content.folded().into(),
            finder: None,
        }
    }

    /// For a content that is searched for often.
    fn with_finder(self) -> Self {
        let finder = (!self.nocase).then(|| Finder::new(&self.bytes).into_owned().into());
        Self { finder, ..self }
    }

    /// True if the content that was found to end before `end` is in its window, and is equal if it must be compared.
    #[inline]
    fn ends_at(&self, end: usize, text: &[u8], compare: bool) -> bool {
        let start = end.wrapping_sub(self.bytes.len());
        end <= self.end
            && start >= self.offset
            && text.get(start..end).is_some_and(|found| !compare || self.equals(found))
    }

    fn equals(&self, found: &[u8]) -> bool {
        match self.nocase {
            true => found.eq_ignore_ascii_case(&self.bytes),
            false => found == &*self.bytes,
        }
    }

    /// True if it occurs anywhere in its window.
    fn occurs(&self, text: &[u8]) -> bool {
        let Some(window) = text.get(self.offset..text.len().min(self.end)) else { return false };
        match &self.finder {
            Some(finder) => finder.find(window).is_some(),
            None if !self.nocase => memmem::find(window, &self.bytes).is_some(),
            None => window.windows(self.bytes.len()).any(|found| self.equals(found)),
        }
    }
}

impl Missed {
    /// Forgets everything. The following texts must be searched with this verifier.
    pub(super) fn begin(&mut self, verifier: &Verifier) {
        let marks = if verifier.several { verifier.rules.len() * LANES } else { 0 };
        if self.texts.len() != marks {
            self.texts.clear();
            self.texts.resize(marks, 0);
        }
    }

    /// The mark for the next text of a lane.
    pub(super) fn mark(&mut self, lane: usize) -> Mark {
        if self.last == u32::MAX {
            self.texts.fill(0);
            self.last = 0;
        }
        self.last += 1;
        Mark { lane, text: self.last }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::patterns::Kind;

    #[test]
    fn a_text_is_searched_once_for_what_is_missing() {
        let mut set = PatternSet::new();
        let both = vec![Content::of("ab"), Content::of("c")];
        set.push(Rule { contents: both, ..Rule::of(Content::of("ab")) }).unwrap();
        let verifier = Verifier::new(&set, false);
        let mut missed = Missed::default();
        missed.begin(&verifier);
        let (one, other) = (missed.mark(3), missed.mark(4));
        let text = |bytes| Text { bytes, kind: Kind::Tcp };
        assert!(!verifier.alerts(0, text(b"abab"), 2, &mut missed, one));
        // A content that is known to be missing is not searched for again.
        assert!(!verifier.alerts(0, text(b"ababc"), 4, &mut missed, one));
        assert!(verifier.alerts(0, text(b"ababc"), 4, &mut missed, other));
    }

    #[test]
    fn marks_are_new_when_their_numbers_run_out() {
        let mut missed = Missed { texts: vec![u32::MAX; LANES], last: u32::MAX - 1 };
        assert_eq!(missed.mark(0).text, u32::MAX);
        assert_eq!((missed.mark(0).text, &*missed.texts), (1, &[0; LANES][..]));
    }
}
