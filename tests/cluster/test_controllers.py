"""Controllers that are stopped, killed and doubled, nodes that die, jobs that are requeued: nothing is lost, nothing is done twice."""

from __future__ import annotations

import json
import os
import signal

import pytest
import yaml

from tests.cluster.site import Site, ended, kill
from tests.cluster.slurm_cluster import until
from tests.workflow.runs import Workspace, said

pytestmark = pytest.mark.cluster


def test_a_dead_node_loses_nothing(site: Site, local: Workspace) -> None:
    process = site.begin()
    node = int(site.cluster.call("squeue", "-h", "-j", site.await_slow_job(), "-o", "%N").strip().removeprefix("n"))
    site.cluster.kill_node(node)
    site.cluster.start_node(node)
    ended(process)
    assert site.lasting() == local.lasting()


def test_a_requeued_job_starts_again(site: Site, local: Workspace) -> None:
    process = site.begin()
    site.cluster.call("scontrol", "requeue", site.await_slow_job())
    ended(process)
    assert site.lasting() == local.lasting()


def test_a_second_controller_is_refused_and_ctrl_c_cancels_the_jobs(site: Site, local: Workspace) -> None:
    process = site.begin()
    job = site.await_slow_job()
    queue = json.loads(site.nqf("status", "results/tiny", "--json").stdout)["queue"]
    assert {"job": job, "state": "running", "work": site.slow_shard}.items() <= next(one for one in queue if one["job"] == job).items()
    second = site.snakemake(timeout=120)
    assert second.returncode == 2, said(second)
    assert "another run of this study goes on" in said(second)
    os.killpg(process.pid, signal.SIGINT)
    process.communicate(timeout=60)
    assert process.returncode != 0
    until(30, "its jobs are gone", lambda: not site.cluster.jobs())
    assert site.orphans() == []
    site.store()
    assert site.lasting() == local.lasting()


def test_sigterm_lets_running_jobs_end_and_submits_no_more(site: Site, local: Workspace) -> None:
    process = site.begin()
    site.await_slow_job()
    os.kill(process.pid, signal.SIGTERM)
    process.communicate(timeout=300)
    assert process.returncode != 0
    assert not site.cluster.jobs()
    assert (site.results / "shards" / f"{site.slow_shard}.json").exists()
    assert not (site.results / "trajectories.json").exists()
    site.store()
    assert site.lasting() == local.lasting()


def test_orphans_of_two_killed_controllers_are_told_apart_and_cancelled(site: Site, local: Workspace) -> None:
    site.write({**yaml.safe_load(site.config.read_text()), "name": "tiny_too"})
    site.config.rename(site.config.with_name("too.yaml"))
    site.write(yaml.safe_load(local.config.read_text()))
    process = site.begin()
    job = site.await_slow_job()
    assert site.nqf("orphans", "results/tiny").returncode == 2
    kill(process)
    beside = site.start(*(word.replace("config/tiny.yaml", "config/too.yaml") for word in site.snakemake_command()))
    until(240, "the other study has jobs", lambda: any(name.startswith("nqf.tiny_too.") for _, _, name in site.cluster.jobs()))
    kill(beside)
    found = site.orphans()
    assert {"job": job, "work": site.slow_shard}.items() <= next(entry for entry in found if entry["job"] == job).items()
    cancelled = site.nqf("orphans", "results/tiny", "--cancel")
    assert cancelled.returncode == 0, said(cancelled)
    assert site.orphans() == []
    assert site.cluster.jobs(), "the other study's jobs go on"
    site.store()
    assert site.lasting() == local.lasting()


def test_orphans_may_finish_their_work(site: Site, local: Workspace) -> None:
    process = site.begin()
    site.await_slow_job()
    kill(process)
    shard = site.slow_shard
    waited = site.nqf("orphans", "results/tiny", "--wait")
    assert waited.returncode == 0, said(waited)
    adopted = site.files(f"shards/{shard}*")
    assert len(adopted) == 2
    site.store()
    assert site.files(f"shards/{shard}*") == adopted, "what an orphan finished is not made again"
    assert site.lasting() == local.lasting()
