"""Runs a command and says what it took: `python -S meter.py FILE COMMAND ...` writes [seconds, peak MB, exit code] to FILE.

A small process of its own, because the peak that Linux reports of a child begins with the memory of the process that started it.
"""

import os
import resource
import sys
import time

start = time.perf_counter()
code = os.waitstatus_to_exitcode(os.waitpid(os.posix_spawnp(sys.argv[2], sys.argv[2:], os.environ), 0)[1])
peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / (2**20 if sys.platform == "darwin" else 1024)
with open(sys.argv[1], "w") as file:  # noqa: PTH123  (pathlib would add to the memory that is not to be seen)
    file.write(f"[{time.perf_counter() - start}, {peak}, {code}]")
