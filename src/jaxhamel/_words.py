"""Words for numbers of things."""


def counted(number: int, thing: str, things: str | None = None) -> str:
    """ "1 trajectory", "2 trajectories": the plural is `things`, or made of the word."""
    if number == 1:
        return f"1 {thing}"
    regular = thing[:-1] + "ies" if thing.endswith("y") else thing + "s"
    return f"{number} {things or regular}"
