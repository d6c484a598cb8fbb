"""MNIST files as people have them: idx, gzipped idx, a folder of either, an npz archive; and files that are none of these."""

from __future__ import annotations

import gzip
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nqf_pipeline.models import CNN, MLP, MultiHead
from nqf_pipeline.study.cells import Cell
from nqf_pipeline.tasks import Digits, TaskError
from nqf_pipeline.tasks.images import fingerprint, read_idx, read_images

TYPES = {"u1": 0x08, "i1": 0x09, ">i2": 0x0B, ">i4": 0x0C, ">f4": 0x0D, ">f8": 0x0E}
SIDES = (6, 5)
TRAIN, TEST = 40, 12


def idx(array: np.ndarray, kind: str = "u1") -> bytes:
    """The format as its authors describe it: magic number, sizes as big-endian integers, data in C order."""
    return struct.pack(f">BBBB{array.ndim}I", 0, 0, TYPES[kind], array.ndim, *array.shape) + array.astype(kind).tobytes()


@pytest.fixture
def arrays(rng: np.random.Generator) -> dict[str, np.ndarray]:
    return {
        "x_train": rng.integers(0, 256, (TRAIN, *SIDES)),
        "y_train": np.arange(TRAIN) % 10,
        "x_test": rng.integers(0, 256, (TEST, *SIDES)),
        "y_test": np.arange(TEST)[::-1] % 10,
    }


NAMES = {
    "x_train": "train-images-idx3-ubyte",
    "y_train": "train-labels-idx1-ubyte",
    "x_test": "t10k-images-idx3-ubyte",
    "y_test": "t10k-labels-idx1-ubyte",
}


def folder(path: Path, arrays: dict[str, np.ndarray], gzipped: bool = False) -> Path:
    for name, array in arrays.items():
        data = idx(array)
        (path / (NAMES[name] + ".gz" * gzipped)).write_bytes(gzip.compress(data) if gzipped else data)
    return path


def archive(path: Path, arrays: dict[str, np.ndarray]) -> Path:
    np.savez(path / "mnist.npz", **arrays)
    return path / "mnist.npz"


FORMS: dict[str, Callable[[Path, dict[str, np.ndarray]], Path]] = {
    "folder": folder,
    "gzipped folder": lambda path, arrays: folder(path, arrays, gzipped=True),
    "archive": archive,
    "file of images": lambda path, arrays: folder(path, arrays) / NAMES["x_train"],
    "gzipped file of images": lambda path, arrays: folder(path, arrays, gzipped=True) / f"{NAMES['x_train']}.gz",
}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_gives_the_same_images(form: str, tmp_path: Path, arrays: dict[str, np.ndarray]) -> None:
    found = read_images(str(FORMS[form](tmp_path, arrays)))
    np.testing.assert_array_equal(found.train, arrays["x_train"])
    np.testing.assert_array_equal(found.digits, arrays["y_train"])
    if "file" in form:
        assert found.test is None
    else:
        np.testing.assert_array_equal(found.test, arrays["x_test"])
        np.testing.assert_array_equal(found.test_digits, arrays["y_test"])


@pytest.mark.parametrize("kind", TYPES)
def test_every_number_type_of_the_format(kind: str, tmp_path: Path, rng: np.random.Generator) -> None:
    values = rng.integers(0, 100, (3, 4, 2)).astype(kind)
    (tmp_path / "values").write_bytes(idx(values, kind))
    found = read_idx(tmp_path / "values")
    np.testing.assert_array_equal(found, values)
    assert found.dtype == np.dtype(kind).newbyteorder(">")


def test_tasks_train_on_the_files(tmp_path: Path, arrays: dict[str, np.ndarray]) -> None:
    task = Digits(path=str(folder(tmp_path, arrays)), samples=30, labels="classes", modes=2)
    pixels = SIDES[0] * SIDES[1]
    flat = task.problem(MLP(inputs=pixels, outputs=10), np.random.default_rng(0))
    assert flat.inputs.shape == (pixels, 30)
    assert flat.test_inputs.shape == (pixels, TEST)
    np.testing.assert_array_equal(flat.test_targets.argmax(0), arrays["y_test"])
    # The same pixels in the same places, up to one shift a pixel and one scale for all.
    raw = arrays["x_test"].reshape(TEST, -1).T
    correlation = [np.corrcoef(*pair)[0, 1] for pair in zip(raw, flat.test_inputs, strict=True)]
    np.testing.assert_allclose(correlation, 1)
    tokens = task.problem(MultiHead(dimension=SIDES[1], tokens=SIDES[0], outputs=10), np.random.default_rng(0))
    image = task.problem(CNN(image=SIDES, kernel=(2, 2), outputs=10), np.random.default_rng(0))
    np.testing.assert_array_equal(tokens.inputs, image.inputs.transpose(1, 0, 2))
    np.testing.assert_array_equal(image.inputs.reshape(pixels, -1), flat.inputs)


