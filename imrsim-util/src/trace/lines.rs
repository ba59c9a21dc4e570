// SPDX-License-Identifier: GPL-2.0-only

//! The lines of a file, one at a time and of bounded length, without copying them.

use std::{
    io::{self, Read},
    ops::Range,
};

use memchr::memchr;

/// The most bytes a line of a trace may have.
pub const MAX_LINE: usize = 4096;

/// Bytes read at once.
const BUFFER: usize = 1 << 18;

const BYTE_ORDER_MARK: &[u8] = "\u{feff}".as_bytes();

/// Reads lines and counts them.
#[derive(Debug)]
pub struct Lines<R> {
    input: R,
    buffer: Vec<u8>,
    /// What is read, but not handed out yet.
    ahead: Range<usize>,
    /// The last line, with its end.
    last: Range<usize>,
    too_long: bool,
    number: u64,
}

impl<R: Read> Lines<R> {
    /// The lines of `input`.
    pub fn new(input: R) -> Self {
        Self {
            input,
            buffer: vec![0; BUFFER],
            ahead: 0..0,
            last: 0..0,
            too_long: false,
            number: 0,
        }
    }

    /// The number of the last line, counted from 1.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Goes on to the next line; `false` at the end of the file.
    ///
    /// # Errors
    ///
    /// If the file cannot be read.
    pub fn advance(&mut self) -> io::Result<bool> {
        self.too_long = false;
        let mut searched = 0;
        loop {
            let ahead = &self.buffer[self.ahead.clone()];
            if let Some(at) = memchr(b'\n', &ahead[searched..]) {
                self.take(searched + at + 1);
                return Ok(true);
            }
            searched = ahead.len();
            // The limit and CR.
            if searched > MAX_LINE + 1 {
                self.too_long = true;
                self.ahead = 0..0;
                searched = 0;
            }
            if self.fill()? == 0 {
                if searched == 0 && !self.too_long {
                    self.last = 0..0;
                    return Ok(false);
                }
                self.take(searched);
                return Ok(true);
            }
        }
    }

    fn take(&mut self, len: usize) {
        let start = self.ahead.start;
        self.last = start..start + len;
        self.ahead.start += len;
        self.number += 1;
        let text = &self.buffer[self.last.clone()];
        self.too_long |= text.len() > MAX_LINE + 2;
    }

    /// Reads more behind what is ahead. Returns how many bytes.
    fn fill(&mut self) -> io::Result<usize> {
        self.buffer.copy_within(self.ahead.clone(), 0);
        self.ahead = 0..self.ahead.len();
        loop {
            match self.input.read(&mut self.buffer[self.ahead.end..]) {
                Ok(read) => {
                    self.ahead.end += read;
                    return Ok(read);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// The last line as it is in the file; of one that is too long, a part.
    pub fn raw(&self) -> &[u8] {
        &self.buffer[self.last.clone()]
    }

    /// The last line without its end, a byte order mark, and blanks around it.
    ///
    /// # Errors
    ///
    /// If it is too long.
    pub fn text(&self) -> Result<&[u8], String> {
        if self.too_long {
            return Err(format!("longer than {MAX_LINE} bytes"));
        }
        let mut line = self.raw();
        if self.number == 1 {
            line = line.strip_prefix(BYTE_ORDER_MARK).unwrap_or(line);
        }
        Ok(line.trim_ascii())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Hands out a few bytes at a time.
    struct Slow<'a>(&'a [u8], usize);

    impl Read for Slow<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let len = self.1.min(self.0.len()).min(buffer.len());
            let (now, later) = self.0.split_at(len);
            buffer[..len].copy_from_slice(now);
            self.0 = later;
            Ok(len)
        }
    }

    fn lines(text: &[u8], at_once: usize) -> Vec<Result<Vec<u8>, String>> {
        let mut lines = Lines::new(Slow(text, at_once));
        let mut all = Vec::new();
        while lines.advance().unwrap() {
            all.push(lines.text().map(<[u8]>::to_vec));
        }
        assert_eq!(lines.number(), all.len() as u64);
        all
    }

    #[test]
    fn ends_blanks_and_a_byte_order_mark_go() {
        let text = "\u{feff}a\r\n b \n\nc";
        let expected = ["a", "b", "", "c"].map(|line| Ok(line.as_bytes().to_vec()));
        for at_once in [1, 2, 3, 100] {
            assert_eq!(lines(text.as_bytes(), at_once), expected);
        }
        assert!(lines(b"", 1).is_empty());
    }

    #[test]
    fn a_long_line_is_one_bad_line() {
        for extra in [0, 1, 2, 3, 100_000, 3 * BUFFER] {
            let mut text = "x".repeat(MAX_LINE + extra).into_bytes();
            text.extend(b"\nb\n");
            for at_once in [1000, BUFFER] {
                let read = lines(&text, at_once);
                assert_eq!(read.len(), 2, "{extra}");
                assert_eq!(read[0].is_ok(), extra <= 1, "{extra}");
                assert_eq!(read[1], Ok(b"b".to_vec()));
            }
        }
        let endless = "x".repeat(2 * BUFFER);
        assert!(matches!(
            lines(endless.as_bytes(), 777).as_slice(),
            [Err(_)]
        ));
    }

    #[test]
    fn lines_are_kept_as_they_are() {
        let mut lines = Lines::new(" a \r\nb".as_bytes());
        assert!(lines.advance().unwrap());
        assert_eq!(lines.raw(), b" a \r\n");
        assert!(lines.advance().unwrap());
        assert_eq!(lines.raw(), b"b");
    }
}
