"""Analyses of traces: who ran, what timers did, why wake-ups were late."""

from __future__ import annotations

from os import PathLike, fspath
from pathlib import Path
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple, Union

from . import _native
from ._errors import LatlabError
from ._native import Table, Trace
from ._rows import Rows
from ._run import Finding, Run

__all__ = ["Explanation", "Sched", "Timer", "breakdown", "explain", "sched", "timer"]

_Source = Union[Trace, str, "PathLike[str]"]


def _columns(names: str, *durations: str) -> Tuple[str, ...]:
    figures = ["count", "sum_ns", "median_ns", "p99_ns", "max_ns", "max_at_ns"]
    return (*names.split(), *(f"{group}_{name}" for group in durations for name in figures))


# What every row of a result has (latlab_model::sched::schedule, timer, latency::window).
_COLUMNS = {
    "tasks": _columns(
        "tid name prio run_ns off_ns bursts_count bursts_sum_ns bursts_max_ns bursts_max_at_ns sleeps_count"
        " sleeps_sum_ns sleeps_max_ns sleeps_max_at_ns blocked_count blocked_sum_ns blocked_max_ns blocked_max_at_ns"
        " unknown_delays ends_preempted ends_slept ends_blocked ends_yielded ends_throttled ends_exited ends_stopped"
        " ends_lost ends_open migrations ideal_ns fair_ns lag_max_ns lag_min_ns doubtful ended",
        "slices",
        "delay",
        "wakeup",
    ),
    "cpus": _columns("cpu busy_ns idle_ns unknown_ns switches holes lost"),
    "pairs": _columns("by by_name of of_name times"),
    "inversions": _columns("kind high high_name high_prio low low_name low_prio cpu at_ns ns"),
    "throttles": _columns("tid name prio cpu at_ns ns ran_ns idle_ns"),
    "functions": _columns("name highres interrupted set_by", "cost", "late", "waited_jiffies"),
    "periodic": _columns("function timer cpu times period_ns jitter_ns jitter_max_ns"),
    "softirqs": _columns("name", "latency", "cost"),
    "handlers": _columns("name irq timer cpus", "cost"),
    "ticks": _columns("cpu ticks interrupt_ns tick_ns softirq_ns share"),
}
_WAKEUPS = _columns("source intended_ns latency_ns cpu prio late lost at_intended")
_BREAKDOWN = _columns("wakeup late latency_ns cause who ns times stage thread")


class _Analysis:
    """An analysis, as a run of that one part."""

    def __init__(self, run: Run) -> None:
        self.run = run
        """The analysis as a run, with its report and plots."""

    @property
    def detail(self) -> Mapping[str, Any]:
        """Everything that was found, as the `--json` of the command has it."""
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

    def __init__(self, run: Run, trace: Trace, times: "_Times") -> None:
        super().__init__(run)
        self._trace, self._times = trace, times

    def _of(self, name: str) -> Rows:
        return Rows(self.detail["schedule"][name], _COLUMNS[name])

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

    def segments(self) -> Table:
        """Run segments that ended, in order of their ends: time_ns is the end, off_ns the time off the CPU before,
        ready_ns of it runnable, ended why it ended, next the task that followed, doubtful: events were lost."""
        return _native.segments(self._trace, *self._times)


class Timer(_Analysis):
    """What timers and interrupts did. All times are ns."""

    def _of(self, name: str) -> Rows:
        return Rows(self.detail["trace"][name], _COLUMNS[name])

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
        windows = self.detail["windows"]
        return Rows(({name: window[name] for name in _WAKEUPS} for window in windows), _WAKEUPS)

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
        return Rows(rows, _BREAKDOWN)


def sched(trace: _Source, *, start: Optional[float] = None, end: Optional[float] = None) -> Sched:
    """Who ran, as `latlab sched TRACE` reports it. start and end in seconds of the trace's clock.

    Raises LatlabError when there is no sched_switch among what is chosen.
    """
    opened, times = _opened(trace), (_ns(start), _ns(end))
    return Sched(Run(_native.sched(opened, *times)), opened, times)


def timer(trace: _Source, *, start: Optional[float] = None, end: Optional[float] = None) -> Timer:
    """What timers and interrupts did, as `latlab timer TRACE` reports it. start and end in seconds of the
    trace's clock.

    Raises LatlabError when there is no event of them among what is chosen.
    """
    return Timer(Run(_native.timer(_opened(trace), _ns(start), _ns(end))))


def explain(
    traces: Union[_Source, Sequence[_Source]],
    *,
    limit_ns: Optional[int] = None,
    task: Optional[str] = None,
    deadline_ns: Optional[int] = None,
) -> Explanation:
    """Why wake-ups were late, as `latlab why TRACE…` reports it: of captures of latlab and cyclictest, of
    directories of runs, or of any trace with the events.

    limit_ns: a wake-up later than this is late; without it what the marker of the measuring program says.
    task: the task, by name or thread id, where no marker names it. deadline_ns: an activation of the task with
    a longer response time is late; without both, what exceeds a limit that the activations suggest.

    Raises LatlabError when no trace has a wake-up, or its clock does not count nanoseconds.
    """
    return Explanation(Run(_native.explain(*_question(traces, limit_ns, task, deadline_ns))))


def breakdown(
    traces: Union[_Source, Sequence[_Source]],
    *,
    limit_ns: Optional[int] = None,
    task: Optional[str] = None,
    deadline_ns: Optional[int] = None,
) -> Rows:
    """The parts of each wake-up, which add up to its latency: `explain(…).breakdown`."""
    # As `explain`: the native function has warnings name the caller of its caller.
    return Explanation(Run(_native.explain(*_question(traces, limit_ns, task, deadline_ns)))).breakdown


_Question = Tuple[List[Path], Optional[int], Optional[str], Optional[int], Optional[Path]]


def _question(
    traces: Union[_Source, Sequence[_Source]],
    limit_ns: Optional[int],
    task: Optional[str],
    deadline_ns: Optional[int],
) -> _Question:
    if deadline_ns is not None and task is None:
        raise LatlabError("deadline_ns: needs task", "latlab.explain(trace, task=…, deadline_ns=…)")
    if deadline_ns is not None and limit_ns is not None:
        raise LatlabError(
            "deadline_ns: cannot be used with limit_ns",
            "limit_ns is for wake-ups of the task, deadline_ns for response times of its activations: choose one",
        )
    several = [traces] if isinstance(traces, (str, PathLike, Trace)) else list(traces)
    paths = [trace.path if isinstance(trace, Trace) else Path(fspath(trace)) for trace in several]
    files = [file for path in paths for file in _captures(path)]
    run = paths[0] if len(paths) == 1 and paths[0].is_dir() else None
    return files, limit_ns, task, deadline_ns, run


_Times = Tuple[Optional[int], Optional[int]]


def _opened(trace: _Source) -> Trace:
    return trace if isinstance(trace, Trace) else _native.open(trace)


def _captures(path: Path) -> List[Path]:
    """A file, or the captures of a run's directory."""
    if not path.is_dir():
        return [path]
    folder = path / "captures"
    if not folder.is_dir():
        raise LatlabError(
            f"{path}: no captures", "name trace.dat files, or the directory of a `latlab why` run"
        )
    files = sorted(folder.glob("*.dat"))
    if not files:
        raise LatlabError(f"{folder}: no captures", "no wake-up of that run was late")
    return files


def _ns(seconds: Optional[float]) -> Optional[int]:
    return None if seconds is None else max(0, round(seconds * 1e9))
