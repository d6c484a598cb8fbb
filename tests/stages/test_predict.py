"""`nqf predict`: the contract, on the real command; agreement with what the workflow stores; words where theory says nothing."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nqf_pipeline import cli
from nqf_pipeline.analysis.exponents import Curves, estimate
from nqf_pipeline.stages import predict as stage
from nqf_pipeline.stages.predict import Forecast, predict_study, table
from nqf_pipeline.stages.theory import predict_cells
from nqf_pipeline.store.open import open_study
from nqf_pipeline.store.schema import TIERS
from nqf_pipeline.study.config import WindowRule
from nqf_pipeline.theory import order_parameters
from nqf_pipeline.theory.events import TRUSTED
from tests.workflow.runs import ROOT, Workspace

SMOKE = ROOT / "config" / "smoke.yaml"
CONTRACT = {
    "regime", "standing", "tier", "sudden", "separation_ratios", "ignition_times", "ignition_steps", "ignition_quantiles",
    "plateau_losses", "exponent_limit", "exponent_finite", "window", "curve", "spectrum",
}  # fmt: skip
COORDINATES = {"cell", "architecture", "task", "optimizer", "sigma", "epsilon", "seed", "steps"}


Streams = tuple[int, str, str]


def nqf(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], folder: Path, *arguments: str) -> Streams:
    """A command in this process: exit code and both streams."""
    monkeypatch.chdir(folder)
    monkeypatch.setattr("sys.argv", ["nqf", *arguments])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    output = capsys.readouterr()
    return int(ended.value.code or 0), output.out, output.err


@pytest.fixture(scope="module")
def smoke() -> list[Forecast]:
    return predict_study(SMOKE)[0]


@pytest.fixture(scope="module")
def printed(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """What the command prints, read as strict JSON; it leaves no file behind."""
    folder = tmp_path_factory.mktemp("predict")
    command = [sys.executable, "-m", "nqf_pipeline.cli", "predict", str(SMOKE), "--json"]
    done = subprocess.run(command, cwd=folder, env={"PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert not list(folder.iterdir())
    found: list[dict[str, Any]] = json.loads(done.stdout, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))
    return found


def test_every_cell_keeps_the_contract(printed: list[dict[str, Any]], smoke: list[Forecast]) -> None:
    assert [row["cell"] for row in printed] == [forecast.cell.id for forecast in smoke]
    for row in printed:
        assert set(row) >= CONTRACT | COORDINATES
        assert row["sudden"] in (True, False, None)
        if row["tier"] is None:
            continue
        modes = len(row["mode_number"])
        assert row["tier"] in TIERS
        assert {len(row[key]) for key in ("ignition_times", "ignition_steps", "ignition", "plateau_losses")} == {modes}
        steps, times = (np.array(row[key], float) for key in ("ignition_steps", "ignition_times"))
        if row["optimizer"] == "gd":  # momentum needs a while to gain speed, which the flow leaves out
            late = steps > 30
            np.testing.assert_allclose(times[late], steps[late] * row["time_scale"], rtol=0.1)
        assert len(row["curve"]["step"]) == len(row["curve"]["loss"]) == row["records"]
        assert row["curve"]["time"] == pytest.approx([step * row["time_scale"] for step in row["curve"]["step"]])


def test_no_coordinate_is_hidden_by_a_prediction(smoke: list[Forecast]) -> None:
    for forecast in smoke:
        coordinates = forecast.cell.coordinates()
        assert {name: forecast.document[name] for name in coordinates} == pytest.approx(coordinates, nan_ok=True)


def test_cells_without_a_tier_say_why_and_what_to_do(printed: list[dict[str, Any]]) -> None:
    silent = [row for row in printed if row["tier"] is None]
    assert {row["optimizer"] for row in silent} == {"adam"}
    for row in silent:
        assert "adam leaves the linear span" in row["reason"]
        assert "gd, sgd and momentum can be predicted" in row["way_out"]
        assert row["sudden"] is None
        assert row["curve"] is None
        assert row["ignition_steps"] == []
        assert row["exponent_reason"]


@pytest.mark.parametrize(
    ("architecture", "task", "optimizer", "says"),
    [
        ("{kind: mlp, inputs: 4, outputs: 2, width: 3, activation: relu}", "{kind: teacher, strengths: [1.0]}", "gd", "smooth at zero"),
        ("{kind: phase_retrieval, inputs: 4, width: 3}", "{kind: teacher, strengths: [1.0]}", "gd", "integrates the twin"),
        ("{kind: diagonal, inputs: 9}", "{kind: feature_power_law, modes: 9}", "adam", "gd, sgd and momentum"),
    ],
    ids=["relu", "too_much_work", "adam"],
)
def test_the_way_out_fits_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, architecture: str, task: str, optimizer: str, says: str
) -> None:
    monkeypatch.setattr(order_parameters, "AFFORDABLE", 0.0)
    line = f"{{kind: {optimizer}, learning_rate: 0.05}}"
    experiment = (
        f"{{architectures: [{architecture}], tasks: [{task}], optimizers: [{line}], sigma: 0.01, seeds: 1, steps: 300, records: 16}}"
    )
    (tmp_path / "one.yaml").write_text(f"name: one\nexperiments: {{only: {experiment}}}\n")
    ((forecast,), _) = predict_study(tmp_path / "one.yaml")
    row = forecast.document
    assert row["tier"] is None
    assert row["reason"]
    assert says in row["way_out"]
    # A limit that holds for descent is no prediction for other optimizers.
    assert np.isnan(row["exponent_limit"])


def test_an_event_clock_says_how_far_it_is_to_be_trusted(tmp_path: Path) -> None:
    """Ill-conditioned inputs: new modes move on before they have risen, which the estimate sees and the way out names."""
    found = {}
    for condition in (2.0, 100.0):
        experiment = (
            "{architectures: [{kind: mlp, inputs: 8, outputs: 4, width: 8}], optimizers: [{kind: gd, learning_rate: 0.02}], sigma: 0.001, "
            f"tasks: [{{kind: teacher, inputs: correlated, condition: {condition}, samples: 100}}], seeds: 1, steps: 20000, records: 16}}"
        )
        (tmp_path / "one.yaml").write_text(f"name: one\nexperiments: {{only: {experiment}}}\n")
        ((forecast,), _) = predict_study(tmp_path / "one.yaml")
        found[condition] = forecast.document
    assert 0 < found[2.0]["clock_error"] < TRUSTED < found[100.0]["clock_error"] < 1
    assert found[2.0]["way_out"] == ""
    assert "estimated error" in found[100.0]["way_out"]


def test_small_weights_make_learning_sudden(smoke: list[Forecast]) -> None:
    """The same layers at three sigmas: separations grow as weights shrink, until a plateau precedes both steps."""
    ratios = {}
    for forecast in smoke:
        cell, row = forecast.cell, forecast.document
        if cell.experiment == "tracks" and cell.optimizer.kind == "gd" and cell.seed == 0:
            ratios[cell.sigma] = row["separation_ratios"]
            assert row["sudden"] == (cell.sigma < 0.005)
            assert row["sudden_limit"]
            # sigma = 0.001 lies below the crossover, the others above it.
            assert (np.log10(cell.epsilon) < row["sudden_below_log10_epsilon"]) == row["sudden"]
    for step in range(2):
        assert ratios[0.001][step] > ratios[0.01][step] > ratios[0.2][step]


def test_quantiles_hold_their_freedom_and_signs_have_none(smoke: list[Forecast]) -> None:
    for forecast in smoke:
        row, quantiles = forecast.document, forecast.document["ignition_quantiles"]
        if row["tier"] != "discrete" or row["regime"] in ("moments", "lotka_volterra"):
            assert quantiles is None
            continue
        expected = {"mlp": [16, 15], "multi_head": [8, 7], "fourier_mlp": [1], "diagonal": [1]}[row["architecture"]]
        assert quantiles["freedom"][: len(expected)] == expected
        low, middle, high = (np.array(quantiles[key]) for key in ("q05", "q50", "q95"))
        if row["architecture"] == "diagonal":
            np.testing.assert_allclose(low, row["ignition_steps"], rtol=1e-9)
            np.testing.assert_allclose(high, low, rtol=1e-9)
        else:
            assert np.all((low <= middle) & (middle <= high))


def test_the_exponent_is_the_analysis_own_fit_of_the_stored_expected_curve(smoke: list[Forecast]) -> None:
    law = [forecast for forecast in smoke if forecast.cell.experiment == "feature_law"]
    assert len(law) == 4
    for forecast in law:
        dataset = predict_cells([forecast.cell])
        steps, scale = forecast.cell.step_grid(), forecast.cell.time_scale
        ignition = dataset["theory_ignition"].sel(tier="discrete").to_numpy()
        curves = Curves(
            steps[1:] * scale,
            dataset["expected_loss"].to_numpy()[:, 1:],
            np.zeros(1),
            np.where(ignition <= steps[-1], ignition, np.nan) * scale,
            np.array(forecast.document["mode_number"]),
        )
        fitted, where = estimate(curves, WindowRule())
        assert forecast.document["exponent_finite"] == pytest.approx(fitted.exponent, rel=1e-9)
        assert (forecast.document["window"]["start"], forecast.document["window"]["end"]) == pytest.approx((where.start, where.end))
        assert forecast.document["exponent_status"] == "ok"
        # Steeper than the limit: 200 modes, of which the window takes a tenth.
        assert forecast.document["exponent_limit"] < fitted.exponent < 1.4 * forecast.document["exponent_limit"]


def test_seeds_share_exponents_and_differ_by_their_draw(smoke: list[Forecast]) -> None:
    seeds = [f.document for f in smoke if f.cell.experiment == "fourier" and f.document["theta"] == 0.0]
    assert len(seeds) == 2
    assert seeds[0]["exponent_finite"] == seeds[1]["exponent_finite"]
    assert seeds[0]["ignition_steps"] != seeds[1]["ignition_steps"]
    np.testing.assert_allclose(seeds[0]["ignition_quantiles"]["mean"], seeds[1]["ignition_quantiles"]["mean"], rtol=0.02)


def test_predictions_are_those_that_the_workflow_stores(finished: Workspace) -> None:
    forecasts = {forecast.cell.id: forecast.document for forecast in predict_study(finished.config)[0]}
    compared = 0
    for node in open_study(finished.results).trajectories.children.values():
        dataset = node.to_dataset().compute()
        for cell in dataset["cell"].values:
            row, stored = forecasts.pop(str(cell)), dataset.sel(cell=cell)
            assert (row["regime"], row["standing"]) == (str(stored["regime"].values), str(stored["standing"].values))
            if row["tier"] is None:
                assert "theory_loss" not in stored or np.isnan(stored["theory_loss"]).all()
                continue
            tier = stored.sel(tier=row["tier"])
            np.testing.assert_allclose(row["ignition_steps"], tier["theory_ignition"], rtol=1e-9)
            np.testing.assert_allclose(row["curve"]["loss"], tier["theory_loss"], rtol=1e-9)
            np.testing.assert_array_equal(row["curve"]["step"], stored["step_number"])
            np.testing.assert_allclose(row["curve"]["time"], stored["time"], rtol=1e-12)
            compared += 1
    assert not forecasts
    assert compared >= 6


def test_cells_are_predicted_in_parts_as_at_once(smoke: list[Forecast], monkeypatch: pytest.MonkeyPatch) -> None:
    """However few cells go together, a setting keeps its seeds and every cell is there once, in order."""
    monkeypatch.setattr(stage, "TOGETHER", 3)
    cells = [forecast.cell for forecast in smoke]
    parts = list(stage.batches(cells))
    assert sorted(cell.id for batch in parts for seeds in batch for cell in seeds) == sorted(cell.id for cell in cells)
    assert all(len({stage.setting(cell) for cell in seeds}) == 1 for batch in parts for seeds in batch)
    assert max(sum(map(len, batch)) for batch in parts) <= 3
    for forecast, whole in zip(predict_study(SMOKE)[0], smoke, strict=True):
        assert forecast.cell == whole.cell
        for key in ("ignition_steps", "plateau_losses", "separation_ratios"):
            np.testing.assert_allclose(forecast.document[key], whole.document[key], rtol=1e-9)
        assert forecast.document["exponent_finite"] == pytest.approx(whole.document["exponent_finite"], nan_ok=True)


def test_the_table_has_a_row_for_each_setting(smoke: list[Forecast]) -> None:
    rows = table(smoke)
    assert rows["seeds"].sum() == len(smoke)
    assert set(rows["sudden"]) <= {"yes", "no", "-", "1/2"}
    assert "feature_power_law alpha1=1.5" in set(rows["task"])
    assert (rows.loc[rows["optimizer"] == "adam", "ignition steps"] == "-").all()


def test_people_read_a_table_and_the_reason_for_its_gaps(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    code, out, _ = nqf(monkeypatch, capsys, tmp_path, "predict", str(SMOKE))
    assert code == 0
    assert "whitened_feedforward" in out
    assert "no tier for 6 cells: adam leaves the linear span" in out
    assert not list(tmp_path.iterdir())


def test_bad_input_names_file_and_key(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "bad.yaml").write_text(SMOKE.read_text().replace("sigma: [0.2, 0.01, 0.001]", "sigmas: [0.2]"))
    code, out, err = nqf(monkeypatch, capsys, tmp_path, "predict", "bad.yaml", "--json")
    assert (code, out) == (2, "")
    assert "bad.yaml" in err
    assert "sigmas" in err


def test_what_a_schedule_never_reaches_has_no_time(tmp_path: Path) -> None:
    """The learning rate is gone before the last modes ignite: neither their steps nor their times are finite."""
    experiment = (
        "{architectures: [{kind: diagonal, inputs: 9}], tasks: [{kind: feature_power_law, modes: 9}], sigma: 1.0e-3, seeds: 1, steps: 400, "
        "optimizers: [{kind: gd, learning_rate: 0.5, schedule: linear, decay_steps: 90}], records: 16}"
    )
    (tmp_path / "one.yaml").write_text(f"name: one\nexperiments: {{only: {experiment}}}\n")
    ((forecast,), _) = predict_study(tmp_path / "one.yaml")
    steps, times, said = (forecast.document[name] for name in ("ignition_steps", "ignition_times", "ignition"))
    assert set(said) == {"predicted", "never"}
    assert [np.isfinite(step) for step in steps] == [np.isfinite(time) for time in times] == [word == "predicted" for word in said]
