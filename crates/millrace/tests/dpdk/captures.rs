//! Capture files for `net_pcap`, written and read here so that nothing of the program's judges itself.

use std::path::Path;

/// Frames of all lengths between these, with contents that tell them apart.
pub(crate) fn frames(count: usize, shortest: usize, longest: usize) -> Vec<Vec<u8>> {
    let frame = |n: usize| {
        let len = shortest + (n * 131) % (longest - shortest + 1);
        let mut frame: Vec<u8> = (0..len).map(|at| (at * 7 + n * 13) as u8).collect();
        frame[..14].copy_from_slice(&[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0]);
        frame
    };
    (0..count).map(frame).collect()
}

/// Writes frames as the classic format of libpcap (`pcap-savefile(5)`).
pub(crate) fn write(path: &Path, frames: &[Vec<u8>]) {
    let mut file = Vec::new();
    for word in [0xa1b2_c3d4u32, 0x0004_0002, 0, 0, 262_144, 1] {
        file.extend(word.to_le_bytes());
    }
    for (n, frame) in frames.iter().enumerate() {
        for word in [n as u32, 0, frame.len() as u32, frame.len() as u32] {
            file.extend(word.to_le_bytes());
        }
        file.extend(frame);
    }
    std::fs::write(path, file).unwrap();
}

/// Reads them back.
pub(crate) fn read(path: &Path) -> Vec<Vec<u8>> {
    let file = std::fs::read(path).unwrap();
    let mut rest = &file[24..];
    let mut frames = Vec::new();
    while let Some((header, others)) = rest.split_at_checked(16) {
        let len = u32::from_le_bytes(header[8..12].try_into().unwrap()) as usize;
        let (frame, others) = others.split_at(len);
        frames.push(frame.to_vec());
        rest = others;
    }
    frames
}
