from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from nqf_pipeline.stages import compiled
from nqf_pipeline.stages.run import begin
from nqf_pipeline.study.plan import plan_study
from nqf_pipeline.study.reading import study_from
from tests.small import config

ROOT = Path(__file__).parents[2]


def train(results: Path, shard: str) -> tuple[bytes, str]:
    """(bytes of the shard, log) of one job that trains it anew."""
    for file in (results / "shards").glob(f"{shard}.*"):
        file.unlink()
    command = [sys.executable, "-m", "nqf_pipeline.cli", "train", str(results), shard]
    done = subprocess.run(command, env=os.environ | {"PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return (results / "shards" / f"{shard}.zarr.zip").read_bytes(), done.stderr


def test_a_program_is_compiled_once_and_a_damaged_one_again(tmp_path):
    wish = begin(plan_study(study_from(config(seeds=2, steps=400, records=16)), tmp_path))
    (shard,), results = wish.shards, wish.layout.root
    fresh, _ = train(results, shard.id)
    kept = {path: path.read_bytes() for path in (wish.layout.compiled / compiled.processor()).iterdir()}
    assert {path.name.split("-")[0] for path in kept} == {"jit__simulate", "jit__twin_path"}, (
        "small programs are not kept, however slow the machine"
    )
    again, log = train(results, shard.id)
    assert again == fresh
    assert "warning" not in log.lower()
    assert {path: path.read_bytes() for path in kept} == kept, "loaded, not written again"
    for path, data in kept.items():
        path.write_bytes(data[: len(data) // 2] + bytes([data[len(data) // 2] ^ 1]) + data[len(data) // 2 + 1 :])
    healed, log = train(results, shard.id)
    assert healed == fresh
    assert "Error reading persistent compilation cache entry" in log
    healed, log = train(results, shard.id)
    assert healed == fresh
    assert "warning" not in log.lower(), "the damaged entry was replaced"


def test_each_kind_of_processor_has_its_own_programs(tmp_path, monkeypatch):
    names = set()
    for text in ("model : 1\nflags : avx\n\n", "model : 1\nflags : avx avx512\n\n", "model : 2\nflags : avx\n\n"):
        (tmp_path / "cpuinfo").write_text(text + "processor : 1\n" + text)
        monkeypatch.setattr(compiled, "PROCESSOR", tmp_path / "cpuinfo")
        names.add(compiled.processor())
    monkeypatch.setattr(compiled, "PROCESSOR", tmp_path / "absent")
    names.add(compiled.processor())
    assert len(names) == 4


@pytest.mark.parametrize("given", ["", "elsewhere"])
def test_a_cache_that_the_user_chose_is_left_alone(tmp_path, monkeypatch, given):
    monkeypatch.setenv("JAX_COMPILATION_CACHE_DIR", given)
    for name in compiled._NOT_EVERY_SMALL_OPERATION:
        monkeypatch.setenv(name, "1")
    if not given:
        monkeypatch.delenv("JAX_COMPILATION_CACHE_DIR")
    compiled.keep_programs(tmp_path)
    assert os.environ["JAX_COMPILATION_CACHE_DIR"] == (given or str(tmp_path / "compiled" / compiled.processor()))
    assert os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] == "1"
