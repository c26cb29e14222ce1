//! Packets and batches compared with models, over random sequences of operations, and across threads.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc;

use proptest::prelude::*;

use super::*;

/// The number of cases; Miri is slow.
const CASES: u32 = if cfg!(miri) { 3 } else { 200 };
const STEPS: usize = if cfg!(miri) { 16 } else { 60 };

/// One operation on some packets. A `usize` selects a packet or a position, modulo their number.
#[derive(Clone, Debug)]
enum Step {
    New(Vec<u8>),
    NewLarge(usize),
    Strip(usize, usize),
    Unstrip(usize, usize),
    Prepend(usize, Vec<u8>),
    Append(usize, Vec<u8>),
    Trim(usize, usize),
    Truncate(usize, usize),
    Write(usize, usize, u8),
    Receive(usize, Vec<u8>),
    Share(usize),
    Copy(usize),
    Drop(usize),
    Mac(usize, usize),
    Network(usize, usize, usize),
    Paint(usize, u8),
}

fn step() -> impl Strategy<Value = Step> {
    let at = any::<usize>;
    let bytes = || {
        prop_oneof![
            8 => proptest::collection::vec(any::<u8>(), 0..80),
            1 => proptest::collection::vec(any::<u8>(), 80..3000),
        ]
    };
    let amount = || prop_oneof![8 => 0usize..80, 2 => 0usize..3000, 1 => 0usize..150_000];
    prop_oneof![
        3 => bytes().prop_map(Step::New),
        1 => (1_000usize..200_000).prop_map(Step::NewLarge),
        4 => (at(), amount()).prop_map(|(p, n)| Step::Strip(p, n)),
        4 => (at(), amount()).prop_map(|(p, n)| Step::Unstrip(p, n)),
        4 => (at(), bytes()).prop_map(|(p, b)| Step::Prepend(p, b)),
        4 => (at(), bytes()).prop_map(|(p, b)| Step::Append(p, b)),
        2 => (at(), amount()).prop_map(|(p, n)| Step::Trim(p, n)),
        1 => (at(), amount()).prop_map(|(p, n)| Step::Truncate(p, n)),
        3 => (at(), at(), any::<u8>()).prop_map(|(p, i, b)| Step::Write(p, i, b)),
        1 => (at(), bytes()).prop_map(|(p, b)| Step::Receive(p, b)),
        4 => at().prop_map(Step::Share),
        2 => at().prop_map(Step::Copy),
        3 => at().prop_map(Step::Drop),
        2 => (at(), at()).prop_map(|(p, o)| Step::Mac(p, o)),
        2 => (at(), at(), 0usize..60).prop_map(|(p, o, n)| Step::Network(p, o, n)),
        1 => (at(), any::<u8>()).prop_map(|(p, b)| Step::Paint(p, b)),
    ]
}

/// The expected state of a packet.
#[derive(Clone, Default)]
struct Model {
    data: Vec<u8>,
    /// The known part of the headroom: the bytes directly in front of the data, nearest last.
    front: Vec<u8>,
    headers: [Option<isize>; 3],
    /// Whether each header has once been beyond the data, which may have become longer since.
    beyond: [bool; 3],
    paint: u8,
    /// Packets with the same number share the same buffer.
    buffer: usize,
}

impl Model {
    fn strip(&mut self, n: usize) {
        self.front.extend(self.data.drain(..n));
        self.shift(-(n as isize));
    }

    fn prepend(&mut self, bytes: &[u8]) {
        self.front.truncate(self.front.len().saturating_sub(bytes.len()));
        self.data.splice(..0, bytes.iter().copied());
        self.shift(bytes.len() as isize);
    }

    fn shift(&mut self, by: isize) {
        self.headers.iter_mut().flatten().for_each(|header| *header += by);
    }
}

/// Packets with their models.
#[derive(Default)]
struct World {
    packets: Vec<(Packet, Model)>,
    buffers: usize,
}

impl World {
    fn add(&mut self, packet: Packet, mut model: Model) {
        self.buffers += 1;
        model.buffer = self.buffers;
        self.packets.push((packet, model));
    }

