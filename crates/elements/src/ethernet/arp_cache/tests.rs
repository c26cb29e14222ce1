use super::*;

const IP: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
const NO_LIMITS: Limits = Limits { entries: 0, packets: 0, packets_each: 0, slim_factor: 2 };

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_secs(seconds)
}

fn packet() -> Packet {
    Packet::from_bytes(b"x").unwrap()
}

fn host(number: u8) -> Ipv4Addr {
    Ipv4Addr::new(10, 0, 1, number)
}

#[test]
fn entries_expire_and_are_learned_again() {
    let cache = ArpCache::new(300_000, NO_LIMITS);
    assert!(matches!(cache.append(IP, packet(), at(0)), Appended::Waits(true)));
    let entry = cache.find(IP).unwrap();
    assert_eq!(cache.ether(&entry, at(0)), None);
    assert_eq!(cache.insert_and_take(IP, EtherAddress([2; 6]), at(1)).len(), 1);
    assert_eq!(cache.ether(&entry, at(301)), Some(EtherAddress([2; 6])));
    assert_eq!(cache.ether(&entry, at(302)), None);
    assert_eq!(cache.to_text(at(302)), "10.0.0.1 0 02-02-02-02-02-02 301.000000\n");
    cache.slim(&mut cache.ages.lock(), at(302), 0);
    assert_eq!((cache.len(), cache.find(IP).is_none()), (0, true));
}

#[test]
fn the_version_changes_only_when_an_address_changes() {
    let cache = ArpCache::new(300_000, NO_LIMITS);
    let mut known = cache.version();
    let mut changed = |cache: &ArpCache| std::mem::replace(&mut known, cache.version()) != known;
    let say = |ether| cache.insert(IP, EtherAddress([ether; 6]), at(0));
    say(1);
    assert!(changed(&cache));
    say(1);
    assert!(!changed(&cache), "the same again");
    say(2);
    assert!(changed(&cache));
    say(0xff);
    assert!(changed(&cache), "forgotten");
    say(2);
    assert!(changed(&cache), "it had been forgotten");
    cache.clear(at(0));
    assert!(changed(&cache));
}

#[test]
fn good_until_is_the_next_query_or_the_expiry() {
    let cache = ArpCache::new(300_000, NO_LIMITS);
    cache.insert(IP, EtherAddress([1; 6]), at(0));
    let entry = cache.find(IP).unwrap();
    let good_until = |now| cache.good_until(&entry, at(now), at(60));
    assert_eq!(good_until(1), Timestamp::from_millis(60_000));
    assert!(entry.poll(at(60)));
    assert_eq!(good_until(60), Timestamp::from_millis(60_100));
    assert!((0..20).map(|nth| at(61 + nth)).filter(|&now| entry.poll(now)).count() > 10);
    assert_eq!(good_until(80), Timestamp::from_millis(81_000));
    assert!(entry.poll(at(299)));
    assert_eq!(good_until(299), Timestamp::from_millis(300_000));
}

#[test]
fn queries_are_rate_limited() {
    let entry = Entry::default();
    let sent: Vec<i64> = (0..10_000).filter(|&ms| entry.poll(Timestamp::from_millis(ms))).collect();
    assert_eq!(sent[..3], [0, 100, 200]);
    assert_eq!(sent[9..], [900, 2900, 4900, 6900, 8900]);
}

#[test]
fn the_oldest_entry_makes_room_for_a_new_one() {
    let cache = ArpCache::new(0, Limits { entries: 2, ..NO_LIMITS });
    for number in [1, 2] {
        cache.append(host(number), packet(), at(number.into()));
    }
    cache.insert(host(1), EtherAddress([1; 6]), at(3));
    cache.append(host(3), packet(), at(4));
    assert!(cache.find(host(2)).is_none());
    assert_eq!((cache.len(), cache.waiting(), cache.drops()), (2, 2, 1));
}

#[test]
fn too_many_packets_are_cut_to_a_fraction_of_the_capacity() {
    let cache =
        ArpCache::new(0, Limits { packets: 6, packets_each: 3, slim_factor: 3, ..NO_LIMITS });
    for number in [1, 1, 1, 2, 2] {
        assert!(matches!(cache.append(host(number), packet(), at(0)), Appended::Waits(_)));
    }
    assert!(matches!(cache.append(host(1), packet(), at(0)), Appended::Refused(_)));
    assert_eq!((cache.waiting(), cache.drops()), (5, 1));
    cache.append(host(3), packet(), at(0));
    assert_eq!((cache.waiting(), cache.drops()), (6, 1));
    // The seventh leaves 6 - 6 / 3.
    cache.append(host(3), packet(), at(0));
    assert_eq!((cache.waiting(), cache.drops()), (4, 4));
    let left = [1, 2, 3]
        .map(|number| cache.insert_and_take(host(number), EtherAddress([2; 6]), at(1)).len());
    assert_eq!(left, [0, 2, 2]);
}

/// A reply, packets and an expiring entry race: each packet leaves with the reply, is dropped
/// with the entry, or finds the address.
#[test]
fn no_reply_is_lost_when_an_entry_is_removed() {
    const ROUNDS: i64 = 20_000;
    let cache = ArpCache::new(10, Limits { packets: 8, ..NO_LIMITS });
    let at = Timestamp::from_millis;
    let (mut known, mut refused, mut released) = (0, 0, 0);
    std::thread::scope(|scope| {
        let replies = scope.spawn(|| {
            let reply = |time| cache.insert_and_take(IP, EtherAddress([2; 6]), at(time)).len();
            (0..ROUNDS).map(reply).sum::<usize>()
        });
        scope.spawn(|| {
            for time in 0..ROUNDS {
                cache.slim(&mut cache.ages.lock(), at(time + 11), 0);
            }
        });
        for time in 0..ROUNDS {
            match cache.append(IP, packet(), at(time)) {
                Appended::Known(..) => known += 1,
                Appended::Refused(_) => refused += 1,
                Appended::Waits(_) => {}
            }
        }
        released = replies.join().unwrap();
    });
    released += cache.insert_and_take(IP, EtherAddress([2; 6]), at(ROUNDS)).len();
    assert_eq!((cache.waiting(), refused), (0, 0));
    assert_eq!(known + released as u64 + cache.drops(), ROUNDS as u64);
    let entry = cache.find(IP).unwrap();
    assert_eq!(cache.ether(&entry, at(ROUNDS)), Some(EtherAddress([2; 6])));
}
