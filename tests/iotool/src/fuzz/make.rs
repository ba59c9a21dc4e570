// SPDX-License-Identifier: GPL-2.0-only

//! What the fuzzer sends: numbers, structs, addresses and messages, most of them wrong in some way.

use imrsim_core::latency::Kind;
use imrsim_core::settings::{Settings, MAX_DELAY};
use imrsim_core::uapi::{self, Mapping, Request};
use imrsim_core::{Condition, BLOCK_SIZE};
use imrsim_ioctl::raw::{Argument, Number, ARENA, PAGE, READ_ONLY, WRITABLE};

use crate::content::Random;

/// The longest delay that is set, in microseconds, so that the run goes on.
const DELAY: u32 = 2000;
/// The most bytes that a number can announce.
const MOST: usize = (1 << 14) - 1;

/// The drive, as far as it matters to what is sent.
#[derive(Clone, Copy, Debug)]
pub(super) struct Drive {
    /// How many zones it has.
    pub(super) zones: u64,
    /// Bytes in a zone.
    pub(super) zone_bytes: u64,
    /// The last zone is never written, discarded or reset.
    pub(super) keep: bool,
}

impl Drive {
    /// Zones that may be damaged.
    pub(super) fn spare_zones(&self) -> u64 {
        self.zones - u64::from(self.keep)
    }

    /// Blocks in a zone.
    pub(super) fn zone_blocks(&self) -> u32 {
        (self.zone_bytes / u64::from(BLOCK_SIZE)) as u32
    }

    /// Whether this is the zone to keep, or all of them.
    fn is_kept(&self, zone: u64) -> bool {
        self.keep && (zone == self.zones - 1 || zone == uapi::ALL_ZONES)
    }
}

/// One of a list.
pub(super) fn one_of<T: Copy>(random: &mut Random, list: &[T]) -> T {
    list[random.below(list.len() as u64) as usize]
}

/// Whether something happens that does so in so many cases of a hundred.
pub(super) fn chance(random: &mut Random, percent: u64) -> bool {
    random.below(100) < percent
}

/// The number of an ioctl.
pub(super) fn number(random: &mut Random) -> Number {
    let known = one_of(random, Request::ALL).cmd();
    let size = |size: u64| (known & !(0x3fff << 16)) | (size as u32 & 0x3fff) << 16;
    let bits = match random.below(20) {
        0 => one_of(random, &Number::BLOCK),
        1 => size(random.next()),
        2 => size(one_of(
            random,
            &[0, 1, 4, 7, 8, 12, 16, 24, 4088, 4095, 4096, 4097, 16383],
        )),
        3 | 4 => {
            let by = one_of(random, &[-8_i64, -4, -1, 1, 4, 8, 64]);
            size((uapi::size_of_cmd(known) as u64).wrapping_add_signed(by))
        }
        // Another direction.
        5 => known ^ (1 + random.below(3) as u32) << 30,
        // Another nr.
        6 => known & !0xff | random.below(256) as u32,
        // Another type.
        7 => known & !0xff00 | u32::from(one_of(random, &Number::TYPES)) << 8,
        8 => random.next() as u32 & !0xff00 | u32::from(one_of(random, &Number::TYPES)) << 8,
        _ => known,
    };
    Number::new(bits).expect("all of these are harmless")
}

/// A number at which something may go wrong.
fn boundary(random: &mut Random, drive: &Drive) -> u64 {
    match random.below(6) {
        0 => random.below(4),
        1 => (drive.zones + 2).saturating_sub(random.below(4)),
        2 => u64::MAX - random.below(3),
        3 => (1 << one_of(random, &[31, 32, 33, 62, 63])) - random.below(2),
        4 => random.below(200),
        _ => random.next(),
    }
}

/// A number for the member of a struct with this name; mostly one that is allowed.
fn member(random: &mut Random, name: &str, drive: &Drive) -> u64 {
    if chance(random, 12) {
        return boundary(random, drive);
    }
    match name {
        "version" => uapi::VERSION.into(),
        "zone" | "next" if chance(random, 15) => uapi::ALL_ZONES,
        "zone" | "next" => random.below(drive.zones + 1),
        "setting" => random.below(Settings::COUNT as u64),
        "value" => one_of(random, &[0, 0, 1, 1, 2, 3, 5, 64, 100, DELAY]).into(),
        "condition" => random.below(3),
        "what" => 1 + random.below(3),
        "kind" => random.below(Kind::COUNT as u64),
        "count" => one_of(random, &[1, 2, 64, 1000]),
        "filter" => random.below(6),
        "flags" => random.below(4),
        "mapping_bytes" => {
            let bytes = Mapping::bytes(drive.zone_blocks()) as u64;
            one_of(random, &[0, 8, bytes - 1, bytes, bytes + 8])
        }
        _ => 0,
    }
}

