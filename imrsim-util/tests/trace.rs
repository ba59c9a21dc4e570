// SPDX-License-Identifier: GPL-2.0-only

//! Traces: every format is read as it is meant, and a trace means the same in all of them.

use std::{
    io::{Cursor, Read, Write},
    path::{Path, PathBuf},
};

use flate2::{write::GzEncoder, Compression};
use imrsim_core::{Allocation, Geometry, Stats};
use imrsim_util::{
    drive::Drive,
    simulate,
    trace::{
        self,
        convert::{self, Fit, OutputFormat},
        csv::{Delimiter, Layout, SpaceUnit, TimeUnit},
        cut, stat, synth, BadLine, Disks, Format, Item, Op, Options, Reader, Record, Source,
        MAX_LEN,
    },
};
use proptest::prelude::*;

const SPAN: u64 = 4 << 20;

fn reader(text: impl Into<Vec<u8>>, format: Option<Format>) -> trace::Trace {
    let options = Options {
        format,
        disks: Disks::All,
        ..Options::default()
    };
    trace::read(Cursor::new(text.into()), "the trace", &options).unwrap()
}

/// The requests and the bad lines of a trace.
fn read_all(reader: &mut dyn Reader) -> (Vec<Record>, Vec<BadLine>) {
    let (mut records, mut bad) = (Vec::new(), Vec::new());
    while let Some(item) = reader.next_item().unwrap() {
        match item {
            Item::Record(record) => records.push(record),
            Item::Bad(line) => bad.push(line),
            Item::Other => {}
        }
    }
    (records, bad)
}

/// Time, operation, offset, length and response time.
type Short = (Option<u64>, Op, u64, u64, Option<u64>);

fn short(record: &Record) -> Short {
    let Record {
        time,
        op,
        offset,
        len,
        response,
        ..
    } = *record;
    (time, op, offset, len, response)
}

fn requests(text: &str, format: Option<Format>) -> Vec<Short> {
    let (records, bad) = read_all(&mut reader(text, format));
    assert_eq!(bad, [], "{text}");
    records.iter().map(short).collect()
}

fn synthetic(requests: u64, seed: u64) -> Vec<u8> {
    let options = synth::Options {
        requests,
        reads: 0.3,
        read_sizes: "512:1,4k:2,64k:1".parse().unwrap(),
        write_sizes: "4k:1,12k:2,32k:1".parse().unwrap(),
        span: SPAN,
        footprint: SPAN / 2,
        skew: 0.9,
        sequential: 0.2,
        arrival: synth::Arrival::Poisson,
        interval: 0.01,
        seed,
    };
    written(OutputFormat::Msr, |writer| {
        synth::generate(&options, writer).unwrap();
    })
}

fn written(format: OutputFormat, write: impl FnOnce(&mut dyn trace::Writer)) -> Vec<u8> {
    let mut text = Vec::new();
    write(&mut *format.writer(&mut text, "/dev/mapper/imrsim").unwrap());
    text
}

fn converted(trace: &[u8], to: OutputFormat) -> (Vec<u8>, convert::Summary) {
    let options = convert::Options {
        capacity: None,
        fit: Fit::Reject,
        span: 0,
        align: None,
    };
    let mut summary = convert::Summary::default();
    let text = written(to, |writer| {
        summary = convert::convert(&mut reader(trace, None), writer, &options, &mut |bad| {
            panic!("{bad}")
        })
        .unwrap();
    });
    (text, summary)
}

fn simulated(trace: &[u8]) -> Stats {
    let geometry = Geometry::new(4, 6, 8).unwrap();
    let zones = simulate::zones_for(&geometry, SPAN);
    let drive = Drive::new(geometry, zones, Allocation::default()).unwrap();
    let mut drives = [drive];
    let fit = convert::Options {
        capacity: Some(drives[0].capacity()),
        fit: Fit::Reject,
        span: 0,
        align: None,
    };
    simulate::run(&mut reader(trace, None), &fit, &mut drives, &mut |bad| {
        panic!("{bad}")
    })
    .unwrap();
    drives[0].stats()
}

const WRITABLE: [OutputFormat; 4] = [
    OutputFormat::Iolog,
    OutputFormat::Iolog3,
    OutputFormat::Msr,
    OutputFormat::Csv,
];

