"""`nqf check`: verdicts for names and for users' functions, and messages for what cannot be checked."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from nqf_pipeline import cli
from nqf_pipeline.stages.check import check_target, names

MODULE = """
import numpy as np, jax.numpy as jnp

def block(W, x):
    return W[-1] @ jnp.tanh(W[:-1].T @ x)

def relu(W, x):
    return W[-1] @ jnp.maximum(W[:-1].T @ x, 0)

def image(W, x):
    return jnp.stack([(W.T @ x.sum(1)) ** 2, (W.T @ x[:, 0]) ** 2]).sum(1)

def keyed(W, x, key):
    return W.sum()

def numpy(W, x):
    return np.tanh(np.asarray(W)).sum()

def singular(W, x):
    return (W / jnp.linalg.norm(W)).sum()

constant = 3
"""


@pytest.fixture
def own(tmp_path: Path) -> str:
    file = tmp_path / "own.py"
    file.write_text(MODULE)
    return str(file)


def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    monkeypatch.setattr("sys.argv", ["nqf", "check", *arguments])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    output = capsys.readouterr()
    return int(ended.value.code or 0), output.out, output.err


def test_the_list_is_one_json_array(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(monkeypatch, capsys, "--list", "--json")
    assert code == 0
    assert json.loads(out) == names()
    assert {"mlp", "fourier_mlp", "augmentation"} <= set(names())


def test_an_architecture_by_name(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(monkeypatch, capsys, "mlp", "--json")
    found = json.loads(out)
    assert (code, err) == (0, "")
    assert {name: found[name] for name in ("verdict", "symmetric", "zero_gradient", "even", "smooth", "unit_parameters")} == {
        "verdict": "nqf", "symmetric": True, "zero_gradient": True, "even": True, "smooth": True, "unit_parameters": 28,
    }  # fmt: skip
    assert found["remainder_order"] == 4
    assert found["closed_form_error"] <= 1e-12
    assert found["width"] == 8
    assert found["reasons"] == []


def test_a_function_of_ones_own(own: str) -> None:
    found = check_target(f"{own}:block", unit_size=5, inputs="4")
    assert (found["verdict"], found["remainder_order"], found["closed_form_error"]) == ("nqf", 4, None)
    assert check_target(f"{own}:relu", 5, 3, "4")["verdict"] == "not_smooth"
    assert check_target(f"{own}:image", 4, 3, "4x5")["exactly_quadratic"]


def test_exponents_in_the_width_on_request(own: str) -> None:
    found = check_target(f"{own}:block", unit_size=5, inputs="4", scaling=True)["width_exponents"]
    assert found["A"] == pytest.approx(0, abs=1e-9)
    assert (found["g"], found["B"], found["lazy"]) == (None, None, False)


def test_no_value_at_zero_is_a_finding(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], own: str) -> None:
    code, out, _ = run(monkeypatch, capsys, f"{own}:singular", "--unit-size", "5", "--inputs", "4")
    assert code == 0
    assert "not_evaluable" in out
    assert "not a finite number" in out


@pytest.mark.parametrize(
    ("target", "options", "says"),
    [
        ("mpl", (), "did you mean `mlp`"),
        ("{own}:keyed", ("--unit-size", "5", "--inputs", "4"), "random key"),
        ("{own}:numpy", ("--unit-size", "5", "--inputs", "4"), "use jax.numpy"),
        ("{own}:block", ("--unit-size", "5", "--inputs", "7"), "the module raised TypeError"),
        ("{own}:block", ("--unit-size", "5"), "give --inputs"),
        ("{own}:block", ("--unit-size", "5", "--inputs", "4y5"), "20x16"),
        ("{own}:blok", ("--unit-size", "5", "--inputs", "4"), "did you mean `block`"),
        ("{own}:constant", ("--unit-size", "5", "--inputs", "4"), "is a int"),
        ("{own}", ("--unit-size", "5", "--inputs", "4"), "file.py:name"),
        ("absent.py:block", ("--unit-size", "5", "--inputs", "4"), "cannot read"),
        ("{own}:block", ("--unit-size", "5", "--inputs", "4", "--width", "0"), "1 or more"),
        ("mlp", ("--width", "0"), "1 or more"),
        ("mlp", ("--inputs", "20"), "only --width can be given"),
        ("fourier_mlp", ("--scaling",), "inputs grow with its width"),
    ],
)
def test_bad_input_is_a_message(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], own: str, target: str, options: tuple[str, ...], says: str
) -> None:
    code, out, err = run(monkeypatch, capsys, target.format(own=own), *options)
    assert (code, out) == (2, "")
    assert says in err
    assert "Traceback" not in err


def test_a_plain_class_is_checked_at_the_width_it_was_made_with(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """The class of docs/own_module.md, cut out of the page."""
    page = (Path(__file__).parents[2] / "docs" / "own_module.md").read_text()
    (code,) = (block for block in page.split("```python\n") if block.startswith("import dataclasses"))
    own = tmp_path / "layer.py"
    own.write_text(code.split("```")[0])
    options = ("--unit-size", "8", "--inputs", "6", "--width", "32")
    status, out, _ = run(monkeypatch, capsys, f"{own}:net", *options, "--json")
    assert (status, json.loads(out)["verdict"]) == (0, "nqf")
    status, _, err = run(monkeypatch, capsys, f"{own}:net", *options, "--scaling")
    assert status == 2
    assert "has the width it was made with; check it without --scaling" in err


def test_a_file_that_cannot_run_is_a_message(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    broken = tmp_path / "broken.py"
    broken.write_text("def block(W, x:\n")
    code, _, err = run(monkeypatch, capsys, f"{broken}:block", "--unit-size", "5", "--inputs", "4")
    assert code == 2
    assert "SyntaxError" in err
