from os import PathLike
from pathlib import Path
from typing import Any, List, Optional, Sequence, Tuple, Union, final

from ._analyses import Explanation, Sched, Timer
from ._rows import Rows
from ._run import Quantile

_Path = Union[str, "PathLike[str]"]
_Texts = Union[str, Sequence[str]]
_Cpus = Union[str, int, Sequence[int]]

__all__ = [
    "Histogram",
    "RunData",
    "Table",
    "Trace",
    "explain",
    "open",
    "read_run",
    "sched",
    "segments",
    "timer",
]

@final
class Histogram:
    """Counts of integer values in HdrHistogram's buckets: values below 2048 are exact, larger ones to 1 part
    in 1024. Count, min, max and mean are exact."""

    def __new__(cls, values: Sequence[int] = ...) -> "Histogram":
        """The histogram of some values, which are not negative."""
    @staticmethod
    def from_json(text: str) -> "Histogram":
        """A histogram as `run.json` has it.

        Raises LatlabError when its fields disagree.
        """
    def merge(self, *others: "Histogram") -> "Histogram":
        """All values of this one and of others: the same as the histogram of all of them."""
    def __add__(self, other: "Histogram", /) -> "Histogram": ...
    def __radd__(self, other: "Histogram", /) -> "Histogram": ...
    def __eq__(self, other: object, /) -> bool: ...
    def __ne__(self, other: object, /) -> bool: ...
    def __len__(self) -> int: ...
    @property
    def count(self) -> int:
        """Number of values."""
    @property
    def min(self) -> Optional[int]:
        """Smallest value, exact; None when empty."""
    @property
    def max(self) -> Optional[int]:
        """Largest value, exact; None when empty."""
    @property
    def mean(self) -> Optional[float]:
        """Arithmetic mean; None when empty."""
    @property
    def buckets(self) -> List[Tuple[int, int]]:
        """Smallest value and count of each bucket, rising."""
    def quantile(self, q: float, confidence: float = 0.95) -> Optional[Quantile]:
        """The quantile q (0.99 is p99) with its interval of order statistics, which presumes independent
        values. None where there are too few values for an interval of this confidence.

        Raises LatlabError when q or confidence is not between 0 and 1.
        """
    def count_above(self, limit: int) -> int:
        """Number of values above a limit, to the resolution of the buckets."""

@final
class RunData:
    """A run, as `Run` wraps it."""

    def json(self) -> str:
        """`run.json`."""
    def text(self, details: bool) -> str:
        """The report as text."""
    def html(self) -> str:
        """The report as one page."""
    def plots(self) -> List[Tuple[str, str]]:
        """Id and SVG of each plot, by id."""


@final
class Table:
    """Rows and columns in Arrow's memory layout.

    `pyarrow.table(t)`, `polars.DataFrame(t)` and DuckDB read it through the Arrow C data interface without a copy.
    """

    @property
    def column_names(self) -> List[str]:
        """Names of the columns, in order."""
    @property
    def nbytes(self) -> int:
        """Bytes of memory that the columns take."""
    def __len__(self) -> int:
        """Number of rows."""
    def __arrow_c_stream__(self, requested_schema: object = None) -> object: ...
    def __arrow_c_schema__(self) -> object: ...
    def to_pyarrow(self) -> Any:
        """A `pyarrow.Table` of the same memory."""
    def to_polars(self) -> Any:
        """A `polars.DataFrame` of the same memory."""
    def to_pandas(self) -> Any:
        """A `pandas.DataFrame`, by way of pyarrow; columns are copied."""

@final
class Trace:
    """An opened trace."""

    @property
    def path(self) -> Path:
        """The file."""
    @property
    def version(self) -> int:
        """Version of trace.dat, 6 or 7; 0 for ftrace's text."""
    @property
    def clock(self) -> str:
        """The clock of the time stamps (`local`, `mono`…)."""
    @property
    def cpu_count(self) -> int:
        """Number of CPUs of the recorded machine."""
    @property
    def uname(self) -> str:
        """`uname` of the recorded machine; empty where the file does not say."""
    @property
    def damage(self) -> List[str]:
        """Damaged parts of the file's head, one sentence each."""
    def kinds(self) -> List[str]:
        """The kinds of events that the trace knows, as `system:name`, whether or not one was recorded."""
    def fields(self, event: str) -> List[Tuple[str, str]]:
        """Names and C types of an event's own fields.

        Raises LatlabError when no event has the name.
        """
    def events(
        self,
        names: Optional[_Texts] = None,
        filter: Optional[_Texts] = None,
        *,
        cpus: Optional[_Cpus] = None,
        pids: Optional[Sequence[int]] = None,
        start: Optional[int] = None,
        end: Optional[int] = None,
        columns: Optional[Sequence[str]] = None,
    ) -> Table:
        """The chosen events in order of time, as a table.

        names: events, `system`, `system/name`, with `*` and `?`.
        filter: expressions as of `latlab report --filter` (`"sched_switch : next_prio < 100"`); an event
            passes when one of them lets it.
        cpus: numbers, or text such as `"0,2-3"`.
        pids: thread ids of the recording task.
        start, end: first and last time, ns of the trace's clock.
        columns: names of the columns. Without: time_ns, cpu, pid, comm, event and lost (events that the CPU
            lost just before this one), and with one kind of event its own fields. A field that some of the
            chosen events lack is null there. `event_pid` is an event's own field `pid`.

        Raises LatlabError for an event or field that the trace does not have.
        """
    def sched(self, *, start: Optional[float] = None, end: Optional[float] = None) -> Sched:
        """Who ran: `latlab.sched` of this trace."""
    def timer(self, *, start: Optional[float] = None, end: Optional[float] = None) -> Timer:
        """What timers and interrupts did: `latlab.timer` of this trace."""
    def explain(
        self, *, limit_ns: Optional[int] = None, task: Optional[str] = None, deadline_ns: Optional[int] = None
    ) -> Explanation:
        """Why wake-ups were late: `latlab.explain` of this trace."""
    def breakdown(
        self, *, limit_ns: Optional[int] = None, task: Optional[str] = None, deadline_ns: Optional[int] = None
    ) -> Rows:
        """The parts of each wake-up, which add up to its latency: `latlab.breakdown` of this trace."""

def open(path: _Path) -> Trace:
    """Opens a trace.dat (version 6 or 7), or the text of ftrace's `trace` file and of `trace-cmd report`.

    The file is mapped, not read: while the trace is in use, replace the file by a rename. A file that another program
    truncates in place ends this process by SIGBUS. Raises LatlabError when nothing of it can be read.
    """

def read_run(path: _Path) -> RunData:
    """Reads a run. Raises LatlabError when it is missing, damaged, or of a newer schema."""

def sched(trace: Trace, start: Optional[int] = None, end: Optional[int] = None) -> RunData:
    """Who ran between two times, ns."""

def segments(trace: Trace, start: Optional[int] = None, end: Optional[int] = None) -> Table:
    """Run segments between two times, ns."""

def timer(trace: Trace, start: Optional[int] = None, end: Optional[int] = None) -> RunData:
    """What timers and interrupts did between two times, ns."""

def explain(
    files: Sequence[_Path],
    limit_ns: Optional[int] = None,
    task: Optional[str] = None,
    deadline_ns: Optional[int] = None,
    run: Optional[_Path] = None,
) -> RunData:
    """Why wake-ups were late. run: the `latlab why` run whose captures the files are."""
