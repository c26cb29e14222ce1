//! A filter in front of the automaton: it finds where a trigger may begin in a text, and skips the rest.
//!
//! Every trigger has a **window**: four of its bytes that are rare in texts. If all triggers have at least five
//! bytes, each has two windows one byte apart, so that every other position of a text need not be examined. Windows
//! are hashed into a table of 32 KB, which stays in the first-level cache. This takes a fraction of the automaton's
//! time, as long as little is found. Therefore it is used only for few triggers, and its benefit is watched
//! ([`Trust`]).

use crate::patterns::automaton::Triggers;

/// The windows of all triggers, hashed.
#[derive(Debug)]
pub(super) struct Sieve {
    /// For each upper part of a hash, the set of [tags](Hash::tag) of its windows.
    tags: Box<[u8; 1 << INDEX_BITS]>,
    /// The distance between examined positions: 1 or 2.
    step: usize,
    /// The maximum distance from the start of a trigger to its window, in bytes.
    reach: usize,
}

/// Bytes of a window.
const WINDOW: usize = 4;
const INDEX_BITS: u32 = 15;
/// More triggers would fill the table, and most texts contain some of them.
const MOST_TRIGGERS: usize = 512;
/// The maximum position of a window in its trigger, so that few bytes before a hit are searched again.
const FARTHEST: usize = 12;
/// The number of bytes whose positions are examined together.
const CHUNK: usize = 16;

/// Bytes by their frequency in text and on the Web, the most frequent ones first.
const COMMON: &[u8] = b" etaoinsrlhdcmpu/g.f-w=\"yb<>0v1k2:;,\r\n&?_'()%345x678j9qz\0";

impl Sieve {
    /// `None` if there would be no gain.
    pub(super) fn of(triggers: &Triggers) -> Option<Self> {
        let patterns = &triggers.distinct.patterns;
        if patterns.is_empty() || patterns.len() > MOST_TRIGGERS || triggers.shortest < WINDOW {
            return None;
        }
        let step = if triggers.shortest > WINDOW { 2 } else { 1 };
        let mut sieve = Self { tags: vec![0; 1 << INDEX_BITS].try_into().ok()?, step, reach: 0 };
        for pattern in patterns {
            let bytes: Vec<u8> =
                pattern.iter().map(|&class| triggers.classes.byte(class)).collect();
            let offset = rarest(&bytes, WINDOW + step - 1);
            for at in offset..offset + step {
                let window = bytes.get(at..).and_then(|bytes| bytes.first_chunk())?;
                let hash = Hash::of(window);
                sieve.tags[hash.index()] |= hash.tag();
                sieve.reach = sieve.reach.max(at);
            }
        }
        Some(sieve)
    }

    /// The first position from `from` on at which a trigger may begin.
    pub(super) fn find(&self, text: &[u8], from: usize) -> Option<usize> {
        let found =
            if self.step == 1 { self.look::<1>(text, from) } else { self.look::<2>(text, from) };
        found.map(|found| found.saturating_sub(self.reach).max(from))
    }

    /// The first window of a trigger, at every `STEP`-th position.
    fn look<const STEP: usize>(&self, text: &[u8], from: usize) -> Option<usize> {
        const ALL: usize = CHUNK + WINDOW - 1;
        let mut at = from;
        while let Some(bytes) = text.get(at..).and_then(|text| text.first_chunk::<ALL>()) {
            let mut tags = 0;
            for position in (0..CHUNK).step_by(STEP) {
                tags |= self.tags[Hash::of(window(bytes, position)).index()];
            }
            if tags != 0 {
                let is_one = |&position: &usize| self.has(window(bytes, position));
                if let Some(position) = (0..CHUNK).step_by(STEP).find(is_one) {
                    return Some(at + position);
                }
            }
            at += CHUNK;
        }
        let rest = text.get(at..)?;
        let mut windows = rest.windows(WINDOW).enumerate().step_by(STEP);
        let is_one = |window: &[u8]| window.first_chunk().is_some_and(|window| self.has(window));
        windows.find(|(_, window)| is_one(window)).map(|(position, _)| at + position)
    }

    fn has(&self, window: &[u8; WINDOW]) -> bool {
        let hash = Hash::of(window);
        self.tags[hash.index()] & hash.tag() != 0
    }

    /// The size in bytes.
    pub(super) fn memory(&self) -> usize {
        size_of_val(&*self.tags)
    }
}

