// SPDX-License-Identifier: GPL-2.0-only

//! Ioctls and messages that are wrong in all sorts of ways, while the drive is at work.
//!
//! What must hold whatever is sent: a call ends as the documentation says that it may; one that fails
//! changes neither the caller's memory nor the drive; one that answers writes its struct and nothing
//! beside it.

mod make;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

use imrsim_core::settings::Settings;
use imrsim_core::uapi::{self, Config, Mapping, Request, SettingValue, ZoneReport};
use imrsim_ioctl::raw::{
    flag, Arena, Argument, BlockDevice, Control, DmCommand, Errno, Number, WRITABLE,
};

use crate::content::{fill, Found, Random};
use crate::device::{Buffer, Device, SECTOR};
use make::{chance, one_of, Drive};

/// What to do.
pub(crate) struct Fuzz {
    /// The device's node.
    pub(crate) path: PathBuf,
    /// Its name for device-mapper, for messages.
    pub(crate) name: Option<String>,
    /// When to end.
    pub(crate) time: Option<Duration>,
    /// How many calls each thread makes at most.
    pub(crate) calls: u64,
    /// What is random follows from it.
    pub(crate) seed: u64,
    /// Threads that fuzz.
    pub(crate) threads: u64,
    /// Threads that read, write and discard.
    pub(crate) io: u64,
    /// Whether a thread suspends and resumes the device.
    pub(crate) suspends: bool,
    /// Whether somebody else removes the device, so that it is to be opened over and over.
    pub(crate) reopen: bool,
    /// Whether the last zone is left alone.
    pub(crate) keep: bool,
}

/// What all threads share.
struct Shared<'a> {
    fuzz: &'a Fuzz,
    drive: Drive,
    privileged: bool,
    end: Option<Instant>,
    stop: AtomicBool,
    outcomes: Mutex<BTreeMap<String, u64>>,
    wrong: Mutex<Vec<String>>,
}

impl Shared<'_> {
    fn over(&self) -> bool {
        self.stop.load(Ordering::Relaxed) || self.end.is_some_and(|end| Instant::now() >= end)
    }

    fn wrong(&self, text: String) {
        self.stop.store(true, Ordering::Relaxed);
        self.wrong.lock().expect("no thread panics").push(text);
    }

    /// Whether nobody but the one fuzzing thread changes the drive's state.
    fn alone(&self) -> bool {
        self.fuzz.threads == 1 && !self.fuzz.reopen
    }

    /// Whether what is right must succeed, too.
    fn strict(&self) -> bool {
        self.alone() && self.privileged && !self.fuzz.suspends
    }
}

/// Runs it. Returns what is wrong, if anything.
pub(crate) fn run(fuzz: &Fuzz) -> io::Result<Option<String>> {
    let config = describe(fuzz)?;
    let shared = Shared {
        fuzz,
        drive: Drive {
            zones: config.zones,
            zone_bytes: config.zone_sectors * 512,
            keep: fuzz.keep && config.zones > 1,
        },
        privileged: std::fs::metadata("/proc/self")?.uid() == 0,
        end: fuzz.time.map(|time| Instant::now() + time),
        stop: AtomicBool::new(false),
        outcomes: Mutex::default(),
        wrong: Mutex::default(),
    };
    let fuzzing = AtomicU64::new(fuzz.threads);
    thread::scope(|scope| {
        let (shared, fuzzing) = (&shared, &fuzzing);
        for number in 0..fuzz.threads {
            scope.spawn(move || {
                if let Err(error) = Fuzzer::new(shared, number).and_then(|mut it| it.run()) {
                    shared.wrong(format!("thread {number}: {error}"));
                }
                // The others go on as long as one of these.
                if fuzzing.fetch_sub(1, Ordering::AcqRel) == 1 {
                    shared.stop.store(true, Ordering::Relaxed);
                }
            });
        }
        for number in 0..fuzz.io {
            scope.spawn(move || read_and_write(shared, number));
        }
        if let (true, Some(name)) = (fuzz.suspends, &fuzz.name) {
            scope.spawn(move || suspend_and_resume(shared, name));
        }
    });
    let mut calls = 0;
    for (outcome, count) in &*shared.outcomes.lock().expect("no thread panics") {
        println!("{count:>9} {outcome}");
        calls += if outcome.starts_with("open") || outcome.starts_with("io") {
            0
        } else {
            *count
        };
    }
    println!("{calls} calls, seed {}", fuzz.seed);
    let wrong = shared.wrong.into_inner().expect("no thread panics");
    Ok((!wrong.is_empty()).then(|| format!("seed {}: {}", fuzz.seed, wrong.join("\n"))))
}

