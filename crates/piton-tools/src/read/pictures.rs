//! Whether a picture is whole: one that is not would be refused by every provider, with the conversation that it is in.

use super::sniff;
use flate2::Crc;

/// The most pixels that a side may have: what the strictest provider takes.
const MOST_PIXELS: u32 = 8_000;

/// What is wrong with a picture of this type; `None`: nothing that shows from outside.
pub fn fault(media_type: &str, content: &[u8]) -> Option<&'static str> {
    match sniff::size(content) {
        None => return Some("its size cannot be read"),
        Some((width, height)) if width == 0 || height == 0 => return Some("it has no pixels"),
        Some((width, height)) if width.max(height) > MOST_PIXELS => {
            return Some("it has more than 8,000 pixels on a side; scale it down with a command");
        }
        Some(_) => {}
    }
    let is_whole = match media_type {
        "image/png" => is_whole_png(content),
        "image/jpeg" => ends_in(content, &[0xff, 0xd9]),
        "image/gif" => ends_in(content, b";"),
        "image/webp" => {
            let said = content.get(4..8).and_then(|size| size.try_into().ok()).map(u32::from_le_bytes);
            said.is_some_and(|said| said as usize + 8 <= content.len())
        }
        _ => false,
    };
    (!is_whole).then_some("it is damaged or cut off")
}

/// Some programs pad what they write.
fn ends_in(content: &[u8], end: &[u8]) -> bool {
    let padding = content.iter().rev().take_while(|byte| **byte == 0).count();
    content[..content.len() - padding].ends_with(end)
}

/// Every chunk is there and unharmed, up to the last one.
fn is_whole_png(content: &[u8]) -> bool {
    let mut rest = &content[content.len().min(8)..];
    let mut has_data = false;
    while let Some((header, behind)) = rest.split_first_chunk::<8>() {
        let length = u32::from_be_bytes([header[0], header[1], header[2], header[3]]) as usize;
        let Some((data, behind)) = behind.split_at_checked(length) else { return false };
        let Some((sum, behind)) = behind.split_first_chunk::<4>() else { return false };
        let mut crc = Crc::new();
        crc.update(&header[4..]);
        crc.update(data);
        if crc.sum() != u32::from_be_bytes(*sum) {
            return false;
        }
        match &header[4..] {
            b"IDAT" => has_data = true,
            b"IEND" => return has_data,
            _ => {}
        }
        rest = behind;
    }
    false
}
