//! Captures in pcap files: what programs replay, and what they transmitted.

use std::fs;
use std::path::Path;

use anyhow::{Context, ensure};

/// The header of a file: magic number, version, two unused fields, maximum length of a frame, Ethernet.
const HEADER: [u32; 6] = [0xa1b2_c3d4, 0x0004_0002, 0, 0, 65_535, 1];

/// Magic numbers of files from hosts with our byte order, with microseconds and with nanoseconds.
const MAGIC: [u32; 2] = [0xa1b2_c3d4, 0xa1b2_3c4d];

/// Writes frames to a file.
///
/// # Errors
/// The file cannot be written.
pub(crate) fn write<F: AsRef<[u8]>>(path: &Path, frames: &[F]) -> anyhow::Result<()> {
    let mut file: Vec<u8> = HEADER.into_iter().flat_map(u32::to_ne_bytes).collect();
    for frame in frames {
        let frame = frame.as_ref();
        let length = u32::try_from(frame.len())?;
        file.extend([0, 0, length, length].into_iter().flat_map(u32::to_ne_bytes));
        file.extend(frame);
    }
    fs::write(path, file).with_context(|| path.display().to_string())
}

/// The frames in a file, in order. An empty file has none: net_pcap leaves it for a port by which nothing
/// was sent.
///
/// # Errors
/// The file cannot be read, or is no capture of whole frames.
pub(crate) fn read(path: &Path) -> anyhow::Result<Vec<Vec<u8>>> {
    let text = fs::read(path).with_context(|| path.display().to_string())?;
    frames(&text).with_context(|| path.display().to_string())
}

fn frames(file: &[u8]) -> anyhow::Result<Vec<Vec<u8>>> {
    if file.is_empty() {
        return Ok(Vec::new());
    }
    let (header, mut rest) = file.split_at_checked(24).context("it has no header")?;
    ensure!(MAGIC.contains(&word(header, 0)?), "it is no capture of this machine");
    let mut frames = Vec::new();
    while !rest.is_empty() {
        let length = word(rest, 8)? as usize;
        let (frame, next) = rest
            .get(16..)
            .and_then(|rest| rest.split_at_checked(length))
            .context("it ends within a frame")?;
        frames.push(frame.to_vec());
        rest = next;
    }
    Ok(frames)
}

fn word(bytes: &[u8], at: usize) -> anyhow::Result<u32> {
    let word = bytes.get(at..).and_then(|bytes| bytes.first_chunk());
    word.map(|word| u32::from_ne_bytes(*word)).context("it ends within a header")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let path = std::env::temp_dir().join(format!("capture-{}", std::process::id()));
        let written = [b"one".to_vec(), Vec::new(), b"three".to_vec()];
        write(&path, &written).unwrap();
        assert_eq!(read(&path).unwrap(), written);
        let whole = fs::read(&path).unwrap();
        assert!(frames(&whole[..whole.len() - 1]).is_err());
        assert!(frames(&whole[..30]).is_err());
        assert!(frames(&[]).unwrap().is_empty());
        fs::remove_file(&path).unwrap();
    }
}
