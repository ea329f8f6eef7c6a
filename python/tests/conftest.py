"""Where the fixtures are: LATLAB_FIXTURES, or the folder of the source tree."""

import os
from pathlib import Path

import pytest

FIXTURES = Path(os.environ.get("LATLAB_FIXTURES") or Path(__file__).resolve().parents[2] / "fixtures")


@pytest.fixture(scope="session")
def traces() -> Path:
    return FIXTURES / "trace"


@pytest.fixture(scope="session")
def runs() -> Path:
    return FIXTURES / "runs-v1"
