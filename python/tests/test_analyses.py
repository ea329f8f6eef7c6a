"""Analyses of traces: each against the events of the same trace."""

import latlab
import pytest


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


def test_what_is_missing_is_an_error(traces):
    trace = latlab.open(traces / "function7-x86_64.dat")
    with pytest.raises(latlab.LatlabError, match="sched_switch.*: running tasks unknown$"):
        latlab.sched(trace)
    with pytest.raises(latlab.LatlabError, match="no events of timers or interrupts$"):
        latlab.timer(trace)