const READABLE: [Format; 7] = [
    Format::Msr,
    Format::Iolog,
    Format::Blkparse,
    Format::Systor,
    Format::Spc,
    Format::Disksim,
    Format::Csv,
];

/// A trace of each format: what it starts with, and one line.
fn sample(format: Format) -> (&'static str, &'static str) {
    match format {
        Format::Msr => ("", "128166385295514663,hm,0,Write,9056014336,2048,2833\n"),
        Format::Iolog => ("fio version 3 iolog\n", "5 /dev/sdb write 4096 512\n"),
        Format::Blkparse => (
            "",
            "  8,0    3       11     0.009507758   697  Q   W 223490 + 8 [kjournald]\n",
        ),
        Format::Systor => (
            "Timestamp,Response,IOType,LUN,Offset,Size\n",
            "1456095145.133076000,0.000806000,R,0,899056122368,131072\n",
        ),
        Format::Spc => ("", "0,303567,3584,w,0.026214\n"),
        Format::Disksim => ("", "13.191135 30 5 1 1\n"),
        Format::Csv => (
            "time_ns,op,offset_bytes,size_bytes,response_ns,host,disk\n",
            "5,write,4096,512,,,\n",
        ),
    }
}

#[test]
fn msr_with_its_quirks() {
    let plain = "128166385295514663,hm,0,Write,9056014336,2048,2833\n\
                 128166385295514878,hm,0,Read,11855351808,512,2617\n";
    let expected = [
        (Some(0), Op::Write, 9_056_014_336, 2048, Some(283_300)),
        (Some(21_500), Op::Read, 11_855_351_808, 512, Some(261_700)),
    ];
    let header = "Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime\n";
    for text in [
        plain.to_owned(),
        format!("{header}{plain}"),
        format!("\u{feff}{header}{plain}"),
        plain.replace('\n', "\r\n"),
        plain.replace(',', " , "),
        plain.replace("Write", "write").replace("Read", "READ"),
        format!("\n\n{plain}\n"),
        plain.trim_end().to_owned(),
    ] {
        assert_eq!(requests(&text, None), expected, "{text}");
    }
}

#[test]
fn iologs() {
    let v2 = "fio version 2 iolog\n/dev/sdb add\n/dev/sdb open\n/dev/sdb write 0 4096\n\
              /dev/sdb wait 1000 0\n/dev/sdb trim 4096 8192\n/dev/sdb datasync 0 0\n\
              /dev/sdb close\n";
    assert_eq!(
        requests(v2, None),
        [
            (None, Op::Write, 0, 4096, None),
            (None, Op::Trim, 4096, 8192, None),
            (None, Op::Flush, 0, 0, None),
        ]
    );
    let v3 = "fio version 3 iolog\n0 /dev/sdb add\n0 /dev/sdb open\n7 /dev/sdb read 0 4096\n\
              1007 /dev/sdb sync 0 0\n1007 /dev/sdb close\n";
    assert_eq!(
        requests(v3, None),
        [
            (Some(0), Op::Read, 0, 4096, None),
            (Some(1_000_000), Op::Flush, 0, 0, None),
        ]
    );
}

#[test]
fn blkparse_text() {
    let text = "  8,0    3       10     0.009507000   697  A   W 223490 + 8 <- (8,1) 223427\n  \
                8,0    3       11     0.009507758   697  Q   W 223490 + 8 [kjournald]\n  \
                8,0    3       12     0.009508000   697  G   W 223490 + 8 [kjournald]\n  \
                8,0    3       13     0.009509000   697  P   N [kjournald]\n  \
                8,0    3       14     0.019509000   697  D   W 223490 + 8 [kjournald]\n  \
                8,0    1       15     1.009507758     0  Q  RA 8 + 16 [a b]\n  \
                8,0    1       16     2.009507758     0  Q FWS [jbd2/sda-8]\n  \
                8,0    1       17     3.009507758     0  C   W 223490 + 8 [0]\n\
                CPU0 (sda):\n Reads Queued:           1,        8KiB\n\nTotal (sda):\n";
    let expected = [
        (Some(0), Op::Write, 114_426_880, 4096, None),
        (Some(1_000_000_000), Op::Read, 4096, 8192, None),
        (Some(2_000_000_000), Op::Flush, 0, 0, None),
    ];
    assert_eq!(requests(text, None), expected);
    let options = Options {
        action: Some(trace::blkparse::Action::Complete),
        ..Options::default()
    };
    let mut completed = trace::read(Cursor::new(text), "", &options).unwrap();
    assert_eq!(read_all(&mut completed).0.len(), 1);
    let issued: String = text
        .lines()
        .filter(|line| !line.contains(" Q "))
        .map(|line| format!("{line}\n"))
        .collect();
    assert_eq!(requests(&issued, None).len(), 1);
}

