"""Runs: what a measuring command saved, as dataclasses, and its report."""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
import warnings
from dataclasses import dataclass
from os import PathLike, fspath
from pathlib import Path
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple, Union

from ._command import run_command
from ._native import Histogram, RunData, read_run
from ._rows import Rows

__all__ = ["Finding", "Part", "Plot", "Quantile", "Record", "Run", "Summary", "load_run", "measure"]

_Path = Union[str, "PathLike[str]"]


@dataclass(frozen=True)
class Quantile:
    """A quantile with its interval, in the unit of its record; of 95 % where no other was asked for.

    The interval is of order statistics (Conover, Practical Nonparametric Statistics, section 3.2) and
    presumes independent values.
    """

    q: float
    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Summary:
    """The figures to quote of a record, in its unit. None: not known, or not supported by the sample.

    quantiles are those that the number of values supports. sd is the standard deviation of single values,
    mad their median absolute deviation from the median.
    """

    count: int
    min: Optional[float]
    mean: Optional[float]
    sd: Optional[float]
    median: Optional[float]
    max: Optional[float]
    mad: Optional[float]
    quantiles: Tuple[Quantile, ...]

    def quantile(self, q: float) -> Optional[Quantile]:
        """The quantile q, where the sample supports it."""
        return next((found for found in self.quantiles if abs(found.q - q) < 1e-12), None)


@dataclass(frozen=True)
class Record:
    """One measured quantity.

    name and params identify it; unit is that of every number (`ns`, `bytes_per_second`, `per_second`,
    `count`, `ratio`, `hz`, `bytes`, `watt`). histogram has every value where they were counted, for any quantile and
    to be merged with others. samples are the values themselves where they are few.
    """

    name: str
    params: Mapping[str, Union[int, float, str]]
    unit: str
    summary: Summary
    histogram: Optional[Histogram]
    samples: Tuple[float, ...]
    part: str


@dataclass(frozen=True)
class Finding:
    """A conclusion; `Run.text` has it in words.

    id is stable. severity is `problem`, `warning`, `info`, `ok` or `inconclusive`, confidence `high`,
    `medium` or `low`. values are by name, a number as `{unit: number}`; evidence, remedies and notes (reasons and
    limitations of the finding) as `run.json` has them (docs/run.schema.json).
    """

    id: str
    severity: str
    confidence: str
    values: Mapping[str, Any]
    evidence: Tuple[Mapping[str, Any], ...]
    remedies: Tuple[Any, ...]
    notes: Tuple[Any, ...]


@dataclass(frozen=True)
class Part:
    """One experiment of a run. detail is what only its kind has, as `run.json` has it."""

    name: str
    title: str
    complete: bool
    duration_ns: int
    records: Tuple[Record, ...]
    findings: Tuple[Finding, ...]
    detail: Mapping[str, Any]


@dataclass(frozen=True)
class Plot:
    """A plot of the report: its id, and the drawing, which notebooks show."""

    id: str
    svg: str

    def _repr_svg_(self) -> str:
        return self.svg


class Run:
    """A run: results, findings and reports."""

    def __init__(self, native: RunData) -> None:
        self._native = native
        self.data: Dict[str, Any] = json.loads(native.json())
        """Everything, as `run.json` of this version has it."""
        self.parts: Tuple[Part, ...] = tuple(_part(part) for part in self.data["parts"])
        """The experiments, in order."""

    @property
    def records(self) -> List[Record]:
        """The measured quantities of all parts."""
        return [record for part in self.parts for record in part.records]

    @property
    def findings(self) -> List[Finding]:
        """The conclusions of all parts."""
        return [finding for part in self.parts for finding in part.findings]

    @property
    def complete(self) -> bool:
        """False when it was cut short."""
        return bool(self.data["complete"])

    @property
    def machine(self) -> Mapping[str, Any]:
        """Where it was measured."""
        machine: Mapping[str, Any] = self.data["machine"]
        return machine

    def table(self) -> Rows:
        """The records: part, name, unit, the parameters, and the figures to quote with their intervals."""
        rows = []
        for record in self.records:
            row: Dict[str, Any] = {"part": record.part, "name": record.name, "unit": record.unit}
            row.update({f"param_{name}": value for name, value in record.params.items()})
            row.update(count=record.summary.count, min=record.summary.min, median=record.summary.median)
            for found in record.summary.quantiles:
                name = f"p{found.q * 100:.10g}"
                row.update({name: found.value, f"{name}_low": found.low, f"{name}_high": found.high})
            row["max"] = record.summary.max
            rows.append(row)
        return Rows(rows, ["part", "name", "unit", "count", "min", "median", "max"])

    def text(self, details: bool = False) -> str:
        """The report as text: what a terminal shows, with details all of it."""
        return self._native.text(details)

    def html(self) -> str:
        """The report as one HTML page, as `report.html`."""
        return self._native.html()

    def plots(self) -> List[Plot]:
        """The plots of the report, by id."""
        return [Plot(id, svg) for id, svg in self._native.plots()]

    def __repr__(self) -> str:
        names = ", ".join(part.name for part in self.parts)
        return f"<latlab.Run of {names or 'nothing'}: {len(self.records)} results, {len(self.findings)} findings>"


