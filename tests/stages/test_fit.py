"""`nqf fit` as a command: the contract's keys, the figure, exit codes, and what it says of three real training runs."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from nqf_pipeline import cli
from nqf_pipeline.stages.fit import document, fit_file, remarks

CURVES = Path(__file__).parents[1] / "data" / "curves"
CONTRACT = {"exponent", "ci_low", "ci_high", "window", "floor", "status", "plateaus", "drops", "notes"}


@pytest.fixture(scope="module")
def power_law(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("curve") / "mine.csv"
    step = np.geomspace(1, 1e4, 150)
    loss = (step**-0.6 + 0.01) * np.exp(0.01 * np.random.default_rng(0).standard_normal(150))
    path.write_text("step,loss\n" + "\n".join(f"{a},{b}" for a, b in zip(step, loss, strict=True)))
    return path


def run(monkeypatch, capsys, *arguments: str) -> tuple[int, str, str]:
    monkeypatch.setattr("sys.argv", ["nqf", "fit", *arguments])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    return int(ended.value.code or 0), *capsys.readouterr()


def test_json_has_the_contract_and_only_one_document(monkeypatch, capsys, tmp_path, power_law):
    monkeypatch.chdir(tmp_path)
    code, out, _ = run(monkeypatch, capsys, str(power_law), "--json")
    found = json.loads(out)
    assert code == 0
    assert set(found) >= CONTRACT
    assert found["status"] == "ok"
    assert found["ci_low"] < 0.6 < found["ci_high"]
    assert found["exponent"] == pytest.approx(0.6, rel=0.03)
    assert found["floor"] == pytest.approx(0.01, rel=0.1)
    assert 1 <= found["window"][0] < found["window"][1] <= 1.001e4
    assert found["plateaus"] == found["drops"] == []
    assert list(tmp_path.iterdir()) == []


def test_table_and_figure(monkeypatch, capsys, tmp_path, power_law):
    monkeypatch.chdir(tmp_path)
    code, out, _ = run(monkeypatch, capsys, str(power_law))
    assert code == 0
    assert "exponent  0.599 (0.5" in out
    assert "mine.fit.png" in out
    assert (tmp_path / "mine.fit.png").read_bytes().startswith(b"\x89PNG")
    code, out, _ = run(monkeypatch, capsys, str(power_law), "--figure", str(tmp_path / "a" / "b.svg"))
    assert (tmp_path / "a" / "b.svg").read_text().lstrip().startswith("<?xml")


def test_bad_input_ends_with_2_and_no_traceback(monkeypatch, capsys, tmp_path, power_law):
    (tmp_path / "empty.csv").write_text("")
    for arguments, words in [
        ([str(tmp_path / "empty.csv")], "is empty"),
        ([str(tmp_path / "nowhere.csv")], "does not exist"),
        ([str(power_law), "--loss", "los"], "did you mean `loss`"),
        ([str(power_law), "--figure", "a.gif"], ".png and .svg"),
    ]:
        code, _, err = run(monkeypatch, capsys, *arguments)
        assert code == 2
        assert words in err.replace("\n", " ")


def test_language_model_tail_has_too_few_decades():
    (found,) = fit_file(CURVES / "llm_pretraining_tail.csv")
    assert found.status == "not_resolved"
    assert found.reason == "too few decades: 0.45 of time, at least 1 are needed"
    assert (found.plateaus, found.drops, found.spacing, found.time_name) == ([], [], "linear", "step")
    assert "stands 2.9% above the next" in {note.code: note.message for note in found.notes}["first_record"]
    (by_tokens,) = fit_file(CURVES / "llm_pretraining_tail.csv", time="tokens")
    assert by_tokens.reason == found.reason


def test_grokking_rises_waits_drops_and_jumps():
    train, test = fit_file(CURVES / "grokking_modular_addition.csv")
    notes = {note.code: note.message for note in test.notes}
    assert "before it falls below where it was" in notes["rise"]
    assert "at step 22800, 46300, 69500" in notes["jump"]
    assert test.status == train.status == "not_resolved"
    assert "not fitted through" in test.reason
    (plateau,), (drop,) = test.plateaus, test.drops
    assert plateau.kind == "first"
    assert plateau.start < 700
    assert 5000 < plateau.end < 6500
    assert 13 < plateau.loss < 16
    assert (drop.kind, 7000 < drop.time < 9500, drop.factor > 1000) == ("drop", True, True)
    assert "4 time(s), at step 22800, 46200, 69500, 93700" in {n.code: n.message for n in train.notes}["jump"]
    assert train.drops == []


def test_trainer_log_has_a_floor_within_half_a_decade_and_rising_evaluations():
    found = fit_file(CURVES / "finetuning_trainer_state.json")
    assert [item.curve for item in found] == ["loss", *(f"eval_g{i}_loss" for i in range(6))]
    assert {item.status for item in found} == {"not_resolved"}
    assert "the law exceeds its floor" in found[0].reason
    assert {"averaged", "one_record_per_epoch"} <= {note.code for note in found[0].notes}
    assert found[0].time[0] == 200.5
    for item in found[1:]:
        assert "does not come back below where it was" in {note.code: note.message for note in item.notes}["rise"]
        assert "the loss rises, and is not fitted through" in item.reason
    assert [item["curve"] for item in document(CURVES, found)["others"]] == [item.curve for item in found[1:]]
    assert [curve for curve, note in remarks(found) if note.code == "one_record_per_epoch"] == [""]


def test_describing_curves_never_imports_jax():
    script = "import sys, nqf_pipeline.analysis.curves; sys.exit('jaxlib' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0
