"""A form of `equinox.filter_jit` that compares functions and objects among the arguments by their content.

A new function with the same code and the same captured values needs no new program; a change inside of an object does.
"""

import functools
import gc
import threading
import types
import warnings
import weakref
from collections import Counter, OrderedDict, defaultdict
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple, ParamSpec, TypeVar, cast

import equinox as eqx
import jax
import jax.core
import numpy as np

from jaxhamel._content._memory import forgetting
from jaxhamel._content._walk import (
    ByIdentity,
    NoContent,
    Walk,
    changed_by_tracing,
    is_empty,
    is_users,
)

P = ParamSpec("P")
T = TypeVar("T")
KEPT_PROGRAMS = 256  # the most compiled programs that are kept of each function, one for each content of its arguments
MANY = 16  # a user's function that has been compiled for this many contents causes a warning
TOO_MANY = 32  # each time a user's function has been compiled for this many more contents, JAX's caches are cleared
_NUMBERS = (jax.Array, np.ndarray, np.generic, bool, int, float, complex, str, bytes, type(None))


def compiled(f: Callable[P, T], **options: Any) -> Callable[P, T]:
    """`equinox.filter_jit(f)`, traced again if the content of a function or object among the arguments has changed, and
    not traced again for a new function with the same content (`jaxhamel._content`).

    A program takes some 16 MiB. After `MANY` contents of one function a warning says how to need only one program. After
    each `TOO_MANY` contents JAX's caches are cleared: single programs cannot be removed from them.
    """
    shared = cast(Any, eqx.filter_jit)(_without_collections(f), **options)
    programs = _Programs(f, options, shared)
    is_ours = f.__module__.startswith(__name__.partition(".")[0])

    @functools.wraps(f)
    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        leaves, structure = jax.tree.flatten((args, kwargs))
        others = [i for i, x in enumerate(leaves) if not isinstance(x, _NUMBERS)]
        # The keys of JAX's cache of traces contain the mesh of devices. JAX lowers under an empty mesh, which as a key is
        # not the same as no mesh: programs traced to be inspected (`lanes`, `AutoAdjoint`) would be traced once more.
        with jax.sharding.use_abstract_mesh(jax.sharding.get_abstract_mesh()):
            if not others and is_ours and _is_plain(structure):
                return shared(*args, **kwargs)
            return programs.run(leaves, structure, others)

    _ALL[call] = programs
    return cast(Callable[P, T], call)


def _without_collections(f: Callable[P, T]) -> Callable[P, T]:
    """A new function like f, which JAX calls to trace it."""

    @functools.wraps(f)
    def traced(*args: P.args, **kwargs: P.kwargs) -> T:
        with without_collections():
            return f(*args, **kwargs)

    return traced


@contextmanager
def without_collections() -> Iterator[None]:
    """Python's garbage collector waits meanwhile: it would take a fifth of the time in which JAX traces a program
    (docs/performance.md#first-call-of-optimal-control).
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def compile_ahead(f: Callable[..., Any], *args: Any) -> None:
    """Compiles a function made by `compiled` for arguments like these, so that the next call with such arguments does not.

    With functions or objects of the user's among the arguments it compiles nothing: a call traces these by their content.
    """
    leaves, structure = jax.tree.flatten((args, {}))
    if not all(isinstance(x, _NUMBERS) for x in leaves) or not _is_plain(structure):
        return
    with jax.sharding.use_abstract_mesh(jax.sharding.get_abstract_mesh()):
        _ALL[f].shared.lower(*args).compile()


def compilations(f: Callable[..., Any]) -> int:
    """The number of compiled programs that JAX's cache holds of a function made by `compiled`."""
    return sum(each._cached._cache_size() for each in _ALL[f].all_programs())


def content_of(arguments: Any) -> Hashable:
    """The content of functions and objects among the arguments and in static fields of their structure.

    None if there are no functions or objects, or if the content of one of them cannot be determined.
    """
    walk = walk_of(arguments)
    return None if walk is None or walk.has_tracer else walk.found


def walk_of(arguments: Any) -> Walk | None:
    """The walk over the functions and objects among the arguments that has found their content; None as `content_of`."""
    leaves, structure = jax.tree.flatten(arguments)
    others = [x for x in leaves if not isinstance(x, _NUMBERS)]
    return None if not others and _is_plain(structure) else _walked(None, others, structure)


def _walked(f: Any, others: Any, structure: Any) -> Walk | None:
    """The walk over f, the objects `others` and the static fields of `structure`; None if a content is not determined."""
    walk, nodes = Walk(), _nodes(structure)
    static = (part for node in nodes.others for part in node)
    try:
        walk.found = nodes.plain, walk.of_each((f, *others, *static))
    except (NoContent, RecursionError):
        return None
    return walk


class _Program(NamedTuple):
    """A compiled function, with the functions and objects among the arguments of its first call, and their structure."""

    run: Callable[..., Any]
    others: tuple[Any, ...]
    structure: Any


