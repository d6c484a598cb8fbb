"""Images of handwritten digits: those that scikit-learn ships, and a user's MNIST files in any of their usual forms."""

from __future__ import annotations

import gzip
import hashlib
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from nqf_pipeline.tasks.base import TaskError

Array = Any
SIDE = 8
_NUMBERS = {0x08: ">u1", 0x09: ">i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}
"""Third byte of an idx file: the type of its numbers, big-endian."""
_PARTS = {"train": ("train-images", "train-labels"), "test": ("t10k-images", "t10k-labels")}
_GIVE = (
    "give the folder with train-images-idx3-ubyte and train-labels-idx1-ubyte (each plain or .gz), the path of such a file of images with "
    "its labels beside it, or a .npz file with x_train and y_train"
)


@dataclass(frozen=True)
class Images:
    """Training images with their digits, and test images where the files have their own."""

    train: Float[Array, "images rows columns"]
    digits: Int[Array, "images"]
    test: Float[Array, "test_images rows columns"] | None = None
    test_digits: Int[Array, "test_images"] | None = None

    @property
    def shape(self) -> tuple[int, int]:
        return int(self.train.shape[1]), int(self.train.shape[2])


@cache
def packaged() -> Images:
    """The 1797 images of 8 x 8 pixels that `sklearn.datasets.load_digits` gives.

    Read from their data file, because importing sklearn.datasets takes a second that planning must not pay.
    """
    package = find_spec("sklearn")
    if package is None or package.origin is None:
        raise TaskError("task digits reads the images that scikit-learn ships, and it is not installed; install scikit-learn")
    table = np.loadtxt(Path(package.origin).parent / "datasets" / "data" / "digits.csv.gz", delimiter=",")
    return Images(table[:, :-1].reshape(-1, SIDE, SIDE), table[:, -1].astype(int))


def files_of(path: str) -> list[Path]:
    """The files that a path stands for: the .npz, or images and labels. Raises TaskError where one is absent."""
    found = Path(path).expanduser()
    if found.is_dir():
        train, test = (_pair(found, part) for part in ("train", "test"))
        if train is None:
            raise TaskError(f"task digits, {path}: the folder holds no MNIST training images; {_GIVE}")
        return [*train, *(test or [])]
    if not found.is_file():
        raise TaskError(f"task digits, {path}: does not exist (looked for {found.absolute()}); {_GIVE}")
    if found.suffix == ".npz":
        return [found]
    labels = found.with_name(found.name.replace("images", "labels").replace("idx3", "idx1"))
    if labels == found or not labels.is_file():
        raise TaskError(f"task digits, {path}: no labels beside this file of images ({labels.name}); {_GIVE}")
    return [found, labels]


def _pair(folder: Path, part: str) -> list[Path] | None:
    names = sorted(file.name for file in folder.iterdir() if file.is_file())
    chosen = [next((folder / name for name in names if name.startswith(stem)), None) for stem in _PARTS[part]]
    return None if None in chosen else [file for file in chosen if file is not None]


def fingerprint(path: str) -> str:
    """Hash of the contents of all files: other images are other data, whatever their names."""
    total = hashlib.sha256()
    for file in files_of(path):
        total.update(hashlib.sha256(file.read_bytes()).digest())
    return total.hexdigest()


def read_images(path: str) -> Images:
    """Images of a path (see `files_of`); read again only when a file has changed."""
    files = files_of(path)
    return _read(path, tuple((str(file), file.stat().st_mtime_ns, file.stat().st_size) for file in files))


@cache
def _read(path: str, files: Sequence[tuple[str, int, int]]) -> Images:
    paths = [Path(name) for name, _, _ in files]
    arrays = _read_npz(paths[0]) if paths[0].suffix == ".npz" else [read_idx(file) for file in paths]
    for images, labels in zip(arrays[::2], arrays[1::2], strict=True):
        _check(path, images, labels)
    return Images(*(array if i % 2 == 0 else array.astype(int) for i, array in enumerate(arrays)))


def read_idx(path: Path) -> Array:
    """One idx file, plain or gzipped: two zero bytes, the type, the number of dimensions, their sizes, the numbers (all big-endian)."""
    try:
        data = path.read_bytes()
        data = gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data
    except (OSError, EOFError, zlib.error) as error:
        raise TaskError(f"{path}: cannot be read ({error}); fetch the file again") from error
    if len(data) < 4 or data[:2] != b"\0\0" or data[2] not in _NUMBERS:
        raise TaskError(
            f"{path}: is not an idx file (it starts with {data[:4].hex() or 'nothing'}, and 0000 and a type are needed); {_GIVE}"
        )
    sizes = np.frombuffer(data, ">u4", min(data[3], (len(data) - 4) // 4), 4)
    start, number = 4 + 4 * data[3], np.dtype(_NUMBERS[data[2]])
    expected = start + int(np.prod(sizes.astype(object))) * number.itemsize
    if len(data) != expected:
        raise TaskError(f"{path}: {len(data)} bytes, but its header asks for {expected}: the file is cut off; fetch it again")
    return np.frombuffer(data, number, offset=start).reshape([int(size) for size in sizes])


def _read_npz(path: Path) -> list[Array]:
    """x_train, y_train (or x, y) and, where they are there, x_test, y_test."""
    try:
        with np.load(path, allow_pickle=False) as archive:
            names = [("x_train", "y_train"), ("x", "y"), ("x_test", "y_test")]
            pairs = [pair for pair in names if set(pair) <= set(archive.files)]
            if not pairs or pairs[0][0] == "x_test":
                raise TaskError(
                    f"task digits, {path}: has no x_train and y_train (it has {', '.join(archive.files) or 'nothing'}); {_GIVE}"
                )
            return [archive[name] for pair in [pairs[0], *(pair for pair in pairs[1:] if pair[0] == "x_test")] for name in pair]
    except (OSError, EOFError, ValueError) as error:
        if isinstance(error, TaskError):
            raise
        raise TaskError(f"task digits, {path}: is not a readable .npz archive ({error}); {_GIVE}") from error


def _check(path: str, images: Array, labels: Array) -> None:
    if images.ndim != 3 or images.dtype.kind not in "buif":
        raise TaskError(f"task digits, {path}: images of shape {images.shape}, and (images, rows, columns) of numbers is needed; {_GIVE}")
    if labels.shape != images.shape[:1]:
        raise TaskError(f"task digits, {path}: {len(images)} images but labels of shape {labels.shape}; give one digit for each image")
    if labels.dtype.kind not in "uif" or not np.isin(labels, np.arange(10)).all():
        raise TaskError(f"task digits, {path}: labels are not digits from 0 to 9 (they hold {np.unique(labels)[:4]}); {_GIVE}")
