"""A study on a real two-node SLURM cluster: the results are those of a local run, byte for byte, whatever happens to nodes and jobs."""

from __future__ import annotations

import json
from copy import deepcopy
from pathlib import Path

import pytest
import yaml

from tests.cluster.site import STORE, Site, short_study, slow_study
from tests.cluster.slurm_cluster import Cluster
from tests.workflow.runs import ROOT, STUDY, Workspace, jobs, new, said

pytestmark = pytest.mark.cluster


def test_the_smoke_study_up_to_its_report(cluster: Cluster, tmp_path: Path) -> None:
    smoke = yaml.safe_load((ROOT / "config" / "smoke.yaml").read_text())
    here, there = (new(tmp_path / name, **{**smoke, "name": "tiny"}) for name in ("local", "cluster"))
    site = Site(there.folder, cluster)
    done = site.snakemake(timeout=900)
    assert done.returncode == 0, said(done)
    assert (site.results / "report.html").exists()
    here.finish()
    assert site.lasting() == here.lasting()
    assert "Nothing to be done" in said(site.snakemake(timeout=120))


def test_an_extended_study_trains_only_what_is_new(site: Site, local: Workspace) -> None:
    site.store()
    before = site.files("shards/*")

    def more(study: dict[str, object]) -> None:
        experiments = study["experiments"]
        assert isinstance(experiments, dict)
        experiments["law"]["seeds"] = 2

    site.change(more)
    text = site.store()
    assert jobs(text)["train"] == 1
    after = site.files("shards/*")
    assert {name: after[name] for name in before} == before, "finished shards are not even touched"
    here = local.copy(site.folder.parent / "extended")
    here.change(more)
    here.finish("--", STORE)
    assert site.lasting() == here.lasting()


def test_a_job_of_two_cores_computes_the_same(cluster: Cluster, tmp_path: Path) -> None:
    study = {"experiments": {"tracks": deepcopy(STUDY["experiments"]["tracks"])}, "engine": {"lane_width": 1}}
    here, there = (new(tmp_path / name, **study) for name in ("local", "cluster"))
    here.finish("--", STORE)
    site = Site(there.folder, cluster)
    site.settle(**{"set-threads": {"train": 2}})
    site.store()
    assert {record["threads"] for record in site.records()} == {2}
    stored, expected = site.lasting(), here.lasting()
    assert stored.keys() == expected.keys()
    different = {name for name in expected if stored[name] != expected[name]}
    assert different == {"trajectories.json", "trajectories.zarr/zarr.json"}, "only the attribute that says how many threads there were"
    attributes = [json.loads(files["trajectories.zarr/zarr.json"])["attributes"] for files in (stored, expected)]
    assert [one.pop("threads") for one in attributes] == [[2], [1]]
    assert attributes[0] == attributes[1]


def test_jobs_that_meet_their_memory_limit_get_more(site: Site, local: Workspace) -> None:
    site.settle(**{"set-resources": {"train": {"mem_mb": "350 if attempt == 1 else 2000"}}})
    assert "Trying to restart" in site.store()
    assert site.lasting() == local.lasting()


def test_jobs_that_meet_their_time_limit_get_more(cluster: Cluster, tmp_path: Path) -> None:
    site = Site(new(tmp_path, experiments=slow_study(12_000_000)).folder, cluster)
    site.settle(**{"set-resources": {"train": {"runtime": "1 if attempt == 1 else 30"}}})
    assert "Trying to restart" in site.store()
    cells = json.loads(site.nqf("status", "results/tiny", "--json").stdout)
    assert cells["counts"]["done"] == cells["cells"]


def test_job_arrays_are_refused(cluster: Cluster, tmp_path: Path) -> None:
    site = Site(new(tmp_path, experiments=short_study()).folder, cluster)
    done = site.snakemake(STORE, "--slurm-array-jobs=train", timeout=120)
    assert done.returncode == 2, said(done)
    assert "gets the state of the last one" in said(done)
    assert "has been submitted" not in said(done)


def test_only_training_asks_for_a_gpu_and_says_where_there_is_none(cluster: Cluster, tmp_path: Path) -> None:
    study = {"table": deepcopy(short_study()["table"])}
    site = Site(new(tmp_path, experiments=study, engine={"device": "gpu"}).folder, cluster)
    site.settle(retries=0)
    done = site.snakemake(STORE, timeout=300)
    assert done.returncode == 1, said(done)
    jobs = cluster.call("squeue", "-h", "-t", "all", "-O", "comment:60,tres-per-job:20,WorkDir:200").splitlines()
    asked = {line.split()[0].partition("_wildcards_")[0]: "gpu" in line.split()[1] for line in jobs if str(site.folder) in line}
    assert asked == {"rule_train": True, "rule_theory": False}
    log = next((site.results / "logs" / "train").glob("*.log")).read_text()
    assert "JAX finds no GPU" in log