class _Programs:
    """The latest compiled programs of one function, by the content of the arguments."""

    def __init__(self, f: Callable[..., Any], options: dict[str, Any], shared: Any):
        self.f, self.options, self.shared = f, options, shared
        self.kept: OrderedDict[Hashable, _Program] = OrderedDict()
        self.counts: Counter = Counter()  # compilations, by the place of a user's function
        self.contents: defaultdict[str, set[Hashable]] = defaultdict(set)  # of this function
        self.lock = threading.Lock()

    def all_programs(self) -> list[Any]:
        kept = {id(program.run): program.run for program in self.kept.values()}
        return list(({id(self.shared): self.shared} | kept).values())

    def run(self, leaves, structure, others):
        """Runs the program kept for the content of the functions and objects `others`, or compiles a new one."""
        given = tuple(leaves[i] for i in others)
        walk = _walked(self.f, given, structure)
        if walk is None:
            args, kwargs = jax.tree.unflatten(structure, leaves)
            return self.shared(*args, **kwargs)
        key = tuple(others), len(leaves), walk.found
        with self.lock:
            program = None if walk.has_tracer else self.kept.get(key)
            if program is not None:
                self.kept.move_to_end(key)
        if program is None:
            run = self.shared if walk.has_tracer else self._new()
            with forgetting():
                return self._first(key[:2], leaves, _Program(run, given, structure))
        for i, x in zip(others, program.others, strict=True):
            leaves[i] = x
        args, kwargs = jax.tree.unflatten(program.structure, leaves)
        return program.run(*args, **kwargs)

    def _new(self) -> Callable[..., Any]:
        return cast(Any, eqx.filter_jit)(_without_collections(self.f), **self.options)

    def _first(self, kind, leaves, program):
        """The first call of a program: keeps it by the content of its arguments, before and after tracing."""
        before = _walked(self.f, program.others, program.structure)
        if not _is_tracing():  # within a trace the function becomes a part of the traced program
            self._count(program.others)
        args, kwargs = jax.tree.unflatten(program.structure, leaves)
        found = program.run(*args, **kwargs)
        after = _walked(self.f, program.others, program.structure)
        if before is not None and after is not None:
            changed_by_tracing(before, after)
        now = _walked(self.f, program.others, program.structure)  # as the next call will find it
        with self.lock:
            for each in (before, now):
                if each is not None and not each.has_tracer:
                    self.kept[*kind, each.found] = program
            while len(self.kept) > KEPT_PROGRAMS:
                self.kept.popitem(last=False)
        return found

    def _count(self, given) -> None:
        """Warns of functions that are compiled for many contents, and clears JAX's caches to bound their memory."""
        for function in given:
            where = _place_of_function(function)
            if where is None:
                continue
            self.counts[where] += 1
            if where not in _WARNED and self._has_many_contents(where, function):
                _WARNED.add(where)
                warnings.warn(_ADVICE.format(where=where, many=MANY), stacklevel=5)
            if self.counts[where] % TOO_MANY == 0:
                _forget_all()

    def _has_many_contents(self, where: str, function: Any) -> bool:
        """Whether the function was compiled for `MANY` contents of its own, whatever the other arguments were."""
        known = self.contents[where]
        content = content_of((function,))
        known.add(len(known) if content is None else content)
        return len(known) >= MANY


_WARNED: set[str] = set()
_ALL: weakref.WeakKeyDictionary[Any, _Programs] = weakref.WeakKeyDictionary()


def _forget_all() -> None:
    for programs in _ALL.values():
        programs.kept.clear()
    _NODES.clear()
    eqx.clear_caches()
    jax.clear_caches()


def _is_tracing() -> bool:
    return isinstance(jax.numpy.negative(np.float32(0)), jax.core.Tracer)


_ADVICE = (
    "{where} has been compiled {many} times, because each time it refers to other values. That takes seconds and "
    "megabytes each time. Make it an equinox.Module, or jax.tree_util.Partial(function, values), with the values as "
    "JAX arrays: other values then compile nothing."
)


def _place_of_function(function: Any) -> str | None:
    """Text that names a function of the user's with its line, or an object by the user's class; None for all others."""
    code = getattr(function, "__code__", None)
    if isinstance(code, types.CodeType) and is_users(function):
        return (
            f"The function {function.__name__} (line {code.co_firstlineno} of {code.co_filename})"
        )
    return f"An object of class {type(function).__name__}" if is_users(type(function)) else None


class _Nodes(NamedTuple):
    """The nodes of a pytree: the content of nodes without functions and objects, and the data of the other nodes."""

    plain: tuple[Hashable, ...]
    others: tuple[tuple[Any, Any], ...]


_NODES: dict[Any, _Nodes] = {}


def _is_plain(structure) -> bool:
    """Whether a pytree has no class of the user's, and no function or object in a static field."""
    return not _nodes(structure).others


def _nodes(structure) -> _Nodes:
    found = _NODES.get(structure)
    if found is None:
        if len(_NODES) >= 1024:
            _NODES.clear()
        found = _NODES[structure] = _sorted_out(structure)
    return found


def _sorted_out(structure) -> _Nodes:
    """Divides the nodes of a pytree as `_Nodes` describes."""
    walk, pending = Walk(), [structure]
    plain: list[Hashable] = []
    others: list[tuple[Any, Any]] = []
    while pending:
        node = pending.pop()
        data, children = node.node_data(), node.children()
        if data is None:
            plain.append(None)
        elif is_users(data[0]) or not _is_plain_value(data[1]):
            plain.append(len(children))
            others.append(data)
        else:
            plain.append((ByIdentity(data[0]), walk.of(data[1]), len(children)))
        pending += children
    return _Nodes(tuple(plain), tuple(others))


def _is_plain_value(value: Any) -> bool:
    if isinstance(value, tuple | list | frozenset):
        return all(map(_is_plain_value, value))
    if isinstance(value, dict):
        return all(map(_is_plain_value, value.values()))
    if isinstance(value, _NUMBERS):
        return True
    if isinstance(value, jax.tree_util.PyTreeDef):
        return _is_plain(value)
    if isinstance(value, type | types.FunctionType):
        return not is_users(value) and getattr(value, "__closure__", None) is None
    return not is_users(type(value)) and is_empty(value)