#[test]
fn systor() {
    let text = "Timestamp,Response,IOType,LUN,Offset,Size\n\
                1456095145.133076000,0.000806000,R,0,899056122368,131072\n\
                1456095145.126285000,0.008044000,R,0,4256049987072,122880\n\
                1456095146.133076000,,W,0,4096,512\n";
    let mut trace = reader(text, None);
    let (records, bad) = read_all(&mut trace);
    assert_eq!(bad, []);
    let expected = [
        (Some(0), Op::Read, 899_056_122_368, 131_072, Some(806_000)),
        (
            Some(0),
            Op::Read,
            4_256_049_987_072,
            122_880,
            Some(8_044_000),
        ),
        (Some(1_000_000_000), Op::Write, 4096, 512, None),
    ];
    assert_eq!(records.iter().map(short).collect::<Vec<_>>(), expected);
    assert_eq!(trace.notes().backwards, 1);
}

#[test]
fn spc_and_disksim() {
    let spc = "0,303567,3584,w,0.000000\n1,55590,3072,R,0.000000,any,more\n0,8,512,r,0.026214\n";
    assert_eq!(
        requests(spc, None),
        [
            (Some(0), Op::Write, 155_426_304, 3584, None),
            (Some(0), Op::Read, 28_462_080, 3072, None),
            (Some(26_214_000), Op::Read, 4096, 512, None),
        ]
    );
    // Bit 0 of the hexadecimal flags is a read; 10 is 16.
    let disksim = "13.191135 30 5 1 1\n17.829285\t20 576560 6 0\n24.314779 17 0 24 10\n\
                   24.314779 17 0 24 11\n";
    assert_eq!(
        requests(disksim, None),
        [
            (Some(0), Op::Read, 2560, 512, None),
            (Some(4_638_150), Op::Write, 295_198_720, 3072, None),
            (Some(11_123_644), Op::Write, 0, 12_288, None),
            (Some(11_123_644), Op::Read, 0, 12_288, None),
        ]
    );
}

#[test]
fn any_columns() {
    // Time in ns, process, name, sector, sectors, kind, device, and a digest.
    let text = "89966 4253 nfsd 508833 8 W 6 0 abc\n189966 4253 nfsd 16 8 R 6 0 abc\n";
    let layout = Layout {
        columns: "time=1,offset=4,size=5,op=6,disk=7".parse().unwrap(),
        delimiter: Delimiter::Blanks,
        time: TimeUnit::Ns,
        offset: SpaceUnit::Sectors,
        size: SpaceUnit::Sectors,
        ops: Default::default(),
    };
    let options = Options {
        layout: Some(layout),
        ..Options::default()
    };
    let mut trace = trace::read(Cursor::new(text), "", &options).unwrap();
    let (records, bad) = read_all(&mut trace);
    assert_eq!(bad, []);
    assert_eq!(
        records.iter().map(short).collect::<Vec<_>>(),
        [
            (Some(0), Op::Write, 260_522_496, 4096, None),
            (Some(100_000), Op::Read, 8192, 4096, None),
        ]
    );
    assert_eq!(trace.sources()[0].disk, "6");
}

