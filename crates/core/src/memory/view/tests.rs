//! Views compared with packets, over random sequences of operations.
//!
//! The observable results are the same, except for headers in buffers of more than 64 KiB: offsets have 16
//! bits, and count from a base that a packet moves whenever its data is too far away, and a view when it
//! becomes a packet again. So one of them may know a header that is out of reach for the other; such a header
//! is cleared, never misplaced.

use proptest::prelude::*;

use super::*;

/// The number of cases; Miri is slow.
const CASES: u32 = if cfg!(miri) { 3 } else { 200 };
const STEPS: usize = if cfg!(miri) { 16 } else { 60 };

#[derive(Clone, Debug)]
enum Step {
    Strip(usize),
    Unstrip(usize),
    Prepend(Vec<u8>),
    PushFront(Vec<u8>),
    Append(Vec<u8>),
    Trim(usize),
    Truncate(usize),
    Write(usize, u8),
    Mac(isize),
    Link(isize, usize),
    Network(isize, usize),
    Ipv4(usize, usize),
    Transport(isize),
    Clear(u8),
    WriteIpv4(u8),
    WriteHeaders(u8),
    Type(u8),
    Paint(u8),
    Time(i64),
    /// Through a function's arguments.
    Words,
    /// Reserves headroom, as a step does.
    Reserve(usize),
    /// To a packet and back.
    Again,
    InPacket(usize),
    Share,
    Alone,
}

fn step() -> impl Strategy<Value = Step> {
    let bytes = || {
        prop_oneof![
            8 => proptest::collection::vec(any::<u8>(), 0..60),
            1 => proptest::collection::vec(any::<u8>(), 60..3000),
        ]
    };
    let amount = || prop_oneof![8 => 0usize..60, 2 => 0usize..3000, 1 => 0usize..150_000];
    let offset =
        || prop_oneof![8 => -60isize..60, 2 => -3000isize..3000, 1 => -100_000isize..100_000];
    let len = || prop_oneof![4 => Just(20usize), 4 => 0usize..60, 1 => 0usize..100_000];
    prop_oneof![
        4 => amount().prop_map(Step::Strip),
        4 => amount().prop_map(Step::Unstrip),
        3 => bytes().prop_map(Step::Prepend),
        2 => bytes().prop_map(Step::PushFront),
        2 => bytes().prop_map(Step::Append),
        2 => amount().prop_map(Step::Trim),
        1 => amount().prop_map(Step::Truncate),
        2 => (any::<usize>(), any::<u8>()).prop_map(|(at, byte)| Step::Write(at, byte)),
        2 => offset().prop_map(Step::Mac),
        2 => (offset(), len()).prop_map(|(at, len)| Step::Link(at, len)),
        3 => (offset(), len()).prop_map(|(at, len)| Step::Network(at, len)),
        3 => (amount(), len()).prop_map(|(at, len)| Step::Ipv4(at, len)),
        2 => offset().prop_map(Step::Transport),
        2 => (0u8..3).prop_map(Step::Clear),
        3 => any::<u8>().prop_map(Step::WriteIpv4),
        2 => any::<u8>().prop_map(Step::WriteHeaders),
        1 => (0u8..4).prop_map(Step::Type),
        1 => any::<u8>().prop_map(Step::Paint),
        1 => any::<i64>().prop_map(Step::Time),
        4 => Just(Step::Words),
        3 => (0usize..60).prop_map(Step::Reserve),
        2 => Just(Step::Again),
        1 => amount().prop_map(Step::InPacket),
        2 => Just(Step::Share),
        2 => Just(Step::Alone),
    ]
}

/// A packet, and the view of an equal one.
struct Pair {
    packet: Packet,
    view: View,
    /// The words of which the view was made.
    words: Words,
    /// Packets that share the same bytes.
    others: Vec<(Packet, Packet)>,
    /// Bytes directly in front of the data that are the same in both; those further away are undefined.
    front: usize,
}

/// A packet with these bytes, the first of which are headroom.
fn packet(headroom: usize, bytes: &[u8]) -> Packet {
    let mut packet = Packet::stale(0, bytes.len(), 40).unwrap();
    packet.data_mut().copy_from_slice(bytes);
    assert!(packet.strip(headroom));
    packet
}