    /// The packet that `choice` selects, after giving it its own buffer in the model if it is `written`.
    fn choose(&mut self, choice: usize, written: bool) -> Option<&mut (Packet, Model)> {
        let index = choice.checked_rem(self.packets.len())?;
        if written && self.sharers(self.packets[index].1.buffer) > 1 {
            self.buffers += 1;
            self.packets[index].1.buffer = self.buffers;
        }
        self.packets.get_mut(index)
    }

    fn sharers(&self, buffer: usize) -> usize {
        self.packets.iter().filter(|(_, model)| model.buffer == buffer).count()
    }

    fn take(&mut self, step: Step) -> Option<()> {
        match step {
            Step::New(data) => {
                let packet = Packet::from_bytes(&data)?;
                self.add(packet, Model { data, ..Model::default() });
            }
            Step::NewLarge(len) => {
                let packet = Packet::with_len(len)?;
                self.add(packet, Model { data: vec![0; len], ..Model::default() });
            }
            Step::Strip(p, n) => {
                let (packet, model) = self.choose(p, false)?;
                assert_eq!(packet.strip(n), n <= model.data.len());
                if n <= model.data.len() {
                    model.strip(n);
                }
            }
            Step::Unstrip(p, n) => {
                let (packet, model) = self.choose(p, false)?;
                let n = n.min(model.front.len());
                assert!(packet.unstrip(n));
                let bytes = model.front.split_off(model.front.len() - n);
                model.data.splice(..0, bytes);
                model.shift(n as isize);
                let headroom = packet.headroom();
                assert!(!packet.unstrip(headroom + 1));
            }
            Step::Prepend(p, bytes) => {
                let (packet, model) = self.choose(p, true)?;
                packet.push_front(&bytes);
                model.prepend(&bytes);
            }
            Step::Append(p, bytes) => {
                let (packet, model) = self.choose(p, true)?;
                packet.push_back(&bytes);
                model.data.extend(bytes);
            }
            Step::Trim(p, n) => {
                let (packet, model) = self.choose(p, false)?;
                assert_eq!(packet.trim(n), n <= model.data.len());
                if n <= model.data.len() {
                    model.data.truncate(model.data.len() - n);
                }
            }
            Step::Truncate(p, n) => {
                let (packet, model) = self.choose(p, false)?;
                packet.truncate(n);
                model.data.truncate(n);
            }
            Step::Write(p, i, byte) => {
                let (packet, model) = self.choose(p, true)?;
                let data = packet.data_mut();
                if let Some(i) = i.checked_rem(data.len()) {
                    data[i] = byte;
                    model.data[i] = byte;
                }
            }
            Step::Receive(p, bytes) => {
                let (packet, model) = self.choose(p, true)?;
                let buffer = packet.buffer_mut();
                let len = buffer.len().min(bytes.len());
                buffer[..len].copy_from_slice(&bytes[..len]);
                assert!(packet.set_len(len));
                model.data = bytes[..len].to_vec();
                let most = packet.len() + packet.tailroom();
                assert!(!packet.set_len(most + 1));
            }
            Step::Share(p) => {
                let (packet, model) = self.choose(p, false)?;
                let pair = (packet.share()?, model.clone());
                self.packets.push(pair);
            }
            Step::Copy(p) => {
                let (packet, model) = self.choose(p, false)?;
                let (packet, model) = (packet.copy()?, model.clone());
                self.add(packet, model);
            }
            Step::Drop(p) => {
                let index = p.checked_rem(self.packets.len())?;
                self.packets.swap_remove(index);
            }
            Step::Mac(p, o) => {
                let (packet, model) = self.choose(p, false)?;
                let offset =
                    (o % (model.data.len() + 1)) as isize - model.front.len().min(14) as isize;
                packet.set_mac_header(offset);
                model.headers[0] = Some(offset);
            }
            Step::Network(p, o, n) => {
                let (packet, model) = self.choose(p, false)?;
                let offset = o % (model.data.len() + 1);
                let n = n.min(model.data.len() - offset);
                packet.set_network_header(offset as isize, n);
                model.headers[1] = Some(offset as isize);
                model.headers[2] = Some((offset + n) as isize);
            }
            Step::Paint(p, paint) => {
                let (packet, model) = self.choose(p, false)?;
                packet.set_paint(paint);
                model.paint = paint;
            }
        }
        Some(())
    }

