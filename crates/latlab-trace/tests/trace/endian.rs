//! Big-endian and 32-bit recordings, made from a real one by turning every number round.

use crate::fixture;
use latlab_trace::format::FieldKind;
use latlab_trace::print::{ReportOptions, report};
use latlab_trace::{Endian, Event, TraceFile};

/// A version 6 file with the events of `file`, in the given byte order and with the given `long`.
fn rewrite(file: &TraceFile<'_>, endian: Endian, long: u8) -> Vec<u8> {
    let mut out = b"\x17\x08\x44tracing6\0".to_vec();
    out.push(u8::from(endian == Endian::Big));
    out.push(long);
    endian.put(&mut out, 4096, 4);
    let data_at = 8 + u64::from(long);
    let page = format!(
        "\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;\n\tfield: local_t commit;\toffset:8;\tsize:{long};\tsigned:1;\n\tfield: char data;\toffset:{data_at};\tsize:{};\tsigned:1;\n",
        4096 - data_at
    );
    for (name, text) in [("header_page", page.as_str()), ("header_event", "# none\n")] {
        out.extend_from_slice(name.as_bytes());
        out.push(0);
        endian.put(&mut out, text.len() as u64, 8);
        out.extend_from_slice(text.as_bytes());
    }
    let of =
        |system: &str| file.formats.iter().filter(|f| &*f.system == system).collect::<Vec<_>>();
    let mut systems: Vec<&str> =
        file.formats.iter().map(|f| &*f.system).filter(|s| *s != "ftrace").collect();
    systems.sort_unstable();
    systems.dedup();
    let put = |out: &mut Vec<u8>, list: &[&latlab_trace::EventFormat]| {
        endian.put(out, list.len() as u64, 4);
        for f in list {
            endian.put(out, f.text().len() as u64, 8);
            out.extend_from_slice(f.text().as_bytes());
        }
    };
    put(&mut out, &of("ftrace"));
    endian.put(&mut out, systems.len() as u64, 4);
    for s in systems {
        out.extend_from_slice(s.as_bytes());
        out.push(0);
        put(&mut out, &of(s));
    }
    endian.put(&mut out, file.symbols.text().len() as u64, 4);
    out.extend_from_slice(file.symbols.text());
    endian.put(&mut out, 0, 4);
    let comms: String =
        file.comms.iter().map(|(p, c)| format!("{p} {}\n", String::from_utf8_lossy(c))).collect();
    endian.put(&mut out, comms.len() as u64, 8);
    out.extend_from_slice(comms.as_bytes());
    endian.put(&mut out, u64::from(file.cpu_count), 4);
    out.extend_from_slice(b"flyrecord\0");
    let mut pages = Vec::new();
    for cpu in 0..file.cpu_count {
        pages.push(cpu_pages(file, cpu, endian, long));
    }
    let mut offset = (out.len() as u64 + 16 * u64::from(file.cpu_count)).next_multiple_of(4096);
    let start = offset;
    for p in &pages {
        endian.put(&mut out, offset, 8);
        endian.put(&mut out, p.len() as u64, 8);
        offset += p.len() as u64;
    }
    out.resize(start as usize, 0);
    pages.iter().for_each(|p| out.extend_from_slice(p));
    out
}

fn cpu_pages(file: &TraceFile<'_>, cpu: u32, endian: Endian, long: u8) -> Vec<u8> {
    let mut out: Vec<u8> = Vec::new();
    let (mut page, mut time) = (usize::MAX, 0);
    let mut events = file.events();
    while let Some(e) = events.next() {
        if e.cpu != cpu {
            continue;
        }
        let payload = turned(file, &e, endian);
        if page == usize::MAX || out.len() - page + payload.len() + 16 > 4096 {
            if page != usize::MAX {
                out.resize(page + 4096, 0);
            }
            page = out.len();
            endian.put(&mut out, e.time, 8);
            endian.put(&mut out, 0, usize::from(long));
            time = e.time;
        }
        let mut word = |kind: u64, delta: u64| {
            let v = match endian {
                Endian::Little => kind | delta << 5,
                Endian::Big => kind << 27 | delta,
            };
            endian.put(&mut out, v, 4);
        };
        let mut delta = e.time - time;
        if delta >= 1 << 27 {
            word(30, delta & 0x07ff_ffff);
            endian.put(&mut out, delta >> 27, 4);
            delta = 0;
        }
        time = e.time;
        let mut word = |kind: u64, delta: u64| {
            let v = match endian {
                Endian::Little => kind | delta << 5,
                Endian::Big => kind << 27 | delta,
            };
            endian.put(&mut out, v, 4);
        };
        word(0, delta);
        endian.put(&mut out, payload.len() as u64 + 4, 4);
        out.extend_from_slice(&payload);
        out.resize(out.len().next_multiple_of(4), 0);
        let length = out.len() - page - 8 - usize::from(long);
        let mut commit = Vec::new();
        endian.put(&mut commit, length as u64, usize::from(long));
        out[page + 8..page + 8 + usize::from(long)].copy_from_slice(&commit);
    }
    if page != usize::MAX {
        out.resize(page + 4096, 0);
    }
    out
}

/// A record with every number of its fields turned round.
fn turned(file: &TraceFile<'_>, e: &Event<'_>, endian: Endian) -> Vec<u8> {
    let mut p = e.payload.to_vec();
    if endian == Endian::Little {
        return p;
    }
    let format = file.formats.get(e.id).unwrap();
    for f in format.fields() {
        let (at, width) = (
            f.offset as usize,
            match f.kind {
                FieldKind::Array { element } => element as usize,
                FieldKind::Text => continue,
                _ => f.size as usize,
            },
        );
        let end = if f.size == 0 { p.len() } else { at + f.size as usize };
        if width > 1 && end <= p.len() {
            p[at..end].chunks_exact_mut(width).for_each(<[u8]>::reverse);
        }
    }
    p
}

fn text(data: &[u8]) -> String {
    let file = TraceFile::parse(data).unwrap();
    assert!(file.diagnostics.is_empty(), "{:?}", file.diagnostics);
    let mut out = Vec::new();
    let options = ReportOptions { threads: 1, ..ReportOptions::default() };
    let end = report(&file, &options, &mut out).unwrap();
    assert!(end.diagnostics.is_empty(), "{:?}", end.diagnostics);
    String::from_utf8(out).unwrap()
}

#[test]
fn every_byte_order_and_word_size_gives_the_same_text() {
    let data = fixture("f6.dat");
    let expected = text(&data);
    assert_eq!(expected.lines().count(), 1983);
    let file = TraceFile::parse(&data).unwrap();
    for (endian, long) in
        [(Endian::Little, 8), (Endian::Big, 8), (Endian::Little, 4), (Endian::Big, 4)]
    {
        let other = rewrite(&file, endian, long);
        let read = TraceFile::parse(&other).unwrap();
        assert_eq!((read.endian, read.long_size()), (endian, long));
        // Addresses are as long as the kernel's words: 32-bit ones lose their upper half.
        if long == 8 {
            assert_eq!(text(&other), expected, "{endian:?} {long}");
        } else {
            assert_eq!(text(&other).lines().count(), 1983, "{endian:?} {long}");
        }
    }
}