/// The bytes to go with a number.
pub(super) fn bytes(random: &mut Random, number: Number, drive: &Drive) -> Vec<u8> {
    let size = uapi::size_of_cmd(number.bits());
    let mut bytes = Vec::with_capacity(MOST);
    match Request::from_cmd(number.bits()) {
        Some(request) => {
            for field in request.layout().members {
                for _ in 0..field.count.unwrap_or(1) {
                    let value = match field.name {
                        "size" if !chance(random, 3) => size as u64,
                        // An array is an answer.
                        _ if field.count.is_some() => 0,
                        name => member(random, name, drive),
                    };
                    bytes.extend_from_slice(&value.to_ne_bytes()[..field.bits / 8]);
                }
            }
        }
        // A range of bytes, for all that take one.
        None => {
            for _ in 0..2 {
                let value = match random.below(3) {
                    0 => boundary(random, drive),
                    1 => random.below(drive.zones * drive.zone_bytes / 512) * 512,
                    _ => random.below(64) * 4096,
                };
                bytes.extend_from_slice(&value.to_ne_bytes());
            }
        }
    }
    bytes.resize(size.max(16), 0);
    match random.below(20) {
        0 => bytes
            .iter_mut()
            .for_each(|byte| *byte = random.next() as u8),
        1 | 2 => {
            for _ in 0..=random.below(4) {
                let at = random.below(bytes.len() as u64) as usize;
                bytes[at] ^= 1 << random.below(8);
            }
        }
        _ => {}
    }
    tame(&mut bytes, number, drive);
    bytes
}

/// Makes harmless what would end the run or damage what is to be kept.
fn tame(bytes: &mut [u8], number: Number, drive: &Drive) {
    let (spare, all) = (
        drive.spare_zones() * drive.zone_bytes,
        drive.zones * drive.zone_bytes,
    );
    match (Request::from_cmd(number.bits()), number.bits()) {
        (Some(Request::SetSetting), _) => {
            let is_delay = usize::try_from(u32_at(bytes, 8))
                .ok()
                .and_then(|setting| Settings::TABLE.get(setting))
                .is_some_and(|setting| setting.most == MAX_DELAY);
            if is_delay && (DELAY..=MAX_DELAY).contains(&u32_at(bytes, 12)) {
                bytes[12..16].copy_from_slice(&DELAY.to_ne_bytes());
            }
        }
        (Some(Request::ResetZone), _) if drive.is_kept(u64_at(bytes, 8)) => {
            bytes[8..16].fill(0);
        }
        // The requests that take a range.
        (None, 0x1277 | 0x127d | 0x127f) => {
            let (start, len) = (u64_at(bytes, 0), u64_at(bytes, 8));
            if start
                .checked_add(len)
                .is_some_and(|end| spare < end && end <= all)
            {
                let start = start % spare;
                bytes[..8].copy_from_slice(&start.to_ne_bytes());
                bytes[8..16].copy_from_slice(&(len % (spare - start)).to_ne_bytes());
            }
        }
        _ => {}
    }
}

/// The `u32` at a place.
pub(super) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    let mut word = [0; 4];
    word.copy_from_slice(&bytes[at..at + 4]);
    u32::from_ne_bytes(word)
}

/// The `u64` at a place.
pub(super) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    let mut word = [0; 8];
    word.copy_from_slice(&bytes[at..at + 8]);
    u64::from_ne_bytes(word)
}

/// Where to point to for a struct of `size` bytes.
pub(super) fn argument(random: &mut Random, size: usize) -> Argument {
    let room = WRITABLE.len() - size.max(16);
    match random.below(24) {
        0 => Argument::Foreign(random.below(PAGE as u64)),
        1 => Argument::Foreign(0),
        2 => Argument::Foreign(one_of(
            random,
            &[
                0xffff_8880_0000_0000,
                0xffff_8880_0010_0000,
                0xffff_ffff_8100_0000,
                u64::MAX,
                u64::MAX - 15,
                1 << 63,
                // Not canonical.
                0x0000_8000_0000_0000,
                0x1234_5678_9abc_def0,
                // Where user space ends.
                0x0000_7fff_ffff_f000 + 0x1000,
            ],
        )),
        // What cannot be accessed at all.
        3 => Argument::Arena(one_of(random, &[0, WRITABLE.end, READ_ONLY.end])),
        // It begins where nothing is, and reaches what is.
        4 => Argument::Arena(one_of(random, &[WRITABLE.start, READ_ONLY.start]) - 1 - size / 2),
        // It ends where nothing is.
        5 | 6 => {
            let inside = random.below(size.max(1) as u64) as usize;
            Argument::Arena(one_of(random, &[WRITABLE.end, WRITABLE.end, READ_ONLY.end]) - inside)
        }
        // It ends with the page.
        7 | 8 => Argument::Arena(WRITABLE.end - size.max(16)),
        9 => Argument::Arena(READ_ONLY.start),
        // Misaligned.
        10 | 11 => Argument::Arena(WRITABLE.start + random.below(room as u64) as usize),
        _ => Argument::Arena(WRITABLE.start + random.below(room as u64 / 8) as usize * 8),
    }
}

