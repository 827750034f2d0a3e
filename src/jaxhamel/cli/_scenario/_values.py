"""The kinds of values that keys of a scenario accept, each with its description for messages and its parser."""

import math
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from jaxhamel._words import visible

REQUIRED = object()
OMITTED = object()  # the default of a key that stays absent if it is not given


class NotAccepted(ValueError):
    """Raised for a value that its key does not accept; the caller, who knows the key, makes the full message.

    The text of the exception, if any, states a further limit and is appended to the description of the accepted values.
    """


@dataclass(frozen=True)
class Accepts:
    """A kind of value: `words` complete the sentence "it must be …"; `read` returns the converted value or raises."""

    words: str
    read: Callable[[Any], Any]


@dataclass(frozen=True)
class Key:
    """One key of a scenario: its accepted kind, meaning, default (or `REQUIRED`) and unit."""

    accepts: Accepts
    about: str
    default: Any = REQUIRED
    unit: str = ""


def number(*, positive: bool = False, least: float = -math.inf) -> Accepts:
    """Accepts a finite number; integers are converted."""
    limit = " larger than 0" if positive else f" of {least:g} or more" if least > -math.inf else ""

    def read(value: Any) -> float:
        result = _number(value)
        if (positive and result <= 0) or result < least:
            raise NotAccepted
        return result

    return Accepts(f"a number{limit}", read)


def boolean() -> Accepts:
    """Accepts true or false."""

    def read(value: Any) -> bool:
        if not isinstance(value, bool):
            raise NotAccepted
        return value

    return Accepts("true or false", read)


def integer(least: int | None = None, most: int = 2**53) -> Accepts:
    """Accepts a whole number from `least` to `most`; the default of `most` is 2^53, up to which floats are exact."""

    def read(value: Any) -> int:
        if not isinstance(value, int) or isinstance(value, bool):
            raise NotAccepted
        if least is not None and value < least:
            raise NotAccepted
        if value > most:
            raise NotAccepted(f", at most {most:,}")
        return value

    return Accepts("a whole number" + ("" if least is None else f" of {least} or more"), read)


def numbers(*counts: int) -> Accepts:
    """Accepts a list of numbers with one of the given lengths; any length if none is given."""
    size = " or ".join(map(str, counts)) + " numbers" if counts else "numbers"

    def read(value: Any) -> list[float]:
        if not isinstance(value, list) or (counts and len(value) not in counts):
            raise NotAccepted
        return [_number(entry) for entry in value]

    return Accepts(f"a list of {size}", read)


def indices() -> Accepts:
    """Accepts a list of whole numbers of 0 or more, as a tuple."""
    one = integer(0)

    def read(value: Any) -> tuple[int, ...]:
        if not isinstance(value, list):
            raise NotAccepted
        return tuple(map(one.read, value))

    return Accepts("a list of whole numbers of 0 or more", read)


def bounds() -> Accepts:
    """Accepts a list of numbers, of which some may be infinite."""

    def read(value: Any) -> list[float]:
        if not isinstance(value, list):
            raise NotAccepted
        return [x if x in (math.inf, -math.inf) else _number(x) for x in value]

    return Accepts("a list of numbers, inf or -inf for no limit", read)


def rows(width: int | None = None) -> Accepts:
    """Accepts a list of equally long lists of numbers."""
    size = f"{width} numbers" if width else "numbers, all equally long"

    def read(value: Any) -> list[list[float]]:
        if not isinstance(value, list) or not all(isinstance(row, list) for row in value):
            raise NotAccepted
        result = [[_number(entry) for entry in row] for row in value]
        if len({len(row) for row in result} | ({width} if width else set())) > 1:
            raise NotAccepted
        return result

    return Accepts(f"a list of lists of {size}", read)


def array(
    shapes: Sequence[tuple[int | str, ...]] | None,
    *,
    positive: bool = False,
    least: float | None = None,
) -> Accepts:
    """Accepts an array of numbers, as nested lists, of one of the shapes; if `shapes` is None, of any depth."""
    kinds = [nested()] if shapes is None else [_of_shape(shape) for shape in shapes]
    words = ", or ".join(kind.words for kind in kinds)
    several = shapes is None or any(shapes)
    each = ", each" if several else ""
    if positive:
        words += f"{each} larger than 0"
    elif least is not None:
        words += f"{each} of {least:g} or more"

    def read(value: Any) -> Any:
        found = _first_read(kinds, value)
        if any(
            (positive and x <= 0) or (least is not None and x < least)
            for x in _numbers_in_lists(found)
        ):
            raise NotAccepted
        return found

    return Accepts(words, read)


def _of_shape(shape: tuple[int | str, ...]) -> Accepts:
    *leading, last = shape or (None,)
    width = last if isinstance(last, int) else None
    match len(leading):
        case 0 if last is None:
            return number()
        case 0:
            return numbers(*([] if width is None else [width]))
        case 1:
            return rows(width)
    return nested(len(shape))


def _first_read(kinds: Sequence[Accepts], value: Any) -> Any:
    for kind in kinds[:-1]:
        try:
            return kind.read(value)
        except NotAccepted:
            pass
    return kinds[-1].read(value)


def _numbers_in_lists(value: Any) -> Iterator[float]:
    if isinstance(value, list):
        for entry in value:
            yield from _numbers_in_lists(entry)
    else:
        yield value


def nested(depth: int | None = None) -> Accepts:
    """Accepts numbers in lists nested to the given depth; if `depth` is None, a number or lists of any depth."""

    def read(value: Any, level: int = 0) -> Any:
        if isinstance(value, list):
            if depth is not None and level >= depth:
                raise NotAccepted
            return [read(entry, level + 1) for entry in value]
        if depth is not None and level != depth:
            raise NotAccepted
        return _number(value)

    if depth is None:
        return Accepts("a number, or a list of numbers or of such lists", read)
    return Accepts("a " + "list of " + "lists of " * (depth - 1) + "numbers", read)


def either(first: Accepts, second: Accepts) -> Accepts:
    """Accepts a value of either of two kinds."""

    def read(value: Any) -> Any:
        try:
            return first.read(value)
        except NotAccepted:
            return second.read(value)

    return Accepts(f"{first.words}, or {second.words}", read)


def choice(*names: str) -> Accepts:
    """Accepts one of the given names."""

    def read(value: Any) -> str:
        if value not in names or not isinstance(value, str):
            raise NotAccepted
        return value

    return Accepts("one of " + ", ".join(f'"{name}"' for name in names), read)


def text() -> Accepts:
    """Accepts a string."""

    def read(value: Any) -> str:
        if not isinstance(value, str):
            raise NotAccepted
        return value

    return Accepts("a string", read)


def texts() -> Accepts:
    """Accepts a list of strings."""

    def read(value: Any) -> list[str]:
        if not isinstance(value, list) or not all(isinstance(entry, str) for entry in value):
            raise NotAccepted
        return list(value)

    return Accepts("a list of strings", read)


def heading() -> Accepts:
    """Accepts a string that can be the name of a CSV column: visible characters in one line."""

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


POSITIVE = number(positive=True)
PLACE = integer(0)  # an index
