#!/usr/bin/env python3
"""Looks for input whose time grows faster than its size.

    scripts/fuzz.sh build
    fuzz/repeats.py BINARIES [--seconds 300] [--seed 1] [TARGET...]

BINARIES is the folder of the built targets. libFuzzer makes inputs of a few KiB, in which a search within a search is
not felt. Here each input is one of fuzz/corpus or fuzz/seeds in which a piece (1 to 128 bytes, or one to three lines)
is repeated to 256 KiB and more; in every second one the numbers of the piece count up. An input that takes more than
2 s runs again with half of the repetitions. One that fails, or takes 120 s, or more than three times as long as its
half, is kept in the folder `repeats` and printed; the exit code is 1 then. Nothing else should run meanwhile.
"""
import argparse
import os
import random
import re
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

TOP = Path(__file__).resolve().parent
SIZE = 256 * 1024
SLOW = 2.0
LIMIT = 120.0
LENGTHS = [1, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 64, 128]
MEMORY = ["-rss_limit_mb=4096", "-malloc_limit_mb=2048"]


def run(binary, data, folder):
    """Seconds that the target takes, and the log of a failure."""
    path = folder / f"{random.getrandbits(64):x}"
    path.write_bytes(data)
    start = time.monotonic()
    try:
        done = subprocess.run([binary, *MEMORY, path], cwd=folder, timeout=LIMIT, capture_output=True)
        log = done.stderr.decode(errors="replace") if done.returncode else ""
        return time.monotonic() - start, log
    except subprocess.TimeoutExpired:
        return LIMIT, ""
    finally:
        path.unlink()


def piece_of(rng, data):
    """Start and end of what is repeated."""
    lines = data.splitlines(keepends=True)
    if rng.random() < 0.33:
        first = rng.randrange(len(lines))
        start = sum(map(len, lines[:first]))
        return start, start + len(b"".join(lines[first:first + rng.randint(1, 3)])[:4096])
    length = min(rng.choice(LENGTHS), len(data))
    start = rng.randrange(len(data) - length + 1)
    return start, start + length


def repeated(rng, data):
    """The input, and the same with half of the repetitions."""
    start, end = piece_of(rng, data)
    piece, counted = data[start:end], rng.random() < 0.5
    count = max(SIZE // len(piece), 2)

    def numbered(k):
        return re.sub(rb"\d{1,18}", lambda m: b"%d" % (int(m[0]) + k), piece) if counted else piece

    pieces = [numbered(k) for k in range(count)]
    return [data[:start] + b"".join(pieces[:n]) + data[end:] for n in (count, count // 2)]


def examine(binary, inputs, seed, folder):
    """Seconds, what is wrong or nothing, and the input."""
    rng = random.Random(seed)
    whole, half = repeated(rng, rng.choice(inputs))
    took, log = run(binary, whole, folder)
    if log:
        return took, " / ".join(log.strip().splitlines()[-3:]), whole
    if took >= LIMIT:
        return took, f"more than {LIMIT:.0f} s", whole
    if took > SLOW:
        before, _ = run(binary, half, folder)
        if took > 3 * before:
            return took, f"{took:.1f} s, half of it {before:.1f} s", whole
    return took, "", whole


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("binaries", type=Path)
    parser.add_argument("targets", nargs="*", metavar="TARGET")
    parser.add_argument("--seconds", type=float, default=300)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_intermixed_args()
    known = sorted(path.stem for path in (TOP / "fuzz_targets").glob("*.rs"))
    targets, found = args.targets or known, 0
    for target in targets:
        if target not in known or not (args.binaries / target).is_file():
            sys.exit(f"{target}: no target in {args.binaries}; build it with `scripts/fuzz.sh build {target}`")
    for target in targets:
        paths = [path for kind in ("corpus", "seeds") for path in sorted((TOP / kind / target).glob("*"))]
        inputs = [data for data in (path.read_bytes() for path in paths) if data]
        binary = (args.binaries / target).resolve()
        rng = random.Random(f"{args.seed} {target}")
        end, runs, slowest = time.monotonic() + args.seconds / len(targets), 0, 0.0
        with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(os.cpu_count()) as pool:
            while time.monotonic() < end:
                seeds = [rng.random() for _ in range(16)]
                for took, wrong, whole in pool.map(lambda s: examine(binary, inputs, s, Path(folder)), seeds):
                    runs, slowest = runs + 1, max(slowest, took)
                    if wrong:
                        found += 1
                        Path("repeats").mkdir(exist_ok=True)
                        Path(f"repeats/{target}-{found}").write_bytes(whole)
                        print(f"{target}: repeats/{target}-{found}: {wrong}", flush=True)
        print(f"{target}: {runs} inputs, the slowest {slowest:.1f} s", flush=True)
    sys.exit(found > 0)


main()