// An arena has room for the largest struct wherever it begins above.
const _: () = assert!(READ_ONLY.end + MOST <= ARENA && WRITABLE.end - WRITABLE.start > MOST + 16);

/// A message, and what it is to do.
#[derive(Debug)]
pub(super) struct Message {
    /// Its text, without the zero at its end.
    pub(super) text: Vec<u8>,
    /// The setting and value that it sets, if it is right.
    pub(super) sets: Option<(usize, u32)>,
    /// Whether it is right and does not depend on what zones allow.
    pub(super) right: bool,
}

/// The names of the messages that are no settings.
const NAMES: [&str; 7] = [
    "reset_statistics",
    "reset_zone",
    "condition",
    "reset_config",
    "errors",
    "latency",
    "settings",
];

/// Whether there is a message with this name.
pub(super) fn is_message(name: &str) -> bool {
    NAMES.contains(&name) || Settings::find(name).is_some()
}

/// A zone as an argument.
fn zone(random: &mut Random, drive: &Drive) -> String {
    match random.below(10) {
        0 => boundary(random, drive).to_string(),
        1 => one_of(
            random,
            &[
                "all",
                "-1",
                "+1",
                "0x1",
                "1.5",
                "",
                "99999999999999999999",
                "x",
            ],
        )
        .to_owned(),
        _ => random.below(drive.zones).to_string(),
    }
}

/// A message as it is meant to be, but for its zone.
fn regular(random: &mut Random, drive: &Drive) -> (Vec<String>, Option<(usize, u32)>, bool) {
    let name = one_of(random, &NAMES);
    let mut words = vec![name.to_owned()];
    let mut right = false;
    match name {
        "reset_statistics" => {
            if chance(random, 60) {
                words.push(zone(random, drive));
            } else {
                right = true;
            }
        }
        "reset_zone" => words.push(zone(random, drive)),
        "condition" => {
            words.push(if chance(random, 30) {
                "all".to_owned()
            } else {
                zone(random, drive)
            });
            words.push(one_of(random, &Condition::ALL).name().to_owned());
        }
        "reset_config" => {
            words.push(one_of(random, &["all", "zones", "settings"]).to_owned());
            right = true;
        }
        "errors" => {
            if chance(random, 50) {
                words.push("clear".to_owned());
            }
            right = true;
        }
        "latency" => {
            words.push(one_of(random, Kind::ALL).name().to_owned());
            right = true;
        }
        _ => right = true,
    }
    (words, None, right)
}

/// A message that changes a setting.
fn setting(random: &mut Random, drive: &Drive) -> (Vec<String>, Option<(usize, u32)>, bool) {
    let number = random.below(Settings::COUNT as u64) as usize;
    let setting = &Settings::TABLE[number];
    let most = if setting.most == MAX_DELAY {
        DELAY
    } else {
        setting.most
    };
    if chance(random, 25) {
        let value = match random.below(4) {
            0 => (u64::from(setting.most) + 1 + random.below(3)).to_string(),
            1 => (u64::from(u32::MAX) + 1 + random.below(3)).to_string(),
            2 => (u64::from(MAX_DELAY) + 1)
                .saturating_add(boundary(random, drive))
                .to_string(),
            _ => one_of(
                random,
                &["on!", "ON", "-1", "+1", "1e1", "0x1", "1 1", "", "one"],
            )
            .to_owned(),
        };
        return (vec![setting.name.to_owned(), value], None, false);
    }
    let span = u64::from(most - setting.least) + 1;
    let value = setting.least + random.below(span) as u32;
    let text = match value {
        0 if setting.is_switch() && chance(random, 50) => "off".to_owned(),
        1 if setting.is_switch() && chance(random, 50) => "on".to_owned(),
        _ => value.to_string(),
    };
    (
        vec![setting.name.to_owned(), text],
        Some((number, value)),
        true,
    )
}

