#!/usr/bin/env python3
"""Runs commands of the documentation with foreign numbers, characters and options.

    fuzz/commands.py LATLAB [--seconds 300] [--seed 1]

Each command changes in one or two places and runs for at most 1.5 s in a folder of its own, then gets SIGINT. Printed
is what must not be: a panic, an end by another signal, an end later than 4 s after SIGINT, and, as root on a machine
where no other latlab runs, a tracing instance or a setting of the kernel that is not as before. As root only commands
that measure and read are run, no disk, virtual machine or board. The exit code is 1 when something was printed. A build
with overflow checks (target/debug/latlab) finds more.
"""
import argparse
import os
import random
import re
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

TOP = Path(__file__).resolve().parent.parent
AS_ROOT = {
    "bench", "check", "compare", "doctor", "export", "history", "memory", "noise", "profile", "record", "report",
    "sched", "survey", "sweep", "timer", "wakeup", "why",
}
NUMBERS = [
    "", "0", "-1", "-0", "1e309", "1e-320", "nan", "inf", "007", "1_000", "65536", "2147483648", "4294967296",
    "9223372036854775807", "18446744073709551615", "18446744073709551616", "0.0000000001",
]
CHARACTERS = [",", ":", "=", "/", "..", "*", "{", "%", '"', "(", ")", "!", "~", "\u202e", "\u00e9", "-", " ", "\\"]
SETTINGS = [
    "/proc/sys/kernel/sched_rt_runtime_us", "/proc/sys/kernel/sched_rt_period_us",
    "/proc/sys/kernel/perf_event_paranoid", "/proc/sys/kernel/printk", "/proc/sys/vm/stat_interval",
    "/sys/kernel/tracing/tracing_on", "/sys/kernel/tracing/current_tracer", "/sys/kernel/tracing/set_event",
    "/sys/kernel/tracing/trace_clock", "/sys/kernel/tracing/tracing_cpumask",
]
INSTANCES = "/sys/kernel/tracing/instances"


def documented():
    """Words of each command, without pipes and what has to be filled in."""
    commands = set()
    for path in [TOP / "README.md", *(TOP / "docs").rglob("*.md")]:
        text = path.read_text()
        commands |= set(re.findall(r"`(?:sudo )?latlab ([^`\n]+)`", text))
        commands |= set(re.findall(r"^\s*\$? ?(?:sudo )?latlab (.+?)(?:\s+#.*)?$", text, re.M))
    for command in sorted(commands):
        try:
            words = shlex.split(command)
        except ValueError:
            continue
        if words and "…" not in command and not {"|", ">", ">>", "&&", "--on"} & set(words):
            yield words


def changed(words, chance):
    """A command with one or two changes behind its first word."""
    words = list(words)
    for _ in range(chance.randrange(1, 3)):
        at = chance.randrange(1, len(words)) if len(words) > 1 else 0
        word, kind = words[at], chance.random()
        numbers = list(re.finditer(r"\d+(?:\.\d+)?", word))
        if numbers and kind < 0.65:
            number = chance.choice(numbers)
            words[at] = word[: number.start()] + chance.choice(NUMBERS) + word[number.end() :]
        elif word and kind < 0.9:
            place = chance.randrange(len(word))
            words[at] = word[:place] + chance.choice(["", *CHARACTERS]) + word[place + chance.randrange(2) :]
        else:
            words.insert(at, chance.choice(words))
    return words


def state():
    """Settings of the kernel and tracing instances."""
    values = {path: Path(path).read_text() for path in SETTINGS if os.access(path, os.R_OK)}
    values[INSTANCES] = sorted(os.listdir(INSTANCES)) if os.access(INSTANCES, os.R_OK) else []
    return values


def run(program, words, length):
    """What is wrong with a command, or nothing."""
    with open("out", "wb") as out, open("err", "wb") as err:
        home = {**os.environ, "HOME": os.getcwd()}
        process = subprocess.Popen([program, *words], stdin=subprocess.DEVNULL, stdout=out, stderr=err, env=home)
        try:
            process.wait(length)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGINT)
            try:
                process.wait(4)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
                return "not ended 4 s after SIGINT"
    said = Path("out").read_text(errors="replace") + Path("err").read_text(errors="replace")
    if "panicked" in said or process.returncode == 101:
        return said[said.find("panicked") :][:200]
    return f"ended by signal {-process.returncode}" if process.returncode < 0 else ""


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("latlab", type=lambda path: str(Path(path).resolve(strict=True)))
    parser.add_argument("--seconds", type=float, default=300)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    chance, is_root = random.Random(args.seed), os.geteuid() == 0
    commands = [words for words in documented() if not is_root or words[0] in AS_ROOT]
    count, wrong, end = 0, 0, time.monotonic() + args.seconds
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        before = state()
        while time.monotonic() < end:
            words = changed(chance.choice(commands), chance)
            problem = run(args.latlab, words, chance.choice([0.3, 0.8, 1.5]))
            now = state()
            if not problem and is_root and now != before:
                problem = "not as before: " + ", ".join(path for path in now if now[path] != before.get(path))
            before, count = now, count + 1
            if problem:
                wrong += 1
                print(f"latlab {shlex.join(words)}: {problem}", flush=True)
        os.chdir(TOP)
    print(f"{count} commands of {len(commands)} changed, seed {args.seed}: {wrong} wrong")
    sys.exit(wrong > 0)


if __name__ == "__main__":
    main()