#[test]
fn what_is_wrong_with_a_line() {
    use Format::{Blkparse, Csv, Disksim, Iolog, Msr, Spc, Systor};
    for (format, line, reason) in [
        (Msr, "1,h,0,Read,0,0,1", "size is 0"),
        (Msr, "1,h,0,Read,0,512", "6 fields instead of 7"),
        (Msr, "1,h,0,Read,0,512,1,2", "8 fields instead of 7"),
        (
            Msr,
            "1,h,0,Read,-1,512,1",
            "offset '-1' is not a whole number",
        ),
        (
            Msr,
            "1,h,0,Read,0,5e2,1",
            "size '5e2' is not a whole number",
        ),
        (Msr, "1,h,0,Read,0,,1", "size is missing"),
        (Msr, "1,h,0,R,0,512,1", "type 'R' is neither Read nor Write"),
        (
            Msr,
            "1,h,0,Read,99999999999999999999,512,1",
            "does not fit 64 bits",
        ),
        (
            Msr,
            "1,h,0,Read,18446744073709551615,512,1",
            "offset + size",
        ),
        (Msr, "1,h,0,Read,0,4294967296,1", "4 GiB or more"),
        (Msr, "1,h,x,Read,0,512,1", "disk number 'x'"),
        (Msr, "1,h\0,0,Read,0,512,1", "host 'h\\0' is no name"),
        (Msr, "\0\0\0", "contains zero bytes"),
        (Iolog, "5 /dev/sdb write 0", "takes offset and length"),
        (
            Iolog,
            "5 /dev/sdb scribble 0 512",
            "unknown action 'scribble'",
        ),
        (Iolog, "x /dev/sdb write 0 512", "time 'x'"),
        (Iolog, "5 /dev/sdb", "action is missing"),
        (Iolog, "5 /dev/sdb write 0 512 7", "here are 3 numbers"),
        (Blkparse, "8,0 3 11 0.5 697 Q W 8 + 0 [x]", "size is 0"),
        (
            Blkparse,
            "8,0 3 11 0.5 697 Q W 36028797018963968 + 8 [x]",
            "2^64 bytes",
        ),
        (Blkparse, "8,0 3 11 -0.5 697 Q W 8 + 8 [x]", "time '-0.5'"),
        (Blkparse, "sda 3 11 0.5 697 Q W 8 + 8 [x]", "device 'sda'"),
        (Systor, "1.5,0.1,,0,4096,512", "type is missing"),
        (Systor, "1.5,0.1,RW,0,4096,512", "type 'RW'"),
        (Systor, "1.5,0.1,R,0,4096", "5 fields instead of 6"),
        (Systor, "1.5,-1,R,0,4096,512", "response time '-1'"),
        (Spc, "0,8,512,w", "time is missing"),
        (Spc, "0,8,512,x,0.1", "opcode 'x'"),
        (Spc, "a,8,512,w,0.1", "ASU 'a'"),
        (Spc, "0,8,0,w,0.1", "size is 0"),
        (Disksim, "1.5 0 8 1", "4 fields instead of 5"),
        (Disksim, "1.5 0 8 1 1 9", "6 or more fields"),
        (Disksim, "1.5 0 8 1 -1", "flags '-1'"),
        (Disksim, "99999999999999999999.5 0 8 1 1", "arrival time"),
        (Csv, "1,erase,0,512,,,", "operation 'erase' is unknown"),
        (Csv, "1,read,0", "3 columns, column 5 is missing"),
        (Csv, "1.5.5,read,0,512,,,", "time '1.5.5'"),
    ] {
        let (start, good) = sample(format);
        let text = format!("{start}{good}{line}\n{good}");
        let (records, bad) = read_all(&mut reader(text, Some(format)));
        assert_eq!(records.len(), 2, "{line}");
        let [bad] = bad.as_slice() else {
            panic!("{line}: {bad:?}");
        };
        let number = start.lines().count() as u64 + 2;
        assert!(bad.reason.contains(reason), "{line}: {}", bad.reason);
        assert_eq!(bad.line, number, "{line}");
    }
}

/// The names of hosts and disks are kept, and written in other formats.
#[test]
fn names_are_of_bounded_length() {
    let line = |len: usize| format!("1,{},0,Read,0,512,1\n", "\"".repeat(len));
    let text = line(255) + &line(256);
    let (records, bad) = read_all(&mut reader(text, Some(Format::Msr)));
    assert_eq!(records.len(), 1);
    assert!(
        bad[0].reason.ends_with("is longer than 255 bytes"),
        "{bad:?}"
    );
}

