"""The command, which the wheel carries: found, run, and its errors as exceptions."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import warnings
from pathlib import Path
from typing import Sequence

from ._errors import LatlabError

__all__ = ["command", "run_command"]


def command() -> Path:
    """The path of the command: beside this Python, or in PATH.

    Raises LatlabError where there is none.
    """
    for folder in (Path(sysconfig.get_path("scripts")), Path(sys.executable).parent):
        if (folder / "latlab").is_file():
            return folder / "latlab"
    found = shutil.which("latlab")
    if found is None:
        raise LatlabError("the command latlab is not installed", "install the wheel, which carries it")
    return Path(found)


def run_command(options: Sequence[str], before: Sequence[str] = ()) -> str:
    """Runs the command; returns its stdout. What it says of damaged files becomes warnings.

    Raises LatlabError with the command's sentence and hint when it fails. A limit that is exceeded (exit
    code 2) is no failure. When KeyboardInterrupt comes, the command has the signal as well; it is waited for, until it
    has restored settings and saved what it measured.
    """
    if before and shutil.which(before[0]) is None:
        raise LatlabError(f"the command {before[0]} is not installed", "install it, or start Python as root")
    # Lines are not wrapped to a terminal that is not there: Jupyter and readline set COLUMNS.
    environment = {name: value for name, value in os.environ.items() if name != "COLUMNS"}
    started = subprocess.Popen(
        [*before, str(command()), *options],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
    )
    try:
        stdout, stderr = started.communicate()
    except KeyboardInterrupt:
        # subprocess.run would end it by SIGKILL after 0.25 s.
        started.communicate()
        raise
    lines = [line for line in stderr.splitlines() if line.strip()]
    said = [line[len("latlab: ") :] for line in lines if line.startswith("latlab: ")]
    if started.returncode in (0, 2):
        for sentence in said:
            warnings.warn(sentence, stacklevel=3)
        return stdout
    hints = [line[len("hint: ") :] for line in lines if line.startswith("hint: ")]
    errors = [line[len("error: ") :] for line in lines if line.startswith("error: ")]
    # What is no line of the command is that of `before`, or of a panic.
    ended = ": ".join([f"latlab {options[0]} ended with exit code {started.returncode}", *lines[-1:]])
    if not hints and lines and lines[-1].startswith("sudo: "):
        hints = ["start Python as root, or permit the command without a password (NOPASSWD in sudoers)"]
    raise LatlabError((said[-1:] or errors or [ended])[0], hints[-1] if hints else None)
