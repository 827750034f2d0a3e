"""The report of `python -m tests.n_version` as tables in Markdown."""

from collections import defaultdict


def table(rows):
    """A line for each version: the number of systems on which it was compared, and the largest difference."""
    systems, largest, wrong = defaultdict(int), defaultdict(float), defaultdict(int)
    for row in rows:
        for name, value in row["largest"].items():
            systems[name] += row["systems"]
            largest[name] = max(largest[name], value)
            wrong[name] += len(row["disagree"].get(name, ()))
    head = ["| version | systems | largest difference | disagreements |", "|---|---|---|---|"]
    body = [f"| {x} | {systems[x]:,} | {largest[x]:.1e} | {wrong[x]} |" for x in systems]
    return "\n".join([*_drawn(rows), "", *head, *body])


def _drawn(rows):
    total = sum(row["systems"] for row in rows)
    sizes = [row["n"] for row in rows]
    condition = max(row["condition"] for row in rows)
    yield (
        f"{total:,} systems of {len(rows)} shapes, n = {min(sizes)} … {max(sizes)}, condition numbers up to "
        f"{condition:.0e}."
    )
    words = {f"{sum(row['m'] > 0 for row in rows)} with constraints": True}
    for word, meaning in _KINDS.items():
        words[f"{sum(word in row['kind'] for row in rows)} with {meaning}"] = True
    yield f"Of the shapes: {', '.join(words)}."


_KINDS = {
    "drift": "a drift (affine constraints)",
    "quartic": "a Lagrangian that is not quadratic",
    "prescribed": "prescribed motion",
    "bodies": "points and rotations",
    "force": "forces",
}
