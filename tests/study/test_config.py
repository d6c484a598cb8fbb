from __future__ import annotations

import json
import re

import pytest
import yaml

from nqf_pipeline.study.config import Study
from nqf_pipeline.study.document import read_document
from nqf_pipeline.study.errors import ConfigError
from nqf_pipeline.study.grid import build_grid
from nqf_pipeline.study.reading import read_study, study_from

GOOD = """\
name: trial
experiments:
  tracks:
    architectures:
      - {kind: mlp, width: [16, 64]}
    tasks:
      - {kind: teacher}
    optimizers:
      - {kind: gd, learning_rate: 0.02}
    sigma: [0.01]
"""
EDITS = {
    # replaced text, replacement, what the message must say (in this order)
    "unknown key": (
        "sigma:",
        "sigmma:",
        ["line 10: experiments.tracks.sigmma", "unknown key `sigmma`", "allowed: architectures", "`sigma`?"],
    ),
    "unknown top key": ("name: trial", "name: trial\nengin: {}", ["line 2: engin", "unknown key `engin`", "did you mean `engine`?"]),
    "unknown field": ("width: [16", "widht: [16", ["architectures[0].widht", "allowed: activation, inputs", "did you mean `width`?"]),
    "unknown kind": ("kind: mlp", "kind: mpl", ["architectures[0].kind = 'mpl'", "is not one of mlp, cnn", "did you mean `mlp`?"]),
    "unknown choice": ("width: [16, 64]", "activation: tahn", ["architectures[0].activation = 'tahn'", "did you mean `tanh`?"]),
    "unknown optimizer": ("kind: gd", "kind: adm", ["optimizers[0].kind = 'adm'", "did you mean `adam`?"]),
    "no kind": ("kind: teacher", "samples: 3", ["line 7: experiments.tracks.tasks[0]", "needs the key 'kind'"]),
    "value in a list": ("[16, 64]", "[16, 0]", ["line 5: experiments.tracks.architectures[0].width[1] = 0: must be 1 or more"]),
    "single value": ("[16, 64]", "0", ["line 5: experiments.tracks.architectures[0].width = 0: must be 1 or more"]),
    "not whole": ("[16, 64]", "1.5", ["width = 1.5: must be a whole number"]),
    "not a number": ("0.02", "fast", ["optimizers[0].learning_rate = 'fast': must be a number"]),
    "zero sigma": ("[0.01]", "[0.0]", ["line 10: experiments.tracks.sigma[0] = 0.0: must be greater than 0"]),
    "infinite sigma": ("[0.01]", ".inf", ["sigma = inf: must be a finite number"]),
    "zero epsilon": ("sigma: [0.01]", "epsilon: 0", ["experiments.tracks.epsilon = 0: must be greater than 0"]),
    "no scale": ("sigma: [0.01]", "records: 9", ["line 3: experiments.tracks", "needs `sigma` or `epsilon`"]),
    "empty axis": ("[16, 64]", "[]", ["architectures[0].width", "at least 1 item", "the grid is empty"]),
    "no tasks": ("- {kind: teacher}", "[]", ["experiments.tracks.tasks", "the grid is empty"]),
    "not a mapping": ("{kind: teacher}", "teacher", ["experiments.tracks.tasks[0] = 'teacher': must be a mapping"]),
    "theorem's range": ("kind: teacher", "kind: feature_power_law, alpha1: [2, 1]", ["tasks[0].alpha1[1] = 1: must be greater than 1"]),
    "inconsistent optimizer": ("kind: gd", "kind: sgd", ["line 9: experiments.tracks.optimizers[0]", "sgd needs `batch_size`"]),
    "field of another kind": ("kind: gd", "kind: gd, beta1: 0.5", ["`beta1` belongs to adam, not to gd"]),
    "momentum elsewhere": ("kind: gd", "kind: adam, momentum: 0.5", ["`momentum` belongs to momentum, not to adam"]),
    "inconsistent architecture": (
        "kind: mlp, width: [16, 64]",
        "kind: cnn, image: [[5, 7], [3, 3]]",
        ["architectures[0]", "must lie between (1, 1) and the image (3, 3)"],
    ),
    "rate for nobody": ("0.02", "{mpl: 1, default: 1}", ["learning_rate.mpl = 1", "unknown key `mpl`", "did you mean `mlp`?"]),
    "rate missing": ("0.02", "{cnn: 1}", ["optimizers[0].learning_rate: has no value for mlp", "`default`"]),
    "bad rate": ("0.02", "{mlp: [0.1, -1]}", ["optimizers[0].learning_rate.mlp[1] = -1: must be greater than 0"]),
    "word for steps": ("sigma:", "steps: atuo\n    sigma:", ["steps = 'atuo'", "did you mean `auto`?"]),
    "setting of auto": ("sigma:", "steps: {auto: {margni: 2}}\n    sigma:", ["steps.auto.margni", "did you mean `margin`?"]),
    "steps for nobody": ("sigma:", "steps: {mlp/gdd: 900, mlp: 900}\n    sigma:", ["steps.mlp/gdd", "architecture/optimizer"]),
    "steps missing": ("sigma:", "steps: {cnn: 900}\n    sigma:", ["steps: has no value for mlp/gd", "mlp/gd, gd, mlp, default"]),
    "few steps": ("sigma:", "steps: 100\n    sigma:", ["experiments.tracks.steps = 100", "256 recorded steps do not fit into 100 steps"]),
    "few steps by kind": ("sigma:", "steps: {mlp: 100}\n    sigma:", ["experiments.tracks.steps.mlp = 100", "do not fit"]),
    "no seeds": ("sigma:", "seeds: 0\n    sigma:", ["seeds = 0: must be 1 or more (how many seeds), or a list"]),
    "negative seed": ("sigma:", "seeds: [0, -1]\n    sigma:", ["seeds[1] = -1: must be 0 or more"]),
    "name": ("name: trial", "name: My study", ["name = 'My study': must be lower-case letters, digits"]),
    "number or word": (
        "name: trial",
        "name: trial\nengine: {minutes_per_job: 20 min}",
        ["1 error", "engine.minutes_per_job = '20 min': must be a number or `auto`"],
    ),
    "amount of memory": ("name: trial", "name: trial\nengine: {dask: {memory: 4 gigs}}", ["memory = '4 gigs': must be", "such as 4GB"]),
    "no name": ("name: trial\n", "", ["name: is required"]),
    "percentage": ("name: trial", "name: trial\nanalysis: {confidence: 95}", ["analysis.confidence = 95: must be less than 1"]),
}


