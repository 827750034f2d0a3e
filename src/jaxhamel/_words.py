"""Counted nouns, and safe forms of text from outside: for terminals, browsers, file names and spreadsheets."""

import re
import unicodedata

# control characters, marks for the direction of text, surrogates
UNSEEN = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
FORMULA = (
    "=",
    "+",
    "-",
    "@",
    "\t",
    "\r",
)  # a spreadsheet evaluates a cell that begins with one of these characters


def counted(number: int, thing: str, things: str | None = None) -> str:
    """A number with its noun: "1 trajectory", "2 trajectories"; the plural is `things`, or derived from `thing`."""
    if number == 1:
        return f"1 {thing}"
    regular = thing[:-1] + "ies" if thing.endswith("y") else thing + "s"
    return f"{number} {things or regular}"


def visible(text: str, *, lines: bool = False) -> str:
    r"""Replaces control characters, which affect terminals or browsers, by visible escapes such as `\x1b`.

    `lines`: whether line breaks stay.
    """

    def escaped(found: re.Match) -> str:
        mark = found[0]
        return mark if lines and mark == "\n" else mark.encode("unicode_escape").decode("ascii")

    return UNSEEN.sub(escaped, text)


def with_short_words(text: str, longest: int = 300) -> str:
    """Shortens words of more than `longest` characters, such as long paths, to their beginning and end."""
    half = longest // 2
    return re.sub(
        rf"\S{{{longest + 1},}}", lambda word: f"{word[0][:half]}...{word[0][-half:]}", text
    )


def slug(text: str, longest: int = 60) -> str:
    """A name of letters, digits, dots and hyphens made from a text: no path, not empty, at most `longest` characters.

    Accents are dropped, and all other characters become hyphens; different texts may give the same name.
    """
    plain = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode("ascii")
    name = re.sub(r"[^A-Za-z0-9.]+", "-", plain)
    return name[:longest].strip("-.") or "unnamed"


def cell(text: str) -> str:
    """Text for a CSV file that spreadsheets do not evaluate as a formula: an apostrophe precedes `=`, `+`, `-` and `@`."""
    return f"'{visible(text)}" if text.startswith(FORMULA) else visible(text)


def uncell(text: str) -> str:
    """The inverse of `cell`."""
    return text[1:] if text[:1] == "'" and text[1:].startswith(FORMULA) else text
