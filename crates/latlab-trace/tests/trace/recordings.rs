//! Recordings made by trace-cmd, read to exact counts.

use crate::fixture;
use latlab_trace::TraceFile;
use std::collections::BTreeMap;

/// Events by buffer and CPU; asserts that they are in order and that nothing is damaged.
fn counts(data: &[u8]) -> BTreeMap<(String, u32), u64> {
    let file = TraceFile::parse(data).unwrap();
    assert!(file.diagnostics.is_empty(), "{:?}", file.diagnostics);
    let mut counts = BTreeMap::new();
    let mut events = file.events();
    let mut last = 0;
    while let Some(e) = events.next() {
        assert!(e.time >= last);
        last = e.time;
        assert!(file.formats.get(e.id).is_some(), "event {}", e.id);
        *counts.entry((file.buffers[usize::from(e.buffer)].name.clone(), e.cpu)).or_default() += 1;
    }
    assert!(events.diagnostics().is_empty());
    counts
}

#[test]
fn every_event_of_every_version_and_compression() {
    const FILES: [(&str, u64); 17] = [
        ("f6.dat", 1983),
        ("f7-zstd.dat", 1177),
        ("f7-none.dat", 1407),
        ("inst6.dat", 692),
        ("inst7.dat", 350),
        ("futex6.dat", 1432),
        ("mark6.dat", 5),
        ("sub7.dat", 169),
        ("latlab-v7-zlib.dat", 269),
        ("events7-armv7-zlib.dat", 587),
        ("function7-armv7.dat", 31),
        ("graph6-armv7.dat", 1616),
        ("graph7-armv7.dat", 1208),
        ("events7-x86_64.dat", 1017),
        ("function7-x86_64.dat", 32),
        ("graph6-x86_64.dat", 1158),
        ("nmi7-x86_64.dat", 975),
    ];
    for (name, total) in FILES {
        let counts = counts(&fixture(name));
        assert_eq!(counts.values().sum::<u64>(), total, "{name}: {counts:?}");
    }
}

#[test]
fn lost_events_are_counted_where_the_kernel_counted_them() {
    use latlab_trace::Missed;
    for (name, events, lost) in
        [("lost7.dat", 5366, 215), ("latlab-v7-none-lost.dat", 3806, 6387), ("f6.dat", 1983, 0)]
    {
        let data = fixture(name);
        let file = TraceFile::parse(&data).unwrap();
        let (mut read, mut missed) = (0, 0);
        let mut all = file.events();
        while let Some(e) = all.next() {
            read += 1;
            match e.missed {
                Missed::No => {}
                Missed::Count(n) => missed += n,
                Missed::Unknown => panic!("{name}: an unknown number was lost"),
            }
        }
        assert_eq!((read, missed), (events, lost), "{name}");
    }
}

#[test]
fn typed_views_of_real_events() {
    use latlab_trace::events::{Decoder, Typed};
    let data = fixture("f6.dat");
    let file = TraceFile::parse(&data).unwrap();
    let decoder = Decoder::new(&file);
    let mut events = file.events();
    let (mut switches, mut vectors, mut calls, mut expiries) = (0, 0, 0, 0);
    while let Some(e) = events.next() {
        let common = decoder.common(&e);
        match decoder.decode(&e) {
            Typed::SchedSwitch(s) => {
                switches += 1;
                assert_eq!(common.pid, s.prev_pid);
            }
            Typed::VectorEntry(v) => {
                vectors += 1;
                assert_eq!((v.name, v.vector), ("local_timer", 236));
            }
            Typed::SysEnter(c) if c.name == "read" => calls += 1,
            Typed::HrtimerExpireEntry(h) => {
                expiries += 1;
                assert!(h.now > 0 && h.function > 0);
            }
            _ => {}
        }
    }
    assert_eq!((switches, vectors, calls, expiries), (189, 48, 37, 52));
}

#[test]
fn stretches_of_time_hold_every_event_once() {
    for name in ["f6.dat", "f7-zstd.dat", "lost7.dat", "sub7.dat", "latlab-v7-none-lost.dat"] {
        let data = fixture(name);
        let file = TraceFile::parse(&data).unwrap();
        let read = |pieces: usize| {
            let (parts, damage) =
                file.scan_pieces(&latlab_trace::Select::default(), pieces, Vec::new, |all, e| {
                    all.push((e.time, e.cpu, e.id, e.missed));
                    std::ops::ControlFlow::Continue(())
                });
            assert!(damage.is_empty());
            (parts.len(), parts.concat())
        };
        let (_, whole) = read(1);
        for pieces in [2, 3, 8] {
            let (count, parts) = read(pieces);
            assert!(count > 1, "{name} in {pieces}");
            assert!(parts == whole, "{name} in {pieces}");
        }
    }
}