/// What the drive is, asked again while it is away.
fn describe(fuzz: &Fuzz) -> io::Result<Config> {
    let begin = Instant::now();
    let question = Config::default().to_bytes();
    let mut arena = Arena::new()?;
    loop {
        let answer = BlockDevice::open(&fuzz.path, false)
            .and_then(|device| Ok(ask(&mut arena, &device, Request::GetConfig, &question)?));
        match answer {
            Ok(answer) => {
                return Config::from_bytes(&answer)
                    .ok_or_else(|| io::ErrorKind::InvalidData.into());
            }
            Err(_) if fuzz.reopen && begin.elapsed() < Duration::from_secs(60) => {
                thread::sleep(Duration::from_millis(10));
            }
            Err(error) => return Err(error),
        }
    }
}

/// A request that is right.
fn ask(
    arena: &mut Arena,
    device: &BlockDevice,
    request: Request,
    bytes: &[u8],
) -> Result<Vec<u8>, Errno> {
    let number = Number::new(request.cmd()).ok_or(Errno::EDOM)?;
    arena.writable_mut()[..bytes.len()].copy_from_slice(bytes);
    arena.ioctl(device, number, Argument::Arena(WRITABLE.start))?;
    Ok(arena.writable()[..bytes.len()].to_vec())
}

/// What calls may change and others must not.
#[derive(Clone, Debug, PartialEq, Eq)]
struct State {
    settings: [u32; Settings::COUNT],
    conditions: Vec<u32>,
}

/// A thread that makes calls.
struct Fuzzer<'a> {
    shared: &'a Shared<'a>,
    number: u64,
    random: Random,
    call: u64,
    device: Option<BlockDevice>,
    control: Option<Control>,
    arena: Arena,
    /// What the arena holds.
    shadow: Vec<u8>,
    /// For questions between the calls.
    questions: Arena,
    state: Option<State>,
    outcomes: BTreeMap<String, u64>,
}

impl<'a> Fuzzer<'a> {
    fn new(shared: &'a Shared<'a>, number: u64) -> io::Result<Self> {
        let mut arena = Arena::new()?;
        let mut random = Random::new(shared.fuzz.seed, number);
        arena
            .writable_mut()
            .iter_mut()
            .for_each(|byte| *byte = random.next() as u8);
        Ok(Self {
            shared,
            number,
            random,
            call: 0,
            device: None,
            control: shared
                .fuzz
                .name
                .as_ref()
                .map(|_| Control::open())
                .transpose()?,
            shadow: arena.writable().to_vec(),
            arena,
            questions: Arena::new()?,
            state: None,
            outcomes: BTreeMap::new(),
        })
    }

    fn run(&mut self) -> io::Result<()> {
        while self.call < self.shared.fuzz.calls && !self.shared.over() {
            if self.device.is_none() || self.shared.fuzz.reopen && chance(&mut self.random, 5) {
                self.device = None;
                match BlockDevice::open(&self.shared.fuzz.path, self.shared.privileged) {
                    Ok(device) => self.device = Some(device),
                    Err(error) if self.shared.fuzz.reopen => {
                        self.count(format!("open {:?}", error.kind()));
                        thread::sleep(Duration::from_millis(1));
                        continue;
                    }
                    Err(error) => return Err(error),
                }
                if self.shared.alone() && self.state.is_none() {
                    self.state = Some(self.look()?);
                }
            }
            self.call += 1;
            let done = match self.control.is_some() && chance(&mut self.random, 25) {
                true => self.message(),
                false => self.ioctl()?,
            };
            if let Err(text) = done {
                self.shared.wrong(format!(
                    "thread {}, call {}: {text}",
                    self.number, self.call
                ));
                break;
            }
        }
        let mut all = self.shared.outcomes.lock().expect("no thread panics");
        for (outcome, count) in std::mem::take(&mut self.outcomes) {
            *all.entry(outcome).or_default() += count;
        }
        Ok(())
    }

    fn count(&mut self, outcome: String) {
        *self.outcomes.entry(outcome).or_default() += 1;
    }