/// Some message.
pub(super) fn message(random: &mut Random, drive: &Drive) -> Message {
    loop {
        let (mut words, sets, right) = if chance(random, 50) {
            setting(random, drive)
        } else {
            regular(random, drive)
        };
        let whole = words.join(" ").into_bytes();
        let wrong = match random.below(20) {
            // One word too few or too many.
            0 => {
                words.pop();
                Some(words.join(" ").into_bytes())
            }
            1 => {
                words.push(boundary(random, drive).to_string());
                Some(words.join(" ").into_bytes())
            }
            2 => {
                words.insert(
                    0,
                    one_of(random, &["", "nonsense", "Allocation", "\u{2603}"]).to_owned(),
                );
                Some(words.join(" ").into_bytes())
            }
            // Bytes that are no text, or another text.
            3 => {
                let mut text = whole.clone();
                for _ in 0..=random.below(3) {
                    let at = random.below(text.len() as u64) as usize;
                    text[at] = 1 + random.below(255) as u8;
                }
                Some(text)
            }
            4 => Some(
                (0..=random.below(40))
                    .map(|_| 1 + random.below(255) as u8)
                    .collect(),
            ),
            // Very long.
            5 if chance(random, 30) => {
                let mut text = whole.clone();
                let byte = one_of(random, b"x 0\\");
                text.resize(1 + random.below(16 * 1024) as usize, byte);
                Some(text)
            }
            // Very many words.
            6 if chance(random, 30) => {
                let count = random.below(8000);
                Some([whole.clone(), b" 1".repeat(count as usize)].concat())
            }
            _ => None,
        };
        let message = match wrong {
            Some(text) => message_if_tame(text, None, false, drive),
            None => message_if_tame(whole, sets, right, drive),
        };
        if let Some(message) = message {
            return message;
        }
    }
}

/// The message, if it does not damage what is to be kept, or slow the drive down.
fn message_if_tame(
    text: Vec<u8>,
    sets: Option<(usize, u32)>,
    right: bool,
    drive: &Drive,
) -> Option<Message> {
    let words = words(&text);
    let number = |index: usize| words.get(index)?.parse::<u64>().ok();
    let harmful = match words.first().map(String::as_str) {
        // Those that device-mapper itself understands.
        Some(name) if name.starts_with('@') => true,
        Some("reset_zone") => {
            words.get(1).is_some_and(|zone| zone == "all")
                || number(1).is_some_and(|zone| drive.is_kept(zone))
        }
        Some(name) => Settings::find(name).is_some_and(|index| {
            Settings::TABLE[index].most == MAX_DELAY
                && number(1)
                    .is_some_and(|value| u64::from(DELAY) < value && value <= MAX_DELAY.into())
        }),
        None => false,
    };
    (!harmful).then_some(Message { text, sets, right })
}

/// The words of a message as device-mapper splits it: a backslash takes the next byte as it is.
pub(super) fn words(text: &[u8]) -> Vec<String> {
    let mut words = Vec::new();
    let mut word: Option<Vec<u8>> = None;
    let mut bytes = text.iter().copied().peekable();
    while let Some(byte) = bytes.next() {
        match byte {
            b'\\' if bytes.peek().is_some() => {
                word.get_or_insert_default().extend(bytes.next());
            }
            // The kernel takes a Latin-1 no-break space for white space, too.
            b' ' | b'\t'..=b'\r' | 0xa0 => words.extend(word.take()),
            _ => word.get_or_insert_default().push(byte),
        }
    }
    words.extend(word);
    words
        .iter()
        .map(|word| String::from_utf8_lossy(word).into_owned())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const DRIVE: Drive = Drive {
        zones: 4,
        zone_bytes: 4 << 20,
        keep: true,
    };

    #[test]
    fn nothing_harmful_is_made() {
        let mut random = Random::new(1, 0);
        let mut right = 0;
        for _ in 0..20_000 {
            let number = number(&mut random);
            let bytes = bytes(&mut random, number, &DRIVE);
            if Request::from_cmd(number.bits()) == Some(Request::ResetZone) {
                assert_ne!(u64_at(&bytes, 8), 3);
                assert_ne!(u64_at(&bytes, 8), uapi::ALL_ZONES);
            }
            let message = message(&mut random, &DRIVE);
            let words = words(&message.text);
            if words.first().is_some_and(|name| name == "reset_zone") {
                assert_ne!(words.get(1).map(String::as_str), Some("3"));
            }
            right += u32::from(message.right);
        }
        assert!(right > 4000, "only {right} messages are right");
    }

    #[test]
    fn words_are_device_mappers() {
        assert_eq!(words(b"  a\\ b\tc\\\\ \\"), ["a b", "c\\", "\\"]);
        assert!(words(b" \n").is_empty());
    }
}
