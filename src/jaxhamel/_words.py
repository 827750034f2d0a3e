"""Words for numbers of things, and text that comes from outside made safe to show."""

import re
import unicodedata

# control characters, marks that turn the direction of text, halves of surrogate pairs
UNSEEN = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
FORMULA = ("=", "+", "-", "@", "\t", "\r")  # a spreadsheet computes a cell that begins so


def counted(number: int, thing: str, things: str | None = None) -> str:
    """ "1 trajectory", "2 trajectories": the plural is `things`, or made of the word."""
    if number == 1:
        return f"1 {thing}"
    regular = thing[:-1] + "ies" if thing.endswith("y") else thing + "s"
    return f"{number} {things or regular}"


def visible(text: str, *, lines: bool = False) -> str:
    """Writes characters that control a terminal or a browser as visible escapes, such as `\\x1b`.

    `lines`: whether line breaks stay.
    """

    def escaped(found: re.Match) -> str:
        mark = found[0]
        return mark if lines and mark == "\n" else mark.encode("unicode_escape").decode("ascii")

    return UNSEEN.sub(escaped, text)


def slug(text: str, longest: int = 60) -> str:
    """A name of letters, digits, dots and hyphens: no path, at most `longest` long, never empty.

    Accents are dropped, everything else becomes a hyphen; two texts may have one slug.
    """
    plain = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode("ascii")
    name = re.sub(r"[^A-Za-z0-9.]+", "-", plain)
    return name[:longest].strip("-.") or "unnamed"


def cell(text: str) -> str:
    """Text for a CSV file that no spreadsheet takes for a formula: an apostrophe before `=`, `+`, `-` and `@`."""
    return f"'{visible(text)}" if text.startswith(FORMULA) else visible(text)


def uncell(text: str) -> str:
    """What `cell` was given."""
    return text[1:] if text[:1] == "'" and text[1:].startswith(FORMULA) else text