    fn check(&mut self) {
        for index in 0..self.packets.len() {
            let shared = self.sharers(self.packets[index].1.buffer) > 1;
            let (packet, model) = &mut self.packets[index];
            assert_eq!(packet.len(), model.data.len());
            assert!(packet.data() == model.data, "data differ");
            assert_eq!(packet.is_shared(), shared);
            assert_eq!(packet.paint(), model.paint);
            assert!(packet.headroom() >= model.front.len());
            let headers = [packet.mac_header(), packet.network_header(), packet.transport_header()];
            let wanted = model.headers.iter_mut().zip(&mut model.beyond);
            for (have, (want, beyond)) in headers.into_iter().zip(wanted) {
                *beyond |= want.is_some_and(|want| want > model.data.len() as isize);
                // Large buffers forget a header that lies too far off, copies one beyond the data.
                let lost = |want: isize| want.unsigned_abs() > 30_000 || *beyond;
                if have.is_none() && want.is_some_and(lost) {
                    *want = None;
                }
                assert_eq!(have, *want);
            }
            let in_data = |header: Option<isize>| {
                let offset = usize::try_from(header?).ok()?;
                model.data.get(offset..)
            };
            if model.headers[0].is_some_and(|mac| mac >= 0) {
                assert!(packet.mac_data() == in_data(model.headers[0]));
            }
            if model.headers[1].is_some_and(|network| network >= 0) {
                assert!(packet.network_data() == in_data(model.headers[1]));
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(CASES))]

    #[test]
    fn packets_are_as_their_model(steps in proptest::collection::vec(step(), 0..STEPS)) {
        let mut world = World::default();
        for step in steps {
            world.take(step);
            world.check();
        }
    }
}

/// One operation on two batches; `true` selects the first.
#[derive(Clone, Debug)]
enum Move {
    Push(bool, u8),
    Allocate(bool, usize),
    Pop(bool),
    Append(bool),
    Swap,
    Truncate(bool, usize),
    /// Takes a run, but only the first few packets of it.
    DrainRun(bool, usize, usize, usize),
    Transfer(bool, usize, usize),
    Retain(bool, u8),
    /// Keeps packets that are not a multiple, until the function panics.
    Filter(bool, u8, usize),
    Distribute(bool, u8),
}

fn a_move() -> impl Strategy<Value = Move> {
    let first = any::<bool>;
    prop_oneof![
        3 => (first(), 0u8..60).prop_map(|(b, n)| Move::Push(b, n)),
        3 => (first(), 0usize..300).prop_map(|(b, n)| Move::Allocate(b, n)),
        1 => first().prop_map(Move::Pop),
        2 => first().prop_map(Move::Append),
        1 => Just(Move::Swap),
        1 => (first(), 0usize..260).prop_map(|(b, n)| Move::Truncate(b, n)),
        2 => (first(), 0usize..260, 0usize..260, 0usize..30).prop_map(|(b, s, e, n)| Move::DrainRun(b, s, e, n)),
        2 => (first(), 0usize..260, 0usize..260).prop_map(|(b, s, e)| Move::Transfer(b, s, e)),
        1 => (first(), 1u8..5).prop_map(|(b, n)| Move::Retain(b, n)),
        2 => (first(), 1u8..5, 0usize..400).prop_map(|(b, n, at)| Move::Filter(b, n, at)),
        2 => (first(), 1u8..5).prop_map(|(b, n)| Move::Distribute(b, n)),
    ]
}

/// Batches with vectors of the numbers that their packets carry.
#[derive(Default)]
struct Batches([(Batch, Vec<u8>); 2]);

impl Batches {
    /// The chosen batch with its model, and the other.
    fn pair(&mut self, is_first: bool) -> [&mut (Batch, Vec<u8>); 2] {
        let [first, second] = &mut self.0;
        if is_first { [first, second] } else { [second, first] }
    }

