"""A real SLURM cluster on loopback, for tests: munged, slurmctld and a slurmd per node, in a folder of their own, without systemd."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

DAEMONS = ("munged", "slurmctld", "slurmd", "sbatch", "squeue", "scancel", "srun")

CONFIG = """\
ClusterName=lab
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={controller_port}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
CredType=cred/munge
AuthInfo=socket={folder}/munge.sock
CommunicationParameters=NoInAddrAny,NoCtldInAddrAny
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool/%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.%n.log
SlurmdParameters=config_overrides
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU_Memory
ProctrackType=proctrack/pgid
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
JobAcctGatherType=jobacct_gather/linux
JobAcctGatherFrequency=task=1
JobAcctGatherParams=OverMemoryKill
AccountingStorageType=accounting_storage/none
SchedulerType=sched/backfill
SchedulerParameters=batch_sched_delay=0,sched_interval=2,bf_interval=2
ReturnToService=2
SlurmctldTimeout=30
SlurmdTimeout=10
InactiveLimit=0
KillWait=3
MinJobAge=600
MessageTimeout=20
BatchStartTimeout=10
CompleteWait=0
DefMemPerCPU=500
GresTypes=gpu
{nodes}
PartitionName=main Nodes=ALL Default=YES DefaultTime=5 MaxTime=60 State=UP
"""


def missing_programs() -> list[str]:
    """What would have to be installed (Debian: slurm-wlm and munge)."""
    return [name for name in DAEMONS if shutil.which(name) is None]


def until(seconds: float, what: str, holds: Callable[[], bool]) -> None:
    """Wait until something holds. Raises TimeoutError naming it."""
    deadline = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > deadline:
            raise TimeoutError(f"{what} did not happen within {seconds:.0f} s")
        time.sleep(0.2)


@dataclass
class Cluster:
    """Two nodes (by default) on this machine. `environment` is what a workflow needs to use it."""

    folder: Path
    nodes: int = 2
    cpus: int = 2
    memory: int = 6000
    processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    @property
    def host(self) -> str:
        return socket.gethostname().split(".")[0]

    @property
    def environment(self) -> Mapping[str, str]:
        # The executor's nested srun drops SLURM_* variables, so a wrapper puts the config back.
        path = f"{self.folder / 'bin'}:{os.environ['PATH']}"
        return {**os.environ, "SLURM_CONF": str(self.folder / "slurm.conf"), "PATH": path}

    def start(self) -> Cluster:
        self.folder.chmod(0o755)
        for name in ("state", "bin"):
            (self.folder / name).mkdir(exist_ok=True)
        self._wrapper()
        self._munge()
        controller, *ports = _free_ports(1 + self.nodes)
        node = f"NodeHostname={self.host} NodeAddr=127.0.0.1 CPUs={self.cpus} RealMemory={self.memory} Gres=gpu:1 State=UNKNOWN"
        nodes = "\n".join(f"NodeName=n{number} Port={port} {node}" for number, port in enumerate(ports, 1))
        text = CONFIG.format(host=self.host, folder=self.folder, controller_port=controller, nodes=nodes)
        (self.folder / "slurm.conf").write_text(text)
        # A stand-in: jobs can ask for it and are counted, and JAX finds nothing there.
        (self.folder / "gres.conf").write_text("Name=gpu File=/dev/null\n")
        self._run("slurmctld", "slurmctld", "-D", "-f", str(self.folder / "slurm.conf"))
        until(30, "the controller answers", lambda: "UP" in self.call("scontrol", "ping", check=False))
        for number in range(1, self.nodes + 1):
            self.start_node(number)
        until(60, "all nodes are idle", lambda: self.states() == ["idle"] * self.nodes)
        return self

    def start_node(self, number: int) -> None:
        (self.folder / "spool" / f"n{number}").mkdir(parents=True, exist_ok=True)
        self._run(f"n{number}", "slurmd", "-D", "-N", f"n{number}", "-f", str(self.folder / "slurm.conf"))

    def kill_node(self, number: int) -> None:
        """SIGKILL of a node's daemon and of all that runs under it, as when its power fails."""
        daemon = self.processes.pop(f"n{number}")
        family = [daemon.pid, *_descendants(daemon.pid), *self._steps(number)]
        for pid in family:
            _signal(pid, signal.SIGKILL)
        daemon.wait()

    def _steps(self, number: int) -> list[int]:
        """Job steps leave their daemon's process tree; each names its node in its socket's path or command line."""
        found = []
        for entry in Path("/proc").glob("[0-9]*"):
            try:
                name = (entry / "comm").read_text().strip()
                variables = (entry / "environ").read_bytes().split(b"\0")
            except OSError:
                continue
            if f"SLURMD_NODENAME=n{number}".encode() in variables or (name == "slurmstepd" and _listens_for(entry, f"n{number}_")):
                found += [int(entry.name), *_descendants(int(entry.name))]
        return found

    def states(self) -> list[str]:
        return sorted(self.call("sinfo", "-h", "-N", "-o", "%t", check=False).split())

    def jobs(self) -> list[list[str]]:
        """Id, state and name of every job that is pending or runs."""
        return [line.split("|") for line in self.call("squeue", "-h", "-o", "%i|%T|%j").splitlines()]

    def call(self, *command: str, check: bool = True) -> str:
        done = subprocess.run(command, env=self.environment, capture_output=True, text=True, timeout=60, check=False)
        if check and done.returncode:
            raise RuntimeError(f"{' '.join(command)}: {done.stderr}")
        return done.stdout

    def stop(self) -> None:
        """Cancel what runs, then end every daemon."""
        self.call("scancel", "--user", "root", check=False)
        with contextlib.suppress(TimeoutError, RuntimeError):  # the daemons go anyway
            until(20, "jobs end", lambda: not self.jobs())
        for process in reversed(self.processes.values()):
            process.terminate()
        for process in self.processes.values():
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def _munge(self) -> None:
        key = self.folder / "munge.key"
        key.write_bytes(os.urandom(128))
        key.chmod(0o600)
        place = {"socket": "munge.sock", "pid-file": "munged.pid", "log-file": "munged.log", "seed-file": "munge.seed"}
        options = [f"--{name}={self.folder / file}" for name, file in place.items()]
        # The log lies in a folder that others may read, which munged refuses without --force.
        self._run("munged", "munged", "--foreground", "--force", f"--key-file={key}", *options)
        until(10, "munged answers", (self.folder / "munge.sock").exists)

    def _run(self, name: str, *command: str) -> None:
        out = (self.folder / f"{name}.out").open("ab")
        self.processes[name] = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=out, start_new_session=True)

    def _wrapper(self) -> None:
        script = self.folder / "bin" / "srun"
        script.write_text(f'#!/bin/sh\nSLURM_CONF={self.folder / "slurm.conf"} exec {shutil.which("srun")} "$@"\n')
        script.chmod(0o755)


def _free_ports(number: int) -> list[int]:
    """Ports of this machine that nobody listens on."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(number)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [int(one.getsockname()[1]) for one in sockets]


def _descendants(pid: int) -> list[int]:
    try:
        children = [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []
    return [*children, *(pid for child in children for pid in _descendants(child))]


def _listens_for(process: Path, mark: str) -> bool:
    try:
        return mark in (process / "cmdline").read_text()
    except OSError:
        return False


def _signal(pid: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)
