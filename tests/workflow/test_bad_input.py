"""Bad configs: every message names file, line, key, value and what is allowed; exit code 2; nothing is written."""

from __future__ import annotations

import re
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
import yaml

from nqf_pipeline.cli import main
from tests.workflow.runs import STUDY, Change, Workspace, new, said


def put(*place: Any, value: Any) -> Change:
    """Set one key of a config."""

    def change(study: dict[str, Any]) -> None:
        for key in place[:-1]:
            study = study[key]
        study[place[-1]] = value

    return change


TRACKS, LAW, TABLE = (("experiments", name) for name in ("tracks", "law", "table"))
TASK = r"experiments.table.tasks\[0\]: "
CHANGES: dict[str, tuple[Change, str]] = {
    "unknown key": (put(*TRACKS, "seedz", value=2), r"line \d+: experiments.tracks.seedz = 2: unknown key `seedz`.*did you mean `seeds`\?"),
    "unknown top key": (put("engin", value={}), r"line \d+: engin: unknown key `engin`.*did you mean `engine`\?"),
    "unknown kind": (put(*TRACKS, "architectures", 0, "kind", value="mpl"), r"architectures\[0\].kind = 'mpl'.*did you mean `mlp`\?"),
    "wrong type": (put(*TRACKS, "seeds", value="two"), r"experiments.tracks.seeds = 'two': must be"),
    "a fraction of steps": (put(*TRACKS, "steps", value=2.5), r"experiments.tracks.steps = 2.5: must be"),
    "sigma of zero": (put(*TRACKS, "sigma", value=[0.1, 0]), r"line \d+: experiments.tracks.sigma\[1\] = 0: must be greater than 0"),
    "negative sigma": (put(*TRACKS, "sigma", value=-0.1), r"experiments.tracks.sigma = -0.1: must be greater than 0"),
    "sigma not a number": (put(*TRACKS, "sigma", value=float("nan")), r"experiments.tracks.sigma = nan: must be"),
    "exponent outside the theorem": (put(*LAW, "tasks", 0, "alpha1", value=1.0), r"law.tasks\[0\].alpha1 = 1.0: must be greater than 1"),
    "modes that do not fit": (put(*LAW, "tasks", 0, "modes", value=41), r"experiments.law.tasks\[0\]: .*41.*40"),
    "empty grid": (put(*TRACKS, "sigma", value=[]), r"experiments.tracks.sigma: .*the grid is empty"),
    "no experiment": (put("experiments", value={}), r"experiments: .*"),
    "too few steps": (put(*TRACKS, "steps", value=10), r"experiments.tracks.steps = 10: .*48"),
    "no such data file": (put(*TABLE, "tasks", 0, "path", value="point.csv"), TASK + "data file .*config/point.csv does not exist"),
    "no such column": (put(*TABLE, "tasks", 0, "target", value=["z"]), TASK + ".*config/points.csv.*`z`"),
    "name of a folder": (put("name", value="../up"), r"line 1: name = '../up': must"),
}  # fmt: skip


def rejected(text: str, words: str) -> None:
    assert "Traceback" not in text
    assert re.search(words, text, re.DOTALL), f"{words!r} is not in: {text}"


