from __future__ import annotations

import copy

import numpy as np
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from nqf_pipeline.study.errors import ConfigError
from nqf_pipeline.study.grid import build_grid, round_up
from nqf_pipeline.study.reading import read_study, study_from

BASE = {
    "name": "trial",
    "experiments": {
        "tracks": {
            "architectures": [{"kind": "mlp", "inputs": 6, "outputs": 3, "width": [4, 8]}],
            "tasks": [{"kind": "teacher", "inputs": "white", "strengths": [1, 0.5], "samples": 40, "test_samples": 40}],
            "optimizers": [{"kind": "gd", "learning_rate": 0.01}, {"kind": "adam", "learning_rate": 0.001}],
            "sigma": [0.1, 0.01],
            "seeds": 2,
            "steps": 5000,
        },
        "law": {
            "architectures": [{"kind": "diagonal", "inputs": 30}],
            "tasks": [{"kind": "feature_power_law", "modes": 30, "alpha1": [1.5, 2], "alpha2": [0.6, 1]}],
            "optimizers": [{"kind": "gd", "learning_rate": 0.1}],
            "epsilon": [1e-4, 1e-8],
            "seeds": 1,
        },
    },
}


def study(change=lambda experiments: None):
    data = copy.deepcopy(BASE)
    change(data["experiments"])
    return study_from(data)


def ids(change=lambda experiments: None):
    return list(build_grid(study(change)).cells)


def test_the_grid_is_the_product_of_the_axes():
    cells = list(build_grid(study()).cells.values())
    tracks, law = (sum(c.experiment == name for c in cells) for name in ("tracks", "law"))
    assert (tracks, law) == (2 * 2 * 2 * 2, 4 * 2)
    assert len({c.id for c in cells}) == len(cells)


@pytest.mark.parametrize(
    "extend",
    [
        lambda e: e["tracks"].update(seeds=3),
        lambda e: e["tracks"]["sigma"].insert(0, 0.5),
        lambda e: e["tracks"]["architectures"][0].update(width=[2, 4, 8]),
        lambda e: e["tracks"]["architectures"].insert(0, {"kind": "mlp", "inputs": 5, "outputs": 3}),
        lambda e: e["law"]["tasks"][0].update(alpha1=[1.5, 1.75, 2]),
        lambda e: e["law"]["epsilon"].append(1e-6),
        lambda e: e.update(extra=copy.deepcopy(e["law"]) | {"epsilon": [1e-3]}),
    ],
)
def test_extending_an_axis_keeps_every_old_cell(extend):
    old, new = set(ids()), set(ids(extend))
    assert old < new


def test_order_and_names_in_the_file_do_not_matter():
    def turn(experiments):
        for experiment in experiments.values():
            for key, value in experiment.items():
                if isinstance(value, list):
                    experiment[key] = value[::-1]
            experiment["architectures"] = [dict(reversed(item.items())) for item in experiment["architectures"]]
        for name in list(experiments):
            experiments[f"new_{name}"] = experiments.pop(name)

    assert sorted(ids(turn)) == sorted(ids())


def test_repeated_cells_run_once():
    def repeat(experiments):
        experiments["again"] = copy.deepcopy(experiments["tracks"])
        experiments["tracks"]["sigma"] = [0.1, 0.01, 0.1]

    grid = build_grid(study(repeat))
    assert list(grid.cells) == ids()
    assert any("24 cells are asked for twice" in text for text in grid.warnings)
    assert {c.experiment for c in grid.cells.values()} == {"tracks", "law"}


def test_epsilon_is_degrees_times_sigma_squared():
    def wide(experiments):
        experiments["law"]["architectures"][0]["width"] = 5
        experiments["law"]["architectures"][0]["start"] = "gaussian"

    law = [c for c in build_grid(study(wide)).cells.values() if c.experiment == "law"]
    assert {c.architecture.degrees for c in law} == {5}
    assert np.allclose(sorted({c.epsilon for c in law}), [1e-8, 1e-4], rtol=1e-12)
    assert np.allclose([5 * c.sigma**2 for c in law], [c.epsilon for c in law], rtol=1e-12)


def test_automatic_steps_grow_with_the_logarithm_of_sigma_and_the_margin():
    def horizons(margin):
        def auto(experiments):
            experiments["tracks"].update(
                steps={"auto": {"margin": margin}}, sigma=[1e-2, 1e-4, 1e-6], optimizers=[{"kind": "gd", "learning_rate": 0.01}]
            )
            experiments["tracks"]["architectures"][0]["width"] = 8

        cells = [c for c in build_grid(study(auto)).cells.values() if c.experiment == "tracks"]
        return [next(c.steps for c in cells if c.sigma == sigma) for sigma in (1e-2, 1e-4, 1e-6)]

    first, second, third = horizons(1.0)
    assert first < second < third
    assert second - first == pytest.approx(third - second, rel=0.1)
    assert horizons(2.0) == pytest.approx([2 * first, 2 * second, 2 * third], rel=0.1)