/// The window at a position of a chunk.
#[inline(always)]
fn window<const N: usize>(bytes: &[u8; N], position: usize) -> &[u8; WINDOW] {
    const NONE: &[u8; WINDOW] = &[0; WINDOW];
    bytes[position..].first_chunk().unwrap_or(NONE)
}

/// The position of the `length` bytes of a pattern that are the rarest together.
fn rarest(pattern: &[u8], length: usize) -> usize {
    let rank = |byte: &u8| {
        let byte = byte.to_ascii_lowercase();
        COMMON.iter().position(|&common| common == byte).unwrap_or(COMMON.len())
    };
    let rarity = |window: &[u8]| window.iter().map(rank).sum::<usize>();
    let windows = pattern.windows(length).take(FARTHEST + 1).map(rarity).enumerate();
    // The first of the best ones.
    windows.rev().max_by_key(|&(_, rarity)| rarity).map_or(0, |(offset, _)| offset)
}

/// The hash of a window, without the bit that distinguishes upper and lower case.
#[derive(Clone, Copy)]
struct Hash(u32);

impl Hash {
    #[inline(always)]
    fn of(window: &[u8; WINDOW]) -> Self {
        Self((u32::from_le_bytes(*window) | 0x2020_2020).wrapping_mul(0x9e37_79b1))
    }

    #[inline(always)]
    fn index(self) -> usize {
        (self.0 >> (32 - INDEX_BITS)) as usize
    }

    fn tag(self) -> u8 {
        1 << (self.0 >> (32 - INDEX_BITS - 3) & 7)
    }
}

/// Decides whether the sieve is worth its time: a thread's credit, in bytes of text.
///
/// Using the sieve costs [`COST`](Self::COST). A byte that it skips gains one, and a byte that the automaton
/// processes gains a sixteenth, so that the sieve is tried again. A text made by somebody who knows the triggers can
/// make the sieve useless, but the loss is bounded: it is used at most once for each 64 bytes that it skips, and once
/// for each 1,024 bytes that the automaton processes; and no byte is processed twice. If only the hash of a window
/// matches, 16 bytes are examined again, which costs as much as processing them.
#[derive(Clone, Debug)]
pub(in crate::patterns) struct Trust {
    credit: usize,
    /// How often the sieve was used.
    pub(super) asked: u64,
    /// The number of bytes that were skipped, and of those that were processed.
    pub(super) spared: u64,
    pub(super) walked: u64,
}

impl Trust {
    pub(super) const COST: usize = 64;
    pub(super) const MOST: usize = 4096;
    pub(super) const TRIED_AGAIN: usize = 16;

    /// The first position from `from` on where a trigger may begin; `from` itself if the sieve is not used.
    pub(super) fn find(
        &mut self,
        sieve: Option<&Sieve>,
        text: &[u8],
        from: usize,
    ) -> Option<usize> {
        let Some(sieve) = sieve else { return Some(from) };
        let Some(credit) = self.credit.checked_sub(Self::COST) else { return Some(from) };
        let found = sieve.find(text, from);
        let spared = found.unwrap_or(text.len()).saturating_sub(from);
        self.credit = (credit + spared).min(Self::MOST);
        self.asked += 1;
        self.spared += spared as u64;
        found
    }

    /// True if the sieve would be used.
    pub(super) fn is_there(&self) -> bool {
        self.credit >= Self::COST
    }

    /// Notes that the automaton has processed this number of bytes.
    pub(super) fn walk(&mut self, bytes: usize) {
        self.credit = (self.credit + bytes / Self::TRIED_AGAIN).min(Self::MOST);
        self.walked += bytes as u64;
    }
}

impl Default for Trust {
    fn default() -> Self {
        Self { credit: Self::MOST, asked: 0, spared: 0, walked: 0 }
    }
}

#[cfg(test)]
mod tests {
    use millrace_testkit::generate::payload::{self, NearMiss, Part};

    use super::*;
    use crate::patterns::{Content, Dfa, Kind, PatternSet, Rule, Scratch, Text};

    const PATTERNS: [&str; 8] = [
        "/etc/passwd",
        "cmd.exe",
        "union select",
        "<script>",
        "xp_cmdshell",
        "../../..",
        "${jndi:",
        "eval(",
    ];

    fn set(patterns: &[&str]) -> PatternSet {
        let mut set = PatternSet::new();
        for pattern in patterns {
            let content = Content { nocase: true, ..Content::of(*pattern) };
            set.push(Rule::of(content)).unwrap();
        }
        set
    }

