"""A user's arrays: what is read, and that every malformed file is refused with its place and a remedy."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from nqf_pipeline.models import CNN, MLP, MultiHead, PhaseRetrieval, QueryKey
from nqf_pipeline.tasks import File, Problem, TaskError

NETWORK = MLP(inputs=3, outputs=2)


def archive(folder: Path, **arrays: object) -> str:
    path = folder / "data.npz"
    np.savez(path, **arrays)
    return str(path)


def table(folder: Path, text: str) -> str:
    path = folder / "data.csv"
    path.write_text(text, encoding="utf-8")
    return str(path)


def problem(task: File, network: MLP | CNN | MultiHead | QueryKey | PhaseRetrieval = NETWORK) -> Problem:
    task.check(network)
    return task.problem(network, np.random.default_rng(0))


@pytest.fixture
def x(rng: np.random.Generator) -> np.ndarray:
    return rng.standard_normal((40, 3)) * [1, 2, 3] + [5, 0, 0]


@pytest.fixture
def y(x: np.ndarray) -> np.ndarray:
    return np.stack([x[:, 0] - x[:, 1], 2 * x[:, 2]], axis=1)


def test_arrays_with_their_own_test_split(tmp_path: Path, x: np.ndarray, y: np.ndarray) -> None:
    drawn = problem(File(path=archive(tmp_path, x=x[:30], y=y[:30], x_test=x[30:], y_test=y[30:]), scale="none"))
    np.testing.assert_array_equal(drawn.inputs, x[:30].T)
    np.testing.assert_array_equal(drawn.targets, y[:30].T)
    np.testing.assert_array_equal(drawn.test_inputs, x[30:].T)
    np.testing.assert_array_equal(drawn.test_targets, y[30:].T)
    np.testing.assert_allclose(drawn.moments.optimum, [[1, 0], [-1, 0], [0, 2]], atol=1e-9)


def test_held_out_share_is_fixed_and_disjoint(tmp_path: Path, x: np.ndarray, y: np.ndarray) -> None:
    task = File(path=archive(tmp_path, x=x, y=y), scale="none", test_fraction=0.3)
    first, again = problem(task), problem(task)
    assert first.test_inputs.shape == (3, 12)
    np.testing.assert_array_equal(first.inputs, again.inputs)
    together = np.hstack([first.inputs, first.test_inputs]).T
    np.testing.assert_array_equal(together[np.lexsort(together.T)], x[np.lexsort(x.T)])


def test_standard_scaling_uses_the_training_samples(tmp_path: Path, x: np.ndarray, y: np.ndarray) -> None:
    drawn = problem(File(path=archive(tmp_path, x=x, y=y)))
    for values in (drawn.inputs, drawn.targets):
        np.testing.assert_allclose(values.mean(1), 0, atol=1e-12)
        assert values.std() == pytest.approx(1)
    assert drawn.test_inputs.std() != pytest.approx(1, abs=1e-6)
    np.testing.assert_allclose(drawn.modes.strength(drawn.moments.optimum), np.ones(len(drawn.modes.target)))


def test_one_target_may_be_a_vector_and_integers_are_numbers(tmp_path: Path) -> None:
    x = np.arange(24).reshape(8, 3) ** 2 % 11
    drawn = problem(File(path=archive(tmp_path, x=x, y=x[:, 0] > 4)), MLP(inputs=3, outputs=1))
    assert drawn.targets.shape == (1, 6)


def test_images_and_tokens_are_flattened_or_shaped(tmp_path: Path, rng: np.random.Generator) -> None:
    images, y = rng.standard_normal((20, 4, 5)), rng.standard_normal(20)
    path = archive(tmp_path, x=images, y=y)
    task = File(path=path, scale="none", test_fraction=0.5)
    as_image = problem(task, CNN(image=(4, 5), kernel=(2, 2), outputs=1))
    as_vector = problem(task, MLP(inputs=20, outputs=1))
    as_tokens = problem(task, MultiHead(dimension=4, tokens=5, outputs=1))
    assert as_image.inputs.shape == (4, 5, 10)
    np.testing.assert_array_equal(as_image.inputs.reshape(20, -1), as_vector.inputs)
    np.testing.assert_array_equal(as_tokens.inputs, as_image.inputs)


def test_table_columns_by_name(tmp_path: Path, x: np.ndarray, y: np.ndarray) -> None:
    rows = "\n".join(f"{a},{t},{b},{c}" for (a, b, c), t in zip(x, y[:, 0], strict=True))
    path = table(tmp_path, f"a, out ,b,c\n{rows}\n\n")
    drawn = problem(File(path=path, target=("out",), scale="none"), MLP(inputs=3, outputs=1))
    order = np.lexsort(np.hstack([drawn.inputs, drawn.test_inputs]))
    np.testing.assert_array_equal(np.hstack([drawn.inputs, drawn.test_inputs])[:, order], x[np.lexsort(x.T)].T)
    chosen = problem(File(path=path, target=("out",), features=("c", "a"), scale="none"), MLP(inputs=2, outputs=1))
    np.testing.assert_array_equal(chosen.inputs, drawn.inputs[[2, 0]])
    two = problem(File(path=path, target=("out", "b"), scale="none"), MLP(inputs=2, outputs=2))
    np.testing.assert_array_equal(two.targets[1], drawn.inputs[1])


def test_fingerprint_follows_the_contents(tmp_path: Path, x: np.ndarray, y: np.ndarray) -> None:
    task = File(path=archive(tmp_path, x=x, y=y))
    before = task.fingerprint
    assert before == task.fingerprint
    archive(tmp_path, x=x, y=y + 1)
    assert task.fingerprint != before


def refused(task: File, *parts: str, network: MLP | CNN | PhaseRetrieval = NETWORK) -> None:
    """Refused when checked, and the message holds every part."""
    with pytest.raises(TaskError) as caught:
        task.check(network)
    message = str(caught.value)
    for part in (Path(task.path).name, *parts):
        assert re.search(re.escape(part), message), message


@pytest.mark.parametrize(
    ("arrays", "parts"),
    [
        ({"x": np.ones((4, 3))}, ["no array `y`", "it has x"]),
        ({"inputs": np.ones((4, 3)), "y": np.ones(4)}, ["no array `x`", "save inputs as x"]),
        ({"x": np.ones((4, 3)), "y": np.ones((4, 2)), "x_test": np.ones((2, 3))}, ["`x_test` but no `y_test`", "give both"]),
        ({"x": np.ones((4, 3)), "y": np.ones((5, 2))}, ["`x` has 4 samples and `y` has 5", "first axis", "(4, 3)"]),
        ({"x": np.ones((4, 3)), "y": np.ones((4, 2, 1))}, ["array `y`", "(4, 2, 1)", "too many axes"]),
        ({"x": np.ones((0, 3)), "y": np.ones((0, 2))}, ["array `x`", "no sample"]),
        ({"x": np.float64(3), "y": np.ones((4, 2))}, ["array `x`", "shape ()"]),
        ({"x": np.full((4, 3), "a"), "y": np.ones((4, 2))}, ["array `x`", "real numbers are needed"]),
        ({"x": np.ones((4, 3), dtype=complex), "y": np.ones((4, 2))}, ["array `x`", "complex128"]),
        ({"x": np.array([[1, {}, 3]] * 4, dtype=object), "y": np.ones((4, 2))}, ["arrays of numbers", "numpy.savez"]),
        ({"x": np.ones((2, 3)), "y": np.ones((2, 2))}, ["of 2 sample(s)", "at least 2 are needed"]),
        (
            {"x": np.ones((4, 3)), "y": np.ones((4, 2)), "x_test": np.ones((2, 5)), "y_test": np.ones((2, 2))},
            ["array `x_test`", "(5,) but (3,) in training"],
        ),
        ({"x": np.ones((9, 3)), "y": np.ones((9, 2))}, ["all training inputs are the same"]),
        ({"x": np.eye(9)[:, :3], "y": np.ones((9, 2))}, ["all training targets are the same"]),
    ],
)
def test_malformed_archives(tmp_path: Path, arrays: dict[str, np.ndarray], parts: list[str]) -> None:
    refused(File(path=archive(tmp_path, **arrays)), *parts)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_the_first_value_that_is_not_finite_is_named(tmp_path: Path, x: np.ndarray, y: np.ndarray, bad: float) -> None:
    x[7, 2] = x[9, 0] = bad
    refused(File(path=archive(tmp_path, x=x, y=y)), f"array `x`: {bad} at index [7, 2] (sample 7)", "first of 2")


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("", ["is empty", "first row names the columns"]),
        ("a,b,c,y\n", ["no row of data"]),
        ("1,2,3,4\n5,6,7,8\n", ["row 1", "must name the columns"]),
        ("a;b;c;y\n1;2;3;4\n", ["one column", "commas between columns"]),
        ("a,b,a,y\n1,2,3,4\n", ["column(s) a appear twice"]),
        ("a,b,c,Y\n1,2,3,4\n", ["no column `y`", "did you mean `Y`?"]),
        ("a,b,c,y\n1,2,3,4\n1,2,3\n", ["row 3", "3 cells but the header 4 columns"]),
        ("a,b,c,y\n1,2,3,4\n\n1,two,3,4\n", ["row 4, column `b`", "`two` is not a number"]),
        ("a,b,c,y\n1,2,,4\n", ["row 2, column `c`", "is empty"]),
        ("a,b,c,y\n1,2,3,nan\n", ["row 2, column `y`", "nan is not finite"]),
        ("y\n1\n", ["every column is a target"]),
    ],
)
def test_malformed_tables(tmp_path: Path, text: str, parts: list[str]) -> None:
    refused(File(path=table(tmp_path, text)), *parts, network=MLP(inputs=3, outputs=1))


def test_other_files_are_refused(tmp_path: Path) -> None:
    refused(File(path=str(tmp_path / "absent.npz")), "does not exist", str(tmp_path), "absolute path")
    refused(File(path=str(tmp_path)), "is a folder")
    (tmp_path / "notes.txt").write_text("x")
    refused(File(path=str(tmp_path / "notes.txt")), "`.txt` cannot be read", ".npz or a .csv")
    (tmp_path / "broken.npz").write_bytes(b"PK\x03\x04 cut short")
    refused(File(path=str(tmp_path / "broken.npz")), "not a readable .npz archive")
    with (tmp_path / "single.npz").open("wb") as file:
        np.save(file, np.ones(3))
    refused(File(path=str(tmp_path / "single.npz")), "single array", "numpy.savez")
    (tmp_path / "latin.csv").write_bytes("größe,y\n1,2\n".encode("latin-1"))
    refused(File(path=str(tmp_path / "latin.csv")), "UTF-8")


def test_truncated_archive_is_refused(tmp_path: Path, x: np.ndarray, y: np.ndarray) -> None:
    path = Path(archive(tmp_path, x=x, y=y))
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    refused(File(path=str(path)), "not a readable .npz archive")
    damaged = bytearray(whole)
    damaged[300] ^= 0xFF
    path.write_bytes(damaged)
    refused(File(path=str(path)), "not a readable .npz archive")


def test_arrays_that_do_not_fit_the_architecture(tmp_path: Path, x: np.ndarray, y: np.ndarray) -> None:
    task = File(path=archive(tmp_path, x=x, y=y))
    refused(task, "an input has 3 entries (shape (3,)) but architecture mlp reads 4", network=MLP(inputs=4, outputs=2))
    refused(task, "2 target(s) per sample but mlp has 1 output(s); set its outputs to 2", network=MLP(inputs=3, outputs=1))
    refused(task, "it takes a single target only", network=PhaseRetrieval(inputs=3))


def test_data_without_a_learnable_mode_are_refused(tmp_path: Path) -> None:
    """A negative definite target: no positive semidefinite model explains any of it."""
    x = np.array([[1.0], [-1.0], [2.0], [-2.0]])
    task = File(path=archive(tmp_path, x=x, y=-(x**2), x_test=x, y_test=x**2), scale="none")
    with pytest.raises(TaskError, match="explains no variance"):
        task.problem(PhaseRetrieval(inputs=1), np.random.default_rng(0))


@pytest.mark.parametrize(
    ("loss", "y", "says"),
    [
        ("logistic", [[0.0], [1.0]] * 4, "takes labels 1 and -1, and the targets hold 0, 1; recode them"),
        ("softmax_cross_entropy", [[1.0], [1.0]] * 4, "one target for each class .*have 1 column"),
        ("softmax_cross_entropy", [[1.0, 1.0], [0.0, 1.0]] * 4, "do not add up to 1; write labels one-hot"),
    ],
)
def test_labels_must_be_what_the_loss_understands(tmp_path: Path, loss: str, y: list[list[float]], says: str) -> None:
    np.savez(tmp_path / "labels.npz", x=np.arange(16.0).reshape(8, 2), y=np.array(y))
    task = File.model_validate({"path": str(tmp_path / "labels.npz"), "loss": loss})
    with pytest.raises(TaskError, match=says):
        task.check(MLP(inputs=2, outputs=len(y[0])))


def test_labels_are_not_scaled(tmp_path: Path, rng: np.random.Generator) -> None:
    x, y = rng.standard_normal((40, 3)) + 5, np.eye(2)[rng.integers(0, 2, 40)]
    np.savez(tmp_path / "labels.npz", x=x, y=y)
    task = File(path=str(tmp_path / "labels.npz"), loss="softmax_cross_entropy")
    drawn = task.problem(MLP(inputs=3, outputs=2), rng)
    assert (drawn.loss, drawn.labels) == ("softmax_cross_entropy", "classes")
    assert set(np.unique(drawn.targets)) == {0.0, 1.0}
    np.testing.assert_allclose(drawn.inputs.mean(1), 0, atol=1e-12)
