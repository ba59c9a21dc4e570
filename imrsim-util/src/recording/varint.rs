// SPDX-License-Identifier: GPL-2.0-only

//! Numbers of as many bytes as they need: seven bits in each, the lowest first; the top bit says that
//! more follow. A signed number n is written as 2n, or as -2n - 1 if it is negative.

use anyhow::{bail, Result};

/// The most bytes of a number.
const MAX: u32 = 10;

/// Appends a number.
pub(crate) fn put(out: &mut Vec<u8>, mut number: u64) {
    loop {
        let [low, ..] = number.to_le_bytes();
        number >>= 7;
        if number == 0 {
            out.push(low & 0x7f);
            return;
        }
        out.push(low | 0x80);
    }
}

/// Appends how far `to` lies behind `from`, which may be in front.
pub(crate) fn put_step(out: &mut Vec<u8>, from: u32, to: u32) {
    let step = i64::from(to) - i64::from(from);
    put(out, ((step << 1) ^ (step >> 63)).cast_unsigned());
}

/// What is left to be read of a chunk.
#[derive(Debug)]
pub(super) struct Bytes<'a>(pub(super) &'a [u8]);

impl Bytes<'_> {
    /// The next byte.
    pub(super) fn byte(&mut self) -> Result<u8> {
        match self.0.split_first() {
            Some((byte, rest)) => {
                self.0 = rest;
                Ok(*byte)
            }
            None => bail!("it ends too early"),
        }
    }

    /// The next number.
    pub(super) fn number(&mut self) -> Result<u64> {
        let mut number = 0;
        for place in 0..MAX {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7f);
            if place == MAX - 1 && byte > 1 {
                break;
            }
            number |= bits << (7 * place);
            if byte & 0x80 == 0 {
                return Ok(number);
            }
        }
        bail!("a number has more than 64 bits")
    }

    /// The next number, which is at most `most`.
    pub(super) fn at_most(&mut self, most: u32) -> Result<u32> {
        match u32::try_from(self.number()?) {
            Ok(number) if number <= most => Ok(number),
            _ => bail!("a number is larger than {most}"),
        }
    }

    /// The number that lies as far from `from` as is written, and is at most `most`.
    pub(super) fn step(&mut self, from: u32, most: u32) -> Result<u32> {
        let coded = self.number()?;
        let step = (coded >> 1).cast_signed() ^ -(coded & 1).cast_signed();
        let to = i64::from(from).checked_add(step);
        match to.and_then(|to| u32::try_from(to).ok()) {
            Some(to) if to <= most => Ok(to),
            _ => bail!("a block lies outside its zone"),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn numbers_return(numbers: Vec<u64>, from: u32, to: u32) {
            let mut out = Vec::new();
            numbers.iter().for_each(|number| put(&mut out, *number));
            put_step(&mut out, from, to);
            let mut bytes = Bytes(&out);
            for number in numbers {
                prop_assert_eq!(bytes.number().unwrap(), number);
            }
            prop_assert_eq!(bytes.step(from, u32::MAX).unwrap(), to);
            prop_assert!(bytes.number().is_err());
        }
    }

    #[test]
    fn what_is_too_large_is_refused() {
        assert!(Bytes(&[0xff; 10]).number().is_err());
        assert!(Bytes(&[0xff; 3]).number().is_err());
        assert!(Bytes(&[5]).at_most(4).is_err());
        assert!(Bytes(&[1]).step(0, 9).is_err());
    }
}
