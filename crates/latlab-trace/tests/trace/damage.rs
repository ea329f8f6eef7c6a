//! Damaged files: what is good is read, what is not is reported, nothing panics.

use crate::fixture;
use latlab_trace::{Diagnostics, TraceError, TraceFile};
use std::io::Write;

/// Number of events, and everything that was said about damage.
fn read(data: &[u8]) -> Result<(u64, Diagnostics), TraceError> {
    let file = TraceFile::parse(data)?;
    let mut events = file.events();
    let mut count = 0;
    while events.next().is_some() {
        count += 1;
    }
    let mut damage = file.diagnostics.clone();
    damage.extend(&events.diagnostics());
    Ok((count, damage))
}

/// Events of each page of a CPU's data, by reading the file cut off behind it.
#[test]
fn a_truncated_version_6_file_is_read_to_its_last_page() {
    let data = fixture("f6.dat");
    let file = TraceFile::parse(&data).unwrap();
    let (total, _) = read(&data).unwrap();
    let cpus = file.buffers[0].cpus.clone();
    let last = cpus.last().unwrap();
    let mut before = 0;
    for pages in 0..=last.size / 4096 {
        let cut = (last.offset + pages * 4096) as usize;
        let (count, damage) = read(&data[..cut]).unwrap();
        assert!(count >= before, "page {pages}: {count} after {before}");
        assert_eq!(damage.is_empty(), cut as u64 == last.offset + last.size);
        before = count;
        // Half a page more: the records that are there are read.
        if cut + 2048 < data.len() {
            let (more, damage) = read(&data[..cut + 2048]).unwrap();
            assert!(more > count && !damage.is_empty());
        }
    }
    assert_eq!(before, total);
}

#[test]
fn a_truncated_version_7_file_is_read_without_its_table_of_cpus() {
    for name in ["f7-none.dat", "f7-zstd.dat"] {
        let data = fixture(name);
        let file = TraceFile::parse(&data).unwrap();
        let (total, _) = read(&data).unwrap();
        let last = file.buffers[0].cpus.last().copied().unwrap();
        // Everything recorded is there, the options behind it are not.
        let (count, damage) = read(&data[..(last.offset + last.size) as usize]).unwrap();
        assert_eq!(count, total, "{name}");
        assert!(damage.list().iter().any(|d| d.what.contains("table of CPUs is missing")));
        // The last CPU's data are cut in half as well.
        let (count, damage) = read(&data[..(last.offset + last.size / 2) as usize]).unwrap();
        assert!(count > 0 && count < total, "{name}: {count} of {total}");
        assert!(damage.list().iter().any(|d| d.what.contains("the file ends")), "{damage:?}");
    }
}

#[test]
fn all_but_the_bad_page_of_a_corrupt_file_is_read() {
    let data = fixture("f6.dat");
    let file = TraceFile::parse(&data).unwrap();
    let (total, _) = read(&data).unwrap();
    let cpu = file.buffers[0].cpus[0];
    assert!(cpu.size > 3 * 4096);
    let page = (cpu.offset + 4096) as usize;
    // What is on that page: the events up to it, less those of the pages before.
    let only = |from: usize, to: usize| {
        let mut d = data.clone();
        d[from..to].fill(0);
        read(&d).unwrap().0
    };
    let on_page = total - only(page, page + 4096);
    assert!(on_page > 0);
    for (what, at, bytes) in [
        ("a length that does not fit", page + 8, &[0xff, 0xff, 0xff, 0x01][..]),
        ("a time stamp of another age", page, &[0xff; 7][..]),
        ("random bytes", page, &[0xa5; 4096][..]),
    ] {
        let mut bad = data.clone();
        bad[at..at + bytes.len()].copy_from_slice(bytes);
        let (count, damage) = read(&bad).unwrap();
        assert_eq!(count, total - on_page, "{what}");
        let d = &damage.list()[0];
        assert_eq!((d.cpu, d.offset), (Some(cpu.cpu), page as u64), "{what}: {d}");
    }
}

