from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from nqf_pipeline.errors import InputError
from nqf_pipeline.study import manifest as manifest_module
from nqf_pipeline.study.cells import Cell
from nqf_pipeline.study.cost import START, seconds_per_job
from nqf_pipeline.study.errors import ConfigError
from nqf_pipeline.study.manifest import Manifest, read_manifest, read_some
from nqf_pipeline.study.plan import freeze, plan, plan_study

ROOT = Path(__file__).parents[2]


def names(shards):
    return [shard.id for shard in shards]


def lines(results):
    return (results / "trial" / "manifest.jsonl").read_bytes().splitlines(keepends=True)


def finish(wish, shards):
    for shard in shards:
        for path in (*wish.results_of(shard), wish.layout.theory(shard.id), wish.layout.theory_summary(shard.id)):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("{}")


def test_planning_writes_nothing_and_freezing_writes_one_line_a_shard(small, tmp_path):
    wish = plan_study(small(engine={"seconds_per_job": 0.1}), tmp_path)
    assert not list(tmp_path.iterdir())
    frozen = freeze(wish)
    records = [json.loads(line) for line in lines(tmp_path)]
    assert [record["shard"] for record in records] == names(wish.new_shards)
    assert set(records[0]) == {"schema", "study", "shard", "bucket", "lane_width", "families", "cells"}
    assert names(frozen.shards) == names(wish.shards)
    assert frozen.new_shards == ()


def test_a_second_plan_adds_nothing(small, tmp_path):
    freeze(plan_study(small(), tmp_path))
    before = lines(tmp_path)
    again = plan_study(small(), tmp_path)
    assert again.new_shards == ()
    freeze(again)
    assert lines(tmp_path) == before


def test_what_is_read_is_what_was_frozen(small, tmp_path):
    wish = freeze(plan_study(small(), tmp_path))
    assert read_manifest(wish.layout.manifest, "trial").shards == wish.manifest.shards
    assert {c.id for c in wish.cells} <= {c.id for shard in wish.shards for c in shard.cells}


@pytest.mark.parametrize(
    "extension", [{"seeds": 5}, {"sigma": [0.5, 0.1, 0.01]}, {"optimizers": [{"kind": "gd", "learning_rate": [0.01, 0.02]}]}]
)
def test_new_cells_only_form_new_shards(small, tmp_path, extension):
    old = freeze(plan_study(small(), tmp_path))
    finish(old, old.shards)
    before = lines(tmp_path)
    new = freeze(plan_study(small(**extension), tmp_path))
    assert lines(tmp_path)[: len(before)] == before
    added = [shard for shard in new.shards if shard.id not in old.shard_by_id]
    assert added
    assert not {c.id for shard in added for c in shard.cells} & {c.id for c in old.cells}
    assert [shard for shard in new.shards if not new.done(shard)] == added
    kept = {shard.id for shard in new.shards} & set(old.shard_by_id)
    assert all(old.shard_by_id[name].cells == new.shard_by_id[name].cells for name in kept)


def test_engine_settings_never_move_frozen_cells(small, tmp_path):
    old = freeze(plan_study(small(), tmp_path))
    new = plan_study(small(engine={"lane_width": 2, "seconds_per_job": 0.001}), tmp_path)
    assert new.new_shards == ()
    assert new.shards == old.shards


def test_shards_without_a_wanted_cell_are_not_run(small, tmp_path):
    freeze(plan_study(small(engine={"seconds_per_job": 0.001}), tmp_path))
    fewer = plan_study(small(seeds=1, optimizers=[{"kind": "gd", "learning_rate": 0.01}]), tmp_path)
    assert fewer.new_shards == ()
    assert len(fewer.shards) < len(fewer.manifest.shards)
    assert all(fewer.wanted(shard) for shard in fewer.shards)
    assert sorted(c.id for shard in fewer.shards for c in fewer.wanted(shard)) == sorted(c.id for c in fewer.cells)


def test_a_renamed_experiment_renames_wanted_cells_only(small, tmp_path):
    freeze(plan_study(small(), tmp_path))
    study = small()
    renamed = study.model_copy(update={"experiments": {"new": study.experiments["tracks"]}})
    wish = plan_study(renamed, tmp_path)
    assert wish.new_shards == ()
    assert {c.experiment for shard in wish.shards for c in wish.wanted(shard)} == {"new"}


