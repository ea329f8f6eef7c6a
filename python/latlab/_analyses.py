"""Analyses of traces, by the command: who ran, what timers did, why wake-ups were late."""

from __future__ import annotations

import json
from os import PathLike, fspath
from pathlib import Path
from typing import Any, Dict, List, Mapping, Optional, Sequence, Union

from ._command import json_of, run_command
from ._native import Trace
from ._rows import Rows
from ._run import Finding, Run

__all__ = ["Explanation", "Sched", "Timer", "explain", "sched", "timer"]

_Source = Union[Trace, str, "PathLike[str]"]


class _Analysis:
    """An analysis, as the run that the command reports."""

    def __init__(self, run: Run) -> None:
        self.run = run
        """The analysis as a run, with its report and plots."""

    @property
    def detail(self) -> Mapping[str, Any]:
        """Everything that was found, as `--json` has it."""
        return self.run.parts[0].detail

    @property
    def findings(self) -> List[Finding]:
        """The conclusions."""
        return self.run.findings

    def text(self, details: bool = False) -> str:
        """The report as text."""
        return self.run.text(details)


class Sched(_Analysis):
    """Who ran. All times are ns."""

    def __init__(self, run: Run, path: str, choice: Sequence[str]) -> None:
        super().__init__(run)
        self._path, self._choice = path, choice

    def _of(self, name: str) -> Rows:
        return Rows(self.detail["schedule"][name])

    @property
    def tasks(self) -> Rows:
        """Tasks by run time; slices_*: run segments, delay_*: runnable until running, wakeup_*: woken until
        running, ends_*: how often a segment ended so."""
        return self._of("tasks")

    @property
    def cpus(self) -> Rows:
        """CPUs: busy_ns, idle_ns, unknown_ns, switches, lost events."""
        return self._of("cpus")

    @property
    def preemptions(self) -> Rows:
        """Which task (by) preempted which (of), how often."""
        return self._of("pairs")

    @property
    def inversions(self) -> Rows:
        """Intervals in which a task waited while one of lower priority ran."""
        return self._of("inversions")

    @property
    def throttles(self) -> Rows:
        """Intervals in which a task was throttled."""
        return self._of("throttles")

    def segments(self) -> Rows:
        """Run segments that ended, in order of their ends: time_ns is the end, off_ns the time off the CPU before,
        ready_ns of it runnable, ended why it ended, next the task that followed, doubtful: events were lost."""
        lines = run_command(["sched", self._path, "--view", "timehist", "--json", *self._choice])
        return Rows(json.loads(line) for line in lines.splitlines())


class Timer(_Analysis):
    """What timers and interrupts did. All times are ns."""

    def _of(self, name: str) -> Rows:
        return Rows(self.detail["trace"][name])

    @property
    def functions(self) -> Rows:
        """Timer functions: cost_* and late_*."""
        return self._of("functions")

    @property
    def periodic(self) -> Rows:
        """Timers that expire regularly: period_ns and jitter_ns."""
        return self._of("periodic")

    @property
    def softirqs(self) -> Rows:
        """Softirqs: latency_* (raised until begun) and cost_*."""
        return self._of("softirqs")

    @property
    def handlers(self) -> Rows:
        """Interrupt handlers: cost_*."""
        return self._of("handlers")

    @property
    def ticks(self) -> Rows:
        """CPUs: time and share in timer interrupts and their softirqs."""
        return self._of("ticks")


class Explanation(_Analysis):
    """Why wake-ups were late. All times are ns."""

    @property
    def wakeups(self) -> Rows:
        """Every wake-up that was looked at, late and on time."""
        names = ["source", "intended_ns", "latency_ns", "cpu", "prio", "late", "lost", "at_intended"]
        return Rows({name: window[name] for name in names} for window in self.detail["windows"])

    @property
    def breakdown(self) -> Rows:
        """The parts of each wake-up, which add up to its latency: cause, who, ns; wakeup is its row in
        `wakeups`."""
        rows: List[Dict[str, Any]] = []
        for number, window in enumerate(self.detail["windows"]):
            for group, share in window["shares"]:
                row = {"wakeup": number, "late": window["late"], "latency_ns": window["latency_ns"], **group}
                row.update({name: share[name] for name in ["ns", "times", "stage", "thread"]})
                rows.append(row)
        return Rows(rows)


def sched(trace: _Source, *, start: Optional[float] = None, end: Optional[float] = None) -> Sched:
    """Who ran: `latlab sched TRACE`. start and end in seconds of the trace's clock.

    Raises LatlabError when there is no sched_switch among what is chosen.
    """
    path, choice = _path(trace), _times(start, end)
    return Sched(Run(json_of(["sched", path, *choice])), path, choice)


def timer(trace: _Source, *, start: Optional[float] = None, end: Optional[float] = None) -> Timer:
    """What timers and interrupts did: `latlab timer TRACE`. start and end in seconds of the trace's clock.

    Raises LatlabError when there is no event of them among what is chosen.
    """
    return Timer(Run(json_of(["timer", _path(trace), *_times(start, end)])))


def explain(
    traces: Union[_Source, Sequence[_Source]], *, limit_ns: Optional[int] = None, task: Optional[str] = None
) -> Explanation:
    """Why wake-ups were late: `latlab why TRACE…`, of captures of latlab and cyclictest, of directories of
    runs, or of any trace with the events.

    limit_ns: a wake-up later than this is late; without it what the marker of the measuring program says.
    task: the measured task, by name or thread id, where no marker names it.

    Raises LatlabError when no trace has a wake-up.
    """
    several = [traces] if isinstance(traces, (str, PathLike, Trace)) else list(traces)
    choice = [] if limit_ns is None else ["--limit", f"{limit_ns}ns"]
    choice += [] if task is None else ["--task", task]
    return Explanation(Run(json_of(["why", *choice, *(_path(trace) for trace in several)])))


def _path(trace: _Source) -> str:
    # Absolute: a name that an option could have is none.
    return str(Path(trace.path if isinstance(trace, Trace) else fspath(trace)).absolute())


def _times(start: Optional[float], end: Optional[float]) -> List[str]:
    times = [("--from", start), ("--to", end)]
    return [word for name, time in times if time is not None for word in (name, f"{time:.9f}")]
