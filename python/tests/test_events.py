"""Events as tables, against the reports of trace-cmd that lie beside the fixtures."""

import re
from collections import Counter

import latlab
import pyarrow as pa
import pytest

LINE = re.compile(r"^\s*(.+)-(\d+)\s+\[(\d+)\]\s+(\d+)\.(\d{6}): (\w+): +(.*)$")


def reported(path):
    """(comm, pid, cpu, time in µs, event, text) of each line of a report."""
    lines = path.read_text().splitlines()[1:]
    found = [LINE.match(line) for line in lines]
    assert lines and all(found)
    return [
        (m[1].strip(), int(m[2]), int(m[3]), int(m[4]) * 10**6 + int(m[5]), m[6], m[7]) for m in found if m
    ]


@pytest.fixture(scope="module")
def trace(traces):
    return latlab.open(traces / "f7-zstd.dat")


@pytest.fixture(scope="module")
def report(traces):
    return reported(traces / "f7-zstd.trace-cmd.txt")


def test_every_event_is_as_trace_cmd_reports_it(trace, report):
    table = pa.table(trace.events())
    assert table.column_names == ["time_ns", "cpu", "pid", "comm", "event", "lost"]
    rows = zip(*(table[name].to_pylist() for name in ["comm", "pid", "cpu", "time_ns", "event"]))
    found = [(comm, pid, cpu, (time + 500) // 1000, event) for comm, pid, cpu, time, event in rows]
    assert found == [line[:5] for line in report]


def test_fields_of_one_kind_are_columns_of_the_recorded_width(trace, report):
    table = pa.table(trace.events("sched_switch"))
    assert table.schema.field("next_prio").type == pa.int32()
    assert table.schema.field("prev_state").type == pa.int64()
    assert table.schema.field("next_comm").type == pa.dictionary(pa.int32(), pa.string())
    texts = [line[5] for line in report if line[4] == "sched_switch"]
    pattern = re.compile(r"(.*):(\d+) \[(\d+)\] \S+ ==> (.*):(\d+) \[(\d+)\]")
    expected = [pattern.match(text).groups() for text in texts]
    names = ["prev_comm", "prev_pid", "prev_prio", "next_comm", "next_pid", "next_prio"]
    found = zip(*([str(v) for v in table[name].to_pylist()] for name in names))
    assert list(found) == expected


def test_text_of_any_length_and_addresses(trace, report):
    table = pa.table(trace.events("sched_process_exec"))
    assert table.schema.field("filename").type == pa.string()
    texts = [line[5] for line in report if line[4] == "sched_process_exec"]
    rows = zip(table["filename"].to_pylist(), table["event_pid"].to_pylist(), table["old_pid"].to_pylist())
    assert [f"filename={name} pid={pid} old_pid={old}" for name, pid, old in rows] == texts
    setup = pa.table(trace.events("hrtimer_setup", columns=["hrtimer"]))
    texts = [line[5] for line in report if line[4] == "hrtimer_setup"]
    assert [f"hrtimer={v:#x}" for v in setup["hrtimer"].to_pylist()] == [t.split()[0] for t in texts]


def test_filters_choose_what_the_columns_say(trace):
    everything = trace.events("sched_switch").to_pandas()
    few = trace.events("sched_switch", "next_prio == 120 && prev_pid != 0", cpus=[1]).to_pandas()
    expected = everything[(everything.next_prio == 120) & (everything.prev_pid != 0) & (everything.cpu == 1)]
    assert 0 < len(few) < len(everything)
    assert few.time_ns.tolist() == expected.time_ns.tolist()
    middle = int(everything.time_ns.iloc[len(everything) // 2])
    assert len(trace.events("sched_switch", end=middle - 1)) + len(
        trace.events("sched_switch", start=middle)
    ) == len(everything)
    pid = int(everything.pid.iloc[0])
    assert len(trace.events("sched_switch", pids=[pid])) == (everything.pid == pid).sum()
    assert len(trace.events("sched_switch", cpus="0")) == (everything.cpu == 0).sum()


def test_a_filter_that_names_an_event_gives_its_fields(trace):
    table = trace.events(filter="sched_switch : next_pid > 0")
    assert "next_prio" in table.column_names
    assert 0 < len(table) == len(trace.events("sched_switch", "next_pid > 0"))


def test_several_kinds_have_nulls_where_a_field_is_missing(trace):
    table = pa.table(
        trace.events(["sched_switch", "sched_waking"], columns=["event", "next_pid", "target_cpu"])
    )
    assert table.column_names == ["event", "next_pid", "target_cpu"]
    kinds = Counter(table["event"].to_pylist())
    assert set(kinds) == {"sched_switch", "sched_waking"}
    assert table["next_pid"].null_count == kinds["sched_waking"]
    assert table["target_cpu"].null_count == kinds["sched_switch"]
    for event, pid, cpu in zip(*(table[name].to_pylist() for name in table.column_names)):
        assert (pid is None) == (event == "sched_waking") and (cpu is None) == (event == "sched_switch")


def test_batches_of_several_stretches_share_their_dictionaries(traces):
    table = pa.table(latlab.open(traces / "rt-load.dat").events("sched_switch"))
    for name in ["comm", "next_comm"]:
        words = {chunk.dictionary.buffers()[2].address for chunk in table[name].chunks}
        assert len(words) == 1


def test_the_memory_is_shared_with_arrow_pandas_and_polars(trace):
    polars = pytest.importorskip("polars")
    table = trace.events("sched_switch")
    first, second = pa.table(table), pa.table(table)
    address = first["time_ns"].chunk(0).buffers()[1].address
    assert address == second["time_ns"].chunk(0).buffers()[1].address
    assert address == first["time_ns"].chunk(0).to_numpy(zero_copy_only=True).ctypes.data
    frame = polars.DataFrame(table)
    assert frame["next_prio"].to_list() == first["next_prio"].to_pylist()
    assert frame["next_comm"].cast(polars.String).to_list() == first["next_comm"].to_pylist()
    pandas = table.to_pandas()
    assert pandas["next_comm"].tolist() == first["next_comm"].to_pylist()


def test_an_empty_choice_is_a_table_without_rows(trace):
    table = trace.events("sched_switch", start=2**63)
    assert len(table) == 0
    assert pa.table(table).num_rows == 0 and table.to_pandas().empty


@pytest.mark.parametrize("name", ["f6.dat", "graph7-armv7.dat", "inst7.dat", "latlab-v7-zlib.dat", "rtla-timerlat.txt"])
def test_every_kind_of_every_file_can_be_read(traces, name):
    trace = latlab.open(traces / name)
    counts = Counter(pa.table(trace.events())["event"].to_pylist())
    assert counts
    for event, count in counts.items():
        table = pa.table(trace.events(event))
        table.validate(full=True)
        assert table.num_rows == count


def test_lost_events_are_counted(traces):
    lost = pa.table(latlab.open(traces / "lost7.dat").events())["lost"]
    assert sum(lost.to_pylist()) > 0


def test_errors_are_one_sentence(trace, traces, tmp_path):
    with pytest.raises(latlab.LatlabError, match=r"^no event of this trace is named \"sched_swich\"$") as error:
        trace.events("sched_swich")
    assert "Trace.kinds()" in error.value.hint
    with pytest.raises(latlab.LatlabError, match="^none of the chosen events has a field \"no\"$"):
        trace.events("sched_switch", columns=["no"])
    with pytest.raises(latlab.LatlabError, match="next_pri"):
        trace.events("sched_switch : next_pri < 3 &&")
    with pytest.raises(latlab.LatlabError, match="^the field \"filename\" is Utf8 in one .* UInt64 in another$"):
        trace.events(columns=["time_ns", "filename"])
    with pytest.raises(latlab.LatlabError) as error:
        trace.events(cpus="3-1")
    assert error.value.hint == "write CPUs as 0,2-3"
    nothing = tmp_path / "nothing.dat"
    with pytest.raises(latlab.LatlabError, match="cannot be opened: No such file"):
        latlab.open(nothing)
    nothing.write_bytes(b"")
    with pytest.raises(latlab.LatlabError, match="^.*nothing.dat: the file is empty$"):
        latlab.open(nothing)
    nothing.write_bytes(b"\x7fELF" * 100)
    with pytest.raises(latlab.LatlabError, match="not a trace") as error:
        latlab.open(str(nothing))
    assert error.value.hint.startswith("latlab reads trace.dat version 6 and 7")


def test_damage_is_a_warning_and_the_rest_is_read(traces, tmp_path):
    data = bytearray((traces / "f6.dat").read_bytes())
    whole = len(latlab.open(traces / "f6.dat").events())
    cut = tmp_path / "cut.dat"
    cut.write_bytes(data[: len(data) - 5000])
    with pytest.warns(UserWarning, match="cut.dat: CPU"):
        part = latlab.open(cut).events()
    assert 0 < len(part) < whole


def test_what_is_opened_describes_itself(trace, traces):
    assert (trace.version, trace.cpu_count, trace.clock) == (7, 2, "local")
    assert trace.path == traces / "f7-zstd.dat"
    assert "sched:sched_switch" in trace.kinds()
    assert ("next_prio", "int") in trace.fields("sched_switch")
    assert repr(trace).startswith("<latlab.Trace ")
    assert repr(trace.events("sched_switch")).startswith("<latlab.Table of ")


def test_words_of_a_file_cannot_command_the_terminal(traces, tmp_path):
    """Paths, names of tasks and events go into warnings and errors, which Python prints as they are."""
    cut = tmp_path / "cut\x1b]0;title\x07\n.dat"
    cut.write_bytes((traces / "f6.dat").read_bytes()[:-5000])
    trace = latlab.open(cut)
    with pytest.warns(UserWarning, match="cut␛]0;title␇␊.dat: CPU") as warned:
        trace.events()
    text = tmp_path / "trace.txt"
    timer = "hrtimer=0xffff888627c1c6f8 function=hrtimer_wakeup"
    name = "\x1b[2Jbad"
    events = [
        (1, f"hrtimer_start: {timer} expires=1000000000 softexpires=1000000000 mode=ABS"),
        (2, f"sched_switch: prev_comm={name} prev_pid=42 prev_prio=9 prev_state=S ==> "
            "next_comm=x next_pid=1 next_prio=120"),
        (1000, f"hrtimer_expire_entry: {timer} now=1000001000"),
        (1001, f"sched_waking: comm={name} pid=42 prio=9 target_cpu=000"),
        (1005, "sched_switch: prev_comm=x prev_pid=1 prev_prio=120 prev_state=S ==> "
            f"next_comm={name} next_pid=42 next_prio=9"),
    ]
    lines = [f"  {'y-42' if at < 10 else 'x-1'}     [000] d..2.  1.{at:06d}: {event}" for at, event in events]
    text.write_text("# tracer: nop\n#\n" + "\n".join(lines) + "\n")
    with pytest.raises(latlab.LatlabError) as error:
        latlab.explain(text, limit_ns=1000, task="nobody")
    assert "bad" in error.value.hint
    said = [str(warning.message) for warning in warned] + [str(error.value), error.value.hint, *trace.damage]
    said.append(latlab.explain(text, limit_ns=1000, task="42").text(details=True))
    assert not [c for c in "".join(said) if c != "\n" and (ord(c) < 32 or 127 <= ord(c) < 160)]
