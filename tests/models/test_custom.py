"""Modules of one's own as architectures: the structure from derivatives, modes that data see in part, identity, and what is refused."""

from __future__ import annotations

import re
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import yaml

from nqf_pipeline import normal_form
from nqf_pipeline.errors import InputError
from nqf_pipeline.forms.module_map import ModuleStructure, bytes_if_dense
from nqf_pipeline.forms.structure import ExpandedStructure
from nqf_pipeline.models import MLP, Custom, MultiHead
from nqf_pipeline.models.own import load
from nqf_pipeline.study.cells import contents_of
from nqf_pipeline.study.errors import ConfigError
from nqf_pipeline.study.grid import build_grid
from nqf_pipeline.study.reading import study_from
from nqf_pipeline.tasks import File, Teacher
from nqf_pipeline.theory.checks import largest_curvature

SAMPLES = 11
MODULES = """
import jax, jax.numpy as jnp

def block(W, x):
    return W[4:] @ jnp.tanh(W[:4].T @ x)

def wide(W, x):
    return W[-1] @ jnp.tanh(W[:-1].T @ x)

def relu(W, x):
    return W[4] @ jax.nn.relu(W[:4].T @ x)

def biased(W, x):
    return W[4] @ jnp.tanh(W[:4].T @ x + 1)

def by_index(W, x):
    return (jnp.arange(W.shape[1]) * W[4]) @ jnp.tanh(W[:4].T @ x)

def cubic(W, x):
    return W[4] @ (W[:4].T @ x) ** 2
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "mine.py"
    path.write_text(MODULES)
    return path


def custom(file: Path, name: str = "block", **fields: int) -> Custom:
    return Custom(path=f"{file}:{name}", **{"width": 6, "unit_size": 5, "inputs": 4, **fields})


def per_input(architecture: MLP | MultiHead):
    return lambda weights, x: architecture.apply(weights, x[..., None])[:, 0]


def test_the_structure_is_that_of_the_same_module_in_closed_form(file: Path, rng: np.random.Generator) -> None:
    own, closed = custom(file, unit_size=7, outputs=3), MLP(width=6, inputs=4, outputs=3)
    weights, inputs = own.initial(rng), own.draw_inputs(rng, SAMPLES)
    np.testing.assert_allclose(own.apply(weights, inputs), closed.apply(weights, inputs), rtol=1e-12)
    structure, expected = own.structure(inputs), closed.structure(inputs)
    assert type(structure) is ExpandedStructure
    np.testing.assert_allclose(structure.apply(own.order(weights)), expected.apply(closed.order(weights)), rtol=0, atol=1e-12)
    residual = rng.standard_normal((3, SAMPLES))
    np.testing.assert_allclose(structure.adjoint(residual)[:4, 4:], expected.adjoint(residual) / 2, atol=1e-12)


def test_the_matrix_free_map_is_the_dense_one(rng: np.random.Generator) -> None:
    architecture = MLP(width=3, inputs=4, outputs=2)
    inputs, shape = architecture.draw_inputs(rng, SAMPLES), (architecture.unit_size, architecture.width)
    structure = ModuleStructure.of(per_input(architecture), inputs, shape)
    order = rng.standard_normal((shape[0], shape[0]))
    order, residual = order + order.T, rng.standard_normal((2, SAMPLES))
    dense = structure.matrices()
    np.testing.assert_allclose(structure.offset, architecture.structure(inputs).offset, atol=1e-14)
    np.testing.assert_allclose(structure.apply(order), np.einsum("abom,ab->om", dense, order), rtol=1e-11, atol=1e-11)
    np.testing.assert_allclose(structure.adjoint(residual), np.einsum("abom,om->ab", dense, residual), rtol=1e-11, atol=1e-11)
    form = normal_form(per_input(architecture), inputs[..., 3], width=shape[1], unit_size=shape[0])
    np.testing.assert_allclose(dense[..., 3], np.moveaxis(form.A, 0, -1), atol=1e-12)
    some = structure.take(np.array([3, 0]))
    np.testing.assert_allclose(some.apply(order), structure.apply(order)[:, [3, 0]], rtol=1e-12)


def test_the_map_holds_no_matrix_for_each_sample() -> None:
    """The compiled programs of 880 parameters a head and 600 samples: their buffers against 30 GB of dense matrices."""
    architecture, shape = MultiHead(), (880, 4)
    structure = ModuleStructure(np.zeros((8, 600)), np.zeros((20, 16, 600)), per_input(architecture), shape)
    assert bytes_if_dense(structure) > 29e9
    from nqf_pipeline.forms.module_map import _maps

    maps = _maps(structure.module, shape)
    for program, arguments in ((maps.along, (np.zeros(4), np.zeros((4, 880)))), (maps.pulled, (structure.offset,))):
        memory = program.lower(*arguments, structure.inputs).compile().memory_analysis()
        assert memory.temp_size_in_bytes + memory.output_size_in_bytes < 0.5e9
    with pytest.raises(InputError, match=r"27\.7 GiB.*never form it"):
        structure.matrices()
    with pytest.raises(InputError, match="closed-form structure"):
        structure.second_moment()


def test_modes_are_learnt_when_the_outputs_are_right(file: Path, rng: np.random.Generator) -> None:
    """M holds diagonal blocks that no output sees: strengths are those of the visible part."""
    own = custom(file)
    drawn = Teacher(strengths=(1.0,), samples=300, test_samples=20).problem(own, rng)
    assert drawn.modes.strength(drawn.moments.optimum) == pytest.approx([1.0])
    optimum = drawn.moments.optimum[:4, 4]
    size = np.sqrt(np.linalg.norm(optimum))
    weights = np.zeros((5, 6))
    weights[:4, 0], weights[4, 0] = optimum / size, size
    np.testing.assert_allclose(drawn.structure.apply(own.order(weights)), drawn.targets, atol=1e-9)
    assert drawn.modes.strength(own.order(weights)) == pytest.approx([1.0])
    assert (own.mode_vectors(weights, drawn.modes) ** 2).sum() == pytest.approx(1.0, rel=0.05)


def test_copies_of_one_mode_are_watched_once(tmp_path: Path, rng: np.random.Generator) -> None:
    """A head with three value dimensions carries one output mode three times."""
    file = tmp_path / "head.py"
    file.write_text("def head(W, x):\n    return ((W[:12].reshape(4, 3, -1) * x[:, None, None]).sum(0) * W[12:]).sum()\n")
    own = custom(file, "head", unit_size=15, width=2)
    drawn = Teacher(strengths=(1.0,), samples=100, test_samples=20).problem(own, rng)
    assert len(drawn.modes.target) == 1
    with pytest.raises(InputError, match=r"keeps only 1 mode\(s\)"):
        Teacher(strengths=(1.0, 0.5), samples=100, test_samples=20).problem(own, rng)


def test_a_users_file_of_data_suits_a_users_module(file: Path, tmp_path: Path, rng: np.random.Generator) -> None:
    x = rng.standard_normal((80, 4))
    np.savez(tmp_path / "data.npz", x=x, y=np.stack([x @ [1, 2, 0, 0], x @ [0, 0, 1, 0]], 1))
    own = custom(file, unit_size=6, outputs=2)
    drawn = File(path=str(tmp_path / "data.npz")).problem(own, rng)
    plain = File(path=str(tmp_path / "data.npz")).problem(MLP(width=6, inputs=4, outputs=2), rng)
    assert drawn.moments.floor == pytest.approx(plain.moments.floor, abs=1e-12)
    assert len(drawn.modes.target) == len(plain.modes.target) == 2
    np.testing.assert_allclose(drawn.modes.strength(drawn.moments.optimum), np.ones(2), rtol=1e-9)
    curvatures = [largest_curvature(a, p.moments) for a, p in ((own, drawn), (MLP(width=6, inputs=4, outputs=2), plain))]
    assert curvatures[0] == pytest.approx(curvatures[1], rel=0.01)


@pytest.mark.parametrize(
    ("name", "fields", "says"),
    [
        ("relu", {}, "not_smooth: .*GELU"),
        ("biased", {}, "nqf_general: .*g is needed.*subtract what a unit gives"),
        ("by_index", {}, "nqf_distinct_units"),
        ("cubic", {}, "quadratic form is zero"),
        ("block", {"outputs": 2}, r"returns 1 number\(s\).*outputs = 2"),
        ("wide", {"unit_size": 49, "inputs": 48}, "49 parameters of a unit enter its quadratic form, more than the 48"),
        ("block", {"inputs": 5}, "the module raised TypeError"),
        ("blok", {}, "did you mean `block`"),
    ],
)
def test_what_no_study_can_follow_is_refused_with_the_way_out(file: Path, name: str, fields: dict[str, int], says: str) -> None:
    with pytest.raises(InputError, match=says):
        custom(file, name, **fields).check()


@pytest.mark.parametrize(
    ("fields", "says"), [({"path": "mine.py"}, "file.py:name"), ({"shape": (3, 2)}, "6 entries"), ({"unit_size": 0}, "greater than")]
)
def test_impossible_fields_are_refused(file: Path, fields: dict[str, object], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        Custom(**{"path": f"{file}:block", "unit_size": 5, "inputs": 4, **fields})


def study(folder: Path, path: str = "mine.py:block"):
    own = {"kind": "custom", "path": path, "width": 3, "unit_size": 5, "inputs": 4}
    grid = {
        "architectures": [own],
        "tasks": [{"kind": "teacher", "strengths": [1.0], "samples": 40, "test_samples": 10}],
        "optimizers": [{"kind": "gd", "learning_rate": 0.05}],
        "sigma": [0.01],
        "seeds": 1,
        "records": 16,
    }
    return study_from({"name": "mine", "experiments": {"own": grid}}, str(folder / "study.yaml"))


def test_a_cell_is_named_by_the_files_contents_not_its_place(file: Path) -> None:
    (first,) = build_grid(study(file.parent)).cells.values()
    assert first.architecture.path == str(file) + ":block"
    elsewhere = file.parent / "sub"
    elsewhere.mkdir()
    (elsewhere / "other.py").write_text(MODULES)
    (moved,) = build_grid(study(elsewhere, "other.py:block")).cells.values()
    assert moved.id == first.id
    file.write_text(MODULES + "\n# another version\n")
    assert contents_of(first.architecture, first.task) != first.fingerprint
    with pytest.raises(ConfigError, match="module's file has changed"):
        first.problem()


def test_the_page_on_own_modules_is_true(tmp_path: Path) -> None:
    page = (Path(__file__).parents[2] / "docs" / "own_module.md").read_text()
    code, _, net = re.findall(r"```python\n(.*?)```", page, re.DOTALL)  # the plain class in between: tests/stages/test_check.py
    (config,) = re.findall(r"```yaml\n(.*?)```", page, re.DOTALL)
    assert len(config.splitlines()) <= 10
    (tmp_path / "my_model.py").write_text(code)
    grid = build_grid(study_from(yaml.safe_load(config), str(tmp_path / "mine.yaml")))
    assert len(grid.cells) == 1 * 1 * 1 * 2 * 4
    command = re.search(r"nqf check my_model.py:block --unit-size (\d+) --width (\d+) --inputs (\d+)", page)
    (architecture,) = {cell.architecture for cell in grid.cells.values()}
    assert command
    assert tuple(map(int, command.groups())) == (architecture.unit_size, architecture.width, architecture.inputs)
    pytest.importorskip("equinox")
    (tmp_path / "other.py").write_text(net)
    Custom(path=f"{tmp_path / 'other.py'}:net", width=32, unit_size=21, inputs=20).check()


def test_a_refused_module_is_an_error_of_the_config(file: Path) -> None:
    with pytest.raises(ConfigError, match=r"(?s)experiments\.own.*not_smooth"):
        build_grid(study(file.parent, "mine.py:relu"))


def test_an_equinox_module_has_its_units_along_the_axis_of_the_width(tmp_path: Path, rng: np.random.Generator) -> None:
    pytest.importorskip("equinox")
    file = tmp_path / "eqx_model.py"
    file.write_text(
        "import equinox as eqx, jax\n"
        "net = eqx.nn.MLP(4, 2, 6, 1, activation=jax.nn.tanh, use_bias=False, use_final_bias=False, key=jax.random.key(0))\n"
        "biased = eqx.nn.MLP(4, 2, 6, 1, activation=jax.nn.tanh, key=jax.random.key(0))\n"
    )
    own, plain = custom(file, "net", unit_size=6, outputs=2), MLP(width=6, inputs=4, outputs=2)
    weights, inputs = own.initial(rng), own.draw_inputs(rng, 3)
    np.testing.assert_allclose(own.apply(weights, inputs), plain.apply(weights, inputs), rtol=1e-6)
    own.check()
    with pytest.raises(InputError, match=r"shape \(2,\) has no axes of length width = 6.*leave out biases"):
        custom(file, "biased", unit_size=7, outputs=2).check()
    with pytest.raises(InputError, match="make 6 numbers a unit, but unit_size = 5"):
        custom(file, "net", outputs=2).check()


def test_a_flax_module_has_its_units_along_the_axis_of_the_width(tmp_path: Path, rng: np.random.Generator) -> None:
    pytest.importorskip("flax")
    file = tmp_path / "flax_model.py"
    file.write_text(
        "import flax.linen as nn\n\n\n"
        "class Net(nn.Module):\n"
        "    @nn.compact\n"
        "    def __call__(self, x):\n"
        "        hidden = nn.tanh(nn.Dense(6, use_bias=False, name='a_first')(x))\n"
        "        return nn.Dense(2, use_bias=False, name='b_second')(hidden)\n\n\n"
        "net = Net()\n"
    )
    own, plain = custom(file, "net", unit_size=6, outputs=2), MLP(width=6, inputs=4, outputs=2)
    weights, inputs = own.initial(rng), own.draw_inputs(rng, 3)
    np.testing.assert_allclose(own.apply(weights, inputs), plain.apply(weights, inputs), rtol=1e-6)
    own.check()


def test_a_file_may_import_what_lies_beside_it(tmp_path: Path) -> None:
    (tmp_path / "beside_nqf_test.py").write_text("def nothing(x):\n    return x\n")
    (tmp_path / "mine.py").write_text(
        "from beside_nqf_test import nothing\n\n\ndef block(W, x):\n    return nothing((W.T @ x) ** 2).sum()\n"
    )
    module = load(f"{tmp_path / 'mine.py'}:block", (4, 2), (4,))
    assert float(module(jnp.ones((4, 2)), jnp.ones(4))) == 32.0
    assert load(f"{tmp_path / 'mine.py'}:block", (4, 2), (4,)) is module


def test_a_strict_session_does_not_bind_a_users_code(tmp_path: Path) -> None:
    (tmp_path / "loose.py").write_text("def block(W, x):\n    return (W * x[:, None] * 2).sum(0) @ W.sum(0) / 3\n")
    own = Custom(path=f"{tmp_path / 'loose.py'}:block", width=3, unit_size=4, inputs=4)
    weights = np.ones((4, 3))
    result = jax.jit(own.network)(weights.astype(np.float32), np.ones((4, 5), dtype=np.float32))
    assert result.dtype == np.float32
    assert result.shape == (1, 5)