/// The columns are looked for in the first lines, not in all.
#[test]
fn named_columns_have_to_be_there() {
    let options = Options {
        format: Some(Format::Csv),
        ..Options::default()
    };
    let (names, line) = sample(Format::Csv);
    let read = |text: String| trace::read(Cursor::new(text), "x", &options);
    let error = read(line.repeat(3)).err().unwrap().to_string();
    assert_eq!(
        error,
        "cannot read x: the first line has no column 'time_ns'"
    );
    let (records, bad) = read_all(&mut read(format!("# made today\n{names}{line}")).unwrap());
    assert_eq!((records.len(), bad.len()), (1, 1));
}

#[test]
fn formats_are_known_by_their_content() {
    for format in READABLE {
        let (start, line) = sample(format);
        let text = format!("{start}{line}");
        assert_eq!(reader(text.as_bytes(), None).format, format);
        let damaged = format!("{start}what is this?\n{line}{line}");
        assert_eq!(reader(damaged.as_bytes(), None).format, format, "{damaged}");
    }
    for text in [
        "hello\nworld\n",
        "\n\n\n",
        "1,2,3\n",
        "R Hit 17317516 4 1.5 2.5\n",
    ] {
        let read = trace::read(Cursor::new(text), "x", &Options::default());
        let error = read.err().unwrap().to_string();
        assert!(error.contains("none of the known formats"), "{error}");
    }
}

fn gzip(text: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(text).unwrap();
    encoder.finish().unwrap()
}

fn zstd(text: &[u8]) -> Vec<u8> {
    zstd::encode_all(text, 3).unwrap()
}

#[test]
fn compressed_traces() {
    let trace = synthetic(2000, 1);
    let plain = read_all(&mut reader(trace.as_slice(), None));
    let (first, second) = trace.split_at(trace.len() / 3);
    for compress in [gzip, zstd] {
        let whole = compress(&trace);
        assert_eq!(read_all(&mut reader(whole.as_slice(), None)), plain);
        let parts = [compress(first), compress(second)].concat();
        assert_eq!(read_all(&mut reader(parts, None)), plain);
        // Cut off anywhere, it ends with an error, after some of the requests.
        for len in [whole.len() / 2, whole.len() - 1] {
            let options = Options {
                format: Some(Format::Msr),
                ..Options::default()
            };
            let cut = Cursor::new(whole[..len].to_vec());
            let Ok(mut reader) = trace::read(cut, "x", &options) else {
                continue;
            };
            let mut count = 0;
            let error = loop {
                match reader.next_item() {
                    Ok(Some(_)) => count += 1,
                    Ok(None) => panic!("no error"),
                    Err(error) => break error.to_string(),
                }
            };
            assert!(error.contains("damaged or ends too early"), "{error}");
            assert!(count <= 2000);
        }
    }
}

#[test]
fn disks_are_not_mixed_unawares() {
    let text = "1,web,0,Read,0,4096,1\n2,web,1,Write,4096,4096,1\n3,db,0,Write,8192,4096,1\n";
    let read = |disks| {
        let options = Options {
            disks,
            ..Options::default()
        };
        let mut reader = trace::read(Cursor::new(text), "x", &options).unwrap();
        let (records, bad) = read_all(&mut reader);
        (records.len(), bad.len(), reader.notes().other_disks)
    };
    let only = |host: Option<&str>, disk: Option<&str>| Disks::Only {
        host: host.map(str::to_owned),
        disk: disk.map(str::to_owned),
    };
    assert_eq!(read(Disks::First), (1, 2, 0));
    assert_eq!(read(Disks::All), (3, 0, 0));
    assert_eq!(read(only(None, Some("0"))), (2, 0, 1));
    assert_eq!(read(only(Some("web"), None)), (2, 0, 1));
    assert_eq!(read(only(Some("web"), Some("1"))), (1, 0, 2));
    assert_eq!(read(only(None, Some("9"))), (0, 0, 3));
}

#[test]
fn a_huge_file_needs_no_memory() {
    const LEN: u64 = 1 << 28;
    let options = Options {
        format: Some(Format::Msr),
        ..Options::default()
    };
    let zeros = std::io::repeat(0).take(LEN);
    let (records, bad) = read_all(&mut trace::read(zeros, "x", &options).unwrap());
    assert_eq!((records.len(), bad.len()), (0, 1));
    // All of it is in the page cache or the heap, or neither. Linux knows.
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let peak = status
        .lines()
        .find(|line| line.starts_with("VmHWM"))
        .unwrap();
    let kib: u64 = peak.split_whitespace().nth(1).unwrap().parse().unwrap();
    assert!(kib < LEN / 1024 / 2, "{peak}");
}

