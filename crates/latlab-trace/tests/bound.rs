//! What a file may cost: memory stays within a bound that its size gives, whatever it claims.
//!
//! Alone in its program, because it looks at the most memory that the process ever had.
#![expect(clippy::disallowed_methods, reason = "tests read fixtures and /proc")]

use latlab_trace::TraceFile;
use latlab_trace::print::{ReportOptions, report};

fn fixture(name: &str) -> Vec<u8> {
    let path = format!("{}/../../fixtures/trace/{name}", env!("CARGO_MANIFEST_DIR"));
    std::fs::read(&path).unwrap_or_else(|e| panic!("{path}: {e}"))
}

/// Address space of this process, `VmSize` or `VmPeak`; what is asked for counts, used or not.
fn address_space(which: &str) -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|l| l.starts_with(which)).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<usize>().unwrap() * 1024
}

fn read(data: &[u8]) {
    let Ok(file) = TraceFile::parse(data) else { return };
    let options = ReportOptions { threads: 1, ..ReportOptions::default() };
    let _ = report(&file, &options, &mut std::io::sink());
}

#[test]
fn no_length_in_a_file_is_taken_at_its_word() {
    // A compressed file may truly be a thousand times as large inside (zlib's limit is 1032).
    for (name, times) in [("f6.dat", 40), ("f7-none.dat", 40), ("f7-zstd.dat", 1_200)] {
        let data = fixture(name);
        // Buffers of the allocator and of the first reading are there afterwards.
        read(&data);
        let before = address_space("VmSize");
        let mut bad = data.clone();
        let places = (0..64).chain((64..data.len()).step_by(data.len() / 40));
        for at in places.filter(|at| at + 8 <= data.len()) {
            for lie in [&[0xff; 8][..], &[0xff, 0xff, 0xff, 0x7f][..], &[0, 0, 0, 0x40][..]] {
                bad[at..at + lie.len()].copy_from_slice(lie);
                read(&bad);
                bad[at..at + 8].copy_from_slice(&data[at..at + 8]);
            }
        }
        let grown = address_space("VmPeak").saturating_sub(before);
        // The allocator takes address space in heaps of 64 MB.
        let bound = data.len() * times + (80 << 20);
        assert!(grown <= bound, "{name}, {} bytes: {grown} bytes, bound {bound}", data.len());
    }
}
