//! Captures in the classic format of libpcap (pcap-savefile(5)): Ethernet, microseconds, little endian.

use std::io::{self, Write};

/// Writes a capture with these frames, one microsecond apart.
///
/// # Errors
/// Errors of `out`.
pub fn write<F: AsRef<[u8]>>(
    out: &mut (impl Write + ?Sized),
    frames: impl IntoIterator<Item = F>,
) -> io::Result<()> {
    // Magic number, version 2.4, time zone, accuracy, greatest length, link type Ethernet.
    let header: [u32; 6] = [0xa1b2_c3d4, 2 | 4 << 16, 0, 0, 65_535, 1];
    write_words(out, &header)?;
    for (time, frame) in (0_u32..).zip(frames) {
        let frame = frame.as_ref();
        let length = frame.len() as u32;
        write_words(out, &[time / 1_000_000, time % 1_000_000, length, length])?;
        out.write_all(frame)?;
    }
    out.flush()
}

fn write_words(out: &mut (impl Write + ?Sized), words: &[u32]) -> io::Result<()> {
    words.iter().try_for_each(|word| out.write_all(&word.to_le_bytes()))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use pcap_file::DataLink;
    use pcap_file::pcap::PcapReader;

    #[test]
    fn a_pcap_library_reads_the_capture() {
        let frames = [&b"one"[..], b"", &[7; 1514]];
        let mut file = Vec::new();
        super::write(&mut file, frames).unwrap();
        let mut reader = PcapReader::new(file.as_slice()).unwrap();
        assert_eq!(reader.header().datalink, DataLink::ETHERNET);
        for (time, frame) in (0..).zip(frames) {
            let packet = reader.next_packet().unwrap().unwrap();
            assert_eq!(packet.data, frame);
            assert_eq!(packet.timestamp, Duration::from_micros(time));
            assert_eq!(packet.orig_len as usize, frame.len());
        }
        assert!(reader.next_packet().is_none());
    }
}