#[test]
fn measured_by_hand() {
    let text = "0,h,0,Write,0,4096,10\n\
                10,h,0,Write,4096,8192,30\n\
                20,h,0,Read,0,512,20\n\
                10000020,h,0,Write,4608,512,20\n";
    let all = stat::measure("x", &mut reader(text, None), &mut |bad| panic!("{bad}")).unwrap();
    let [stats] = all.as_slice() else {
        panic!("{all:?}");
    };
    assert_eq!((stats.reads, stats.writes), (1, 3));
    assert_eq!((stats.read_bytes, stats.write_bytes), (512, 12_800));
    assert_eq!(stats.write_ratio, Some(0.75));
    assert_eq!(stats.mean_write_bytes, Some(12_800.0 / 3.0));
    assert_eq!(stats.footprint_bytes, 3 * 4096);
    assert_eq!(stats.end_byte, 12_288);
    assert_eq!(stats.aligned_4k_ratio, Some(0.5));
    assert_eq!(stats.aligned_512_ratio, Some(1.0));
    // Of four blocks written to, the last was written before.
    assert_eq!(stats.update_ratio, Some(0.25));
    assert_eq!(stats.sequential_ratio, Some(0.25));
    assert_eq!(stats.mean_run_bytes, Some(13_312.0 / 3.0));
    assert_eq!(stats.duration_ns, Some(1_000_002_000));
    assert_eq!(stats.mean_response_ns, Some(2000.0));
}

fn cut_out(text: &str, options: cut::Options) -> String {
    let mut piece = Vec::new();
    let mut reader = reader(text, None);
    cut::cut(&mut reader, &mut piece, &options, &mut |bad| {
        panic!("{bad}")
    })
    .unwrap();
    String::from_utf8(piece).unwrap()
}

#[test]
fn pieces_keep_their_lines() {
    let header = "Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime\r\n";
    let lines: Vec<String> = (0..10)
        .map(|second| format!("{},h,0,Read, {second},512,1\r\n", second * 10_000_000))
        .collect();
    let text = header.to_owned() + &lines.concat();
    let all = cut::Options::default();
    assert_eq!(cut_out(&text, all), text);
    let second = 1_000_000_000;
    let options = cut::Options {
        start: Some(2 * second),
        end: Some(8 * second),
        ..all
    };
    assert_eq!(
        cut_out(&text, options),
        header.to_owned() + &lines[2..8].concat()
    );
    let options = cut::Options {
        skip: 1,
        count: Some(2),
        ..options
    };
    assert_eq!(
        cut_out(&text, options),
        header.to_owned() + &lines[3..5].concat()
    );
}

/// The presets have the published numbers: of requests exactly, of bytes within 1 % although only
/// a part of the trace is generated here.
#[test]
fn presets_are_as_published() {
    const REQUESTS: u64 = 30_000;
    const GIB: f64 = (1_u64 << 30) as f64;
    for preset in synth::Preset::ALL {
        let name = preset.name();
        let published = preset.published();
        let mut options = preset.options(3).unwrap();
        let whole = options.requests;
        assert_eq!(whole, published.reads + published.writes, "{name}");
        options.requests = REQUESTS;
        let text = written(OutputFormat::Csv, |writer| {
            synth::generate(&options, writer).unwrap();
        });
        let all = stat::measure(name, &mut reader(text, None), &mut |bad| panic!("{bad}"));
        let stats = all.unwrap().remove(0);
        let part = REQUESTS as f64 / whole as f64;
        assert!(
            (stats.reads as f64 - published.reads as f64 * part).abs() <= 1.0,
            "{name}"
        );
        assert!(
            (stats.writes as f64 - published.writes as f64 * part).abs() <= 1.0,
            "{name}"
        );
        for (bytes, gib) in [
            (stats.read_bytes, published.read_gib),
            (stats.write_bytes, published.write_gib),
        ] {
            let error = bytes as f64 / (gib * GIB * part) - 1.0;
            assert!(error.abs() < 0.01, "{name}: {bytes} bytes, {error}");
        }
        assert!(stats.footprint_bytes <= options.footprint, "{name}");
        assert!(
            stats.end_byte <= options.span && options.span <= 128 << 30,
            "{name}"
        );
        assert_eq!(stats.aligned_4k_ratio, Some(1.0), "{name}");
        let days = stats.duration_ns.unwrap() as f64 / 1e9 / 86_400.0 / part;
        assert!((days - 7.0).abs() < 0.1, "{name}: {days} days");
    }
}

