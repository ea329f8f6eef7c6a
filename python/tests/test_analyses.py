"""Analyses of traces: each against the events of the same trace."""

import json
import shutil
import subprocess
import warnings

import latlab
import pytest
from latlab import Rows
from latlab._analyses import _COLUMNS
from latlab._command import run_command


@pytest.fixture(scope="module")
def load(traces):
    return latlab.open(traces / "rt-load.dat")


def test_run_segments_add_up_and_are_in_the_events(load):
    sched = latlab.sched(load)
    segments = sched.segments().to_pandas()
    run = segments.groupby("tid").run_ns.sum()
    tasks = sched.tasks.to_pandas()
    assert len(tasks) > 10
    # A segment that is open at the end of the trace is in the account and in no line: one a CPU at most.
    threads = tasks[(tasks.tid > 0) & tasks.tid.isin(run.index)]
    differ = [task.name for task in threads.itertuples() if run[task.tid] != task.run_ns]
    assert len(differ) <= load.cpu_count < len(threads)
    assert all(run[task.tid] <= task.run_ns for task in threads.itertuples())
    switches = load.events("sched_switch").to_pandas()
    ends = {(row.time_ns, row.cpu, row.prev_pid) for row in switches.itertuples()}
    ended = segments[(segments.ended != "open") & (segments.ended != "lost")]
    assert len(ended) > 1000
    assert all((row.time_ns, row.cpu, row.tid) in ends for row in ended.itertuples())
    assert set(sched.cpus.to_pandas().cpu) == set(switches.cpu)


def parts(*options):
    return json.loads(run_command([*options, "--json"]))["parts"]


def test_analyses_are_those_of_the_command_and_start_no_process(load, traces, monkeypatch):
    path, timers = str(load.path), str(traces / "f7-zstd.dat")
    expected = [
        parts("sched", path),
        parts("timer", timers),
        parts("why", path, "--limit", "100us"),
        parts("why", path, "--task", "kworker/0:1"),
    ]
    lines = run_command(["sched", path, "--view", "timehist", "--json"]).splitlines()

    def refuse(*_, **__):
        raise AssertionError("a process is started")

    monkeypatch.setattr(subprocess, "Popen", refuse)
    found = [
        latlab.sched(load),
        latlab.timer(timers),
        latlab.explain(load, limit_ns=100_000),
        latlab.explain(load, task="kworker/0:1"),
    ]
    for analysis, part in zip(found, expected):
        assert analysis.run.data["parts"] == part
    assert found[0].segments().to_pyarrow().to_pylist() == [json.loads(line) for line in lines]
    assert list(latlab.breakdown(load, limit_ns=100_000)) == list(found[2].breakdown)
    for method, function in [
        (load.sched(), found[0]),
        (latlab.open(timers).timer(), found[1]),
        (load.explain(limit_ns=100_000), found[2]),
        (load.explain(task="kworker/0:1"), found[3]),
    ]:
        assert method.detail == function.detail
    assert list(load.breakdown(limit_ns=100_000)) == list(found[2].breakdown)