/// What an event of this format and record is printed as, and its arguments as a view has them.
fn system_call(fields: &str, fmt: &str, record: &[u8]) -> (String, [u64; 6]) {
    use latlab_trace::events::{Decoder, Typed};
    use latlab_trace::print::{Dialect, EventFormatter};
    let mut file = latlab_trace::text::parse(b"a-1 [000] 1.000001: x: y=1\n").unwrap();
    let text = format!(
        "name: sys_enter_x\nID: 900\nformat:\n\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n\tfield:int __syscall_nr;\toffset:8;\tsize:4;\tsigned:1;\n{fields}\nprint fmt: {fmt}\n"
    );
    let endian = latlab_trace::Endian::Little;
    file.formats.add(latlab_trace::EventFormat::parse("syscalls", &text, endian).unwrap());
    let mut out = Vec::new();
    EventFormatter::new(&file, Dialect::TraceCmd).put(900, record, &mut out);
    let event = latlab_trace::Event {
        time: 0,
        cpu: 0,
        buffer: 0,
        id: 900,
        missed: Default::default(),
        payload: record,
    };
    let decoder = Decoder::new(&file);
    let Typed::SysEnter(call) = decoder.decode(&event) else { panic!("a system call") };
    (String::from_utf8(out).unwrap(), call.args)
}

/// The kernel records every argument in a whole register, whatever its C type; newer ones record
/// strings behind them. Sizes are those of the format, and what no number has reads as 0.
#[test]
fn arguments_of_system_calls_are_as_long_as_their_format_says() {
    let mut record = vec![0u8; 16];
    record[..2].copy_from_slice(&900u16.to_le_bytes());
    for register in [0xffff_ffff_ffff_ff9cu64, 0x7f00_1234_5678, 0x241] {
        record.extend_from_slice(&register.to_le_bytes());
    }
    record.extend_from_slice(&[48, 0, 5, 0]);
    record.resize(48, 0);
    record.extend_from_slice(b"/tmp\0");
    let fields = "\tfield:int dfd;\toffset:16;\tsize:8;\tsigned:0;\n\tfield:const char * name;\toffset:24;\tsize:8;\tsigned:0;\n\tfield:int flags;\toffset:32;\tsize:8;\tsigned:0;\n\tfield:__data_loc char[] __name_val;\toffset:40;\tsize:4;\tsigned:0;\n";
    let fmt = r#""dfd: 0x%08lx, name: 0x%08lx \"%s\", flags: 0x%08lx", ((unsigned long)(REC->dfd)), ((unsigned long)(REC->name)), __get_str(__name_val), ((unsigned long)(REC->flags))"#;
    let (text, args) = system_call(fields, fmt, &record);
    assert_eq!(text, "dfd: 0xffffffffffffff9c, name: 0x7f0012345678 \"/tmp\", flags: 0x00000241");
    assert_eq!(args[..3], [0xffff_ffff_ffff_ff9c, 0x7f00_1234_5678, 0x241]);
    // The same format over a record that ends early, and sizes that no number has.
    assert_eq!(
        system_call(fields, fmt, &record[..30]).0,
        "dfd: 0xffffffffffffff9c, name: 0x00000000 \"\", flags: 0x00000000"
    );
    for size in ["0", "3", "16", "4294967295"] {
        let odd = format!("\tfield:int dfd;\toffset:16;\tsize:{size};\tsigned:1;\n");
        let (text, args) = system_call(&odd, r#""dfd: %d", REC->dfd"#, &record);
        assert_eq!((text.as_str(), args[0]), ("dfd: 0", 0), "size {size}");
    }
}

/// Files that are read one after the other share formats only where these are the same.
#[test]
fn formats_of_the_file_before_are_shared_where_they_are_the_same() {
    let names = ["f7-none.dat", "f7-none.dat", "f7-zstd.dat", "f6.dat", "f7-none.dat"];
    let mut known = latlab_trace::KnownFormats::default();
    for name in names {
        let data = fixture(name);
        let alone = TraceFile::parse(&data).unwrap();
        let after =
            TraceFile::parse_after(&data, latlab_trace::DEFAULT_MEMORY, Some(&mut known)).unwrap();
        let all = |f: &TraceFile<'_>| -> Vec<(u16, String, usize)> {
            f.formats.iter().map(|f| (f.id, f.text().to_owned(), f.fields().len())).collect()
        };
        assert_eq!(all(&after), all(&alone), "{name}");
    }
    // One more event kind, or another byte order, is another table.
    let mut data = fixture("f7-none.dat").to_vec();
    let at = data.windows(8).position(|w| w == b"name: fu").unwrap();
    data[at + 6] = b'q';
    let after =
        TraceFile::parse_after(&data, latlab_trace::DEFAULT_MEMORY, Some(&mut known)).unwrap();
    assert!(after.formats.iter().any(|f| f.name.starts_with("qu")));
}