    /// Searches, and returns the account of the sieve and the number of bytes of all texts.
    fn account(texts: &[Vec<u8>]) -> (Trust, u64) {
        let dfa = Dfa::new(&set(&PATTERNS)).unwrap();
        let mut scratch = Scratch::default();
        let of = |bytes| Text { bytes, kind: Kind::Tcp };
        let all: Vec<Text<'_>> = texts.iter().map(|bytes| of(bytes)).collect();
        for texts in all.chunks(64) {
            dfa.firsts(texts, &mut vec![0; texts.len()], &mut scratch);
        }
        for text in &all[..8] {
            dfa.first(*text, &mut scratch);
        }
        let bytes = texts.iter().chain(&texts[..8]).map(Vec::len).sum::<usize>();
        (scratch.trust, bytes as u64)
    }

    fn many(mut text: impl FnMut(&mut fastrand::Rng, usize) -> Vec<u8>) -> Vec<Vec<u8>> {
        let mut random = fastrand::Rng::with_seed(1);
        (0..512).map(|number| text(&mut random, [64, 700, 1500][number % 3])).collect()
    }

    #[test]
    fn harmless_texts_are_passed_over() {
        let (trust, bytes) = account(&many(payload::http));
        assert!(trust.walked * 50 < bytes, "{trust:?} of {bytes}");
        assert!(trust.spared > bytes * 9 / 10, "{trust:?} of {bytes}");
    }

    /// The additional cost of hostile texts with a sieve is bounded, measured by counts.
    #[test]
    fn hostile_texts_are_walked_once_and_the_sieve_is_hardly_asked() {
        let patterns: Vec<Vec<u8>> = PATTERNS.iter().map(|one| one.as_bytes().to_vec()).collect();
        let heads = NearMiss::new(&patterns, Part::Head);
        let tails = NearMiss::new(&patterns, Part::Tail);
        // The windows of all patterns, one after the other.
        let dense = || b"passwd.cmd.exunion selec<scriptxp_cmdshel../../.${jndieval".repeat(30);
        // A window exactly as often as the sieve is worth its time.
        let sparse = || [&[b'~'; 100][..], b"/etc/passw"].concat().repeat(20);
        for texts in [
            many(|random, length| heads.make(random, length)),
            many(|random, length| tails.make(random, length)),
            many(|_, length| dense()[..length].to_vec()),
            many(|_, length| sparse()[..length].to_vec()),
        ] {
            let (trust, bytes) = account(&texts);
            // The last block of a text is padded.
            let walked_at_most = bytes + 8 * texts.len() as u64;
            assert!(trust.walked + trust.spared <= walked_at_most, "{trust:?} of {bytes}");
            let earned = trust.spared + trust.walked / Trust::TRIED_AGAIN as u64;
            let asked_at_most = (earned + Trust::MOST as u64) / Trust::COST as u64;
            assert!(trust.asked <= asked_at_most, "{trust:?} of {bytes}");
        }
    }

    #[test]
    fn sets_that_match_too_often_have_no_sieve() {
        let sieve = |patterns: &[&str]| Sieve::of(&Triggers::of(&set(patterns)));
        assert!(sieve(&[]).is_none());
        assert!(sieve(&["abc", "/etc/passwd"]).is_none());
        assert_eq!(sieve(&["abcd", "/etc/passwd"]).unwrap().step, 1);
        assert_eq!(sieve(&["abcde", "/etc/passwd"]).unwrap().step, 2);
        let many: Vec<String> = (0..=MOST_TRIGGERS).map(|n| format!("pattern {n}")).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        assert!(sieve(&many).is_none());
        assert!(sieve(&many[1..]).is_some());
    }

    /// Every position of a window in a chunk, in the rest after chunks, and at the end.
    #[test]
    fn a_trigger_is_found_wherever_it_is() {
        for patterns in [["Ab\0d"], ["Ab\0de"], ["eeeeeeeeeeeeeeeeeeee~Q@Q~"]] {
            let sieve = Sieve::of(&Triggers::of(&set(&patterns))).unwrap();
            let pattern = patterns[0].to_ascii_uppercase();
            for length in pattern.len()..90 {
                for start in 0..=length - pattern.len() {
                    let mut text = vec![b'.'; length];
                    text[start..start + pattern.len()].copy_from_slice(pattern.as_bytes());
                    for from in 0..=start {
                        let found = sieve.find(&text, from);
                        assert!(found.is_some_and(|found| (from..=start).contains(&found)));
                    }
                }
            }
        }
    }
}
