"""Divides a program of many vectors into programs of fewer, each of which computes a part of the results.

LLVM does not vectorise a loop that reads and writes more than `MOST_VECTORS` vectors: the analysis of its memory accesses
treats all of them as one set beyond 250. Such a loop takes about six times as long. In a lattice of masses each result
depends on few of the inputs, so that programs of few results read few vectors. Operations that several of them need are
repeated. Timings: docs/performance.md#many-vectors.
"""

from jaxhamel._lanes._xla_cpu._pieces import MOST_VECTORS, Split, total

# A program stays whole if its parts would have more than this multiple of its operations in all. Dividing it would gain
# nothing then: a loop that is not vectorised takes about this multiple of the time.
MOST_REPEATED = 4


def with_fewer_vectors(graph, parts: Split) -> list[Split]:
    """Divides a program into parts that read and write at most `MOST_VECTORS` vectors each.

    Results each of which needs too many inputs form one more part. The program stays whole if its vectors are few enough,
    or if its parts would repeat too many operations.
    """
    own = [i for i in parts.given if graph.nodes[i].batched]
    if len(own) + len(parts.results) <= MOST_VECTORS:
        return [parts]
    read = _inputs_read(graph, parts, own)
    groups = _grouped(parts.results, read, len(parts.results))
    equal = _grouped(parts.results, read, -(-len(parts.results) // len(groups)))
    found = [[_of_results(graph, parts, results) for results in each] for each in (groups, equal)]
    best = min(found, key=lambda each: _operations(graph, each))
    most = MOST_REPEATED * _operations(graph, [parts])
    return best if _operations(graph, best) <= most else [parts]


def _operations(graph, found: list[Split]) -> int:
    return sum(total(graph, part.inside) for part in found)


def _inputs_read(graph, parts: Split, own: list[int]) -> dict[int, int]:
    """For each node the inputs `own` on which it depends, as the bits of a number."""
    read = {i: 1 << n for n, i in enumerate(own)}
    for i in parts.inside:
        bits = 0
        for j in graph.nodes[i].operands:
            bits |= read.get(j, 0)
        read[i] = bits
    return read


def _grouped(results: list[int], read: dict[int, int], most: int) -> list[list[int]]:
    """Groups of up to `most` results that need few inputs; results that need too many each are one group, the last."""
    wide = {i for i in results if read[i].bit_count() >= MOST_VECTORS}
    left, groups = [i for i in results if i not in wide], []
    while left:
        groups.append(_group(left, read, most))
        left = [i for i in left if i not in set(groups[-1])]
    return [*groups, [i for i in results if i in wide]] if wide else groups


def _group(results: list[int], read: dict[int, int], most: int) -> list[int]:
    """The first result and those that need the fewest further inputs, as long as all vectors are few enough."""
    left, group, inputs = list(results), [], 0
    while left and len(group) < most:
        best = min(left, key=lambda i: (inputs | read[i]).bit_count())
        if (inputs | read[best]).bit_count() + len(group) + 1 > MOST_VECTORS:
            break
        left.remove(best)
        group.append(best)
        inputs |= read[best]
    return group


def _of_results(graph, parts: Split, results: list[int]) -> Split:
    """The part of a program on which some of its results depend.

    Its inputs are those that its own operations read: XLA ends with an error at a fusion that does not read one of its
    inputs, such as a number that only the prologue reads.
    """
    needed = set(graph.needed(results))
    inside = [i for i in parts.inside if i in needed]
    used = {j for i in inside for j in graph.nodes[i].operands}
    given = [i for i in parts.given if i in used]
    return parts._replace(inside=inside, given=given, results=results)