def test_the_summary_counts_what_is_done(small, tmp_path):
    wish = freeze(plan_study(small(engine={"seconds_per_job": 0.001}), tmp_path))
    assert (
        wish.summary() | {"cells": 16, "buckets": 2, "shards": 4, "to_run": 4, "already_done": 0, "new": 0, "steps": 80_000}
        == wish.summary()
    )
    finish(wish, wish.shards[:1])
    half = wish.summary()
    assert (half["to_run"], half["already_done"]) == (3, 1)
    finish(wish, wish.shards)
    done = wish.summary()
    assert (done["to_run"], done["seconds"]) == (0, 0)
    assert done["bytes"] > 0
    json.dumps(done)


def test_the_longest_shards_come_first(small, tmp_path):
    wish = plan_study(
        small(engine={"seconds_per_job": 0.001}, architectures=[{"kind": "mlp", "inputs": 6, "outputs": 3, "width": [4, 400]}]), tmp_path
    )
    durations = [wish.seconds(shard) for shard in wish.shards]
    assert durations == sorted(durations, reverse=True)
    assert durations[0] > durations[-1]


def test_results_of_another_study_are_refused(small, tmp_path):
    freeze(plan_study(small(), tmp_path))
    (tmp_path / "trial").rename(tmp_path / "other")
    with pytest.raises(InputError, match=r"manifest.jsonl, line 1: these results belong to study `trial`, not to `other`"):
        plan_study(small(name="other"), tmp_path)


def test_results_of_another_version_are_refused(small, tmp_path):
    path = freeze(plan_study(small(), tmp_path)).layout.manifest
    path.write_text(path.read_text().replace('"schema":2', '"schema":99', 1))
    with pytest.raises(InputError, match="line 1: written with manifest schema 99, and this version reads schema 1 and 2"):
        plan_study(small(), tmp_path)


@pytest.mark.parametrize(
    ("old", "new", "phrase"),
    [
        ('"sigma":0.1', '"sigma":0.2', "the cells do not match the shard's name"),
        ('"kind":"mlp"', '"kind":"perceptron"', "a cell cannot be read by this version"),
        ('"sigma":0.1', '"sigma":-1', "a cell cannot be read by this version"),
        ('{"schema"', "{schema", "not a manifest line"),
    ],
)
def test_an_edited_manifest_is_refused_by_line(small, tmp_path, old, new, phrase):
    path = freeze(plan_study(small(), tmp_path)).layout.manifest
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))
    with pytest.raises(InputError, match=f"manifest.jsonl, line 1: {phrase}"):
        plan_study(small(), tmp_path)


@pytest.mark.parametrize("schema", [1, 2])
@pytest.mark.parametrize("value", ["absent", None, "x", 7, 1e999, [], {}, [["x"]], [[0, None]], {"kind": 1}])
def test_no_value_of_a_manifest_line_is_more_than_a_message(small, tmp_path, schema, value):
    wish = freeze(plan_study(small(), tmp_path))
    path, first = wish.layout.manifest, json.loads(lines(tmp_path)[0])
    if schema == 1:
        first |= {"schema": 1, "cells": [cell.model_dump(mode="json") for cell in wish.manifest.shards[0].cells]}
        del first["families"]
    for key in first:
        damaged = {name: found for name, found in first.items() if name != key} | ({} if value == "absent" else {key: value})
        path.write_text(json.dumps(damaged) + "\n")
        readable, told = key == "lane_width" and value == 7, ""
        try:
            read_manifest(path, "trial")
        except ConfigError as error:
            told = str(error)
        assert ("manifest.jsonl, line 1: " in told) != readable, (key, value)


def test_a_job_reads_its_own_line_only(small, tmp_path):
    wish = freeze(plan_study(small(engine={"seconds_per_job": 0.001}), tmp_path))
    path = wish.layout.manifest
    for shard in wish.shards:
        assert read_some(path, "trial", [shard.id]) == {shard.id: shard}
    assert read_some(path, "trial", ["0" * 16]) == {}
    assert read_some(tmp_path / "absent", "trial", [wish.shards[0].id]) == {}
    first, *others = (shard.id for shard in wish.manifest.shards)
    path.write_bytes(lines(tmp_path)[0].replace(b'"sigma"', b'"breadth"') + b"".join(lines(tmp_path)[1:])[:-1])
    with pytest.raises(InputError, match="line 1: a cell cannot be read"):
        read_some(path, "trial", [first])
    assert read_some(path, "trial", others) == {name: wish.shard_by_id[name] for name in others[:-1]}, (
        "a line without its end was cut off by a kill"
    )


