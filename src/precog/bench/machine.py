"""Where a measurement was made: processor, memory, versions, commit, and how busy the machine was."""

import os
import platform
import subprocess
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import torch

_PACKAGES = ("precog-ssm", "torch", "numpy", "onnxruntime", "faiss-cpu")
_CHECKOUT = Path(__file__).parents[3]


@dataclass(frozen=True)
class Machine:
    """A machine at the time of a measurement.

    Attributes:
        cpu: model of the processor.
        cores: that this process may use.
        ram_bytes: main memory.
        system: operating system and architecture.
        python: version.
        threads: of the model in this run.
        load_average: runnable processes over the last minute when the measurement began; above the number of cores,
            others were slowing it down.
        accelerator: name of the GPU, if there is one.
    """

    cpu: str
    cores: int
    ram_bytes: int | None
    system: str
    python: str
    threads: int
    load_average: float | None
    accelerator: str | None

    @classmethod
    def here(cls) -> "Machine":
        """The machine that runs this process, as it is now."""
        return cls(
            cpu=_cpu_name(),
            cores=len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1,
            ram_bytes=_ram_bytes(),
            system=f"{platform.system()} {platform.release()} {platform.machine()}",
            python=platform.python_version(),
            threads=torch.get_num_threads(),
            load_average=os.getloadavg()[0] if hasattr(os, "getloadavg") else None,
            accelerator=torch.cuda.get_device_name() if torch.cuda.is_available() else None,
        )

    def to_json(self) -> dict[str, str | int | float | None]:
        """Plain data."""
        return {
            "cpu": self.cpu,
            "cores": self.cores,
            "ram_bytes": self.ram_bytes,
            "system": self.system,
            "python": self.python,
            "threads": self.threads,
            "load_average": self.load_average,
            "accelerator": self.accelerator,
        }


def versions() -> dict[str, str | None]:
    """Installed versions of what decides the speed."""
    found: dict[str, str | None] = {}
    for name in _PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = None
    return found


def git_commit() -> str | None:
    """The commit of the checkout this package runs from, ``+`` appended when files differ; None outside of one."""
    if not (_CHECKOUT / ".git").exists():
        return None
    head = _git("rev-parse", "HEAD")
    changed = _git("status", "--porcelain", "--untracked-files=no")
    return head and head + ("+" if changed else "")


def _git(*arguments: str) -> str | None:
    try:
        done = subprocess.run(
            ["git", "-C", str(_CHECKOUT), *arguments], capture_output=True, text=True, timeout=10, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()


def _cpu_name() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            key, _, value = line.partition(":")
            if key.strip() in ("model name", "Model", "Hardware") and value.strip():
                return value.strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def _ram_bytes() -> int | None:
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (ValueError, OSError, AttributeError):
        return None
