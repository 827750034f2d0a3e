"""The content of functions and objects: code and values that determine their results, as far as Python shows them.

JAX compiles a program once for each *identity* of the functions and objects it is given. For JAX a function stays the same
if its globals, its closure or its object change, and a `lambda` that is evaluated again is another function. `content` is a
key that is right in both cases.
"""

import contextlib
import hashlib
import types
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import Any

from jaxhamel._content._kinds import HOW, how_to_find, is_installed, is_users, sorted_names
from jaxhamel._content._memory import MEMORY, KnownContent

MOST_OBJECTS = 20_000  # the most objects in one walk
# attributes of a class that affect no result
_DESCRIPTIONS = {
    *("__doc__", "__module__", "__qualname__", "__dict__", "__weakref__", "__annotations__", "__parameters__"),
    *("__dataclass_fields__", "__dataclass_params__", "__match_args__", "__abstractmethods__", "__firstlineno__"),
    *("__static_attributes__", "__annotations_cache__", "__annotate_func__", "_abc_impl", "__orig_bases__"),
    *("__repr__", "__str__", "__eq__", "__hash__", "__setattr__", "__delattr__", "__replace__"),
}  # fmt: skip


class NoContent(Exception):
    """The content is not available: it contains a tracer, which must not outlive its trace, or too many objects."""


class ByIdentity:
    """Equal only to itself. The object is kept alive, so that no other can get its `id`."""

    __slots__ = ("value",)

    def __init__(self, value: Any):
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ByIdentity) and self.value is other.value

    def __hash__(self) -> int:
        return id(self.value)


def content(value: Any) -> Hashable:
    """A key such that functions and objects with equal keys give equal results:

    - numbers, strings, NumPy arrays, tuples, lists, dicts, sets: their values;
    - functions: bytecode, defaults, and the content of their closure and of the globals that they name;
    - other objects: their identity, and the content of their fields and of their class;
    - JAX arrays, modules, and everything that is written in an installed package or in C: identity.

    **Raises:** `NoContent` for functions and objects that hold a tracer, or more than `MOST_OBJECTS` objects.

    State that Python does not show (files, memory of C code, a generator's position) is not part of the key.
    """
    walk = Walk()
    found = walk.of(value)
    if walk.has_tracer:
        raise NoContent
    return found


def cells_with_values(cells: tuple[Any, ...] | None) -> Iterator[Any]:
    """The cells of a closure that have a value; a cell has none before its variable is defined."""
    for cell in cells or ():
        try:
            _ = cell.cell_contents
        except ValueError:
            continue
        yield cell


class Walk:
    """Walks over all objects to which some values refer, and finds their content.

    An object that was met before on the way from the same value is represented by its number. A *place* is a container, a
    cell of a closure, or a variable of a module or class: a trace may change the object that is there.
    """

    def __init__(self):
        self.found: Hashable = None  # the content of all values, set by the caller
        self.has_tracer = False
        self.places: dict[Hashable, Hashable] = {}  # the content at each place
        self.within: dict[Hashable, set[Hashable]] = {}  # for each place, the places inside it
        self._inside: set[Hashable] = set()  # the places inside the one that is being walked over
        self.holders: list[Any] = []  # kept alive, since `places` has their ids
        self._seen: dict[
            int, int
        ] = {}  # the number of each object on the way from one value, by id

    def of_each(self, values: Iterable[Any]) -> tuple[Hashable, ...]:
        """The content of each value, independent of the others; within a `remembered` function it is found only once."""
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
        """The content of a value; `names`: all names in the function that refers to it."""
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
            case "identity":
                return ByIdentity(value)
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
        """The content at one place, by `find`; a fixed text if a trace has changed this place before.

        `holder`: the object whose id is in `place`.
        """
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
                return ByIdentity(value), self._of_module(value, names)
            case "class":
                return self._of_class(value)
            case "container":
                return self._at(id(value), value, lambda: self._of_container(value))
            case "static method":
                return type(value), self.of(value.__func__)
            case "property":
                return self._all((value.fget, value.fset))
            case "opaque":
                return ByIdentity(value), self.of(
                    getattr(value, "__wrapped__", None)
                )  # of `jax.jit`
        return ByIdentity(value), self.of(type(value)), self._all(_fields(value))

    def _of_foreign(self, f: types.FunctionType) -> Hashable:
        """The content of a function of another package: its identity and its closure (`jax.vmap(f)` has f there)."""
        return ByIdentity(f), tuple(
            self.of(cell.cell_contents) for cell in cells_with_values(f.__closure__)
        )

    def _of_function(self, f: types.FunctionType) -> Hashable:
        names, known = sorted_names(f.__code__), f.__globals__
        used = frozenset(names)
        cells = tuple(
            self._at(id(cell), cell, lambda cell=cell: self.of(cell.cell_contents, used))
            for cell in cells_with_values(f.__closure__)
        )
        reached = tuple(
            self._at((id(known), name), known, lambda name=name: self.of(known[name], used))
            for name in names
            if name in known
        )
        return f.__code__, self._all((f.__defaults__, f.__kwdefaults__, f.__dict__)), cells, reached

    def _of_module(self, module: types.ModuleType, names: frozenset[str]) -> Hashable:
        """The content of those attributes of a user's module that the function may use."""
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
        return ByIdentity(kind), tuple(fields)

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
    """Whether a trace has changed the content of a place, from the walks before and after it.

    With a counter or list that it changes while it is traced, a function would have another content at each call. So from
    now on these places are not part of any content.
    """
    both = before.places.keys() & after.places.keys()
    found = [place for place in both if before.places[place] != after.places[place]]
    # a change inside a place is a change of all places around it, too; only the innermost one was written to
    inner = [place for place in found if not before.within[place] & set(found)]
    for place in inner:
        _CHANGED_BY_TRACING[place] = (before.holders, after.holders)
    return bool(found)


_CHANGED_BY_TRACING: dict[Hashable, Any] = {}


def _of_numbers(value: Any) -> Hashable:
    if value.dtype.hasobject:
        return ByIdentity(value)
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