def test_errors_are_the_sentences_of_the_command(load, traces, tmp_path):
    several, function = [str(load.path), str(traces / "f6.dat")], str(traces / "function7-x86_64.dat")
    nothing = tmp_path / "run"
    (nothing / "captures").mkdir(parents=True)
    damaged = tmp_path / "damaged"
    (damaged / "captures").mkdir(parents=True)
    shutil.copy(load.path, damaged / "captures")
    (damaged / "run.json").write_text("{")
    counter = tmp_path / "counter.dat"
    counter.write_bytes((traces / "latlab-v6.dat").read_bytes().replace(b"[local] global counter", b"local global [counter]"))
    for options, call in [
        (["sched", function], lambda: latlab.sched(function)),
        (["timer", function], lambda: latlab.timer(function)),
        (["why", function], lambda: latlab.explain(function)),
        (["why", function, "--task", "x"], lambda: latlab.explain(function, task="x")),
        (["why", *several, "--task", "no", "--limit", "1ms"], lambda: latlab.explain(several, task="no", limit_ns=10**6)),
        (["why", str(tmp_path)], lambda: latlab.explain(tmp_path)),
        (["why", str(nothing)], lambda: latlab.explain(nothing)),
        (["why", str(damaged)], lambda: latlab.explain(damaged)),
        (["why", str(counter), "--limit", "1ms"], lambda: latlab.explain(counter, limit_ns=10**6)),
        (["why", str(counter), "--task", "x"], lambda: latlab.explain(counter, task="x")),
    ]:
        with pytest.raises(latlab.LatlabError) as command:
            run_command(options)
        with pytest.raises(latlab.LatlabError) as own:
            call()
        assert str(own.value).removesuffix(": No such file or directory (os error 2)") == str(
            command.value
        ).removesuffix(": No such file or directory (os error 2)")
        assert "--" in command.value.hint or own.value.hint == command.value.hint
    with pytest.raises(latlab.LatlabError, match="^deadline_ns: needs task$"):
        latlab.explain(load, deadline_ns=1000)
    with pytest.raises(latlab.LatlabError, match="^deadline_ns: cannot be used with limit_ns$"):
        latlab.breakdown(load, task="kworker/0:1", limit_ns=1000, deadline_ns=1000)
    with pytest.raises(latlab.LatlabError, match="'--limit <TIME>' cannot be used with"):
        run_command(["why", str(load.path), "--task", "kworker/0:1", "--limit", "1", "--deadline", "1"])


def test_damage_is_a_warning_of_the_line_that_calls(load, tmp_path):
    cut = tmp_path / "cut.dat"
    cut.write_bytes(load.path.read_bytes()[:60_000])
    trace = latlab.open(cut)
    calls = [
        trace.events,
        lambda: latlab.sched(cut),
        trace.sched,
        lambda: latlab.explain(cut, task="kworker/0:1"),
        lambda: trace.explain(task="kworker/0:1"),
        lambda: latlab.breakdown(trace, task="kworker/0:1"),
        lambda: trace.breakdown(task="kworker/0:1"),
        _silently(lambda: latlab.sched(trace)).segments,
    ]
    for number, call in enumerate(calls):
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            call()
        assert any("cut.dat: offset 60000: the file ends: " in str(warning.message) for warning in warned), number
        assert {warning.filename for warning in warned} == {__file__}, number
    # The notes of the report have it.
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert "damaged" in latlab.explain(cut, limit_ns=100_000).text(details=True)
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        with pytest.raises(latlab.LatlabError, match="^no activation of nobody"):
            latlab.explain(cut, task="nobody")
    assert len(warned) > 1


def _silently(call):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return call()


def test_a_part_of_the_trace_is_analysed(load):
    times = load.events("sched_switch", columns=["time_ns"]).to_pandas().time_ns
    middle = int(times.median())
    later = latlab.sched(load, start=middle / 1e9)
    assert 0 < later.detail["schedule"]["switches"] < latlab.sched(load.path).detail["schedule"]["switches"]
    assert later.segments().to_pandas().time_ns.min() >= middle - 1000


def test_timer_functions_are_those_of_the_events(traces):
    trace = latlab.open(traces / "f7-zstd.dat")
    timer = latlab.timer(trace)
    expiries = len(trace.events("hrtimer_expire_entry"))
    counted = timer.functions.to_pandas()
    assert 0 < counted[counted.highres].cost_count.sum() <= expiries
    assert len(timer.softirqs) and timer.text()