#[test]
fn a_damaged_chunk_costs_that_chunk_only() {
    let data = fixture("f7-zstd.dat");
    let file = TraceFile::parse(&data).unwrap();
    let (total, _) = read(&data).unwrap();
    let cpu = file.buffers[0].cpus[0];
    let mut bad = data.clone();
    // Inside of the first chunk's compressed bytes, behind the number of chunks and its head.
    let at = cpu.offset as usize + 4 + 8;
    bad[at..at + 16].fill(0x55);
    let (count, damage) = read(&bad).unwrap();
    assert!(count < total && count > 0);
    assert!(damage.list().iter().any(|d| d.cpu == Some(cpu.cpu) && d.what.contains("chunk")));
}

#[test]
fn files_of_nothing_and_of_something_else() {
    assert!(matches!(TraceFile::parse(&[]), Err(TraceError::Empty)));
    assert!(matches!(TraceFile::parse(b"hello"), Err(TraceError::NotATrace)));
    let head = b"\x17\x08\x44tracing";
    assert!(matches!(TraceFile::parse(head), Err(TraceError::Truncated { .. })));
    let mut data = head.to_vec();
    data.extend_from_slice(b"8\0\0\x08\0\x10\0\0");
    assert!(matches!(TraceFile::parse(&data), Err(TraceError::Version(v)) if v == "8"));
    let mut data = head.to_vec();
    data.extend_from_slice(b"7\0\0\x08\0\x10\0\0lzma\x001\0\0\0\0\0\0\0\0\0");
    let message = TraceFile::parse(&data).unwrap_err().to_string();
    assert!(message.contains("lzma"), "{message}");
}

/// A recorder that was stopped before its first CPU, or a head alone.
#[test]
fn files_without_cpus_and_without_data_are_read_to_no_event() {
    // Version 6: the number of CPUs stands before the options, their places behind the data's kind.
    let mut data = fixture("f6.dat");
    let find = |what: &[u8; 10]| data.windows(10).position(|w| w == what).unwrap();
    let (options, kind) = (find(b"options  \0"), find(b"flyrecord\0"));
    let cpus = options - 4..options;
    assert_eq!(data[cpus.clone()], 2u32.to_le_bytes());
    data[cpus.clone()].fill(0);
    let (count, _) = read(&data).unwrap();
    assert_eq!(count, 0);
    assert_eq!(TraceFile::parse(&data).unwrap().formats.iter().count(), {
        TraceFile::parse(&fixture("f6.dat")).unwrap().formats.iter().count()
    });
    // The CPUs are there, and each has nothing.
    let mut data = fixture("f6.dat");
    for cpu in 0..2 {
        data[kind + 10 + cpu * 16 + 8..][..8].fill(0);
    }
    let (count, damage) = read(&data).unwrap();
    assert_eq!((count, damage.is_empty()), (0, true));
    // More CPUs than the file can hold.
    let mut data = fixture("f6.dat");
    data[cpus].fill(0xff);
    let said = read(&data).map(|(_, damage)| damage.list()[0].to_string());
    let said = said.unwrap_or_else(|e| e.to_string());
    assert!(said.contains("CPU"), "{said}");
    // Version 7 without its buffers' sections: the head alone.
    let data = fixture("f7-none.dat");
    let head = 64;
    assert!(read(&data[..head]).is_err() || read(&data[..head]).unwrap().0 == 0);
}

/// Every prefix and a flipped bit at many places: an answer each time, never a panic.
#[test]
fn no_cut_and_no_flipped_bit_is_fatal() {
    for name in ["f7-zstd.dat", "inst7.dat", "mark6.dat"] {
        let data = fixture(name);
        let step = data.len() / 150 + 1;
        for at in (0..data.len()).step_by(step) {
            let _ = read(&data[..at]);
            let mut bad = data.clone();
            bad[at] ^= 1 << (at % 8);
            let _ = read(&bad);
        }
        // The head, byte by byte.
        for at in 0..200.min(data.len()) {
            let mut bad = data.clone();
            bad[at] ^= 0xff;
            let _ = read(&bad);
        }
    }
}

