"""One real SLURM cluster for all tests of this folder; they are skipped, with the reason, where it cannot be started."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.slurm_cluster import Cluster, missing_programs


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    missing = missing_programs()
    if missing:
        pytest.skip(f"not installed: {', '.join(missing)} (Debian: apt-get install slurm-wlm munge)")
    pytest.importorskip("snakemake_executor_plugin_slurm", reason="pip install 'nqf-pipeline[cluster]'")
    # Unix sockets have short names, so the folder lies right below the temporary one.
    with tempfile.TemporaryDirectory(prefix="slurm-", ignore_cleanup_errors=True) as folder:
        running = Cluster(Path(folder))
        try:
            yield running.start()
        finally:
            running.stop()
