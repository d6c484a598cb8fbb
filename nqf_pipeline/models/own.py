"""Modules that users bring: found by `file.py:name`, and brought into the form apply(W, x).

Loading a module runs the user's file. Three kinds are understood:

- a plain function apply(W, x), W of shape (unit_size, width), x one input;
- an Equinox or Flax nnx module, called with x (anything callable whose leaves are arrays);
- a Flax linen module, called by its `apply`.

Where parameters come as several arrays, each must have exactly one axis as long as the width: it counts the units. With that axis last,
the arrays are stacked, in the order of JAX's leaves, into W.
"""

from __future__ import annotations

import hashlib
import importlib.util
import inspect
import math
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from types import ModuleType
from typing import Any

import lazy_loader
import numpy as np

from nqf_pipeline.errors import InputError
from nqf_pipeline.forms.calling import Module, explain, foreign

Array = Any
jax = lazy_loader.load("jax")


def split(target: str) -> tuple[Path, str]:
    """(file, name) of `file.py:name`."""
    file, _, name = target.rpartition(":")
    if not file or not name.isidentifier():
        raise InputError(f"{target}: a module of your own is named `file.py:name`, for example my_model.py:block")
    return Path(file), name


def fingerprint(target: str) -> str:
    """Hash of the file's bytes and of the name in it: other code is another architecture, wherever the file lies."""
    file, name = split(target)
    return hashlib.sha256(_read(file) + b":" + name.encode()).hexdigest()


def load(target: str, shape: tuple[int, int], input_shape: tuple[int, ...]) -> Module:
    """The module as apply(W, x) for W of this shape and one input of that shape. Runs the user's file."""
    return _loaded(target, fingerprint(target), shape, input_shape)


@lru_cache(maxsize=64)
def _loaded(target: str, contents: str, shape: tuple[int, int], input_shape: tuple[int, ...]) -> Module:
    """One function object for equal contents, so that what JAX compiled for it is found again."""
    file, name = split(target)
    namespace = _run(file)
    if not hasattr(namespace, name):
        raise InputError(f"{target}: {file.name} defines no `{name}`{_nearest(namespace, name)}")
    found = getattr(namespace, name)
    if _is_flax(found):
        return _from_flax(found, target, shape, input_shape)
    if not inspect.isfunction(found) and callable(found) and any(_is_parameter(leaf) for leaf in jax.tree.leaves(found)):
        return _from_leaves(found, target, shape)
    return _function(found, target)


def _read(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        raise InputError(f"{file}: cannot read the module's file ({error.strerror or error}): check the path") from error


def _run(file: Path) -> ModuleType:
    """Execute the file as a module; it may import what lies beside it."""
    spec = importlib.util.spec_from_file_location(f"nqf_own_{hashlib.sha256(str(file.resolve()).encode()).hexdigest()[:12]}", file)
    if spec is None or spec.loader is None:
        raise InputError(f"{file}: not a Python file; its name must end with .py")
    namespace = importlib.util.module_from_spec(spec)
    with _beside(file):
        sys.modules[spec.name] = namespace
        try:
            spec.loader.exec_module(namespace)
        except Exception as error:
            raise InputError(f"{file}: the file cannot be run: {type(error).__name__}: {error}") from error
    return namespace


@contextmanager
def _beside(file: Path) -> Iterator[None]:
    folder = str(file.resolve().parent)
    sys.path.insert(0, folder)
    try:
        yield
    finally:
        sys.path.remove(folder)


def _nearest(namespace: ModuleType, name: str) -> str:
    names = [key for key, value in vars(namespace).items() if callable(value) and not key.startswith("_")]
    near = get_close_matches(name, names, n=1)
    if near:
        return f"; did you mean `{near[0]}`?"
    return f"; it defines {', '.join(sorted(names))}" if names else ""


def _function(found: Any, target: str) -> Module:
    if not callable(found):
        raise InputError(f"{target} is a {type(found).__name__}, not a function apply(W, x) or a module that can be called")
    try:
        inspect.signature(found).bind(None, None)
    except TypeError as error:
        raise InputError(
            f"{target} cannot be called as apply(W, x): {error}. A module takes the weights W and one input x; give a random key or other "
            "arguments a fixed value, for example with functools.partial"
        ) from error
    except ValueError:
        pass  # built in C: no signature to look at
    result: Module = found
    return result


def _is_parameter(leaf: Any) -> bool:
    return hasattr(leaf, "dtype") and hasattr(leaf, "shape") and np.issubdtype(leaf.dtype, np.floating)


def _from_leaves(module: Any, target: str, shape: tuple[int, int]) -> Module:
    """A callable tree of arrays (Equinox)."""
    leaves, tree = jax.tree.flatten(module)
    at = [i for i, leaf in enumerate(leaves) if _is_parameter(leaf)]
    unstack = _unstacker([leaves[i].shape for i in at], target, shape)

    def apply(weights: Array, x: Array) -> Array:
        filled = list(leaves)
        for i, leaf in zip(at, unstack(weights), strict=True):
            filled[i] = leaf
        return jax.tree.unflatten(tree, filled)(x)

    return apply


def _is_flax(found: Any) -> bool:
    linen = sys.modules.get("flax.linen")
    return linen is not None and isinstance(found, linen.Module)


def _from_flax(module: Any, target: str, shape: tuple[int, int], input_shape: tuple[int, ...]) -> Module:
    """A Flax linen module: parameters have the shapes that its `init` gives."""
    with foreign(f"{target}: init with one input of shape {input_shape}"):
        abstract = jax.eval_shape(module.init, jax.random.key(0), jax.ShapeDtypeStruct(input_shape, np.float64))
    leaves, tree = jax.tree.flatten(abstract)
    unstack = _unstacker([leaf.shape for leaf in leaves], target, shape)

    def apply(weights: Array, x: Array) -> Array:
        return module.apply(jax.tree.unflatten(tree, unstack(weights)), x)

    return apply


def _unstacker(shapes: list[tuple[int, ...]], target: str, shape: tuple[int, int]) -> Callable[[Array], list[Array]]:
    """From W back to the parameter arrays. Raises InputError where an array has no axis of units, or two."""
    unit_size, width = shape
    axes = []
    for each in shapes:
        found = [axis for axis, length in enumerate(each) if length == width]
        if len(found) != 1:
            raise InputError(
                f"{target}: a parameter array of shape {tuple(each)} has {len(found) or 'no'} axes of length width = {width}, so "
                "nothing says which of its entries belong to which unit; every array needs exactly one (leave out biases that belong to no "
                "unit, choose a width that no other size equals), or write the module as a function apply(W, x)"
            )
        axes.append(found[0])
    sizes = [math.prod(each) // width for each in shapes]
    if sum(sizes) != unit_size:
        raise InputError(f"{target}: its parameters make {sum(sizes)} numbers a unit, but unit_size = {unit_size}; set it to {sum(sizes)}")
    stops = np.cumsum([0, *sizes])

    def unstack(weights: Array) -> list[Array]:
        parts = (weights[start:stop] for start, stop in pairwise(stops))
        rest = [(*each[:axis], *each[axis + 1 :]) for each, axis in zip(shapes, axes, strict=True)]
        return [jax.numpy.moveaxis(part.reshape(*r, width), -1, axis) for part, r, axis in zip(parts, rest, axes, strict=True)]

    return unstack


__all__ = ["explain", "fingerprint", "load", "split"]
