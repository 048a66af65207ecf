# SPDX-License-Identifier: Apache-2.0
"""A Slurm cluster of several nodes on this machine. Each node has a host name, an address and a disk of its own."""

import os
import shutil
import socket
import subprocess
import tempfile
import time
from pathlib import Path

PROGRAMS = ("slurmctld", "slurmd", "srun", "sbatch", "munged", "unshare", "setpriv")
TIMEOUT_S = 60
# Two devices a node that are no devices: Slurm hands them out, and PyTorch finds no GPU behind them. `sbatch --wait` asks every
# MinJobAge / 2 seconds then; with the usual 300 it asks after 2, 8, 18, 32 and 50 s.
CONFIGURATION = """\
ClusterName=guide
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={port}
SlurmUser=root
SlurmdUser=root
AuthInfo=socket={folder}/munge.socket,cred_expire=5
StateSaveLocation={folder}/state
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmdSpoolDir={folder}/spool-%n
SlurmdParameters=config_overrides
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
GresTypes=gpu
ReturnToService=2
KillWait=2
MinJobAge=4
SchedulerParameters=batch_sched_delay=0,sched_interval=2
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""
NODE = "NodeName={name} NodeHostname=localhost NodeAddr={address} Port={port} CPUs=8 Gres=gpu:2\n"
# In namespaces of the node's own, so that names and disks go when its processes go.
START_NODE = """
hostname "$1"
mount --bind "$2/hosts" /etc/hosts
mount --bind "$2/disk-of-$1" "$2/disk"
exec setpriv --pdeathsig TERM slurmd -D -N "$1"
"""


def slurm_is_here() -> bool:
    """Whether there is all that a cluster needs. Namespaces and several users' processes need root."""
    if os.geteuid() != 0 or not all(map(shutil.which, PROGRAMS)):
        return False
    return subprocess.run(["unshare", "--uts", "--mount", "true"], capture_output=True, check=False).returncode == 0


def free_ports(count: int) -> list[int]:
    listeners = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [listener.getsockname()[1] for listener in listeners]
    for listener in listeners:
        listener.close()
    return ports


class SlurmCluster:
    def __init__(self, nodes: int = 4) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="slurm-"))  # a short path: it has a socket
        self.folder.chmod(0o755)  # munge trusts no folder that others may write to
        self.nodes = {f"node{number}": f"127.0.0.{number + 1}" for number in range(1, nodes + 1)}
        self.environment = {"SLURM_CONF": str(self.folder / "slurm.conf"), "TMPDIR": str(self.folder / "disk")}
        self.daemons: list[subprocess.Popen[bytes]] = []
        self.describe()
        try:
            self.start()
        except BaseException:
            self.stop()
            raise

    def describe(self) -> None:
        folder = self.folder
        for name in ("state", "disk", *(f"disk-of-{node}" for node in self.nodes)):
            (folder / name).mkdir()
        controller_port, *ports = free_ports(len(self.nodes) + 1)
        text = CONFIGURATION.format(host=socket.gethostname(), port=controller_port, folder=folder)
        places = zip(self.nodes.items(), ports, strict=True)
        text += "".join(NODE.format(name=name, address=address, port=port) for (name, address), port in places)
        (folder / "slurm.conf").write_text(text, encoding="utf-8")
        for device in ("gpu0", "gpu1"):
            (folder / device).touch()
        (folder / "gres.conf").write_text(f"Name=gpu File={folder}/gpu[0-1]\n", encoding="utf-8")
        hosts = "".join(f"{address} {name}\n" for name, address in self.nodes.items())
        (folder / "hosts").write_text("127.0.0.1 localhost\n" + hosts, encoding="utf-8")
        (folder / "munge.key").write_bytes(os.urandom(128))
        (folder / "munge.key").chmod(0o600)

    def start(self) -> None:
        files = [f"--{name}-file={self.folder}/munge.{name}" for name in ("key", "pid", "seed", "log")]
        self.start_daemon("munged", "--foreground", "--force", f"--socket={self.folder}/munge.socket", *files)
        self.wait_for(lambda: (self.folder / "munge.socket").is_socket())
        self.start_daemon("slurmctld", "-D", "-i")
        for node in self.nodes:
            self.start_daemon("unshare", "--uts", "--mount", "sh", "-euc", START_NODE, "node", node, str(self.folder))
        self.wait_for(lambda: self.ask("sinfo", "--noheader", "--Node", "--format=%T").split() == ["idle"] * len(self.nodes))

    def start_daemon(self, *command: str) -> None:
        with open(self.folder / f"daemon-{len(self.daemons)}.log", "wb") as log:
            environment = os.environ | self.environment
            tied = ["setpriv", "--pdeathsig", "TERM", *command]  # ends with this process, however that ends
            self.daemons.append(subprocess.Popen(tied, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log))

    def ask(self, *command: str) -> str:
        environment = os.environ | self.environment
        return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=TIMEOUT_S, check=False).stdout

    def wait_for(self, condition) -> None:
        deadline = time.monotonic() + TIMEOUT_S
        while not condition():
            if time.monotonic() > deadline or any(daemon.poll() is not None for daemon in self.daemons):
                logs = sorted(self.folder.glob("*.log"))
                raise RuntimeError("the cluster does not start:\n" + "\n".join(log.read_text("utf-8", "replace") for log in logs))
            time.sleep(0.1)

    def stop(self) -> None:
        if len(self.daemons) > 1:
            self.ask("scancel", "--quiet", "--state=RUNNING")
            self.wait_for(lambda: not self.ask("squeue", "--noheader", "--states=RUNNING,COMPLETING").strip())
        for daemon in reversed(self.daemons):
            daemon.terminate()
        for daemon in self.daemons:
            daemon.wait(TIMEOUT_S)
        shutil.rmtree(self.folder)