def test_manifests_of_schema_1_are_read_and_extended(small, tmp_path):
    """Lines with one full specification a cell, from before families."""
    wish = freeze(plan_study(small(), tmp_path))
    old = [
        {
            "schema": 1,
            "study": "trial",
            "shard": shard.id,
            "bucket": shard.bucket,
            "lane_width": shard.lane_width,
            "cells": [cell.model_dump(mode="json") for cell in shard.cells],
        }
        for shard in wish.manifest.shards
    ]
    wish.layout.manifest.write_text("".join(json.dumps(record, separators=(",", ":")) + "\n" for record in old))
    again = plan_study(small(seeds=5), tmp_path)
    assert again.manifest.shards == wish.manifest.shards
    extended = freeze(again)
    assert [json.loads(line)["schema"] for line in lines(tmp_path)] == [1, 1, 2, 2]
    assert read_manifest(wish.layout.manifest, "trial").shards == extended.manifest.shards
    name = old[0]["shard"]
    assert read_some(wish.layout.manifest, "trial", [name]) == {name: wish.shard_by_id[name]}


def test_ten_thousand_jobs(small, tmp_path):
    """Counts and identities of a plan of the size that one study may have; how long it takes is measured elsewhere."""
    study = small(engine={"seconds_per_job": 1e-6, "lane_width": 2}, seeds=5000)
    wish = freeze(plan_study(study, tmp_path))
    assert (len(wish.cells), len(wish.shards), len(wish.shard_by_id)) == (20_000, 10_000, 10_000)
    again = plan_study(study, tmp_path)
    assert again.new_shards == ()
    assert again.manifest.shards == wish.manifest.shards
    few = [again.cells[0], again.cells[-1]]
    assert all(Cell.model_validate(cell.model_dump()).id == cell.id for cell in few)
    assert again.summary()["to_run"] == 10_000


@pytest.mark.parametrize("cut", [1, 2, 50, 500])
def test_a_line_cut_short_is_formed_again(small, tmp_path, cut):
    study = small(engine={"seconds_per_job": 0.001})
    whole = freeze(plan_study(study, tmp_path))
    path, data = whole.layout.manifest, whole.layout.manifest.read_bytes()
    path.write_bytes(data[:-cut])
    wish = plan_study(study, tmp_path)
    assert names(wish.shards) == names(whole.shards)
    assert len(wish.new_shards) == 1
    assert path.read_bytes() == data[:-cut], "planning must not write"
    freeze(wish)
    assert path.read_bytes() == data


def test_every_length_of_a_torn_manifest_can_be_read(small, tmp_path):
    path = freeze(plan_study(small(seeds=1, sigma=[0.1], engine={"seconds_per_job": 0.001}), tmp_path)).layout.manifest
    data = path.read_bytes()
    first = data.index(b"\n") + 1
    for length in range(0, len(data), 97):
        path.write_bytes(data[:length])
        assert len(read_manifest(path, "trial").shards) == (length >= first)


def test_processes_that_freeze_at_once_write_each_shard_once(small, tmp_path):
    studies = [small(seeds=[seed, seed + 1], engine={"seconds_per_job": 0.001}) for seed in range(4)]
    wishes = [plan_study(study, tmp_path) for study in studies]
    threads = [threading.Thread(target=freeze, args=(wish,)) for wish in wishes]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    shards = read_manifest(tmp_path / "trial" / "manifest.jsonl", "trial").shards
    cells = [c.id for shard in shards for c in shard.cells]
    assert len(cells) == len(set(cells)) == 5 * 4
    assert all(plan_study(study, tmp_path).new_shards == () for study in studies)


def test_no_space_left_leaves_the_manifest_as_it_was(small, tmp_path, monkeypatch):
    freeze(plan_study(small(), tmp_path))
    before = lines(tmp_path)

    def full(descriptor):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(manifest_module.os, "fsync", full)
    with pytest.raises(ConfigError, match=r"cannot write the manifest .No space left on device.; nothing was added"):
        freeze(plan_study(small(seeds=5), tmp_path))
    assert lines(tmp_path) == before


def test_a_folder_that_cannot_be_written_to(small, tmp_path):
    (tmp_path / "trial").write_text("a file in the way")
    with pytest.raises(InputError, match="manifest"):
        freeze(plan(small(), Manifest(), tmp_path))