    /// A right question, asked again while the device is suspended.
    fn ask(&mut self, request: Request, bytes: &[u8]) -> io::Result<Vec<u8>> {
        let device = self.device.as_ref().ok_or(io::ErrorKind::NotConnected)?;
        let begin = Instant::now();
        loop {
            match ask(&mut self.questions, device, request, bytes) {
                Err(Errno::EAGAIN) if begin.elapsed() < Duration::from_secs(60) => {
                    thread::sleep(Duration::from_millis(1));
                }
                answer => {
                    return answer.map_err(|errno| {
                        io::Error::new(
                            io::Error::from(errno).kind(),
                            format!("{request:?} failed: {errno}"),
                        )
                    })
                }
            }
        }
    }

    /// The drive's state.
    fn look(&mut self) -> io::Result<State> {
        let mut settings = [0; Settings::COUNT];
        for (setting, value) in (0..).zip(&mut settings) {
            let question = SettingValue {
                setting,
                ..SettingValue::default()
            };
            let answer = self.ask(Request::GetSetting, &question.to_bytes())?;
            *value = SettingValue::from_bytes(&answer).map_or(u32::MAX, |it| it.value);
        }
        let question = ZoneReport {
            count: u32::MAX,
            ..ZoneReport::default()
        };
        let answer = self.ask(Request::ReportZones, &question.to_bytes())?;
        let report = ZoneReport::from_bytes(&answer).unwrap_or_default();
        let conditions = (0..).map_while(|index| report.get(index));
        Ok(State {
            settings,
            conditions: conditions.map(|entry| entry.condition).collect(),
        })
    }

    /// After a call that may have changed the drive: it has if it ended well, and as it was told.
    fn check_state(&mut self, ended_well: bool, sets: Option<(usize, u32)>) -> Result<(), String> {
        let Some(before) = self.state.take() else {
            return Ok(());
        };
        let after = self.look().map_err(|error| error.to_string())?;
        let mut expected = before.clone();
        match (ended_well, sets) {
            (false, _) => {}
            (true, Some((setting, value))) => expected.settings[setting] = value,
            (true, None) => expected = after.clone(),
        }
        if after != expected {
            return Err(format!(
                "the drive is {after:?}, was {before:?}, expected {expected:?}"
            ));
        }
        if Settings::from_values(after.settings).is_none() {
            return Err(format!("a setting is out of its range: {after:?}"));
        }
        self.state = Some(after);
        Ok(())
    }

    /// An ioctl.
    fn ioctl(&mut self) -> io::Result<Result<(), String>> {
        let drive = self.shared.drive;
        let number = make::number(&mut self.random);
        let bytes = make::bytes(&mut self.random, number, &drive);
        let size = uapi::size_of_cmd(number.bits());
        let argument = make::argument(&mut self.random, size);
        // As much of the struct as can be there.
        if let Argument::Arena(at) = argument {
            if at >= WRITABLE.end {
                self.arena.set_read_only(&bytes)?;
            }
            for (place, byte) in (at..).zip(&bytes) {
                if WRITABLE.contains(&place) {
                    self.arena.writable_mut()[place - WRITABLE.start] = *byte;
                    self.shadow[place - WRITABLE.start] = *byte;
                }
            }
        }
        let device = self.device.as_ref().ok_or(io::ErrorKind::NotConnected)?;
        let result = self.arena.ioctl(device, number, argument);
        let checked = self.check_ioctl(number, argument, &bytes, result);
        let what = || {
            let mut hex = String::new();
            for byte in bytes.iter().take(48) {
                let _ = write!(hex, "{byte:02x}");
            }
            format!(
                "ioctl {:#010x} ({:?}) at {argument:x?} with {} bytes {hex}: {result:?}",
                number.bits(),
                Request::from_cmd(number.bits()),
                bytes.len(),
            )
        };
        Ok(checked.map_err(|text| format!("{text}: {}", what())))
    }