impl Pair {
    fn new(headroom: usize, len: usize) -> Self {
        let bytes: Vec<u8> = (0..headroom + len).map(|at| (at * 7) as u8).collect();
        let view = View::of(packet(headroom, &bytes));
        let words = (view.slot.as_non_null(), std::ptr::null_mut(), 0, 0);
        Self { packet: packet(headroom, &bytes), view, words, others: Vec::new(), front: headroom }
    }

    fn is_large(&self) -> bool {
        self.packet.slot().buf_len() == LARGE || self.view.slot.buf_len() == LARGE
    }

    /// Does with the view what a function that passes it on does.
    fn change_view(&mut self, f: impl FnOnce(View) -> View) {
        // SAFETY: the words are used once, for what is put in the view's place.
        let view = unsafe { std::ptr::read(&self.view) };
        // SAFETY: a view has nothing to be dropped.
        unsafe { std::ptr::write(&mut self.view, f(view)) };
    }

    /// Passes the view on like a step: stores the words that have changed, and makes the next view of all.
    fn pass_words(&mut self, ready: bool) {
        // SAFETY: as in `change_view`.
        let (new, changed) = unsafe { std::ptr::read(&self.view) }.into_words();
        let old = self.words;
        self.words = (
            if changed.slot { new.0 } else { old.0 },
            if changed.data { new.1 } else { old.1 },
            if changed.len { new.2 } else { old.2 },
            if changed.headers { new.3 } else { old.3 },
        );
        let words = self.words;
        // SAFETY: the words are those of the view, and used once.
        self.change_view(|_| unsafe { View::from_words(words, ready) });
    }

    fn prepended(&mut self, n: usize) {
        self.front = self.front.saturating_sub(n);
    }

