"""The notebooks of the documentation answer their questions, each in a kernel of its own."""

import os
import re
from pathlib import Path

import pytest

nbformat = pytest.importorskip("nbformat")
nbclient = pytest.importorskip("nbclient")


@pytest.fixture
def said(traces, runs, monkeypatch):
    folder = Path(os.environ.get("LATLAB_NOTEBOOKS", Path(__file__).parents[2] / "docs/how-to/python"))
    monkeypatch.setenv("LATLAB_TRACE", str(traces / "rt-load.dat"))
    monkeypatch.setenv("LATLAB_RUNS", f"{runs / 'wakeup'}:{runs / 'wakeup-2'}")

    def execute(name):
        notebook = nbformat.read(folder / f"{name}.ipynb", as_version=4)
        nbformat.validate(notebook)
        nbclient.NotebookClient(notebook, timeout=300).execute()
        outputs = [output for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs]
        assert not any(output.get("name") == "stderr" for output in outputs), outputs
        kinds = {kind for output in outputs for kind in output.get("data", {})}
        return "".join(output.get("text", "") for output in outputs), kinds

    return execute


def test_who_waited(said):
    text, kinds = said("who_waited")
    assert len(re.findall(r" waited \d+\.\d\d ms on CPU \d+: ", text)) == 5
    assert "text/html" in kinds


def test_why_late(said):
    text, kinds = said("why_late")
    assert re.search(r"^equal_priority ", text, re.M)
    assert "image/svg+xml" in kinds


def test_tails(said):
    text, kinds = said("tails")
    assert re.search(r"^wakeup\.user p50: ", text, re.M)
    assert re.search(r"^<latlab\.Histogram of \d+ values", text, re.M)
    assert "image/svg+xml" in kinds
