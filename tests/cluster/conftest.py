"""One real SLURM cluster for all tests of this folder; they are skipped, with the reason, where it cannot be started."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.site import STORE, Site, slow_study
from tests.cluster.slurm_cluster import Cluster, missing_programs, until
from tests.workflow.runs import Workspace, new

STEPS = 600_000
"""Of the slow cell: some twenty seconds."""


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    missing = missing_programs()
    if missing:
        pytest.skip(f"not installed: {', '.join(missing)} (as root on Debian or Ubuntu: make slurm)")
    pytest.importorskip("snakemake_executor_plugin_slurm", reason="pip install 'nqf-pipeline[cluster]', or make slurm")
    # Unix sockets have short names, so the folder lies right below the temporary one.
    with tempfile.TemporaryDirectory(prefix="slurm-", ignore_cleanup_errors=True) as folder:
        running = Cluster(Path(folder))
        try:
            yield running.start()
        finally:
            running.stop()


@pytest.fixture(scope="session")
def local(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    """The slow study, run on this machine up to the store."""
    workspace = new(tmp_path_factory.mktemp("local"), experiments=slow_study(STEPS))
    workspace.finish("--", STORE)
    return workspace


@pytest.fixture
def site(cluster: Cluster, local: Workspace, tmp_path: Path) -> Iterator[Site]:
    """The same study, to be run on the cluster; what it leaves in the queue is cancelled."""
    yield Site(new(tmp_path, experiments=slow_study(STEPS)).folder, cluster)
    empty(cluster)


def empty(cluster: Cluster) -> None:
    """Cancel whatever a trial left."""
    for job, *_ in cluster.jobs():
        cluster.call("scancel", job, check=False)
    until(60, "the queue is empty", lambda: not cluster.jobs())
