"""Short tables: the results of analyses."""

from __future__ import annotations

from typing import Any, Dict, Iterable, List, Mapping, Sequence, overload, Union

from ._errors import LatlabError

__all__ = ["Rows"]


class Rows(Sequence[Mapping[str, Any]]):
    """Rows of an analysis, each a mapping; as a table by `to_pandas`, `to_polars` and `to_pyarrow`.

    The values of a group (`slices`: `max_ns`) are columns `slices_max_ns`. columns are those that a table has also
    without a row.
    """

    def __init__(self, rows: Iterable[Mapping[str, Any]], columns: Sequence[str] = ()) -> None:
        self._rows: List[Dict[str, Any]] = [dict(_flat("", row)) for row in rows]
        self._columns = tuple(columns)

    @overload
    def __getitem__(self, index: int) -> Mapping[str, Any]: ...
    @overload
    def __getitem__(self, index: slice) -> "Rows": ...
    def __getitem__(self, index: Union[int, slice]) -> Union[Mapping[str, Any], "Rows"]:
        return Rows(self._rows[index], self.column_names) if isinstance(index, slice) else self._rows[index]

    def __len__(self) -> int:
        return len(self._rows)

    def __repr__(self) -> str:
        return f"<latlab.Rows: {len(self)} rows of {', '.join(self.column_names)}>"

    @property
    def column_names(self) -> List[str]:
        """Names of the columns, in the order in which they first come; behind them those that no row has."""
        return list(dict.fromkeys([*(name for row in self._rows for name in row), *self._columns]))

    def to_pandas(self) -> Any:
        """A `pandas.DataFrame`."""
        return _needed("pandas").DataFrame(self._rows, columns=self.column_names)

    def to_polars(self) -> Any:
        """A `polars.DataFrame`."""
        return _needed("polars").DataFrame(self._rows, schema=self.column_names, infer_schema_length=None)

    def to_pyarrow(self) -> Any:
        """A `pyarrow.Table`."""
        columns = {name: [row.get(name) for row in self._rows] for name in self.column_names}
        return _needed("pyarrow").table(columns)

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self.to_pyarrow().__arrow_c_stream__(requested_schema)


def _flat(before: str, row: Mapping[str, Any]) -> Iterable["tuple[str, Any]"]:
    for name, value in row.items():
        if not isinstance(value, Mapping):
            yield before + name, value
        elif "buckets" not in value:  # a histogram is no cell
            yield from _flat(f"{before}{name}_", value)


def _needed(name: str) -> Any:
    try:
        return __import__(name)
    except ImportError:
        raise LatlabError(f"the Python package {name} is not installed", f"pip install {name}") from None
