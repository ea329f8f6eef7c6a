from os import PathLike
from pathlib import Path
from typing import Any, List, Optional, Sequence, Tuple, Union, final

_Path = Union[str, "PathLike[str]"]
_Texts = Union[str, Sequence[str]]
_Cpus = Union[str, int, Sequence[int]]

__all__ = ["Table", "Trace", "open"]

@final
class Table:
    """Rows and columns in Arrow's memory layout.

    `pyarrow.table(t)`, `polars.DataFrame(t)`, DuckDB and pandas read it through the Arrow C data interface
    without a copy.
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
        """A `pandas.DataFrame`, by way of pyarrow. A number column of one batch is not copied."""

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

def open(path: _Path) -> Trace:
    """Opens a trace.dat (version 6 or 7), or the text of ftrace's `trace` file and of `trace-cmd report`.

    The file is mapped, not read. Raises LatlabError when nothing of it can be read.
    """