def load_run(path: _Path) -> Run:
    """Reads a run, also of an earlier version, from its directory or from its `run.json`.

    Raises LatlabError when it is missing, damaged, or of a newer schema.
    """
    return Run(read_run(fspath(path)))


def measure(experiment: str, *options: str, out: Optional[_Path] = None, sudo: bool = False) -> Run:
    """Runs a measuring command and loads its run.

    >>> latlab.measure("wakeup", "-D", "10").records[0].summary.quantile(0.999)

    experiment and options are those of the command. out: the directory of the run, which stays; without it
    the run is kept in memory only. sudo: runs it by `sudo`, and removes the files of a run without out by `sudo` too.
    A limit that is exceeded is no error: the run has it as a finding. Ctrl-C raises KeyboardInterrupt when the
    command has ended; what was measured until then is in out.

    Raises LatlabError with the sentence of the command when it fails.
    """
    before = ["sudo"] if sudo else []
    if out is not None:
        run_command([experiment, "--out", fspath(out), *options], before)
        return load_run(out)
    scratch = tempfile.mkdtemp(prefix="latlab-")
    try:
        directory = str(Path(scratch) / "run")
        run_command([experiment, "--out", directory, *options], before)
        return load_run(directory)
    finally:
        _remove(scratch, before)


def _remove(scratch: str, before: Sequence[str]) -> None:
    """Removes a directory that `measure` made. An error here loses no run."""
    shutil.rmtree(scratch, ignore_errors=True)
    if before and Path(scratch).exists():
        # The files are root's.
        said = subprocess.run(
            [*before, "rm", "-rf", "--", scratch], stdin=subprocess.DEVNULL, capture_output=True, text=True
        )
        if said.returncode != 0:
            warnings.warn(f"{scratch}: not removed: {said.stderr.strip()}; sudo rm -r {scratch}", stacklevel=3)


def _part(part: Dict[str, Any]) -> Part:
    return Part(
        name=part["name"],
        title=part["title"],
        complete=part["complete"],
        duration_ns=part["duration_ns"],
        records=tuple(_record(record, part["name"]) for record in part["results"]),
        findings=tuple(_finding(finding) for finding in part["findings"]),
        detail=part.get("detail") or {},
    )


def _record(record: Dict[str, Any], part: str) -> Record:
    summary = {"sd": None, **record["summary"]}
    summary["quantiles"] = tuple(Quantile(**found) for found in summary["quantiles"])
    histogram = record.get("histogram")
    return Record(
        name=record["name"],
        params=record["params"],
        unit=record["unit"],
        summary=Summary(**summary),
        histogram=None if histogram is None else Histogram.from_json(json.dumps(histogram)),
        samples=tuple(record.get("samples", ())),
        part=part,
    )


def _finding(finding: Dict[str, Any]) -> Finding:
    return Finding(
        id=finding["id"],
        severity=finding["severity"],
        confidence=finding["confidence"],
        values=finding.get("values", {}),
        evidence=tuple(finding.get("evidence", ())),
        remedies=tuple(finding.get("remedies", ())),
        notes=tuple(finding.get("notes", ())),
    )
