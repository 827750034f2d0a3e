"""The content of functions and objects: what they compute with, as far as Python shows it.

JAX compiles a function once for each *identity* of the functions and objects it is given. A function whose globals,
closure or object have changed is still the same to JAX, and a `lambda` written again is another one. `content` is a key
for both cases.
"""

import contextlib
import hashlib
import types
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import Any

from jaxhamel._content._kinds import HOW, how_to_find, is_installed, is_users, sorted_names
from jaxhamel._content._memory import MEMORY, KnownContent

MOST_OBJECTS = 20_000  # objects in one walk
# attributes of a class that no computation depends on
_DESCRIPTIONS = {
    *("__doc__", "__module__", "__qualname__", "__dict__", "__weakref__", "__annotations__", "__parameters__"),
    *("__dataclass_fields__", "__dataclass_params__", "__match_args__", "__abstractmethods__", "__firstlineno__"),
    *("__static_attributes__", "__annotations_cache__", "__annotate_func__", "_abc_impl", "__orig_bases__"),
    *("__repr__", "__str__", "__eq__", "__hash__", "__setattr__", "__delattr__", "__replace__"),
}  # fmt: skip


class NoContent(Exception):
    """A tracer is among the content, which belongs to a trace under way and must not be kept; or too many objects are."""


class Same:
    """Equal only to itself. The object is kept alive, so that no other can get its `id`."""

    __slots__ = ("value",)

    def __init__(self, value: Any):
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Same) and self.value is other.value

    def __hash__(self) -> int:
        return id(self.value)


def content(value: Any) -> Hashable:
    """A key: for equal keys, equal computations.

    - numbers, strings, NumPy arrays, tuples, lists, dicts, sets: their values;
    - functions: bytecode, defaults, and the content of closure and of the globals that they name;
    - other objects: their identity and the content of their fields and of their class;
    - JAX arrays, modules, whatever is written in an installed package or in C: identity.

    **Raises:** `NoContent` for functions and objects that hold a tracer, or more than `MOST_OBJECTS` objects.

    What Python does not show (files, state in C, a generator's position) is not part of it.
    """
    walk = Walk()
    found = walk.of(value)
    if walk.has_tracer:
        raise NoContent
    return found


def filled(cells: tuple[Any, ...] | None) -> Iterator[Any]:
    """The cells of a closure but those of functions that are defined later."""
    for cell in cells or ():
        try:
            _ = cell.cell_contents
        except ValueError:
            continue
        yield cell


