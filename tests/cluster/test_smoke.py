"""The short form of the trials, for every test run on a machine with SLURM: a study on two nodes equals the same study here."""

from __future__ import annotations

from pathlib import Path

from tests.cluster.site import STORE, Site, short_study
from tests.cluster.slurm_cluster import Cluster
from tests.workflow.runs import new


def test_a_study_on_two_nodes_is_that_of_a_local_run(cluster: Cluster, tmp_path: Path) -> None:
    here = new(tmp_path / "local", experiments=short_study())
    site = Site(new(tmp_path / "cluster", experiments=short_study()).folder, cluster)
    said = site.store(timeout=300)
    assert said.count("has been submitted with SLURM jobid") == 4, said
    here.finish("--", STORE)
    stored = site.lasting()
    assert "trajectories.json" in stored
    assert stored == here.lasting()
    assert not cluster.jobs()
