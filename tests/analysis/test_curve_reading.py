"""`nqf fit`: every format read to the same curve; columns, runs, restarts and disorder recognised; malformed files refused in words."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pytest
import zarr
from hypothesis import given, settings
from hypothesis import strategies as st
from zarr.storage import ZipStore

from nqf_pipeline.analysis.curves import CurveError, Series, describe, read
from nqf_pipeline.analysis.curves.cleaning import cleaned, positive

STEP = np.arange(1, 41) * 10
LOSS = STEP**-0.5


def csv(path: Path, names: str, *columns: np.ndarray, mark: str = ",") -> Path:
    rows = [names.replace(",", mark)] if names else []
    path.write_text(
        "\n".join(rows + [mark.join(f"{value!r}" for value in row) for row in zip(*(c.tolist() for c in columns), strict=True)])
    )
    return path


def write_zarr(store) -> None:
    group = zarr.open_group(store, mode="w")
    for name, values in (("step", STEP), ("loss", LOSS)):
        group.create_array(name, data=values)


def write_zip(path: Path) -> None:
    store = ZipStore(path, mode="w")
    write_zarr(store)
    store.close()


def rows() -> list[dict]:
    return [{"step": int(step), "loss": float(loss)} for step, loss in zip(STEP, LOSS, strict=True)]


WRITERS = {
    "a.csv": lambda path: csv(path, "step,loss", STEP, LOSS),
    "semicolons.csv": lambda path: csv(path, "step,loss", STEP, LOSS, mark=";"),
    "tabs.tsv": lambda path: csv(path, "step,loss", STEP, LOSS, mark="\t"),
    "blanks.txt": lambda path: csv(path, "", STEP, LOSS, mark="  "),
    "commented.csv": lambda path: path.write_text("# a run\n" + csv(path, "step,loss", STEP, LOSS).read_text() + "\n\n"),
    "marked.csv": lambda path: path.write_bytes(b"\xef\xbb\xbf" + csv(path, "step,loss", STEP, LOSS).read_bytes()),
    "lines.jsonl": lambda path: path.write_text("\n".join(map(json.dumps, rows()))),
    "list.json": lambda path: path.write_text(json.dumps(rows())),
    "columns.json": lambda path: path.write_text(json.dumps({"step": STEP.tolist(), "loss": LOSS.tolist(), "name": "x"})),
    "nested.json": lambda path: path.write_text(json.dumps({"logs": [{"step": r["step"], "train": {"loss": r["loss"]}} for r in rows()]})),
    "a.npy": lambda path: np.save(path, np.stack([STEP, LOSS], 1)),
    "wide.npy": lambda path: np.save(path, np.stack([STEP, LOSS])),
    "named.npy": lambda path: np.save(path, np.array(list(zip(STEP, LOSS, strict=True)), dtype=[("step", int), ("loss", float)])),
    "a.npz": lambda path: np.savez(path, step=STEP, loss=LOSS),
    "a.zarr": lambda path: write_zarr(str(path)),
    "a.zarr.zip": write_zip,
}


@pytest.mark.parametrize("name", WRITERS)
def test_every_format_gives_the_same_curve(tmp_path, name):
    WRITERS[name](tmp_path / name)
    (curve,) = read(tmp_path / name)
    assert np.array_equal(curve.time, STEP)
    assert np.allclose(curve.loss, LOSS, rtol=1e-15)


def test_a_single_column_is_counted(tmp_path):
    np.save(tmp_path / "a.npy", LOSS)
    (curve,) = read(tmp_path / "a.npy")
    assert (curve.time_name, curve.time[0], curve.time[-1]) == ("record", 1, 40)


@pytest.mark.parametrize(
    ("names", "time", "losses"),
    [
        ("lr,tokens,val_loss,loss", "tokens", ["loss", "val_loss"]),
        ("epoch,step,train/loss,grad_norm", "step", ["train/loss"]),
        ("elapsed,mse,accuracy", "elapsed", ["mse"]),
        ("step,reward", "step", ["reward"]),
    ],
)
def test_columns_are_found(tmp_path, names, time, losses):
    columns = {"tokens": STEP * 1e6, "step": STEP, "elapsed": STEP * 0.1, "epoch": STEP / 400}
    table = [columns.get(name, LOSS * (1 + i)) for i, name in enumerate(names.split(","))]
    curves = read(csv(tmp_path / "a.csv", names, *table))
    assert [curve.name for curve in curves] == losses
    assert {curve.time_name for curve in curves} == {time}


def test_columns_can_be_named(tmp_path):
    path = csv(tmp_path / "a.csv", "step,clock,reward,cost", STEP, STEP * 2.5, LOSS, LOSS * 2)
    (curve,) = read(path, "clock", "reward")
    assert (curve.time_name, curve.name) == ("clock", "reward")
    assert np.array_equal(curve.time, STEP * 2.5)


@pytest.mark.parametrize("label", ["seed", "run", "split"])
def test_a_column_tells_runs_apart(tmp_path, label):
    names = {"seed": [1, 2], "run": ["a", "b"], "split": ["train", "eval"]}[label]
    lines = [f"step,{label},loss"] + [f"{step},{name},{step**-0.5 * (i + 1)}" for step in STEP for i, name in enumerate(names)]
    (tmp_path / "a.csv").write_text("\n".join(lines))
    curves = read(tmp_path / "a.csv")
    assert [curve.name for curve in curves] == [f"loss, {label} {name}" for name in names]
    assert np.allclose(curves[1].loss, 2 * LOSS)
    assert curves[0].notes[-1].code == "several_runs"


def series(time, loss, epoch=None) -> Series:
    return Series("loss", "step", np.asarray(time, float), np.asarray(loss, float), epoch)


def codes(curve: Series) -> list[str]:
    return [note.code for note in curve.notes]


def test_runs_one_after_another_are_separate():
    runs = cleaned(series(np.tile(STEP, 3), np.concatenate([LOSS, 2 * LOSS, 3 * LOSS])))
    assert len(runs) == 3
    assert np.allclose(runs[2].loss, 3 * LOSS)
    assert codes(runs[0]) == ["several_runs"]


def test_interleaved_runs_are_separate():
    runs = cleaned(series(np.repeat(STEP, 2), np.stack([LOSS, 2 * LOSS], 1).ravel()))
    assert [np.allclose(run.loss, (i + 1) * LOSS) for i, run in enumerate(runs)] == [True, True]


def test_repeated_measurements_are_averaged():
    noise = np.exp(0.1 * np.random.default_rng(0).standard_normal((40, 2)))
    (run,) = cleaned(series(np.repeat(STEP, 2), (LOSS[:, None] * noise).ravel()))
    assert codes(run) == ["repeated"]
    assert np.allclose(run.loss, LOSS * np.sqrt(noise.prod(1)))


def test_a_restart_replaces_what_it_repeats():
    time = np.concatenate([STEP[:30], STEP[20:]])
    (run,) = cleaned(series(time, np.concatenate([LOSS[:30] * 7, LOSS[20:]])))
    assert codes(run) == ["restart"]
    assert "to 210" in run.notes[0].message
    assert "10 records" in run.notes[0].message
    assert np.array_equal(run.time, STEP)
    assert np.allclose(run.loss, np.where(STEP <= 200, 7, 1) * LOSS)


def test_unordered_times_are_sorted():
    order = np.random.default_rng(0).permutation(40)
    (run,) = cleaned(series(STEP[order], LOSS[order]))
    assert codes(run) == ["unordered"]
    assert np.array_equal(run.time, STEP)
    assert np.array_equal(run.loss, LOSS)


def test_what_has_no_logarithm_is_left_out_and_said():
    loss = LOSS.copy()
    loss[[3, 4, 5, 6]] = [np.nan, np.inf, 0.0, -1.0]
    (run,) = cleaned(series(np.concatenate([[0], STEP]), np.concatenate([[2.0], loss])))
    kept = positive(run)
    assert codes(kept) == ["not_finite", "time_zero", "not_positive"]
    assert "the first at step 40" in kept.notes[0].message
    assert "1 zero and 1 negative" in kept.notes[2].message
    assert np.array_equal(kept.time, np.delete(STEP, [3, 4, 5, 6]))


def test_all_losses_negative_is_described_not_fitted():
    (found,) = describe(series(STEP, -LOSS))
    assert found.status == "not_resolved"
    assert "too few points" in found.reason


def test_empty_cells_are_no_nan(tmp_path):
    """A row that logs something else has no entry: nothing was lost."""
    (tmp_path / "a.csv").write_text("step,loss,eval_loss\n" + "\n".join(f"{s},{s**-0.5},{'' if s % 20 else s**-0.3}" for s in STEP))
    main, other = read(tmp_path / "a.csv")
    assert (len(main.time), len(other.time)) == (40, 20)
    assert [note.code for note in other.notes] == ["columns"]


MALFORMED = {
    "empty.csv": (b"", "is empty"),
    "blank.csv": (b"  \n\n", "is empty"),
    "comments.csv": (b"# nothing\n", "no row of data"),
    "binary.dat": (bytes(range(256)), "neither text nor arrays"),
    "nulls.csv": (b"step,loss\n1,\x002\n", "binary file"),
    "ragged.csv": (b"step,loss\n1,2\n2,3,4\n", "line 3: has 3 cells"),
    "words.csv": (b"name,colour\na,red\nb,blue\n", "no column of numbers"),
    "one.csv": (b"step,loss\n1,0.5\n", "has 1 record"),
    "none.csv": (b"step,loss\n", "no column of numbers"),
    "time.csv": (b"step\n1\n2\n", "only the column `step`|is a count"),
    "unnamed.csv": (b"step,alpha,beta\n1,2,3\n2,1,2\n", "--loss COLUMN"),
    "twice.csv": (b"step,loss,loss\n1,2,3\n", "appear twice"),
    "broken.json": (b'{"step": [1, 2', "not valid JSON"),
    "lines.jsonl": (b'{"step": 1, "loss": 2}\n{"step": 2,\n', "line 2: is not valid JSON"),
    "scalar.json": (b"3", "holds no records"),
    "unequal.json": (b'{"step": [1, 2, 3], "loss": [1, 2]}', "different lengths"),
    "strings.json": (b'{"a": "b"}', "no list of records"),
    "cut.npy": (b"\x93NUMPY\x01\x00", "not a readable NumPy file"),
    "cut.npz": (b"PK\x03\x04rubbish", "not a readable NumPy file"),
    "cut.zarr.zip": (b"PK\x03\x04rubbish", "not a readable zarr"),
}


@pytest.mark.parametrize("name", MALFORMED)
def test_malformed_files_are_refused(tmp_path, name):
    content, words = MALFORMED[name]
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(CurveError) as refused:
        [describe(curve) for curve in read(path)]
    assert str(path) in str(refused.value)
    assert any(part in str(refused.value) for part in words.split("|")), refused.value


def test_arrays_that_are_no_curves_are_refused(tmp_path):
    np.save(tmp_path / "a.npy", np.zeros((3, 4, 5)))
    np.save(tmp_path / "b.npy", np.array(["a", "b"]))
    np.save(tmp_path / "c.npy", np.array([object()]), allow_pickle=True)
    np.savez(tmp_path / "d.npz", step=STEP, loss=LOSS[:-1])
    (tmp_path / "folder").mkdir()
    for name, words in [
        ("a.npy", "shape"),
        ("b.npy", "type"),
        ("c.npy", "pickle"),
        ("d.npz", "different lengths"),
        ("folder", "no zarr store"),
    ]:
        with pytest.raises(CurveError, match=words):
            read(tmp_path / name)


def test_missing_files_and_columns_are_named(tmp_path):
    with pytest.raises(CurveError, match="does not exist"):
        read(tmp_path / "nowhere.csv")
    path = csv(tmp_path / "a.csv", "step,train_loss", STEP, LOSS)
    with pytest.raises(CurveError, match="did you mean `train_loss`"):
        read(path, loss="trainloss")
    with pytest.raises(CurveError, match="columns of numbers: step, train_loss"):
        read(path, time="tokens")


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_unreadable_files_are_refused(tmp_path):
    path = csv(tmp_path / "a.csv", "step,loss", STEP, LOSS)
    path.chmod(0)
    with pytest.raises(CurveError, match="permissions"):
        read(path)


@settings(max_examples=150)
@given(
    st.lists(
        st.tuples(
            st.floats(-10, 1e6) | st.integers(0, 50).map(float) | st.sampled_from([np.nan, np.inf, 0.0]),
            st.floats(-1e3, 1e3) | st.sampled_from([np.nan, np.inf, 0.0, 1e-300, 1e300]),
        ),
        min_size=2,
        max_size=60,
    )
)
def test_no_curve_ends_in_an_error(records):
    """Whatever the numbers: a status and a reason, never a traceback."""
    time, loss = np.array(records).T
    for found in describe(series(time, loss)):
        document = found.document()
        assert (document["status"] == "ok") == (document["exponent"] is not None) == (document["reason"] == "")
        assert all(plateau["start"] < plateau["end"] for plateau in document["plateaus"])


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("values", [[1.0] * 50, [1e-300] * 50, [1e300, 1e-300] * 25, list(range(50, 0, -1)), [0.5, 0.4], [0.5] * 3])
def test_odd_curves_are_described_without_warnings(values):
    (found,) = describe(series(np.arange(1, len(values) + 1), values))
    assert found.status == "not_resolved"