def write(tmp_path, text):
    path = tmp_path / "study.yaml"
    path.write_text(text)
    return path


def refusal(tmp_path, text):
    with pytest.raises(ConfigError) as caught:
        read_study(write(tmp_path, text))
    return str(caught.value)


@pytest.mark.parametrize("case", EDITS)
def test_an_error_says_where_what_and_what_is_allowed(tmp_path, case):
    old, new, phrases = EDITS[case]
    assert old in GOOD
    message = refusal(tmp_path, GOOD.replace(old, new, 1))
    assert message.startswith(f"{tmp_path}/study.yaml: ")
    assert re.search(".*".join(map(re.escape, phrases)), message, re.DOTALL), message


def test_all_errors_are_reported_at_once(tmp_path):
    message = refusal(tmp_path, GOOD.replace("[0.01]", "-1").replace("0.02", "-2").replace("16", "-3").replace("name: trial", "name: A"))
    assert message.splitlines()[0].endswith("4 errors")
    assert [line.split(":")[0].strip() for line in message.splitlines()[1:]] == ["line 1", "line 5", "line 9", "line 10"]


@pytest.mark.parametrize(
    ("text", "phrase"),
    [
        ("a: [1", "line 2, column 1: not valid YAML"),
        ("a: b: c", "line 1, column 5: not valid YAML: mapping values are not allowed"),
        ("name: a\nname: b", "line 2, column 1: not valid YAML: key `name` is given twice, first in line 1"),
        ("", "the file = None: must be a mapping"),
        ("- 1", "the file: must be a mapping"),
        ("a: \x00", "not valid YAML"),
    ],
)
def test_files_that_are_not_a_config(tmp_path, text, phrase):
    assert phrase in refusal(tmp_path, text)


