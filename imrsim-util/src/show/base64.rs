// SPDX-License-Identifier: GPL-2.0-only

//! Bytes as text.

use std::io::Write;

use anyhow::Result;

const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Writes `bytes` in base64, as RFC 4648 has it.
pub(super) fn write(bytes: &[u8], out: &mut dyn Write) -> Result<()> {
    for part in bytes.chunks(3) {
        let byte = |at: usize| part.get(at).copied().unwrap_or(0);
        let bits = u32::from_be_bytes([0, byte(0), byte(1), byte(2)]);
        let mut text = *b"====";
        // Of n bytes, n + 1 digits tell all.
        for (digit, place) in text.iter_mut().zip(0..=part.len()) {
            // CAST: six bits.
            *digit = DIGITS[(bits >> (18 - 6 * place) & 0x3f) as usize];
        }
        out.write_all(&text)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vectors_of_the_standard() {
        for (bytes, expected) in [
            ("", ""),
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("foob", "Zm9vYg=="),
            ("fooba", "Zm9vYmE="),
            ("foobar", "Zm9vYmFy"),
        ] {
            let mut text = Vec::new();
            write(bytes.as_bytes(), &mut text).unwrap();
            assert_eq!(text, expected.as_bytes());
        }
    }
}
