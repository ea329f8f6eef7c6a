"""Traces as Arrow tables, runs and analyses of latlab.

>>> import latlab
>>> trace = latlab.open("trace.dat")
>>> trace.events("sched_switch", "next_prio < 100", cpus="0,2-3").to_pandas()
>>> latlab.explain(trace, limit_ns=100_000).breakdown.to_pandas()
>>> latlab.load_run("runs/baseline").records[0].summary.quantile(0.99)

Times are ns of the trace's clock unless a name or docstring gives another unit. What cannot be read, chosen or
measured is `latlab.LatlabError`, with the sentence of the command; arguments of a wrong type or sign are Python's
errors; damaged parts of a trace are warnings. All but `measure` is done in this process, by the code of the command;
`measure` runs the command, which the wheel carries.
"""

from ._analyses import Explanation, Sched, Timer, breakdown, explain, sched, timer
from ._command import command
from ._errors import LatlabError
from ._native import Histogram, Table, Trace, open
from ._rows import Rows
from ._run import Finding, Part, Plot, Quantile, Record, Run, Summary, load_run, measure

__all__ = [
    "Explanation",
    "Finding",
    "Histogram",
    "LatlabError",
    "Part",
    "Plot",
    "Quantile",
    "Record",
    "Rows",
    "Run",
    "Sched",
    "Summary",
    "Table",
    "Timer",
    "Trace",
    "breakdown",
    "command",
    "explain",
    "load_run",
    "measure",
    "open",
    "sched",
    "timer",
]
