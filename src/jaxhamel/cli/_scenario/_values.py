"""What the value of a scenario's key may be: each kind has words for the message, and reads."""

import math
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from jaxhamel._words import visible

REQUIRED = object()


class NotAccepted(ValueError):
    """A value is not of the kind its key accepts; the message is written where the key is known.

    Its text, if there is one, goes on with the words of the kind: a limit beyond them.
    """


@dataclass(frozen=True)
class Accepts:
    """A kind of value: `words` complete "it must be …", `read` returns the value or raises."""

    words: str
    read: Callable[[Any], Any]


@dataclass(frozen=True)
class Key:
    """One key of a scenario: what it accepts and means, its default (or `REQUIRED`), its unit."""

    accepts: Accepts
    about: str
    default: Any = REQUIRED
    unit: str = ""


def number(*, positive: bool = False, least: float = -math.inf) -> Accepts:
    """A finite number; integers are taken as numbers."""
    limit = " larger than 0" if positive else f" of {least:g} or more" if least > -math.inf else ""

    def read(value: Any) -> float:
        result = _number(value)
        if (positive and result <= 0) or result < least:
            raise NotAccepted
        return result

    return Accepts(f"a number{limit}", read)


def boolean() -> Accepts:
    """true or false."""

    def read(value: Any) -> bool:
        if not isinstance(value, bool):
            raise NotAccepted
        return value

    return Accepts("true or false", read)


def integer(least: int, most: int = 2**53) -> Accepts:
    """A whole number, `least` or more; every number up to 2^53 is one of double precision, too."""

    def read(value: Any) -> int:
        if not isinstance(value, int) or isinstance(value, bool) or value < least:
            raise NotAccepted
        if value > most:
            raise NotAccepted(f", at most {most:,}")
        return value

    return Accepts(f"a whole number of {least} or more", read)


def numbers(*counts: int) -> Accepts:
    """A list of numbers, of one of the given lengths; of any length when none is given."""
    size = " or ".join(map(str, counts)) + " numbers" if counts else "numbers"

    def read(value: Any) -> list[float]:
        if not isinstance(value, list) or (counts and len(value) not in counts):
            raise NotAccepted
        return [_number(entry) for entry in value]

    return Accepts(f"a list of {size}", read)


def rows(width: int | None = None) -> Accepts:
    """A list of lists of numbers, all of the same length."""
    size = f"{width} numbers" if width else "numbers, all equally long"

    def read(value: Any) -> list[list[float]]:
        if not isinstance(value, list) or not all(isinstance(row, list) for row in value):
            raise NotAccepted
        result = [[_number(entry) for entry in row] for row in value]
        if len({len(row) for row in result} | ({width} if width else set())) > 1:
            raise NotAccepted
        return result

    return Accepts(f"a list of lists of {size}", read)


def either(first: Accepts, second: Accepts) -> Accepts:
    """What one of two kinds accepts."""

    def read(value: Any) -> Any:
        try:
            return first.read(value)
        except NotAccepted:
            return second.read(value)

    return Accepts(f"{first.words}, or {second.words}", read)


def choice(*names: str) -> Accepts:
    """One of the given names."""

    def read(value: Any) -> str:
        if value not in names or not isinstance(value, str):
            raise NotAccepted
        return value

    return Accepts("one of " + ", ".join(f'"{name}"' for name in names), read)


def text() -> Accepts:
    """A string."""

    def read(value: Any) -> str:
        if not isinstance(value, str):
            raise NotAccepted
        return value

    return Accepts("a string", read)


def heading() -> Accepts:
    """A string that can be the name of a column: something to see, in one line."""

    def read(value: Any) -> str:
        if not isinstance(value, str) or not value or value != visible(value.strip()):
            raise NotAccepted
        return value

    return Accepts("a string without control characters and without spaces at its ends", read)


def _number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise NotAccepted
    if isinstance(value, int) and abs(value) > sys.float_info.max:
        raise NotAccepted(", at most 1.8e308")
    if not math.isfinite(value):
        raise NotAccepted
    return float(value)