def test_planning_is_free_of_jax(tmp_path):
    """Neither JAX nor anything else that takes long to import, on the default study with its real data."""
    code = (
        "import sys; from nqf_pipeline.study.plan import plan_file, freeze; "
        "wish = freeze(plan_file('config/config.yaml', sys.argv[1])); plan_file('config/config.yaml', sys.argv[1]); "
        "print(len(wish.cells), [m for m in ('jaxlib', 'optax', 'sklearn', 'xarray', 'pandas', 'matplotlib') if m in sys.modules])"
    )
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", code, tmp_path], cwd=ROOT, env=environment, capture_output=True, text=True, check=True)
    count, heavy = done.stdout.split(maxsplit=1)
    assert int(count) > 200
    assert heavy.strip() == "[]"


def test_the_plan_chooses_how_long_a_job_is(small, tmp_path):
    """Half a minute, more where that would make too many jobs, less where workers would be idle."""
    assert seconds_per_job(3600.0, 2) == 30
    assert seconds_per_job(200 * 90.0, 2) == 90
    assert seconds_per_job(1e9, 2) == 3600
    assert seconds_per_job(40.0, 2) == 20
    assert seconds_per_job(0.0, 2) == START
    long = plan_study(small(steps=10**7, seeds=400), tmp_path)
    work = sum(long.seconds(shard) - START for shard in long.shards)
    assert work / 200 > 30
    assert 150 < len(long.shards) <= 202
    given = plan_study(small(steps=10**7, seeds=400, engine={"minutes_per_job": 2 * work / 200 / 60}), tmp_path)
    assert 75 < len(given.shards) <= 102


def test_jobs_that_would_meet_the_time_limit_are_named_before_they_run(small, tmp_path):
    given = {"steps": 10**9, "seeds": 8, "engine": {"minutes_per_job": 6000, "limit_hours": 0.5}}
    wish = plan_study(small(**given), tmp_path)
    (warning,) = (line for line in wish.warnings if "limit_hours" in line)
    number = sum(wish.seconds(shard) > 1800 for shard in wish.shards)
    assert number
    assert warning.startswith(f"jobs expected to take longer than engine.limit_hours = 0.5: {number} (up to ")
    longer = given | {"engine": {"minutes_per_job": 6000, "limit_hours": 2 * max(map(wish.seconds, wish.shards)) / 3600}}
    assert not any("limit_hours" in line for line in plan_study(small(**longer), tmp_path).warnings)


@pytest.mark.parametrize(
    ("dask", "named"), [({"queue": "main", "options": ["-v"]}, 1), ({"queue": "main", "kind": "slurm"}, 0), ("slurm", 0)]
)
def test_settings_of_a_queue_that_is_not_used_are_named(small, tmp_path, dask, named):
    said = [line for line in plan_study(small(engine={"dask": dask}), tmp_path).warnings if "engine.dask.queue, options: used by" in line]
    assert len(said) == named


def test_the_former_name_of_the_target_works_and_says_so(small, tmp_path):
    former, present = ({"seconds_per_job": 0.06}, {"minutes_per_job": 0.001})
    plans = [plan_study(small(engine=engine), tmp_path) for engine in (former, present)]
    assert plans[0].new_shards == plans[1].new_shards
    assert plans[0].warnings == [
        "engine.seconds_per_job is now called minutes_per_job: write `minutes_per_job: 0.001` (both work, no shard changes)"
    ]
    assert plans[1].warnings == []
    with pytest.raises(InputError, match="`seconds_per_job` is the former name of `minutes_per_job`: remove it"):
        small(engine=former | present)


def test_what_is_lost_is_named_once_there_is_a_data_set_made_of_it(small, tmp_path):
    """Before that merging asks for all of it. Files that no rule makes are never named."""
    trained, predicted = (small(name=name, train=train) for name, train in (("trained", "network_and_twin"), ("predicted", "nothing")))
    for study, lasting in ((trained, 3), (predicted, 1)):
        wish = freeze(plan_study(study, tmp_path))
        assert wish.lost == []
        wish.layout.merged.write_text("{}")
        assert len(wish.lost) == lasting * len(wish.shards)
        finish(wish, wish.shards)
        assert wish.lost == []
        shard = wish.shards[0]
        for path in {*wish.results_of(shard), wish.layout.theory(shard.id), wish.layout.theory_summary(shard.id)}:
            path.unlink()
        made = {wish.layout.theory_summary(shard.id)} | (set(wish.results_of(shard)) if shard.trained else set())
        assert set(wish.lost) == made
        assert set(plan_study(study, tmp_path).lost) == made