fn data(name: &str) -> Option<PathBuf> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../shared/data")
        .join(name);
    path.exists().then_some(path)
}

#[test]
fn real_traces() {
    for (name, format, reads, writes, bytes) in [
        (
            "msr/hm_0-first-1000.csv",
            Format::Msr,
            508,
            492,
            Some(9_689_600),
        ),
        ("systor/systor17-sample.csv", Format::Systor, 826, 173, None),
    ] {
        let Some(path) = data(name) else {
            println!("SKIPPED real_traces: there is no {name}");
            continue;
        };
        let mut reader = trace::open(&path, &Options::default()).unwrap();
        assert_eq!(reader.format, format);
        let all = stat::measure(name, &mut reader, &mut |bad| panic!("{bad}")).unwrap();
        assert_eq!((all[0].reads, all[0].writes), (reads, writes), "{name}");
        if let Some(bytes) = bytes {
            assert_eq!(all[0].read_bytes + all[0].write_bytes, bytes);
            assert_eq!(all[0].duration_ns.unwrap() / 1_000_000_000, 127);
            assert_eq!(all[0].end_byte / 10_000_000, 1357);
        }
    }
}

#[test]
fn times_are_ticks_of_100_ns_and_microseconds() {
    let trace = "1000,h,0,Read,0,512,1\n11000,h,0,Read,0,512,1\n10000999,h,0,Read,0,512,1\n";
    let (log, summary) = converted(trace.as_bytes(), OutputFormat::Iolog3);
    assert_eq!(summary.duration_ns, 999_999_900);
    let log = String::from_utf8(log).unwrap();
    let times: Vec<&str> = log
        .lines()
        .filter(|line| line.contains("read"))
        .filter_map(|line| line.split(' ').next())
        .collect();
    // One microsecond after the start of the log: see the module `iolog`.
    assert_eq!(times, ["1", "1001", "1000000"]);
}

fn any_op() -> impl Strategy<Value = Op> {
    prop_oneof![
        Just(Op::Read),
        Just(Op::Write),
        Just(Op::Trim),
        Just(Op::Flush)
    ]
}

