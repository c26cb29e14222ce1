//! The search over an image, word by word. It defines what the fast engines and the kernels do.

use super::{CERTAIN, COMPARE, CONTENT, Header, Kind, NOCASE, RULE, byte_at};

/// The result of a text: the lowest rule that alerts plus 1, or 0.
///
/// It reads only the image, in a simple way, and is not fast.
pub fn search(image: &[u32], text: &[u8], kind: Kind) -> u32 {
    let header = Header::read(image);
    let mut best = u32::MAX;
    let mut state = 0;
    for (i, &byte) in text.iter().enumerate() {
        let class = byte_at(image, header.class_map, byte.into());
        state = image[header.rows + state as usize + usize::from(class)];
        if state < header.output_from {
            continue;
        }
        let list = image[header.rows + state as usize + header.classes] as usize;
        for entry in image[list + 1..].chunks_exact(2).take(image[list] as usize) {
            if entry[0] >= best {
                break;
            }
            if entry[1] == CERTAIN || verify(image, &header, entry[1], text, i + 1, kind) {
                best = entry[0];
                break;
            }
        }
    }
    best.wrapping_add(1)
}

/// True if the rule alerts whose trigger ends before position `end` of the text.
fn verify(
    image: &[u32],
    header: &Header,
    trigger: u32,
    text: &[u8],
    end: usize,
    kind: Kind,
) -> bool {
    let content = |index: u32| &image[header.contents + CONTENT * index as usize..][..CONTENT];
    let found = content(trigger);
    let start = end - found[1] as usize;
    let [first, count, kinds, _] =
        [0, 1, 2, 3].map(|word: usize| image[header.rules + RULE * found[0] as usize + word]);
    kinds & kind as u32 != 0
        && start >= found[3] as usize
        && end <= found[4] as usize
        && (found[2] & COMPARE == 0 || lies_at(image, found, text, start))
        && (first..first + count)
            .all(|index| index == trigger || occurs(image, content(index), text))
}

/// True if a content occurs somewhere in its window of the text.
fn occurs(image: &[u32], content: &[u32], text: &[u8]) -> bool {
    let length = content[1] as usize;
    let end = text.len().min(content[4] as usize);
    (content[3] as usize..(end + 1).saturating_sub(length))
        .any(|start| lies_at(image, content, text, start))
}

/// True if a content occurs at a position of the text, which must be long enough.
fn lies_at(image: &[u32], content: &[u32], text: &[u8], start: usize) -> bool {
    (0..content[1] as usize).all(|index| {
        let byte = text[start + index];
        let byte = if content[2] & NOCASE == 0 { byte } else { byte.to_ascii_lowercase() };
        byte == byte_at(image, content[5] as usize, index)
    })
}
