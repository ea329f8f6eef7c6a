"""Runs, findings and plots."""

import json

import latlab
import pytest
from latlab._command import run_command


def test_every_run_of_the_fixtures_is_read(runs):
    found = [path for path in sorted(runs.iterdir()) if (path / "run.json").is_file()]
    assert len(found) > 20
    for path in found:
        run = latlab.load_run(path)
        data = json.loads((path / "run.json").read_text())
        assert [part.name for part in run.parts] == [part["name"] for part in data["parts"]]
        assert len(run.records) == sum(len(part["results"]) for part in data["parts"])
        assert len(run.findings) == sum(len(part["findings"]) for part in data["parts"])
        assert len(run.table()) == len(run.records)


def test_results_have_figures_with_intervals(runs):
    run = latlab.load_run(runs / "wakeup" / "run.json")
    record = next(record for record in run.records if record.histogram)
    assert record.unit == "ns" and record.part == "wakeup"
    assert record.summary.count == sum(count for _, count in record.histogram.buckets)
    assert len(record.histogram) == record.summary.count and record.histogram.max == record.summary.max
    median = record.summary.quantile(0.5)
    assert median.low <= median.value == record.summary.median <= median.high
    assert record.summary.quantile(0.123) is None
    assert record.summary.mean > 0 and record.summary.sd is None, "a run of a version without it"
    assert record.histogram.quantile(0.5) == median
    narrow, wide = record.histogram.quantile(0.5, 0.8), record.histogram.quantile(0.5, 0.999)
    assert wide.low <= median.low <= narrow.low <= narrow.value <= narrow.high <= median.high <= wide.high
    table = run.table().to_pandas()
    assert median.value in table.p50.tolist() and median.low in table.p50_low.tolist()


def test_merged_histograms_are_the_histogram_of_all_values():
    values = [(n * 7919) % 100_003 for n in range(5000)]
    parts = [latlab.Histogram(values[i::3]) for i in range(3)]
    whole = latlab.Histogram(values)
    assert parts[0].merge(*parts[1:]) == whole == parts[0] + parts[1] + parts[2]
    assert parts[0] != whole and len(parts[0]) < len(whole) == 5000
    assert (whole.min, whole.max) == (min(values), max(values)) and whole.mean == sum(values) / 5000
    p90 = whole.quantile(0.9)
    exact = sorted(values)
    assert abs(p90.value / exact[4499] - 1) < 1 / 1024 and p90.low <= p90.value <= p90.high
    # Order statistics: ranks of a binomial with n = 5000, p = 0.9, 95 %.
    assert abs(p90.low / exact[4457] - 1) < 0.002 and abs(p90.high / exact[4541] - 1) < 0.002
    assert latlab.Histogram().quantile(0.5) is None and latlab.Histogram().max is None
    assert latlab.Histogram(range(10)).quantile(0.99) is None
    assert latlab.Histogram([1, 2000, 3000]).count_above(1999) == 2
    with pytest.raises(latlab.LatlabError, match="^the quantile 99: not between 0 and 1$"):
        whole.quantile(99)
    with pytest.raises(latlab.LatlabError, match="^the confidence 1: not between 0 and 1$"):
        whole.quantile(0.9, confidence=1)
    with pytest.raises(latlab.LatlabError, match="count is not the sum of its buckets"):
        latlab.Histogram.from_json('{"count": 2, "min": 1, "max": 1, "sum": 1, "buckets": [[1, 1]]}')


def test_reports_are_those_of_the_command(runs, tmp_path, monkeypatch):
    # Jupyter sets it; lines are not wrapped to it.
    monkeypatch.setenv("COLUMNS", "80")
    for name in ["wakeup", "doctor", "compare", "sweep"]:
        run = latlab.load_run(runs / name)
        assert run.text() == run_command(["report", str(runs / name)])
        assert run.text(details=True) == run_command(["report", str(runs / name), "--details"])
        assert run.data == json.loads(run_command(["report", str(runs / name), "--json"]))
        folder = tmp_path / name
        run_command(["report", str(runs / name), "--svg", str(folder), "--html", str(tmp_path / "page.html")])
        assert {plot.id: plot.svg for plot in run.plots()} == {
            path.stem: path.read_text(encoding="utf-8") for path in folder.glob("*.svg")
        }
        assert run.html() == (tmp_path / "page.html").read_text(encoding="utf-8")


def test_findings_are_typed_and_the_report_has_their_words(runs, tmp_path):
    run = latlab.load_run(runs / "doctor")
    assert len(run.findings) > 5
    for finding in run.findings:
        assert finding.severity in ("problem", "warning", "info", "ok", "inconclusive")
        assert finding.confidence in ("high", "medium", "low")
    assert len(run.text(details=True)) > len(run.text()) > 100
    data = json.loads((runs / "doctor" / "run.json").read_text())
    data["parts"][0]["findings"][0]["notes"] = [{"id": "why.capture-no-marker"}]
    (tmp_path / "run.json").write_text(json.dumps(data))
    first, *others = latlab.load_run(tmp_path).findings
    assert first.notes[0]["id"] == "why.capture-no-marker" and not any(finding.notes for finding in others)


def test_plots_and_page_are_those_of_the_report(runs):
    run = latlab.load_run(runs / "wakeup")
    plots = run.plots()
    assert plots and all(plot.svg.startswith("<svg") and plot._repr_svg_() for plot in plots)
    assert len({plot.id for plot in plots}) == len(plots)
    assert "wakeup" in run.html()


def test_the_command_measures_and_its_run_is_loaded(tmp_path):
    run = latlab.measure("wakeup", "-D", "300ms", "-q", out=tmp_path / "run")
    assert run.complete and run.records[0].summary.count > 10
    assert run.records[0].summary.sd > 0
    assert latlab.load_run(tmp_path / "run").data == run.data
    with pytest.raises(latlab.LatlabError, match="has a run already") as error:
        latlab.measure("wakeup", "-D", "300ms", "-q", out=tmp_path / "run")
    assert error.value.hint == "name a new directory; a run is never overwritten"
    with pytest.raises(latlab.LatlabError, match="--no-such-option"):
        latlab.measure("wakeup", "--no-such-option")


def test_a_limit_that_is_exceeded_is_no_error():
    run = latlab.measure("wakeup", "-D", "10", "-q", "-b", "1")
    assert run.data["stopped_by"] and run.records[0].summary.max > 1000


def test_errors_are_one_sentence(runs, tmp_path):
    with pytest.raises(latlab.LatlabError, match="nowhere") as error:
        latlab.load_run(tmp_path / "nowhere")
    assert "\n" not in str(error.value)
    path = tmp_path / "run.json"
    data = (runs / "wakeup" / "run.json").read_bytes()
    path.write_bytes(data[: len(data) // 2])
    with pytest.raises(latlab.LatlabError, match=r"run.json: truncated after \d+ bytes$") as error:
        latlab.load_run(tmp_path)
    assert error.value.hint.startswith("copy it again")
    path.write_text('{"schema_version": 999}')
    with pytest.raises(latlab.LatlabError, match="has schema version 999, and this latlab"):
        latlab.load_run(tmp_path)
