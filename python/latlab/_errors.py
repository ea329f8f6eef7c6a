"""The exception of the package."""

from __future__ import annotations

from typing import Optional

__all__ = ["LatlabError"]


class LatlabError(Exception):
    """What cannot be read, chosen or measured, in the sentence that the command prints.

    `hint` is what to do about it, or None.
    """

    hint: Optional[str]

    def __init__(self, message: str, hint: Optional[str] = None) -> None:
        super().__init__(message)
        self.hint = hint