    fn run(&mut self, step: &Step) {
        let Self { packet, view, .. } = self;
        match step {
            Step::Strip(n) => {
                let stripped = packet.strip(*n);
                assert_eq!(view.strip(*n), stripped);
                self.front += if stripped { *n } else { 0 };
            }
            Step::Unstrip(n) => {
                let grown = packet.unstrip(*n);
                assert_eq!(view.unstrip(*n), grown);
                if grown && *n > self.front {
                    packet.data_mut()[..*n].fill(9);
                    view.data_mut()[..*n].fill(9);
                }
                self.prepended(if grown { *n } else { 0 });
            }
            Step::Prepend(bytes) => {
                packet.prepend(bytes.len()).copy_from_slice(bytes);
                view.prepend(bytes.len()).copy_from_slice(bytes);
                self.prepended(bytes.len());
            }
            Step::PushFront(bytes) => {
                packet.push_front(bytes);
                view.push_front(bytes);
                self.prepended(bytes.len());
            }
            Step::Append(bytes) => {
                packet.append(bytes.len()).copy_from_slice(bytes);
                view.append(bytes.len()).copy_from_slice(bytes);
            }
            Step::Trim(n) => assert_eq!(view.trim(*n), packet.trim(*n)),
            Step::Truncate(n) => {
                packet.truncate(*n);
                view.truncate(*n);
            }
            Step::Write(at, byte) => {
                if let Some(at) = at.checked_rem(packet.len()) {
                    packet.data_mut()[at] = *byte;
                    view.data_mut()[at] = *byte;
                }
            }
            Step::Mac(at) => {
                packet.set_mac_header(*at);
                view.set_mac_header(*at);
            }
            Step::Link(at, len) => {
                packet.set_link_header(*at, *len);
                view.set_link_header(*at, *len);
            }
            Step::Network(at, len) => {
                packet.set_network_header(*at, *len);
                view.set_network_header(*at, *len);
            }
            Step::Ipv4(at, len) => {
                let len = usize::from(*len as u16);
                let [high, low] = (len as u16).to_be_bytes();
                for data in [packet.data_mut(), view.data_mut()] {
                    if let Some([first, _, first_of_len, second_of_len]) = data.get_mut(*at..at + 4)
                    {
                        (*first, *first_of_len, *second_of_len) = (0x45, high, low);
                    }
                }
                let there = len >= Ipv4Header::LEN && at + len <= packet.len();
                if there {
                    packet.truncate(at + len);
                    packet.set_network_header(*at as isize, Ipv4Header::LEN);
                }
                assert_eq!(view.enter_ipv4(*at, |_| true), there);
                assert!(!view.enter_ipv4(*at, |_| false));
            }
            Step::Transport(at) => {
                packet.set_transport_header(*at);
                view.set_transport_header(*at);
            }
            Step::Clear(which) => self.clear(usize::from(*which)),
            Step::WriteIpv4(byte) => {
                let there = packet.network_data().is_some_and(|data| data.len() >= 20);
                let header = there.then(|| packet.network_data_mut()).flatten();
                let own = view.ipv4_mut();
                assert_eq!(own.is_some(), header.is_some());
                if let (Some(bytes), Some(header)) = (header, own) {
                    bytes[8] = *byte;
                    header.ttl = *byte;
                }
            }
            Step::WriteHeaders(byte) => {
                let write = |bytes: Option<&mut [u8]>, own: Option<&mut [u8]>| {
                    assert_eq!(own.is_some(), bytes.is_some());
                    for bytes in [bytes, own].into_iter().flatten() {
                        bytes.iter_mut().take(3).for_each(|to| *to = *byte);
                    }
                };
                write(packet.mac_data_mut(), view.mac_data_mut());
                write(packet.network_data_mut(), view.network_data_mut());
                write(packet.transport_data_mut(), view.transport_data_mut());
            }
            Step::Type(kind) => {
                let kind = PacketType::of_flags((*kind).into());
                packet.set_packet_type(kind);
                view.set_packet_type(kind);
            }
            Step::Paint(paint) => {
                packet.set_paint(*paint);
                view.set_paint(*paint);
            }
            Step::Time(time) => {
                packet.set_timestamp(Timestamp::from_nanos(*time));
                view.set_timestamp(Timestamp::from_nanos(*time));
            }
            Step::Words => {
                let ready = view.is_ready();
                self.pass_words(ready);
            }
            Step::Reserve(n) => {
                if view.is_ready() && !view.reserve(*n) {
                    self.pass_words(false);
                }
            }
            Step::Again => self.change_view(|view| View::of(view.into_packet())),
            Step::InPacket(n) => {
                let stripped = packet.strip(*n);
                assert_eq!(view.with_packet(|packet| packet.strip(*n)), stripped);
                self.front += if stripped { *n } else { 0 };
            }
            Step::Share => {
                let both = (packet.share().unwrap(), view.share().unwrap());
                self.others.push(both);
            }
            Step::Alone => self.others.clear(),
        }
        self.compare();
    }

    fn clear(&mut self, header: usize) {
        let Self { packet, view, .. } = self;
        match header {
            0 => (packet.clear_mac_header(), view.clear_mac_header()),
            1 => (packet.clear_network_header(), view.clear_network_header()),
            _ => (packet.clear_transport_header(), view.clear_transport_header()),
        };
    }

    fn headers(&self) -> [(Option<isize>, Option<isize>); 3] {
        let Self { packet, view, .. } = self;
        [
            (packet.mac_header(), view.mac_header()),
            (packet.network_header(), view.network_header()),
            (packet.transport_header(), view.transport_header()),
        ]
    }

    fn compare(&mut self) {
        if self.is_large() {
            // Which headers are in reach depends on where offsets count from, and that on when it was last changed.
            for (at, (ours, theirs)) in self.headers().into_iter().enumerate() {
                if ours.is_some() != theirs.is_some() {
                    self.clear(at);
                }
            }
        }
        self.headers().iter().for_each(|(ours, theirs)| assert_eq!(ours, theirs));
        let Self { packet, view, .. } = self;
        assert!(view.data() == packet.data());
        assert_eq!((view.len(), view.is_empty()), (packet.len(), packet.is_empty()));
        assert_eq!(view.network_offset(), packet.network_offset());
        assert_eq!(view.transport_offset(), packet.transport_offset());
        // Stale bytes farther in front differ.
        let known = |bytes: &&[u8]| bytes.len() <= packet.len() + self.front;
        for (ours, theirs) in [
            (packet.mac_data(), view.mac_data()),
            (packet.network_data(), view.network_data()),
            (packet.transport_data(), view.transport_data()),
        ] {
            assert_eq!(theirs.map(<[u8]>::len), ours.map(<[u8]>::len));
            assert!(theirs.filter(known) == ours.filter(known));
        }
        let header = packet.network_data().and_then(Ipv4Header::view);
        let (own, other) = (view.ipv4(), view.network_data().and_then(Ipv4Header::view));
        assert_eq!(own.is_some(), header.is_some());
        assert_eq!(own.map(|header| header.ttl), other.map(|(header, _)| header.ttl));
        assert_eq!(view.is_shared(), packet.is_shared());
        assert_eq!(view.packet_type(), packet.packet_type());
        assert_eq!(view.paint(), packet.paint());
        assert_eq!(view.timestamp(), packet.timestamp());
        assert_eq!(view.device(), packet.device());
        if view.slot.buf_len() != LARGE {
            assert_eq!(view.offset(), packet.headroom());
        }
        for (packet, view) in &self.others {
            assert!(view.data() == packet.data(), "whoever shares the bytes saw a change");
        }
    }

