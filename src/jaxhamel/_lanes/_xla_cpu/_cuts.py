"""Makes XLA compute a shared value once; otherwise XLA computes it again in every fusion that uses it."""

from collections import Counter

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxhamel._lanes._graph._elementwise import scalar
from jaxhamel._lanes._graph._graph import Graph

# A value that is used more than once is stored if recomputing it takes more operations than this.
CUT_ABOVE = 30


def shared_values(graph: Graph, outputs: list[int], above: float = CUT_ABOVE) -> set[int]:
    """The nodes to store: in double precision, different in each lane, used at least twice, and costly to recompute."""
    needed = graph.needed(outputs)
    uses = Counter(outputs)
    for i in needed:
        uses.update(set(graph.nodes[i].operands))
    kept, cost = set(), {}
    for i in needed:
        node = graph.nodes[i]
        cost[i] = _cost_of_node(node, cost)
        if uses[i] > 1 and cost[i] > above and node.batched and node.dtype == np.float64:
            kept.add(i)
            cost[i] = 0
    return kept


def _cost_of_node(node, cost) -> int:
    record = scalar(node)
    if record is None or not record.repeated:
        return 0
    return record.repeated + sum(cost[i] for i in node.operands)


def one_at_run_time(x):
    """The constant 1.0, hidden from XLA's constant folding as `where(x[0] < -inf, 2, 1)`.

    With several devices each lane tests its own entry, so that none has to fetch `x[0]` from another device.
    """
    several = jax.device_count() > 1
    asked = lax.stop_gradient(x if several else jnp.ravel(x)[:1]).astype(np.float64)
    never = asked < -np.inf if several else jnp.squeeze(asked < -np.inf, axis=0)
    return jnp.where(never, np.float64(2.0), np.float64(1.0))