def test_automatic_steps_do_not_depend_on_the_seed_or_on_other_axes():
    def auto(**changes):
        def change(experiments):
            experiments["tracks"].update(steps="auto", **changes)

        return {(c.architecture.width, c.optimizer.kind, c.sigma): c.steps for c in build_grid(study(change)).cells.values()}

    few, many = auto(seeds=[7]), auto(seeds=3, sigma=[0.3, 0.1, 0.01])
    assert few.items() <= many.items()


def test_bounds_of_automatic_steps():
    def bounded(experiments):
        experiments["tracks"]["steps"] = {"auto": {"at_least": 700, "at_most": 900}}

    grid = build_grid(study(bounded))
    assert {c.steps for c in grid.cells.values() if c.experiment == "tracks"} <= set(range(700, 901))
    assert any("steps end before the last mode is predicted to ignite" in text and "sigma = 0.01" in text for text in grid.warnings)


def test_steps_by_architecture_and_optimizer_most_specific_first():
    def rules(experiments):
        experiments["tracks"]["steps"] = {"mlp/adam": 300, "gd": 400, "mlp": 500, "default": 600}
        experiments["law"]["steps"] = {"mlp": 500, "default": 600}

    steps = {(c.architecture.name, c.optimizer.kind): c.steps for c in build_grid(study(rules)).cells.values()}
    assert steps == {("mlp", "adam"): 300, ("mlp", "gd"): 400, ("diagonal", "gd"): 600}


def test_too_large_a_step_is_warned_of_with_the_bound():
    def fast(experiments):
        experiments["tracks"]["optimizers"] = [{"kind": "gd", "learning_rate": [0.01, 5.0]}]

    warnings = build_grid(study(fast)).warnings
    assert [text for text in warnings if "above the bound 2: training will not settle" in text and "learning_rate=5" in text]
    assert not [text for text in warnings if "above the bound" in text and "learning_rate=0.01)" in text]


def test_too_short_a_run_is_warned_of_with_the_steps_needed():
    def short(experiments):
        experiments["tracks"].update(steps=260)

    texts = [text for text in build_grid(study(short)).warnings if "steps end before the last mode" in text]
    assert texts
    assert all("gd" in text for text in texts), "Adam has no clock to compare with"


def test_modes_that_cannot_be_learnt_are_warned_of():
    def negative(experiments):
        experiments["tracks"]["architectures"] = [{"kind": "phase_retrieval", "inputs": 6}]
        experiments["tracks"]["tasks"][0].update(strengths=[1, -0.5], inputs="gaussian")

    assert any("modes [2] are negative" in text for text in build_grid(study(negative)).warnings)


def test_data_that_do_not_fit_name_the_task_in_the_file(tmp_path):
    data = copy.deepcopy(BASE)
    data["experiments"]["law"]["tasks"].append({"kind": "feature_power_law", "modes": 31})
    data["experiments"]["tracks"]["tasks"][0]["strengths"] = [4, 3, 2, 1]
    path = tmp_path / "study.yaml"
    path.write_text(yaml.safe_dump(data))
    with pytest.raises(ConfigError) as caught:
        build_grid(read_study(path))
    message = str(caught.value)
    assert "2 errors" in message
    assert "experiments.tracks.tasks[0]: task teacher, strengths: 4 modes do not fit into mlp" in message
    assert "experiments.law.tasks[1]: task feature_power_law has 31 modes" in message


@pytest.mark.parametrize("suffix", ["npz", "csv"])
def test_a_missing_data_file_is_an_error_before_anything_runs(tmp_path, suffix):
    path = tmp_path / "study.yaml"
    experiment = BASE["experiments"]["tracks"] | {"tasks": [{"kind": "file", "path": f"data.{suffix}"}]}
    path.write_text(yaml.safe_dump({"name": "mine", "experiments": {"own": experiment}}))
    with pytest.raises(ConfigError, match=rf"experiments.own.tasks\[0\]: data file {tmp_path}/data.{suffix} does not exist"):
        build_grid(read_study(path))


def test_data_files_are_found_beside_the_config_and_known_by_their_contents(tmp_path, monkeypatch):
    experiment = BASE["experiments"]["tracks"] | {"tasks": [{"kind": "file", "path": "data.npz"}]}
    inputs = np.random.default_rng(0).normal(size=(40, 6))
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        np.savez(tmp_path / folder / "data.npz", x=inputs, y=np.eye(40, 3))
        (tmp_path / folder / "study.yaml").write_text(yaml.safe_dump({"name": "mine", "experiments": {"own": experiment}}))
    monkeypatch.chdir(tmp_path / "a")
    here, there = (build_grid(read_study(path)).cells for path in ("study.yaml", tmp_path / "b" / "study.yaml"))
    assert list(here) == list(there)
    assert all(c.fingerprint for c in here.values())
    np.savez(tmp_path / "b" / "data.npz", x=inputs, y=np.eye(40, 3, k=1))
    assert not set(here) & set(build_grid(read_study(tmp_path / "b" / "study.yaml")).cells)


@given(st.integers(1, 10**9))
def test_rounding_up_keeps_two_digits(steps):
    rounded = round_up(steps)
    assert steps <= rounded < steps * 1.1 + 1
    assert len(str(rounded).rstrip("0")) <= 2