/// Records in the order of their times, which begin at 0.
fn any_records() -> impl Strategy<Value = Vec<Record>> {
    let one = (
        any_op(),
        0_u64..1 << 50,
        any::<u64>(),
        1_u64..=MAX_LEN,
        proptest::option::of(0_u64..1 << 40),
    );
    proptest::collection::vec(one, 1..50).prop_map(|all| {
        let mut time = 0;
        let record = |(place, fields): (usize, (Op, u64, u64, u64, Option<u64>))| {
            let (op, gap, offset, len, response) = fields;
            time += if place == 0 { 0 } else { gap };
            let flush = op == Op::Flush;
            Record {
                line: 0,
                time: Some(time),
                op,
                offset: if flush { 0 } else { offset.min(u64::MAX - len) },
                len: if flush { 0 } else { len },
                response,
                source: 0,
            }
        };
        all.into_iter().enumerate().map(record).collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// What is written is read back, as far as the format can hold it.
    #[test]
    fn round_trips(
        records in any_records(),
        host in "[ -~]{0,20}",
        disk in "[ -~]{0,20}",
    ) {
        let source = Source {
            host: host.trim().to_owned(),
            disk: disk.trim().to_owned(),
        };
        for format in WRITABLE {
            let mut kept = Vec::new();
            let text = written(format, |writer| {
                for record in &records {
                    if writer.check(record, &source).is_ok() {
                        writer.write(record, &source).unwrap();
                        kept.push(*record);
                    }
                }
                writer.finish().unwrap();
            });
            if kept.is_empty() {
                continue;
            }
            let tick = match format {
                OutputFormat::Msr => 100,
                OutputFormat::Iolog | OutputFormat::Iolog3 => 1000,
                OutputFormat::Csv => 1,
            };
            let first = kept[0].time.unwrap() / tick;
            let expected: Vec<Short> = kept
                .iter()
                .map(|record| {
                    let time = record.time.unwrap() / tick - first;
                    let time = (format != OutputFormat::Iolog).then_some(time * tick);
                    let response = match format {
                        OutputFormat::Csv => record.response,
                        OutputFormat::Msr => Some(record.response.unwrap_or(0) / tick * tick),
                        _ => None,
                    };
                    (time, record.op, record.offset, record.len, response)
                })
                .collect();
            let mut reader = reader(text.as_slice(), None);
            let (records, bad) = read_all(&mut reader);
            prop_assert_eq!(bad, []);
            let read: Vec<Short> = records.iter().map(short).collect();
            prop_assert_eq!(read, expected);
            if format == OutputFormat::Csv {
                prop_assert_eq!(reader.sources(), std::slice::from_ref(&source));
            }
        }
    }

    #[test]
    fn the_same_in_every_format(requests in 1_u64..100, seed in any::<u64>()) {
        let trace = synthetic(requests, seed);
        let stats = simulated(&trace);
        for format in WRITABLE {
            let (text, summary) = converted(&trace, format);
            prop_assert_eq!(summary.lines, requests);
            prop_assert_eq!(summary.requests, requests);
            prop_assert_eq!(summary.written, requests);
            prop_assert!(summary.end <= SPAN);
            prop_assert_eq!(simulated(&text), stats);
            // Once more, and it stays as it is.
            prop_assert_eq!(&converted(&text, format).0, &text);
        }
    }

    /// Whatever is in a file, each of its lines is a request that makes sense, a bad line, or
    /// nothing.
    #[test]
    fn any_bytes_at_all(bytes in proptest::collection::vec(
        prop_oneof![any::<u8>(), prop::sample::select(b"0123456789,.+RreadWwitQ\" \r\n".to_vec())],
        0..2000,
    )) {
        for start in [&b""[..], b"\x1f\x8b\x08\0", b"\x28\xb5\x2f\xfd", b"fio version 2 iolog\n"] {
            let text = [start, &bytes].concat();
            let read = trace::read(Cursor::new(text), "x", &Options::default());
            if let Ok(mut reader) = read {
                while let Ok(Some(_)) = reader.next_item() {}
            }
        }
        for format in READABLE {
            check_sense([sample(format).0.as_bytes(), &bytes].concat(), format)?;
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    /// Lines that are nearly right are the hardest.
    #[test]
    fn damaged_lines(
        format in prop::sample::select(READABLE.to_vec()),
        edits in proptest::collection::vec(
            (any::<prop::sample::Index>(), any::<bool>(), prop_oneof![
                any::<u8>(),
                prop::sample::select(b"0123456789,.-+eE \r\n\"".to_vec()),
            ]),
            0..8,
        ),
    ) {
        let (start, line) = sample(format);
        let mut lines = line.repeat(3).into_bytes();
        for (at, insert, byte) in edits {
            let at = at.index(lines.len());
            if insert {
                lines.insert(at, byte);
            } else {
                lines[at] = byte;
            }
        }
        check_sense([start.as_bytes(), &lines].concat(), format)?;
    }
}

/// Reads a text in a format and checks that what is read makes sense.
fn check_sense(text: Vec<u8>, format: Format) -> Result<(), TestCaseError> {
    let options = Options {
        format: Some(format),
        disks: Disks::All,
        ..Options::default()
    };
    let lines = text.split(|byte| *byte == b'\n').count();
    let Ok(mut reader) = trace::read(Cursor::new(text), "x", &options) else {
        return Ok(());
    };
    let (records, bad) = read_all(&mut reader);
    prop_assert!(records.len() + bad.len() <= lines);
    let mut last = 0;
    for record in records {
        prop_assert!(record.offset.checked_add(record.len).is_some());
        prop_assert!(record.op == Op::Flush || (1..=MAX_LEN).contains(&record.len));
        prop_assert!((record.source as usize) < reader.sources().len());
        let time = record.time.unwrap_or(last);
        prop_assert!(time >= last);
        last = time;
    }
    Ok(())
}