def test_contents_identify_a_cell_and_names_do_not(tmp_path: Path, arrays: dict[str, np.ndarray]) -> None:
    def cell(path: Path) -> Cell:
        task = Digits(path=str(path), samples=30)
        architecture = MLP(inputs=30, outputs=1)
        return Cell(architecture=architecture, task=task, optimizer={"kind": "gd"}, sigma=0.1, steps=300, fingerprint=task.fingerprint)  # type: ignore[arg-type]  # validated from a mapping

    places = [tmp_path / name for name in ("a", "b", "c")]
    for place in places:
        place.mkdir()
    other = arrays | {"x_train": arrays["x_train"][::-1]}
    one, same, changed = (cell(folder(place, files)).id for place, files in zip(places, (arrays, arrays, other), strict=True))
    assert one == same != changed
    assert fingerprint(str(places[0])) != fingerprint(str(places[2]))


def _cut(path: Path, arrays: dict[str, np.ndarray]) -> Path:
    file = folder(path, arrays) / NAMES["x_train"]
    file.write_bytes(file.read_bytes()[:-5])
    return path


def _text(path: Path, arrays: dict[str, np.ndarray]) -> Path:
    (folder(path, arrays) / NAMES["x_train"]).write_text("no images")
    return path


def _damaged(path: Path, arrays: dict[str, np.ndarray]) -> Path:
    file = folder(path, arrays, gzipped=True) / f"{NAMES['x_train']}.gz"
    file.write_bytes(file.read_bytes()[:30])
    return path


def _without(name: str) -> Callable[[Path, dict[str, np.ndarray]], Path]:
    return lambda path, arrays: folder(path, {key: value for key, value in arrays.items() if key != name})


BAD: dict[str, tuple[Callable[[Path, dict[str, np.ndarray]], Path], str]] = {
    "absent": (lambda path, arrays: path / "nowhere", "does not exist .*give the folder with train-images-idx3-ubyte"),
    "empty folder": (lambda path, arrays: path, "holds no MNIST training images"),
    "no labels": (_without("y_train"), "holds no MNIST training images"),
    "labels not beside": (lambda path, arrays: _without("y_train")(path, arrays) / NAMES["x_train"], "no labels beside"),
    "cut off": (_cut, r"its header asks for \d+: the file is cut off"),
    "text": (_text, "is not an idx file .*6e6f2069"),
    "damaged gzip": (_damaged, "cannot be read .*fetch the file again"),
    "too few labels": (lambda path, arrays: folder(path, arrays | {"y_train": arrays["y_train"][:-1]}), "40 images but labels of shape"),
    "letters": (lambda path, arrays: folder(path, arrays | {"y_train": arrays["y_train"] + 5}), "labels are not digits from 0 to 9"),
    "flat images": (lambda path, arrays: archive(path, arrays | {"x_train": arrays["x_train"].reshape(TRAIN, -1)}), "rows, columns"),
    "other archive": (lambda path, arrays: archive(path, {"images": arrays["x_train"]}), "has no x_train and y_train .*images"),
}


@pytest.mark.parametrize("name", BAD)
def test_other_files_are_refused_with_the_way_out(name: str, tmp_path: Path, arrays: dict[str, np.ndarray]) -> None:
    make, says = BAD[name]
    path = make(tmp_path, arrays)
    with pytest.raises(TaskError, match=says):
        read_images(str(path))


def test_more_images_than_there_are(tmp_path: Path, arrays: dict[str, Any]) -> None:
    with_test = Digits(path=str(folder(tmp_path, arrays)), samples=TRAIN)
    with_test.check(MLP(inputs=30, outputs=1))
    with pytest.raises(TaskError, match="there are 40 images; set it to 40 at most"):
        Digits(path=with_test.path, samples=TRAIN + 1).check(MLP(inputs=30, outputs=1))
    with pytest.raises(TaskError, match="there are 1797 images; set it to 1796 at most"):
        Digits(samples=1797).check(MLP(inputs=64, outputs=1))
    with pytest.raises(TaskError, match=r"images of 6 x 5 pixels.*inputs: 30 .*image: \[6, 5\] .*dimension: 5 and tokens: 6"):
        with_test.check(MLP(inputs=64, outputs=1))