    fn check_ioctl(
        &mut self,
        number: Number,
        argument: Argument,
        bytes: &[u8],
        result: Result<(), Errno>,
    ) -> Result<(), String> {
        let request = Request::from_cmd(number.bits());
        let size = uapi::size_of_cmd(number.bits());
        let kind = match request {
            Some(request) => request.name(),
            None if Number::BLOCK.contains(&number.bits()) => "BLK",
            None => "unknown",
        };
        self.count(format!("{kind} {}", outcome(result)));
        // What it may have written to, if it ended well.
        let answers = match request {
            Some(request) => request.replies(),
            None => Number::BLOCK.contains(&number.bits()),
        };
        let mut answer = Vec::new();
        // A snapshot may be followed by more than there is room for.
        let partly = request == Some(Request::GetSnapshot) && result == Err(Errno::EFAULT);
        if let (Argument::Arena(at), true, true) = (argument, answers, partly || result.is_ok()) {
            if WRITABLE.contains(&at) {
                let at = at - WRITABLE.start;
                // The ioctls of blocks do not all say how much they write: a number.
                let struct_bytes = if request.is_some() { size } else { 16 };
                let behind = match request {
                    Some(Request::GetSnapshot) => Mapping::bytes(self.shared.drive.zone_blocks()),
                    _ => 0,
                };
                let end = self.shadow.len().min(at + struct_bytes + behind);
                self.shadow[at..end].copy_from_slice(&self.arena.writable()[at..end]);
                answer = self.shadow[at..end.min(at + struct_bytes)].to_vec();
            }
        }
        if let Some(at) = self
            .arena
            .writable()
            .iter()
            .zip(&self.shadow)
            .position(|(found, expected)| found != expected)
        {
            return Err(format!(
                "it changed byte {:#x} of memory",
                at + WRITABLE.start
            ));
        }
        let Some(request) = request else {
            return match result {
                Ok(()) if kind == "unknown" => Err("an unknown request ended well".to_owned()),
                _ => allowed(
                    result,
                    &[
                        Errno::ENOTTY,
                        Errno::EINVAL,
                        Errno::EFAULT,
                        Errno::EAGAIN,
                        Errno::EIO,
                        Errno::EOPNOTSUPP,
                        Errno::EBADF,
                        Errno::EACCES,
                        Errno::EPERM,
                        Errno::EBUSY,
                        Errno::EROFS,
                        Errno::ENXIO,
                        Errno::ENODEV,
                    ],
                    self.shared,
                ),
            };
        };
        allowed(
            result,
            &[
                Errno::EINVAL,
                Errno::E2BIG,
                Errno::EPERM,
                Errno::ENXIO,
                Errno::EFAULT,
                Errno::EAGAIN,
                Errno::EROFS,
                Errno::EIO,
                // Only for a snapshot with too little room.
                match request {
                    Request::GetSnapshot => Errno::ENOSPC,
                    _ => Errno::EIO,
                },
            ],
            self.shared,
        )?;
        let reached = matches!(argument, Argument::Arena(_));
        if result.is_ok() && !reached {
            return Err("it ended well without a struct".to_owned());
        }
        if request.needs_privilege() && !self.shared.privileged && result.is_ok() {
            return Err("it ended well without the right to".to_owned());
        }
        let quiet = request == Request::GetSnapshot
            && bytes
                .get(24)
                .is_some_and(|flags| u32::from(*flags) & uapi::SNAPSHOT_QUIET != 0);
        if quiet && !self.shared.privileged && result.is_ok() {
            return Err("it stopped a zone without the right to".to_owned());
        }
        if result.is_ok() && request.replies() {
            check_answer(request, &answer, size)?;
        }
        // An answer that could not be delivered is none of the drive's state.
        let sets = (request == Request::SetSetting && bytes.len() >= 16)
            .then(|| (make::u32_at(bytes, 8) as usize, make::u32_at(bytes, 12)))
            .filter(|(setting, _)| *setting < Settings::COUNT);
        if request.needs_privilege() {
            self.check_state(result.is_ok(), sets)?;
        }
        let whole = size == request.layout().size && reached;
        let in_memory = matches!(argument, Argument::Arena(at)
            if WRITABLE.contains(&at) && at + size <= WRITABLE.end);
        if self.shared.strict() && whole && in_memory && result.is_err() {
            let right = match request {
                Request::SetSetting => sets.is_some_and(|(setting, value)| {
                    Settings::DEFAULT.with(setting, value).is_some()
                }),
                Request::GetSetting => sets_read(bytes),
                Request::GetConfig => true,
                _ => false,
            };
            let header = (make::u32_at(bytes, 0), make::u32_at(bytes, 4));
            if right && header == (uapi::VERSION, size as u32) {
                return Err("it is right and fails".to_owned());
            }
        }
        Ok(())
    }