def test_the_breakdown_adds_up_to_each_latency(load):
    explanation = latlab.explain(load, limit_ns=100_000)
    wakeups = explanation.wakeups.to_pandas()
    assert wakeups.late.sum() > 5 and (wakeups.latency_ns[wakeups.late] > 100_000).all()
    parts = explanation.breakdown.to_pandas()
    assert (parts.groupby("wakeup").ns.sum() == wakeups.latency_ns).all()
    assert explanation.findings and "100" in explanation.text()
    assert explanation.run.plots()


def test_one_task_is_explained(load):
    with pytest.raises(latlab.LatlabError, match="^no wake-up of nobody in ") as error:
        latlab.explain(load, limit_ns=100_000, task="nobody")
    assert error.value.hint.startswith("tasks that wake up in it: ")
    name = error.value.hint.split(": ")[1].split(", ")[0]
    assert len(latlab.explain([load.path], limit_ns=100_000, task=name).wakeups) > 0


def test_rows_are_tables_of_every_library(load):
    tasks = latlab.sched(load).tasks
    polars, arrow = tasks.to_polars(), tasks.to_pyarrow()
    assert polars["slices_max_ns"].to_list() == arrow["slices_max_ns"].to_pylist()
    assert tasks.to_pandas().slices_max_ns.tolist() == [row["slices_max_ns"] for row in tasks]
    assert len(tasks[:3]) == 3 and tasks[0]["tid"] == tasks[:1][0]["tid"]


def test_a_result_without_rows_has_its_columns(load, traces, tmp_path):
    throttles = latlab.sched(load).throttles
    assert len(throttles) == 0
    for table in [throttles, throttles[:0], latlab.sched(load).tasks[:0]]:
        names = table.column_names
        assert list(table.to_pandas().columns) == table.to_polars().columns == table.to_pyarrow().column_names == names
    assert len(throttles.to_pandas().ns) == len(throttles.to_polars()["ns"]) == 0
    assert latlab.load_run(traces.parent / "runs-v1" / "wakeup").table()[:0].to_pandas()["median"].empty


def test_the_columns_of_empty_results_are_those_of_others(load, traces, tmp_path):
    """A real-time task is throttled, and one of lower priority runs while it waits."""
    switch = "sched_switch: prev_comm={} prev_pid={} prev_prio={} prev_state={} ==> next_comm={} next_pid={} next_prio={}"
    high, low, idle = ("high", 42, 9), ("low", 43, 50), ("swapper/0", 0, 120)
    events = [
        (1, idle, switch.format(*idle, "R", *low)),
        (2, low, "sched_wakeup: comm=high pid=42 prio=9 target_cpu=000"),
        (900, low, switch.format(*low, "R+", *high)),
        (2000, high, switch.format(*high, "R", *idle)),
        (9000, idle, switch.format(*idle, "R", *high)),
        (9500, high, switch.format(*high, "S", *idle)),
    ]
    text = tmp_path / "trace.txt"
    lines = [f"  {name}-{tid}     [000] d..2.  1.{at:06d}: {event}" for at, (name, tid, _), event in events]
    text.write_text("# tracer: nop\n#\n" + "\n".join(lines) + "\n")
    schedules = [latlab.sched(trace).detail["schedule"] for trace in (load, text)]
    timer = latlab.timer(traces / "f7-zstd.dat").detail["trace"]
    for name, columns in _COLUMNS.items():
        rows = [row for found in (*schedules, timer) for row in found.get(name, [])]
        assert rows, name
        every = set.intersection(*(set(Rows([row]).column_names) for row in rows))
        assert every == set(columns), name
    explanation = latlab.explain(load, limit_ns=100_000)
    for table in (explanation.wakeups, explanation.breakdown):
        assert set(table.column_names) == set(table[:0].column_names)


def test_what_is_missing_is_an_error(traces):
    trace = latlab.open(traces / "function7-x86_64.dat")
    with pytest.raises(latlab.LatlabError, match="sched_switch.*: running tasks unknown$"):
        latlab.sched(trace)
    with pytest.raises(latlab.LatlabError, match="no events of timers or interrupts$"):
        latlab.timer(trace)