    fn end(mut self) {
        self.compare();
        let Self { packet, view, .. } = &mut self;
        assert_eq!(view.headroom(), packet.headroom());
        // SAFETY: a view has nothing to be dropped, and this one is used no more.
        let other = unsafe { std::ptr::read(view) }.into_packet();
        assert!(other.data() == packet.data());
        assert_eq!(other.tailroom(), packet.tailroom());
        if other.slot().buf_len() != LARGE {
            assert_eq!(other.slot().headers(), packet.slot().headers());
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: CASES, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_view_does_what_a_packet_does(
        headroom in prop_oneof![4 => Just(128usize), 2 => 0usize..30, 2 => 0usize..1500],
        len in prop_oneof![4 => 0usize..80, 2 => 0usize..1500, 1 => 60_000usize..160_000],
        shared in any::<bool>(),
        steps in proptest::collection::vec(step(), 1..STEPS),
    ) {
        let mut pair = Pair::new(headroom, len);
        if shared {
            pair.run(&Step::Share);
        }
        steps.iter().for_each(|step| pair.run(step));
        pair.end();
    }
}

#[test]
fn room_that_was_asked_for_is_given_once() {
    let change: [fn(&mut View); 2] = [
        |view| {
            view.prepend(8);
        },
        |view| assert!(view.unstrip(8)),
    ];
    for change in change {
        let mut view = View::of(packet(10, &[1; 30]));
        assert!(view.reserve(4));
        change(&mut view);
        view.push_front(&[2; 4]);
        let packet = view.into_packet();
        assert_eq!((packet.len(), &packet.data()[..4]), (32, &[2; 4][..]));
        // It had to be moved.
        assert!(packet.headroom() > 10);
    }
}

#[test]
fn a_header_that_a_copy_forgets_is_not_written() {
    for known in [false, true] {
        let mut large = Packet::with_len(70_000).unwrap();
        large.set_network_header(0, 20);
        let other = large.share().unwrap();
        let mut view = View::of(large);
        if known {
            view.set_network_header(0, 20);
        }
        assert!(view.strip(60_000));
        if !known {
            view.truncate(100);
        }
        assert!(view.ipv4().is_some() && view.is_shared());
        assert!(view.ipv4_mut().is_none());
        assert!(!view.is_shared() && view.network_header().is_none());
        drop((view.into_packet(), other));
    }
}

#[test]
fn headers_out_of_all_reason_are_not_set() {
    for len in [0, 20, 100, 70_000] {
        for offset in [0, 20, len, usize::MAX, usize::MAX - 20, isize::MAX as usize] {
            for header_len in [0, 20, 21, usize::MAX, usize::MAX - 127, isize::MAX as usize] {
                let mut view = View::of(Packet::with_len(len).unwrap());
                let _ = view.enter_ipv4(offset, |_| true);
                let whole = view.is_ready() && view.ipv4().is_some();
                assert!(!whole || offset.checked_add(20).is_some_and(|end| end <= len));
                view.set_network_header(offset as isize, header_len);
                let data = view.network_data().map(<[u8]>::len);
                assert!(data.is_none_or(|data| data <= 128 + len));
                view.ipv4_mut();
                drop(view.into_packet());
            }
        }
    }
}