    /// A message.
    fn message(&mut self) -> Result<(), String> {
        let (Some(control), Some(name)) = (&self.control, &self.shared.fuzz.name) else {
            return Ok(());
        };
        if chance(&mut self.random, 10) {
            let flags = one_of(&mut self.random, &[0, flag::STATUS_TABLE, flag::NO_FLUSH]);
            let room = one_of(&mut self.random, &[0, 1, 40, 100, 1000, 16384]);
            let result = control
                .send(DmCommand::Status, name, flags, &[], room)
                .map(drop);
            self.count(format!("status {}", outcome(result)));
            return allowed(result, &[Errno::ENXIO], self.shared);
        }
        let message = make::message(&mut self.random, &self.shared.drive);
        let ends = !chance(&mut self.random, 1) || !message.text.contains(&b' ');
        let mut data = 0_u64.to_ne_bytes().to_vec();
        data.extend_from_slice(&message.text);
        let room = if ends {
            data.push(0);
            one_of(&mut self.random, &[0, 1, 50, 1000, 16384, 16384])
        } else {
            // Without the zero at its end it is none.
            0
        };
        let result = control.send(DmCommand::Message, name, 0, &data, room);
        let ended = result.as_ref().map(drop).map_err(|errno| *errno);
        let words = make::words(&message.text);
        let first = words.first().map_or("", String::as_str);
        let known = make::is_message(first);
        let kind = if known { first } else { "other" };
        self.count(format!("message {kind} {}", outcome(ended)));
        let check = |this: &mut Self| -> Result<(), String> {
            allowed(
                ended,
                &[
                    Errno::EINVAL,
                    Errno::ENXIO,
                    Errno::EAGAIN,
                    Errno::EROFS,
                    Errno::EIO,
                ],
                this.shared,
            )?;
            if result.is_ok() && !known {
                return Err("a message that does not exist ended well".to_owned());
            }
            if result.is_ok() && !ends {
                return Err("a message without end ended well".to_owned());
            }
            if result.is_err() && message.right && ends && this.shared.strict() {
                return Err("it is right and fails".to_owned());
            }
            if let Ok((flags, answer)) = &result {
                let full = flags & flag::BUFFER_FULL != 0;
                let has_answer = flags & flag::DATA_OUT != 0 && !full;
                let text = answer.split(|byte| *byte == 0).next().unwrap_or_default();
                if has_answer && (!answer.contains(&0) || !text.is_ascii()) {
                    return Err(format!("the answer is no text: {answer:x?}"));
                }
                if has_answer && first == "settings" && this.shared.alone() {
                    let said = String::from_utf8_lossy(text).trim().to_owned();
                    let expected = this
                        .state
                        .as_ref()
                        .and_then(|state| Settings::from_values(state.settings))
                        .map_or(String::new(), |settings| settings.to_string());
                    if said.split_whitespace().ne(expected.split_whitespace()) {
                        return Err(format!("it says '{said}', the ioctls '{expected}'"));
                    }
                }
            }
            this.check_state(result.is_ok(), message.sets)
        };
        check(self).map_err(|text| {
            format!(
                "{text}: message '{}', {} bytes: {:?}",
                String::from_utf8_lossy(&message.text[..message.text.len().min(100)]),
                message.text.len(),
                ended,
            )
        })
    }
}

/// Whether a question names a setting that there is.
fn sets_read(bytes: &[u8]) -> bool {
    (make::u32_at(bytes, 8) as usize) < Settings::COUNT
}

/// The end of a call in a word.
fn outcome(result: Result<(), Errno>) -> String {
    match result {
        Ok(()) => "ok".to_owned(),
        Err(errno) => format!("{errno:?}"),
    }
}

/// Fails with an error that is not documented.
fn allowed(result: Result<(), Errno>, errors: &[Errno], shared: &Shared<'_>) -> Result<(), String> {
    match result {
        Err(errno) if errors.contains(&errno) => Ok(()),
        // Of a table that is being swapped for one of another target.
        Err(Errno::ENOTTY | Errno::ENXIO | Errno::EINVAL) if shared.fuzz.reopen => Ok(()),
        Err(errno) => Err(format!("{errno:?} is not documented for it")),
        Ok(()) => Ok(()),
    }
}

/// An answer has the size that the kernel knows, and zeros behind that.
fn check_answer(request: Request, answer: &[u8], size: usize) -> Result<(), String> {
    let known = request.layout().size;
    if answer.len() != size || size < 8 {
        return Err(format!(
            "it ended well with {size} bytes at the end of memory"
        ));
    }
    let header = (make::u32_at(answer, 0), make::u32_at(answer, 4) as usize);
    if header != (uapi::VERSION, known) {
        return Err(format!("the answer begins with {header:?}"));
    }
    if answer.iter().skip(known).any(|byte| *byte != 0) {
        return Err("the answer goes on behind its size".to_owned());
    }
    Ok(())
}