    fn make(&mut self, step: Move) {
        match step {
            Move::Push(b, count) => {
                let [(batch, model), _] = self.pair(b);
                for number in 0..count {
                    let mut packet = Packet::from_bytes(&[number]).unwrap();
                    packet.set_paint(number);
                    assert_eq!(batch.push(packet).is_ok(), model.len() < Batch::CAPACITY);
                    if model.len() < Batch::CAPACITY {
                        model.push(number);
                    }
                }
            }
            Move::Allocate(b, count) => {
                let [(batch, model), _] = self.pair(b);
                assert_eq!(batch.allocate(count, 1500), count.min(Batch::CAPACITY - model.len()));
                model.resize(batch.len(), 0);
            }
            Move::Pop(b) => {
                let [(batch, model), _] = self.pair(b);
                assert_eq!(batch.pop().map(|packet| packet.paint()), model.pop());
            }
            Move::Append(b) => {
                let [(batch, model), (other, other_model)] = self.pair(b);
                let moved = batch.append(other);
                assert_eq!(moved, other_model.len().min(Batch::CAPACITY - model.len()));
                model.extend(other_model.drain(..moved));
            }
            Move::Swap => {
                let [one, other] = self.pair(true);
                std::mem::swap(one, other);
            }
            Move::Truncate(b, len) => {
                let [(batch, model), _] = self.pair(b);
                batch.truncate(len);
                model.truncate(len);
            }
            Move::DrainRun(b, start, end, count) => {
                let [(batch, model), _] = self.pair(b);
                let end = end.min(model.len());
                let start = start.min(end);
                let taken: Vec<u8> =
                    batch.drain_run(start..end).take(count).map(|packet| packet.paint()).collect();
                let expected: Vec<u8> = model.drain(start..end).take(count).collect();
                assert_eq!(taken, expected);
            }
            Move::Transfer(b, start, end) => {
                let [(batch, model), (other, other_model)] = self.pair(b);
                let end = end.min(model.len());
                let start = start.min(end);
                let moved = batch.drain_run(start..end).move_to(other);
                assert_eq!(moved, (end - start).min(Batch::CAPACITY - other_model.len()));
                other_model.extend(model.drain(start..end).take(moved));
            }
            Move::Retain(b, divisor) => {
                let [(batch, model), _] = self.pair(b);
                batch.retain_mut(|packet| packet.paint().is_multiple_of(divisor));
                model.retain(|number| number.is_multiple_of(divisor));
            }
            Move::Filter(b, divisor, panic_at) => {
                let [(batch, model), _] = self.pair(b);
                let mut count = 0;
                let filter = |packet: Packet| {
                    count += 1;
                    if count > panic_at {
                        std::panic::resume_unwind(Box::new(()));
                    }
                    (!packet.paint().is_multiple_of(divisor)).then_some(packet)
                };
                let outcome = catch_unwind(AssertUnwindSafe(|| batch.map_filter(filter)));
                assert_eq!(outcome.is_err(), model.len() > panic_at);
                let mut index = 0;
                model.retain(|number| {
                    index += 1;
                    // The packet at hand is lost with the panic.
                    index > panic_at + 1 || (index <= panic_at && !number.is_multiple_of(divisor))
                });
            }
            Move::Distribute(b, outputs) => {
                let [(batch, model), (other, other_model)] = self.pair(b);
                let mut ports = [0; Batch::CAPACITY];
                batch.classify(&mut ports, |packet| u16::from(packet.paint() % outputs));
                let mut expected = Vec::new();
                for run in model.chunk_by(|a, b| a % outputs == b % outputs) {
                    expected.push((u16::from(run[0] % outputs), run.len()));
                }
                let mut runs = Vec::new();
                batch.distribute(&ports, |port, run| {
                    runs.push((port, run.len()));
                    if port == 0 {
                        run.move_to(other);
                    }
                });
                assert_eq!(runs, expected);
                let moved = model.drain(..).filter(|number| number % outputs == 0);
                let room = Batch::CAPACITY - other_model.len();
                other_model.extend(moved.take(room));
            }
        }
    }

    fn check(&self) {
        for (batch, model) in &self.0 {
            let numbers: Vec<u8> = batch.iter().map(Packet::paint).collect();
            assert_eq!(&numbers, model);
            assert_eq!((batch.len(), batch.room()), (model.len(), Batch::CAPACITY - model.len()));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(CASES))]

