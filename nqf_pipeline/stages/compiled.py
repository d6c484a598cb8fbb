"""Programs compiled once per bucket and kind of processor, by JAX's persistent cache in the results folder.

What is loaded is the machine code that the first job of a bucket compiled, so bits are the same. It only fits the processor that it was
compiled for, hence one folder for each kind. Entries carry a checksum (zlib); one that is damaged or cannot be written costs a
compilation and a warning in the job's log, nothing else. JAX never writes over an entry, so a damaged one is deleted when it warns.
"""

from __future__ import annotations

import os
import platform
import re
import warnings
from pathlib import Path
from typing import Any

from nqf_pipeline.study.identity import digest
from nqf_pipeline.study.layout import Layout

PROCESSOR = Path("/proc/cpuinfo")
_NOT_EVERY_SMALL_OPERATION = {"JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0.01", "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "8192"}
"""Size decides, so that slow machines keep no more files than fast ones; below that time nothing is that large, nor worth its packing."""
_DAMAGED = re.compile("Error reading persistent compilation cache entry for '([^']+)'")


def keep_programs(results: Path) -> None:
    """Let this process load and keep compiled programs. Must run before JAX is imported; a cache that the user chose is left alone."""
    os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(Layout(Path(results)).compiled.resolve() / processor()))
    for name, value in _NOT_EVERY_SMALL_OPERATION.items():
        os.environ.setdefault(name, value)
    replace_damaged(Layout(Path(results)).compiled.resolve() / processor())


def replace_damaged(folder: Path) -> None:
    """Delete entries that JAX warns of in this process, before it has compiled them anew.

    It names the program and not the file: other buckets' programs of that name go too, and are compiled once more.
    """
    show = warnings.showwarning

    def shown(message: Warning | str, *place: Any, **more: Any) -> None:
        if damaged := _DAMAGED.search(str(message)):
            for entry in folder.glob(f"{damaged[1]}-*"):
                entry.unlink(missing_ok=True)
        show(message, *place, **more)

    warnings.showwarning = shown


def processor() -> str:
    """Short name of this kind of processor: of its model and instruction sets, or of the machine where they are not told."""
    try:
        text = PROCESSOR.read_text(errors="replace")
    except OSError:
        text = ""
    told = re.findall(r"^(?:vendor_id|cpu family|model|stepping|flags|Features|CPU \w+)\s*:.*$", text.split("\n\n")[0], re.MULTILINE)
    return digest([platform.machine(), *(told or [platform.node()])], 12)
