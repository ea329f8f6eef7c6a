"""Traces as Arrow tables, read and filtered in Rust.

>>> import latlab
>>> trace = latlab.open("trace.dat")
>>> trace.events("sched_switch", "next_prio < 100", cpus="0,2-3").to_pandas()

Times are ns of the trace's clock unless a name or docstring gives another unit. Errors are
`latlab.LatlabError`, with the sentences of the command; damaged parts of a trace are warnings.
"""

from ._errors import LatlabError
from ._native import Table, Trace, open

__all__ = ["LatlabError", "Table", "Trace", "open"]