    #[test]
    fn batches_are_as_their_model(moves in proptest::collection::vec(a_move(), 0..STEPS / 2)) {
        let mut batches = Batches::default();
        for step in moves {
            // Under the interpreter the arena is too small for full batches.
            if cfg!(miri) && matches!(step, Move::Allocate(..)) {
                continue;
            }
            batches.make(step);
            batches.check();
        }
    }
}

#[test]
fn a_batch_with_shared_packets_frees_what_is_its_own() {
    let mut batch = Batch::new();
    let mut shares = Vec::new();
    for number in 0..40 {
        let packet = Packet::from_bytes(&[number]).unwrap();
        if number % 3 == 0 {
            shares.push((number, packet.share().unwrap()));
        }
        batch.push(packet).unwrap();
    }
    batch.clear();
    // New packets that took a shared buffer would write over it.
    for _ in 0..40 {
        batch.push(Packet::from_bytes(&[255]).unwrap()).unwrap();
    }
    for (number, share) in &shares {
        assert_eq!(share.data(), [*number]);
        assert!(!share.is_shared());
    }
}

#[test]
fn packets_cross_threads() {
    let rounds = if cfg!(miri) { 3 } else { 400 };
    let (send, receive) = mpsc::channel::<(Batch, Packet)>();
    let consumer = std::thread::spawn(move || {
        let mut sum = 0u64;
        for (mut batch, mut shared) in receive {
            // The other side may write its half at the same moment.
            shared.data_mut()[0] = 1;
            batch.for_each(|packet| sum += u64::from(packet.data()[0]));
            sum += u64::from(shared.data()[0]);
        }
        sum
    });
    for _ in 0..rounds {
        let mut batch = Batch::new();
        for _ in 0..10 {
            drop(batch.push(Packet::from_bytes(&[3]).unwrap()));
        }
        let mut kept = Packet::from_bytes(&[7]).unwrap();
        let shared = kept.share().unwrap();
        send.send((batch, shared)).unwrap();
        kept.data_mut()[0] += 1;
        assert_eq!(kept.data(), [8]);
    }
    drop(send);
    assert_eq!(consumer.join().unwrap(), rounds * 31);
}

#[test]
fn a_thread_may_end_with_packets_in_its_storage() {
    use std::cell::RefCell;
    thread_local!(static HELD: RefCell<Vec<Packet>> = const { RefCell::new(Vec::new()) });
    std::thread::spawn(|| {
        // Registered first, so dropped after the thread's free lists are gone, and the other way round.
        HELD.with_borrow_mut(|held| held.push(Packet::from_bytes(&[1]).unwrap()));
        HELD.with_borrow_mut(|held| {
            let shared = held[0].share().unwrap();
            held.push(shared);
        });
    })
    .join()
    .unwrap();
}

#[test]
fn a_buffer_can_be_shared_without_end() {
    let packet = Packet::from_bytes(b"all").unwrap();
    if cfg!(miri) {
        return;
    }
    let before = copies::snapshot();
    let shares: Vec<Packet> = (0..20_000).map(|_| packet.share().unwrap()).collect();
    assert!(shares.iter().all(|share| share.data() == b"all"));
    // Beyond 384 holders the buffer is copied; other tests may count copies meanwhile.
    assert!(copies::snapshot().since(&before).get(CopyCause::Clone) >= 20_000 - 384);
    drop(packet);
    assert!(shares.iter().all(|share| share.data() == b"all"));
}

#[test]
fn named_annotations_have_their_places() {
    let mut packet = Packet::with_len(0).unwrap();
    packet.set_dst_ip([10, 1, 2, 3].into());
    packet.set_paint(5);
    packet.set_icmp_param_prob(20);
    packet.set_fix_ip_src(true);
    packet.set_vlan_tci(0x1234);
    packet.set_extra_packets(0x0102_0304);
    packet.set_extra_length(77);
    packet.set_first_timestamp(crate::time::Timestamp::from_secs(9));
    packet.set_perfctr(u64::MAX);
    let area = *packet.annotations();
    assert_eq!(area[0..4], [10, 1, 2, 3]);
    assert_eq!(area[16..22], [5, 20, 0, 1, 0x12, 0x34]);
    assert_eq!(area[24..28], 0x0102_0304u32.to_ne_bytes());
    assert_eq!(area[28..32], 77u32.to_ne_bytes());
    assert_eq!(area[32..40], 9_000_000_000u64.to_ne_bytes());
    assert_eq!(area[40..48], [0xff; 8]);
    assert_eq!(packet.anno_u32(45), 0, "beyond the area");
    packet.set_anno_u32(45, 1);
    assert_eq!(packet.annotations(), &area);
    assert_eq!(annotations::find("PAINT").map(|info| (info.offset, info.size)), Some((16, 1)));
    assert_eq!(annotations::find("paint"), None);
    let other = packet.copy().unwrap();
    assert_eq!(other.annotations(), &area);
    drop((packet, other));
    assert_eq!(Packet::with_len(0).unwrap().annotations(), &[0; ANNOTATION_LEN], "wiped");
}

#[test]
fn raw_packets_come_back() {
    let mut packet = Packet::from_bytes(b"raw").unwrap();
    packet.set_packet_type(PacketType::Multicast);
    packet.set_device(Some(3));
    packet.set_device_hash(9);
    let raw = packet.into_raw();
    // SAFETY: `raw` came from `into_raw` and is used once.
    let packet = unsafe { Packet::from_raw(raw) };
    assert_eq!((packet.data(), packet.packet_type()), (&b"raw"[..], PacketType::Multicast));
    assert_eq!((packet.device(), packet.device_hash()), (Some(3), Some(9)));
}

#[test]
fn a_window_is_set_within_the_buffer() {
    let mut packet = Packet::for_receive(1500).unwrap();
    assert!(packet.set_window(256, 60));
    assert_eq!((packet.headroom(), packet.len()), (256, 60));
    assert!(!packet.set_window(STANDARD_ROOM, 1));
    assert_eq!((packet.headroom(), packet.len()), (256, 60));
}

#[test]
fn an_mbuf_is_a_packet_and_goes_home() {
    use std::alloc::{Layout, alloc_zeroed, dealloc};
    use std::ptr::{NonNull, null};
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::descriptor::{DESCRIPTOR_LEN, Slot};

    static HOME: AtomicUsize = AtomicUsize::new(0);
    assert!(register_external_release(|mbufs| {
        for mbuf in mbufs {
            HOME.fetch_add(mbuf.as_ptr().addr(), Ordering::Relaxed);
        }
    }));
    assert!(!register_external_release(|_| ()));

    let layout = Layout::from_size_align(DESCRIPTOR_LEN + 2176, 64).unwrap();
    // SAFETY: the size is not zero.
    let memory = NonNull::new(unsafe { alloc_zeroed(layout) }).unwrap();
    // SAFETY: fresh memory of that size, alive until the end of this test.
    let mbuf = unsafe { Slot::carve(memory, 2176, null()) };
    mbuf.reset(128, 60);
    let mut batch = Batch::new();
    let give = |to: *mut *mut Descriptor, _| {
        // SAFETY: there is room for one.
        unsafe { to.write(mbuf.as_ptr()) };
        1
    };
    // SAFETY: it is laid out as an mbuf, with one holder.
    assert_eq!(unsafe { batch.receive_mbufs(1, give) }.packets, 1);
    let mut packet = batch.pop().unwrap();
    assert!(packet.is_mbuf());
    packet.set_packet_type(PacketType::OtherHost);
    assert_eq!((packet.len(), packet.headroom(), packet.tailroom()), (60, 128, 1988));
    let share = packet.share().unwrap();
    assert!(!share.is_mbuf() && share.is_shared());
    drop(packet);
    assert_eq!(HOME.load(Ordering::Relaxed), 0);
    let copy = share.copy().unwrap();
    assert!(!copy.is_mbuf());
    drop((share, copy));
    assert_eq!(HOME.load(Ordering::Relaxed), memory.as_ptr().addr());
    // SAFETY: nobody holds the memory any more.
    unsafe { dealloc(memory.as_ptr(), layout) };
}