class Walk:
    """One walk over all that some values refer to. An object met again from the same value counts by its number.

    `places`: the content of every container, cell and global that was met, by the place where it stands.
    """

    def __init__(self):
        self.found: Hashable = None  # the content of all that was walked over
        self.has_tracer = False
        self.places: dict[Hashable, Hashable] = {}
        self.within: dict[Hashable, set[Hashable]] = {}  # the places inside each of them
        self._inside: set[Hashable] = set()
        self.holders: list[Any] = []  # alive as long as `places` has their ids
        self._seen: dict[int, int] = {}

    def of_each(self, values: Iterable[Any]) -> tuple[Hashable, ...]:
        """The content of each value, whatever the others are; within a `remembered` function it is found once only."""
        return tuple(map(self._of_one, values))

    def _of_one(self, value: Any) -> Hashable:
        known = MEMORY.known
        if known is not None and (found := known.get(id(value))) is not None:
            self.has_tracer |= found.has_tracer
            return found.content
        before, self.has_tracer = self.has_tracer, False
        self._seen = {}
        content = self.of(value)
        if known is not None:
            known[id(value)] = KnownContent(value, content, self.has_tracer)
        self.has_tracer |= before
        return content

    def of(self, value: Any, names: frozenset[str] = frozenset()) -> Hashable:
        """`names`: the names that the function which refers to `value` uses."""
        kind = type(value)
        how = HOW.get(kind) or how_to_find(value)
        match how:
            case "value":
                return kind, value
            case "float":
                return kind, repr(value)  # 0.0 is not -0.0, NaN is NaN
            case "tracer":
                self.has_tracer = True
                return "tracer"
            case "same":
                return Same(value)
            case "numbers":
                return _of_numbers(value)
        if id(value) in self._seen:
            return "again", self._seen[id(value)]
        if len(self._seen) >= MOST_OBJECTS:
            raise NoContent
        self._seen[id(value)] = len(self._seen)
        self.holders.append(value)
        return self._of_object(how, value, names)

    def _all(self, values: Any) -> tuple[Hashable, ...]:
        return tuple(map(self.of, values))

    def _at(self, place: Hashable, holder: Any, find: Callable[[], Hashable]) -> Hashable:
        """The content of one place; nothing, if tracing has been seen to change it."""
        if place in _CHANGED_BY_TRACING:
            return "changed by tracing"
        self.holders.append(holder)
        outer, self._inside = self._inside, set()
        found = self.places[place] = find()
        self.within[place] = self._inside
        self._inside = outer | self._inside | {place}
        return found

    def _of_object(self, how: str, value: Any, names: frozenset[str]) -> Hashable:
        match how:
            case "function":
                return self._of_function(value) if is_users(value) else self._of_foreign(value)
            case "method":
                return "method", self.of(value.__func__), self.of(value.__self__)
            case "partial":
                return "partial", self._all((value.func, value.args, value.keywords))
            case "module":
                return Same(value), self._of_module(value, names)
            case "class":
                return self._of_class(value)
            case "container":
                return self._at(id(value), value, lambda: self._of_container(value))
            case "static method":
                return type(value), self.of(value.__func__)
            case "property":
                return self._all((value.fget, value.fset))
            case "opaque":
                return Same(value), self.of(getattr(value, "__wrapped__", None))  # of `jax.jit`
        return Same(value), self.of(type(value)), self._all(_fields(value))

    def _of_foreign(self, f: types.FunctionType) -> Hashable:
        """A function of another package: `jax.vmap(f)` has f in its closure."""
        return Same(f), tuple(self.of(cell.cell_contents) for cell in filled(f.__closure__))

    def _of_function(self, f: types.FunctionType) -> Hashable:
        names, known = sorted_names(f.__code__), f.__globals__
        used = frozenset(names)
        cells = tuple(
            self._at(id(cell), cell, lambda cell=cell: self.of(cell.cell_contents, used))
            for cell in filled(f.__closure__)
        )
        reached = tuple(
            self._at((id(known), name), known, lambda name=name: self.of(known[name], used))
            for name in names
            if name in known
        )
        return f.__code__, self._all((f.__defaults__, f.__kwdefaults__, f.__dict__)), cells, reached

    def _of_module(self, module: types.ModuleType, names: frozenset[str]) -> Hashable:
        """The attributes that a function may take from a module of the user's own."""
        if is_installed(module.__name__):
            return ()
        found = vars(module)
        return tuple(
            self._at((id(found), name), found, lambda name=name: self.of(found[name], names))
            for name in sorted(names)
            if name in found
        )

    def _of_class(self, kind: type) -> Hashable:
        fields = (
            (name, self._at((id(base), name), base, lambda x=x: self.of(x)))
            for base in kind.__mro__
            if is_users(base)
            for name, x in list(vars(base).items())
            if name not in _DESCRIPTIONS
        )
        return Same(kind), tuple(fields)

    def _of_container(self, value: Any) -> Hashable:
        if isinstance(value, dict):
            inner: Any = tuple((self.of(k), self.of(x)) for k, x in list(value.items()))
        elif isinstance(value, set | frozenset):
            inner = frozenset(map(self.of, value))
        else:
            inner = self._all(value)
        if type(value) in (dict, list, tuple, set, frozenset, deque, bytearray):
            return type(value), inner
        return self.of(type(value)), inner, self._all(_fields(value))


def changed_by_tracing(before: Walk, after: Walk) -> bool:
    """A counter or list that a function changes while it is traced would make another function of it at each call: from
    now on these places are not part of any content. Whether there is such a place."""
    both = before.places.keys() & after.places.keys()
    found = [place for place in both if before.places[place] != after.places[place]]
    # a place within another changes both; only the innermost has been written to
    inner = [place for place in found if not before.within[place] & set(found)]
    for place in inner:
        _CHANGED_BY_TRACING[place] = (before.holders, after.holders)
    return bool(found)


_CHANGED_BY_TRACING: dict[Hashable, Any] = {}


def _of_numbers(value: Any) -> Hashable:
    if value.dtype.hasobject:
        return Same(value)
    return type(value), value.dtype, value.shape, hashlib.blake2b(value.tobytes()).digest()


def is_empty(value: Any) -> bool:
    """Whether an object has no fields."""
    return all(x is None or (isinstance(x, dict) and not x) for x in _fields(value))


def _fields(value: Any) -> Iterator[Any]:
    with contextlib.suppress(AttributeError):
        yield object.__getattribute__(value, "__dict__")
    for base in type(value).__mro__:
        slots = vars(base).get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            if name not in ("__dict__", "__weakref__"):
                yield getattr(value, name, None)