@pytest.mark.parametrize(("change", "words"), CHANGES.values(), ids=CHANGES)
def test_plan_refuses(
    tmp_path: Path, change: Change, words: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    workspace = new(tmp_path)
    workspace.change(change)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.argv", ["nqf", "plan", "config/tiny.yaml", "--json"])
    with pytest.raises(SystemExit) as stop:
        main()
    assert stop.value.code == 2
    out, err = capsys.readouterr()
    assert out == "", "no document where there is no plan"
    assert err.startswith("config/tiny.yaml: 1 error\n")
    rejected(err, words)
    assert not workspace.results.parent.exists()


def test_all_problems_are_said_at_once(tmp_path: Path) -> None:
    workspace = new(tmp_path)
    for name in ("unknown key", "sigma of zero", "exponent outside the theorem"):
        workspace.change(CHANGES[name][0])
    done = workspace.nqf("plan", "config/tiny.yaml")
    assert done.returncode == 2
    assert "config/tiny.yaml: 3 errors" in done.stderr
    for name in ("unknown key", "sigma of zero", "exponent outside the theorem"):
        rejected(done.stderr, CHANGES[name][1])


@pytest.mark.parametrize("name", ["unknown key", "exponent outside the theorem", "no such data file"])
def test_the_workflow_refuses_with_the_same_words(tmp_path: Path, name: str) -> None:
    change, words = CHANGES[name]
    workspace = new(tmp_path)
    workspace.change(change)
    done = workspace.snakemake()
    assert done.returncode == 2, said(done)
    rejected(said(done), "config/tiny.yaml: 1 error.*" + words)
    assert not workspace.results.parent.exists()


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ("1,2,3,4\n1,2,x,4\n", r"config/points.csv, row 3, column `c`: `x` is not a number"),
        ("1,2,3,4\n1,2,3\n", r"config/points.csv, row 3: has 3 cells but the header 4 columns"),
        ("", r"config/points.csv.*sample"),
    ],
    ids=["a word", "a short row", "no rows"],
)
def test_malformed_data_files(tmp_path: Path, rows: str, words: str) -> None:
    workspace = new(tmp_path)
    (workspace.config.parent / "points.csv").write_text("a,b,c,y\n" + rows)
    done = workspace.nqf("plan", "config/tiny.yaml")
    assert done.returncode == 2, said(done)
    rejected(done.stderr, TASK + ".*" + words)


BROKEN = {
    "not YAML": ("name: tiny\nexperiments: [\n", r"config/tiny.yaml, line \d+, column \d+: not valid YAML"),
    "a tab": ("name: tiny\nexperiments:\n\ttracks: 1\n", r"config/tiny.yaml, line 3, column 1: not valid YAML"),
    "a key twice": ("name: tiny\nname: small\n", r"config/tiny.yaml, line 2, column 1: .*key `name` is given twice, first in line 1"),
    "a list": ("- name: tiny\n", r"config/tiny.yaml: 1 error"),
    "nothing": ("", r"config/tiny.yaml: 1 error"),
}


@pytest.mark.parametrize(("text", "words"), BROKEN.values(), ids=BROKEN)
def test_plan_refuses_files_that_hold_no_study(
    tmp_path: Path, text: str, words: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    workspace = new(tmp_path)
    workspace.config.write_text(text)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.argv", ["nqf", "plan", "config/tiny.yaml"])
    with pytest.raises(SystemExit) as stop:
        main()
    assert stop.value.code == 2
    rejected(capsys.readouterr().err, words)


def test_a_key_given_twice_is_refused_though_snakemake_would_take_the_last(tmp_path: Path) -> None:
    workspace = new(tmp_path)
    workspace.config.write_text(yaml.safe_dump(deepcopy(STUDY), sort_keys=False) + "name: small\n")
    done = workspace.snakemake()
    assert done.returncode == 2, said(done)
    rejected(said(done), "key `name` is given twice, first in line 1")


def test_what_snakemake_itself_refuses_is_said_with_its_code(tmp_path: Path) -> None:
    """It reads config files before the Snakefile, so words and code (1) are its own; `nqf plan` has better ones (above)."""
    workspace = new(tmp_path)
    workspace.config.write_text(BROKEN["not YAML"][0])
    done = workspace.snakemake()
    assert done.returncode == 1
    assert "Config file is not valid JSON or YAML" in said(done)


def test_absent_config_file(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path)
    done = workspace.nqf("plan", "config/other.yaml")
    assert done.returncode == 2
    assert "config/other.yaml: cannot read the config file (No such file or directory): check the path" in done.stderr
    # The default config belongs to the checkout: elsewhere one has to be named.
    done = workspace.run(*workspace.snakemake_command()[:-2])
    assert done.returncode != 0
    assert "config/config.yaml" in said(done)


def test_overrides_on_the_command_line_are_checked_too(finished: Workspace, tmp_path: Path) -> None:
    workspace = finished.copy(tmp_path)
    done = workspace.snakemake("--dry-run", "--config", "name=Bad")
    assert done.returncode == 2, said(done)
    rejected(said(done), "name = 'Bad': must")
