//! Detects the type of a file from its first bytes: text, binary, or which image format.

/// What a PDF is called.
pub(super) const PDF: &str = "PDF document";

/// Bytes looked at.
pub(super) const SNIFFED_BYTES: usize = 4_096;

/// Whether these first bytes are not text: a zero byte, or more than three in ten that no text holds.
pub fn is_binary(head: &[u8]) -> bool {
    let head = &head[..head.len().min(SNIFFED_BYTES)];
    let odd = |byte: &&u8| matches!(**byte, 0..=8 | 14..=26 | 28..=31 | 127);
    head.contains(&0) || head.iter().filter(odd).count() * 10 > head.len() * 3
}

/// Whether a text says of itself that it is UTF-16.
pub fn is_utf16(head: &[u8]) -> bool {
    matches!(head, [0xFF, 0xFE, ..] | [0xFE, 0xFF, ..])
}

/// The size of a picture, in pixels.
pub(super) fn size(head: &[u8]) -> Option<(u32, u32)> {
    match image_type(head)? {
        "image/png" => png(head),
        "image/jpeg" => jpeg(head),
        "image/gif" => gif(head),
        _ => webp(head),
    }
}

/// The media type of a picture of a kind that models look at, told by its first bytes.
pub fn image_type(head: &[u8]) -> Option<&'static str> {
    Some(match head {
        [0x89, b'P', b'N', b'G', ..] if png(head).is_some() => "image/png",
        [0xFF, 0xD8, 0xFF, ..] => "image/jpeg",
        [b'G', b'I', b'F', b'8', ..] if gif(head).is_some() => "image/gif",
        [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => "image/webp",
        _ => return None,
    })
}

/// The kind of a binary file, where its first bytes say so: `PNG image (640x480)`.
pub(super) fn kind(head: &[u8]) -> Option<String> {
    let image = |name: &str, size: Option<(u32, u32)>| match size {
        Some((width, height)) => format!("{name} image ({width}x{height})"),
        None => format!("{name} image"),
    };
    Some(match head {
        [0x89, b'P', b'N', b'G', ..] => image("PNG", png(head)),
        [0xFF, 0xD8, 0xFF, ..] => image("JPEG", jpeg(head)),
        [b'G', b'I', b'F', b'8', ..] => image("GIF", gif(head)),
        [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => image("WebP", webp(head)),
        [b'%', b'P', b'D', b'F', ..] => PDF.to_owned(),
        [0x7F, b'E', b'L', b'F', ..] => "ELF program or library".to_owned(),
        [b'P', b'K', 3, 4, ..] => "ZIP archive".to_owned(),
        [0x1F, 0x8B, ..] => "gzip data".to_owned(),
        [0xFF, 0xFE, ..] | [0xFE, 0xFF, ..] => "UTF-16 text".to_owned(),
        _ if head.starts_with(b"SQLite format 3") => "SQLite database".to_owned(),
        _ => return None,
    })
}

fn png(head: &[u8]) -> Option<(u32, u32)> {
    Some((u32::from_be_bytes(bytes(head, 16)?), u32::from_be_bytes(bytes(head, 20)?)))
}

fn gif(head: &[u8]) -> Option<(u32, u32)> {
    Some((u16::from_le_bytes(bytes(head, 6)?).into(), u16::from_le_bytes(bytes(head, 8)?).into()))
}

/// The size is in the first frame header, after segments of any length.
fn jpeg(head: &[u8]) -> Option<(u32, u32)> {
    let mut at = 2;
    loop {
        let [0xFF, marker] = bytes(head, at)? else { return None };
        let is_frame = matches!(marker, 0xC0..=0xCF) && !matches!(marker, 0xC4 | 0xC8 | 0xCC);
        if is_frame {
            let height = u16::from_be_bytes(bytes(head, at + 5)?);
            let width = u16::from_be_bytes(bytes(head, at + 7)?);
            return Some((width.into(), height.into()));
        }
        at += 2 + usize::from(u16::from_be_bytes(bytes(head, at + 2)?));
    }
}

/// Three formats in one: lossy, lossless, extended.
fn webp(head: &[u8]) -> Option<(u32, u32)> {
    /// Sizes are 14 bits wide in the two simple formats.
    const MASK: u32 = 0x3FFF;
    match &bytes::<4>(head, 12)? {
        b"VP8 " => {
            let side = |at| Some(u32::from(u16::from_le_bytes(bytes(head, at)?)) & MASK);
            Some((side(26)?, side(28)?))
        }
        b"VP8L" => {
            let bits = u32::from_le_bytes(bytes(head, 21)?);
            Some(((bits & MASK) + 1, ((bits >> 14) & MASK) + 1))
        }
        b"VP8X" => {
            let side = |at| bytes(head, at).map(|[a, b, c]: [u8; 3]| u32::from_le_bytes([a, b, c, 0]) + 1);
            Some((side(24)?, side(27)?))
        }
        _ => None,
    }
}

fn bytes<const N: usize>(head: &[u8], at: usize) -> Option<[u8; N]> {
    head.get(at..at + N)?.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_are_known_with_their_size() {
        let png = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\x02\x80\0\0\x01\xe0";
        assert_eq!(kind(png).as_deref(), Some("PNG image (640x480)"));
        assert_eq!(kind(b"GIF89a\x02\x00\x03\x00").as_deref(), Some("GIF image (2x3)"));
        let jpeg = b"\xff\xd8\xff\xe0\0\x04ab\xff\xc0\0\x0b\x08\0\x05\0\x07";
        assert_eq!(kind(jpeg).as_deref(), Some("JPEG image (7x5)"));
        let webp = b"RIFF\0\0\0\0WEBPVP8X\0\0\0\0\0\0\0\0\x09\0\0\x04\0\0";
        assert_eq!(kind(webp).as_deref(), Some("WebP image (10x5)"));
        assert_eq!(kind(b"\x89PNG").as_deref(), Some("PNG image"));
        assert_eq!(kind(b"hello"), None);
    }

    #[test]
    fn text_in_any_single_byte_encoding_is_not_binary() {
        assert!(!is_binary("caf\u{e9} \x1b[31m\r\n\t".as_bytes()));
        assert!(!is_binary(b"caf\xe9 cr\xe8me"));
        assert!(is_binary(b"a\0b"));
        assert!(is_binary(&[1, 2, 3, b'a', b'b']));
        assert!(!is_binary(b""));
    }
}