def test_files_that_cannot_be_read(tmp_path):
    with pytest.raises(ConfigError, match=r"nowhere.yaml: cannot read the config file \(No such file"):
        read_study(tmp_path / "nowhere.yaml")
    (tmp_path / "latin.yaml").write_bytes(b"name: \xe9")
    with pytest.raises(ConfigError, match="not a text file in UTF-8"):
        read_study(tmp_path / "latin.yaml")


@pytest.mark.parametrize("text", ["1e-3", "1E-3", "1.e-3", ".1e-2", "0.001"])
def test_floats_are_floats_in_every_spelling(tmp_path, text):
    assert read_document(write(tmp_path, f"x: {text}")).data == {"x": 0.001}


@pytest.mark.parametrize(
    ("text", "value"), [("12", 12), ("-3", -3), ("1.0", 1.0), ("v1e", "v1e"), ("1_0", 10), ("2026-01-02x", "2026-01-02x")]
)
def test_other_scalars_are_as_in_yaml(tmp_path, text, value):
    data = read_document(write(tmp_path, f"x: {text}")).data
    assert (data["x"], type(data["x"])) == (value, type(value))


def test_merge_keys_and_anchors_work(tmp_path):
    text = GOOD.replace("tracks:", "tracks: &base").replace("name: trial\n", "") + "  wide:\n    <<: *base\n    sigma: [0.5]\nname: trial\n"
    study = read_study(write(tmp_path, text))
    assert (study.experiments["wide"].sigma, study.experiments["wide"].seeds) == ([0.5], [0, 1, 2, 3])


def test_axes_expand_to_models_with_defaults():
    axes = study_from(yaml.safe_load(GOOD)).experiments["tracks"].architectures[0]
    assert [a.model_dump() for a in axes.choices()] == [
        {"kind": "mlp", "width": width, "inputs": 20, "outputs": 8, "activation": "tanh"} for width in (16, 64)
    ]


def test_a_sequence_field_takes_a_list_of_lists_for_an_axis():
    def strengths(value):
        data = yaml.safe_load(GOOD)
        data["experiments"]["tracks"]["tasks"] = [{"kind": "teacher", "strengths": value}]
        return [task.strengths for task in study_from(data).experiments["tracks"].tasks[0].choices()]

    assert strengths([1, 2]) == [(1, 2)]
    assert strengths([[1, 2], [3]]) == [(1, 2), (3,)]


def test_learning_rates_by_architecture():
    data = yaml.safe_load(GOOD)
    data["experiments"]["tracks"]["optimizers"][0]["learning_rate"] = {"mlp": [0.1, 0.2], "default": 0.3}
    optimizers = study_from(data).experiments["tracks"].optimizers[0]
    assert [o.learning_rate for o in optimizers.choices("mlp")] == [0.1, 0.2]
    assert [o.learning_rate for o in optimizers.choices("cnn")] == [0.3]


def test_defaults_that_depend_on_the_kind_survive_expansion():
    data = yaml.safe_load(GOOD)
    data["experiments"]["tracks"]["optimizers"] = [{"kind": "momentum"}, {"kind": "gd"}]
    assert [next(o.choices("mlp")).momentum for o in study_from(data).experiments["tracks"].optimizers] == [0.9, 0.0]


def test_parsed_data_keep_the_lines_of_their_file(tmp_path):
    path = write(tmp_path, GOOD)
    data = yaml.safe_load(GOOD)
    data["experiments"]["tracks"]["sigma"] = [-1]
    with pytest.raises(ConfigError, match=r"study.yaml: 1 error\n  line 10: experiments.tracks.sigma\[0\] = -1: must be greater"):
        study_from(data, str(path))
    with pytest.raises(ConfigError, match=r"nowhere: 1 error\n  experiments.tracks.sigma\[0\] = -1: must be greater"):
        study_from(data, "nowhere")


def test_a_study_survives_storage():
    study = study_from(yaml.safe_load(GOOD))
    stored = json.loads(json.dumps(study.as_given()))
    assert stored["engine"]["lane_width"] == 4
    assert Study.model_validate(stored).as_given() == stored
    assert build_grid(study_from(stored)).cells == build_grid(study).cells