/// A version 6 file of which every CPU is given the data of the first.
#[test]
fn data_that_two_cpus_claim_are_read_once() {
    let mut data = fixture("f6.dat");
    let (total, _) = read(&data).unwrap();
    let cpus = TraceFile::parse(&data).unwrap().buffers[0].cpus.clone();
    let (first, second) = (cpus[0], cpus[1]);
    let entry = |c: latlab_trace::file::CpuData| [c.offset.to_le_bytes(), c.size.to_le_bytes()];
    let at = data.windows(16).position(|w| w == entry(second).concat()).unwrap();
    // Not the same place, but pages that both have.
    let shifted = latlab_trace::file::CpuData { offset: first.offset + 64, ..first };
    data[at..at + 16].copy_from_slice(&entry(shifted).concat());
    let (count, damage) = read(&data).unwrap();
    assert!(count > 0 && count < total);
    let told = damage.list().iter().find(|d| d.cpu == Some(second.cpu)).unwrap();
    assert!(told.what.contains("belong to another CPU already"), "{told:?}");
}

/// A version 7 file whose `cpus` have one chunk that inflates to `mib`; `shared`: all the same one.
fn bomb(cpus: u32, mib: usize, shared: bool) -> Vec<u8> {
    let mut page = vec![0; 4096];
    page[0] = 1;
    page.resize(mib << 20, 0);
    let mut zlib = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::best());
    zlib.write_all(&page).unwrap();
    let packed = zlib.finish().unwrap();
    let mut out = b"\x17\x08\x44tracing7\0\0\x08\0\x10\0\0zlib\x001\0".to_vec();
    let first_option = out.len();
    out.extend([0; 8]);
    let section = |out: &mut Vec<u8>, id: u16, flags: u16, data: &[u8]| {
        let at = out.len() as u64;
        out.extend([id.to_le_bytes(), flags.to_le_bytes()].concat());
        out.extend(0u32.to_le_bytes());
        out.extend((data.len() as u64).to_le_bytes());
        out.extend(data);
        at
    };
    let header = [&b"header_page\0"[..], &[0; 8], b"header_event\0", &[0; 8]].concat();
    let header = section(&mut out, 16, 0, &header);
    let chunk = [
        &1u32.to_le_bytes()[..],
        &(packed.len() as u32).to_le_bytes(),
        &(page.len() as u32).to_le_bytes(),
        &packed,
    ]
    .concat();
    let copies = if shared { 1 } else { cpus as usize };
    let data = section(&mut out, 3, 1, &chunk.repeat(copies));
    let mut buffer = data.to_le_bytes().to_vec();
    buffer.extend(b"\0local\0");
    buffer.extend(4096u32.to_le_bytes());
    buffer.extend(cpus.to_le_bytes());
    for cpu in 0..cpus {
        let at = data + 16 + if shared { 0 } else { u64::from(cpu) * chunk.len() as u64 };
        buffer.extend(cpu.to_le_bytes());
        buffer.extend(at.to_le_bytes());
        buffer.extend((chunk.len() as u64 - 4).to_le_bytes());
    }
    let mut options = Vec::new();
    for (id, data) in [(16u16, &header.to_le_bytes()[..]), (3, &buffer), (0, &[0; 8])] {
        options.extend(id.to_le_bytes());
        options.extend((data.len() as u32).to_le_bytes());
        options.extend(data);
    }
    let at = section(&mut out, 0, 0, &options);
    out[first_option..first_option + 8].copy_from_slice(&at.to_le_bytes());
    out
}

#[test]
fn a_small_file_does_not_inflate_to_more_than_its_memory() {
    let told = |data: &[u8], memory: u64| {
        let file = TraceFile::parse_within(data, memory).unwrap();
        let mut events = file.events();
        while events.next().is_some() {}
        let mut damage = file.diagnostics.clone();
        damage.extend(&events.diagnostics());
        let left_out = damage.list().iter().filter(|d| d.what.contains("memory limit")).count();
        let doubled = damage.list().iter().filter(|d| d.what.contains("another CPU")).count();
        (left_out, doubled)
    };
    // One chunk for all: it belongs to the first.
    assert_eq!(told(&bomb(16, 1, true), 1 << 30), (0, 15));
    // One chunk each: two for each CPU and 64 ahead have to fit.
    let each = bomb(8, 1, false);
    assert_eq!(told(&each, 80 << 20), (0, 0));
    assert_eq!(told(&each, 79 << 20), (8, 0));
}
