from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from nqf_pipeline.stages import reasons as stage
from nqf_pipeline.stages.attempts import GIVEN_UP
from nqf_pipeline.stages.locks import only_one
from nqf_pipeline.stages.provenance import versions
from nqf_pipeline.stages.reasons import Reason, reasons
from nqf_pipeline.stages.run import begin
from nqf_pipeline.study.config import Study
from nqf_pipeline.study.plan import Plan, plan_study
from nqf_pipeline.study.reading import study_from
from tests.small import config


def study(name: str = "trial", analysis: dict[str, Any] | None = None, report: dict[str, Any] | None = None, **changes: Any) -> Study:
    settings = {"analysis": analysis or {}, "report": report or {}}
    return study_from(config(name, {"minutes_per_job": 1e-9}, **{"seeds": 8, "steps": 1000, **changes}) | settings)


@pytest.fixture
def plan_again(tmp_path) -> Callable[..., Plan]:
    """Plans a finished study of two shards again, with changes to its config."""
    wish = begin(plan_study(study(), tmp_path))
    layout = wish.layout
    for shard in wish.shards:
        for arrays, summary in (
            (layout.shard(shard.id), layout.shard_summary(shard.id)),
            (layout.theory(shard.id), layout.theory_summary(shard.id)),
        ):
            arrays.parent.mkdir(exist_ok=True)
            arrays.write_bytes(b"12345")
            summary.write_text(json.dumps({"bytes": 5, "versions": versions()}))
        layout.train_benchmark(shard.id).parent.mkdir(parents=True, exist_ok=True)
        layout.train_benchmark(shard.id).write_text("s\n1\n")
    layout.figures.mkdir()
    for path in (layout.merged, *layout.tables, layout.figure_list, layout.report):
        path.write_text("")
    return lambda **changes: plan_study(study(**changes), tmp_path)


AFTER_SHARDS = [
    Reason("merge", "shards or predictions are made"),
    Reason("analyse", "trajectories are merged"),
    Reason("report", "tables or trajectories are made"),
]


def test_nothing_runs_where_all_is_done(plan_again):
    wish = plan_again()
    assert len(wish.shards) == 2
    assert reasons(wish) == []


def test_a_study_that_was_never_run(tmp_path):
    found = reasons(plan_study(study(), tmp_path))
    assert found[:2] == [Reason("train", stage.NEW, 2), Reason("theory", stage.NEW, 2)]
    assert {reason.stage for reason in found} == {"train", "theory", "merge", "analyse", "report"}
    begin(plan_study(study(), tmp_path))
    assert reasons(plan_study(study(), tmp_path))[:2] == [Reason("train", stage.PENDING, 2), Reason("theory", stage.PENDING, 2)]


def test_more_seeds_make_new_shards_only(plan_again):
    assert reasons(plan_again(seeds=12)) == [Reason("train", stage.NEW, 1), Reason("theory", stage.NEW, 1), *AFTER_SHARDS]


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (lambda layout, shard: layout.shard(shard).unlink(), stage.LOST),
        (lambda layout, shard: layout.shard_summary(shard).unlink(), stage.UNFINISHED),
        (lambda layout, shard: [layout.shard(shard).unlink(), layout.shard_summary(shard).unlink()], stage.LOST),
    ],
)
def test_a_lost_file_is_made_again(plan_again, damage, words):
    wish = plan_again()
    damage(wish.layout, wish.shards[0].id)
    assert reasons(wish) == [Reason("train", words, 1), *AFTER_SHARDS]


def test_a_job_that_was_stopped_goes_on(plan_again):
    wish = plan_again()
    layout, shard = wish.layout, wish.shards[1].id
    layout.stopped(shard).parent.mkdir()
    layout.shard(shard).rename(layout.stopped(shard))
    layout.shard_summary(shard).unlink()
    assert reasons(wish) == [Reason("train", stage.STOPPED, 1), *AFTER_SHARDS]


@pytest.mark.parametrize(
    ("lines", "words"),
    [(["process 1 on here"], stage.ENDED), (["process 1 on here"] * 5, stage.CLOSED), ([GIVEN_UP], stage.CLOSED)],
)
def test_a_job_that_was_killed_is_named_as_such(plan_again, lines, words):
    wish = plan_again()
    layout, shard = wish.layout, wish.shards[1].id
    layout.shard(shard).unlink()
    layout.shard_summary(shard).unlink()
    layout.attempts(shard).parent.mkdir()
    layout.attempts(shard).write_text("".join(f"{line}\n" for line in lines))
    assert reasons(wish) == [Reason("train", words, 1), *AFTER_SHARDS]
    with only_one(layout, shard):
        assert reasons(wish) == [Reason("train", stage.RUNNING, 1), *AFTER_SHARDS]


@pytest.mark.parametrize("text", ["{", "[]", '{"bytes": 6}'])
def test_a_damaged_shard_runs_nothing_by_itself_and_is_named(plan_again, text):
    wish = plan_again()
    wish.layout.shard_summary(wish.shards[0].id).write_text(text)
    assert reasons(wish) == [Reason("train", stage.DAMAGED, 1)]


def test_predictions_of_another_version(plan_again):
    wish = plan_again()
    summary = wish.layout.theory_summary(wish.shards[0].id)
    summary.write_text(json.dumps({"bytes": 5, "versions": versions() | {"numpy": "0"}}))
    assert reasons(wish) == [Reason("theory", stage.OTHER_VERSION, 1)]
    summary.unlink()
    assert reasons(wish) == [Reason("theory", stage.LOST, 1), *AFTER_SHARDS]


def test_settings_rerun_the_stages_that_read_them(plan_again):
    assert reasons(plan_again(analysis={"rho": 0.4})) == [
        Reason("analyse", "analysis settings changed"),
        Reason("report", "tables or trajectories are made"),
    ]
    assert reasons(plan_again(report={"dpi": 200})) == [Reason("report", "report settings changed")]


def test_fewer_cells_are_merged_again_and_another_order_is_not(plan_again):
    assert reasons(plan_again(seeds=7)) == [
        Reason("merge", "other cells, or experiments of other names, than in the last run"),
        *AFTER_SHARDS[1:],
    ]
    assert reasons(plan_again(seeds=[7, 6, 5, 4, 3, 2, 1, 0])) == []


def test_absent_results_name_themselves(plan_again):
    wish = plan_again()
    wish.layout.table("claims").unlink()
    wish.layout.report.unlink()
    assert reasons(wish) == [
        Reason("analyse", "tables are absent: claims.parquet"),
        Reason("report", "tables or trajectories are made"),
    ]
    wish.layout.merged.unlink()
    assert reasons(wish)[0] == Reason("merge", "trajectories.json is absent")
    assert reasons(wish)[1:3] == [Reason("analyse", "trajectories are merged"), Reason("report", "tables or trajectories are made")]
