"""`measure` with a command and a sudo of the test: what it starts, keeps, removes and says."""

import os
import shutil
import signal
import subprocess
import sys
import time

import latlab
import latlab._command
import pytest


def script(path, text):
    path.write_text("#!/bin/sh\n" + text)
    path.chmod(0o755)
    return path


@pytest.fixture
def fake(tmp_path, runs, monkeypatch):
    """A command that saves a run of the fixtures, and a sudo that notes what it starts."""
    # latlab EXPERIMENT --out DIRECTORY …
    command = script(tmp_path / "latlab", f'cp -r "{runs / "wakeup"}" "$3"\n')
    script(tmp_path / "sudo", f'echo "$@" >>"{tmp_path}/started"\nexec "$@"\n')
    monkeypatch.setattr(latlab._command, "command", lambda: command)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(scratch))
    return tmp_path


def started(fake):
    return (fake / "started").read_text().splitlines()


def files_of_root(monkeypatch):
    """As an ordinary user sees root's files: they can be read and not removed."""

    def rmtree(path, ignore_errors=False, **_):
        if not ignore_errors:
            raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(shutil, "rmtree", rmtree)


def test_a_run_by_sudo_is_loaded_and_its_files_are_removed(fake, runs, monkeypatch):
    files_of_root(monkeypatch)
    run = latlab.measure("wakeup", "-D", "1", sudo=True)
    assert run.data == latlab.load_run(runs / "wakeup").data
    measured, removed = started(fake)
    assert measured.startswith(f"{fake}/latlab wakeup --out {fake}/scratch/latlab-")
    directory = measured.split(" ")[3]
    assert removed == f"rm -rf -- {os.path.dirname(directory)}"
    assert not list((fake / "scratch").iterdir())


def test_files_that_stay_are_a_warning_and_the_run_is_kept(fake, monkeypatch):
    files_of_root(monkeypatch)
    script(fake / "rm", "echo 'rm: not today' >&2\nexit 1\n")
    with pytest.warns(UserWarning, match=r"scratch/latlab-\w+: not removed: rm: not today; sudo rm -r /") as warned:
        assert latlab.measure("wakeup", sudo=True).records
    assert warned[0].filename == __file__


def test_a_named_directory_stays(fake):
    run = latlab.measure("wakeup", out=fake / "run", sudo=True)
    assert latlab.load_run(fake / "run").data == run.data
    assert len(started(fake)) == 1 and not list((fake / "scratch").iterdir())


def test_without_sudo_nothing_is_started_by_it(fake):
    assert latlab.measure("wakeup").records
    assert not (fake / "started").exists() and not list((fake / "scratch").iterdir())


def test_a_refusal_of_sudo_is_the_error(fake, monkeypatch):
    script(fake / "sudo", "echo 'sudo: a password is required' >&2\necho >&2\nexit 1\n")
    with pytest.raises(latlab.LatlabError) as error:
        latlab.measure("wakeup", sudo=True)
    assert str(error.value) == "latlab wakeup ended with exit code 1: sudo: a password is required"
    assert "NOPASSWD" in error.value.hint
    assert not list((fake / "scratch").iterdir())
    monkeypatch.setenv("PATH", str(fake / "scratch"))
    with pytest.raises(latlab.LatlabError, match="^the command sudo is not installed$"):
        latlab.measure("wakeup", sudo=True)


INTERRUPTED = """
import sys
from pathlib import Path
import latlab._command
latlab._command.command = lambda: Path(sys.argv[1])
try:
    latlab.measure("wakeup", out=sys.argv[2])
except KeyboardInterrupt:
    print("interrupted:", Path(sys.argv[2], "run.json").is_file())
"""


def test_a_command_that_is_interrupted_saves_what_it_measured(tmp_path, runs):
    """Ctrl-C reaches every process of the terminal. The command takes longer than the 0.25 s that
    subprocess.run leaves it."""
    command = script(
        tmp_path / "latlab",
        f'trap \'sleep 1; cp -r "{runs / "wakeup"}" "$3"; exit 130\' INT\n'
        f'touch "{tmp_path}/measures"\nwhile :; do sleep 0.05; done\n',
    )
    # An emulated Python starts another one by what emulates it.
    python = os.environ.get("LATLAB_TEST_PYTHON", sys.executable)
    caller = subprocess.Popen(
        [python, "-c", INTERRUPTED, command, tmp_path / "run"],
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    while not (tmp_path / "measures").exists():
        assert caller.poll() is None
        time.sleep(0.01)
    os.killpg(caller.pid, signal.SIGINT)
    assert caller.communicate(timeout=60)[0] == "interrupted: True\n"