/// Reads, writes and discards in a part of the drive of its own. A sector holds zeros or what was
/// written to that very sector, whatever is reset, refused or taken away.
fn read_and_write(shared: &Shared<'_>, number: u64) {
    const LONGEST: u64 = 64;
    let mut random = Random::new(shared.fuzz.seed, 1000 + number);
    let sectors = shared.drive.spare_zones() * shared.drive.zone_bytes / SECTOR as u64;
    let part = sectors / shared.fuzz.io;
    let first = part * number;
    let mut buffer = Buffer::new(LONGEST);
    let mut arena = match Arena::new() {
        Ok(arena) => arena,
        Err(error) => return shared.wrong(format!("I/O thread {number}: {error}")),
    };
    let (mut device, mut raw) = (None, None);
    let mut version = 0;
    let (mut good, mut failed) = (0, 0);
    while !shared.over() {
        if device.is_none() || shared.fuzz.reopen && chance(&mut random, 5) {
            (device, raw) = (None, None);
            let open = |path: &Path| Ok((Device::open(path)?, BlockDevice::open(path, true)?));
            match open(&shared.fuzz.path) {
                Ok((direct, whole)) => (device, raw) = (Some(direct), Some(whole)),
                Err(_) if shared.fuzz.reopen => {
                    thread::sleep(Duration::from_millis(1));
                    continue;
                }
                Err(error) => {
                    let error: io::Error = error;
                    return shared.wrong(format!("I/O thread {number}: {error}"));
                }
            }
        }
        let (Some(device), Some(raw)) = (&device, &raw) else {
            continue;
        };
        let length = 1 + random.below(LONGEST);
        let at = first + random.below(part - LONGEST);
        let done = match random.below(20) {
            0 => {
                let bytes = [at * SECTOR as u64, length * SECTOR as u64].map(u64::to_ne_bytes);
                arena.writable_mut()[..16].copy_from_slice(&bytes.concat());
                let discard = Number::new(0x1277).expect("it is in the list");
                arena
                    .ioctl(raw, discard, Argument::Arena(WRITABLE.start))
                    .map_err(io::Error::from)
            }
            1 => device.flush(),
            2..=9 => device.read(&mut buffer, at, length).map(|()| {
                for (sector, bytes) in (at..).zip(buffer.sectors(length).chunks_exact(SECTOR)) {
                    let found = Found::in_sector(bytes, sector);
                    if !matches!(found, Found::Version { sector: said, .. } if said == sector) {
                        shared.wrong(format!("sector {sector} holds {found}"));
                        break;
                    }
                }
            }),
            _ => {
                version += 1;
                for (sector, bytes) in
                    (at..).zip(buffer.sectors_mut(length).chunks_exact_mut(SECTOR))
                {
                    fill(bytes, sector, version);
                }
                device.write(&buffer, at, length)
            }
        };
        match done.map_err(|error| error.raw_os_error()) {
            Ok(()) => good += 1,
            // Zones are read-only and offline; discards meet each other.
            Err(Some(5 | 16)) => failed += 1,
            Err(_) if shared.fuzz.reopen => failed += 1,
            Err(errno) => {
                shared.wrong(format!("I/O thread {number}: errno {errno:?}"));
            }
        }
    }
    let mut outcomes = shared.outcomes.lock().expect("no thread panics");
    *outcomes.entry("io good".to_owned()).or_default() += good;
    *outcomes.entry("io failed".to_owned()).or_default() += failed;
}

/// Suspends and resumes the device, and leaves it resumed.
fn suspend_and_resume(shared: &Shared<'_>, name: &str) {
    let mut random = Random::new(shared.fuzz.seed, 2000);
    let control = match Control::open() {
        Ok(control) => control,
        Err(error) => return shared.wrong(format!("{error}")),
    };
    let send = |flags| control.send(DmCommand::Suspend, name, flags, &[], 0);
    while !shared.over() {
        let how = one_of(&mut random, &[0, flag::NO_FLUSH, flag::SKIP_LOCKFS]);
        let ended = [send(flag::SUSPEND | how), {
            thread::sleep(Duration::from_millis(random.below(5)));
            send(0)
        }];
        for errno in ended.into_iter().filter_map(Result::err) {
            if !shared.fuzz.reopen {
                shared.wrong(format!("suspending or resuming failed: {errno}"));
            }
        }
        thread::sleep(Duration::from_millis(random.below(100)));
    }
}
