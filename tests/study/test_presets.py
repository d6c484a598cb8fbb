"""Every config file in config/, and everything that is generated from the config model."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest
import yaml

from nqf_pipeline.study.generate import BEGIN, README_FILE, SCHEMA_FILE, defaults, generated, stale
from nqf_pipeline.study.plan import plan_file
from nqf_pipeline.study.reading import study_from

ROOT = Path(__file__).parents[2]
PRESETS = sorted((ROOT / "config").rglob("*.yaml"))


@pytest.fixture(params=PRESETS, ids=lambda path: path.stem)
def preset(request):
    return request.param


def test_presets_open_with_command_time_and_expected_result(preset):
    head = preset.read_text().split("\nname:")[0]
    for word in ("# Command:", "# Wall time:", "# Expected result:"):
        assert word in head, f"{preset.name} must say `{word}` before its first key"


def test_presets_validate_and_plan(preset, tmp_path):
    wish = plan_file(preset, tmp_path)
    assert wish.cells
    assert {c.experiment for c in wish.cells} == set(wish.study.experiments)
    assert not wish.warnings, "a preset must not warn"


def test_presets_follow_the_json_schema(preset):
    jsonschema.Draft202012Validator(json.loads((ROOT / SCHEMA_FILE).read_text())).validate(yaml.safe_load(preset.read_text()))


@pytest.mark.parametrize("change", [{"name": "No"}, {"experiments": {}}, {"engine": {"lanes": 3}}, {"analysis": {"rho": 2}}])
def test_the_json_schema_refuses_what_the_model_refuses(change):
    data = yaml.safe_load((ROOT / "config" / "smoke.yaml").read_text()) | change
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.Draft202012Validator(json.loads((ROOT / SCHEMA_FILE).read_text())).validate(data)


def test_generated_files_are_up_to_date():
    difference = stale(ROOT)
    assert not difference, f"stale; run `make docs`:\n{difference}"


def test_staleness_is_noticed(tmp_path):
    for path, text in generated(ROOT).items():
        copy = tmp_path / path.relative_to(ROOT)
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_text(text)
    assert not stale(tmp_path)
    readme = tmp_path / README_FILE
    readme.write_text(readme.read_text().replace("whole number", "number", 1))
    assert "-| `" in stale(tmp_path)
    assert f"{README_FILE} (generated)" in stale(tmp_path)


def test_commented_defaults_are_the_defaults():
    block = defaults().removeprefix(BEGIN)
    settings = yaml.safe_load("\n".join(line.removeprefix("# ") for line in block.splitlines()))
    plain = yaml.safe_load((ROOT / "config" / "smoke.yaml").read_text())
    assert study_from(plain | settings).as_given() == study_from(plain).as_given()


def test_the_reference_names_every_key_and_kind():
    text = (ROOT / README_FILE).read_text()
    schema = json.loads((ROOT / SCHEMA_FILE).read_text())
    models = [schema, *schema["$defs"].values()]
    keys = {key for model in models for key in model.get("properties", {}) if key not in ("kind", "auto")}
    assert not [key for key in keys if f"| `{key}` |" not in text]
