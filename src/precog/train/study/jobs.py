"""The jobs of a study: one process per variant and seed, several on a card, and the report they add up to."""

import json
import math
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from precog.errors import TrainingError
from precog.train.study.plan import Plan, Variant, plan_of, read_values
from precog.train.study.table import markdown
from precog.train.study.variant import run_variant

__all__ = ["run_job", "run_study"]

POLL_SEC = 0.2
PLAN_FILE, RESULT_FILE = "plan.json", "result.json"


def _write(path: Path, text: str) -> None:
    temporary = path.with_name(f".{path.name}.{os.getpid()}.partial")
    with temporary.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    temporary.rename(path)


def _report(out: Path, plan: Plan, jobs: Sequence[tuple[Variant, int]], failed: Mapping[str, str]) -> dict[str, Any]:
    rows = [
        json.loads(path.read_text("utf-8"))
        for path in (out / f"{variant.name}-{seed}" / RESULT_FILE for variant, seed in jobs)
        if path.exists()
    ]
    study = {"asked": list(plan.asked), "rows": rows, "failed": dict(failed)}
    _write(out / "study.json", json.dumps(study, indent=1) + "\n")
    _write(out / "study.md", markdown(rows, plan.asked, failed))
    return study


def run_study(
    path: Path,
    out: Path,
    cards: int = 0,
    jobs_per_card: int = 1,
    on_line: Callable[[str], None] = lambda line: None,
    data: Path | None = None,
    mixture: Path | None = None,
    limit_sec: float = math.inf,
) -> dict[str, Any]:
    """Run every job of a plan, ``cards × jobs_per_card`` at once, and write ``study.json`` and ``study.md``.

    The two files are written anew after every job, so that an interrupted study leaves what it has. A job that fails
    is named with its last line; the others go on.

    Args:
        path: the plan.
        out: a folder that does not exist, or is empty.
        cards: CUDA devices to use; 0 for the CPU.
        jobs_per_card: processes that share a device.
        on_line: told what begins and ends.
        data: prepared data in place of the plan's.
        mixture: shares of it in place of the plan's.
        limit_sec: what still runs then is stopped; its figures of the phase before are kept.

    Raises:
        TrainingError: the plan is malformed, or the folder is in use.
    """
    values = read_values(path)
    for key, place in (("data", data), ("mixture", mixture)):
        if place is not None:
            values[key] = str(place)
    plan = plan_of(values)
    if cards < 0 or jobs_per_card < 1:
        raise TrainingError("--cards or --jobs-per-card is out of range", given=f"{cards}, {jobs_per_card}")
    if out.exists() and any(out.iterdir()):
        raise TrainingError("the folder is not empty", given=out, hint="choose another --out folder")
    out.mkdir(parents=True, exist_ok=True)
    path = out / PLAN_FILE
    _write(path, json.dumps(values, indent=1) + "\n")
    jobs = [(variant, seed) for variant in plan.variants for seed in variant.seeds]
    waiting = list(jobs)
    free = [card for _ in range(jobs_per_card) for card in range(max(1, cards))]
    running: list[tuple[subprocess.Popen[bytes], Variant, int, int]] = []
    failed: dict[str, str] = {}
    began = time.monotonic()
    try:
        while waiting or running:
            while waiting and free:
                (variant, seed), card = waiting.pop(0), free.pop(0)
                running.append((_spawn(path, out, variant.name, seed, card if cards else None), variant, seed, card))
                on_line(f"{time.monotonic() - began:6.1f} s  begins {variant.name}, seed {seed}, card {card}")
            time.sleep(POLL_SEC)
            if time.monotonic() - began > limit_sec:
                unfinished = [(variant, seed) for _, variant, seed, _ in running] + waiting
                failed |= {f"{variant.name}-{seed}": "stopped at the time limit" for variant, seed in unfinished}
                on_line(f"{time.monotonic() - began:6.1f} s  stops {len(unfinished)} jobs at the limit")
                break
            for entry in [entry for entry in running if entry[0].poll() is not None]:
                process, variant, seed, card = entry
                running.remove(entry)
                free.append(card)
                name = f"{variant.name}-{seed}"
                if process.returncode:
                    lines = (out / name / "log.txt").read_text("utf-8", errors="replace").strip().splitlines()
                    failed[name] = lines[-1] if lines else f"exit status {process.returncode}"
                on_line(f"{time.monotonic() - began:6.1f} s  {'FAILED' if name in failed else 'ends'} {name}")
                _report(out, plan, jobs, failed)
    finally:
        for process, *_ in running:
            process.kill()
            process.wait()
        study = _report(out, plan, jobs, failed)
    return study


def _spawn(path: Path, out: Path, name: str, seed: int, card: int | None) -> subprocess.Popen[bytes]:
    folder = out / f"{name}-{seed}"
    folder.mkdir()
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": "" if card is None else str(card)}
    environment.setdefault("OMP_NUM_THREADS", "1")
    environment.setdefault("PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True")  # several jobs share a card
    command = [sys.executable, "-m", "precog.train.study", str(path), "--out", str(out), "--job", name]
    with (folder / "log.txt").open("wb") as log:
        return subprocess.Popen(
            [*command, "--seed", str(seed)], env=environment, stdout=log, stderr=log, stdin=subprocess.DEVNULL
        )


def run_job(path: Path, out: Path, name: str, seed: int) -> None:
    """Run one variant of a plan in this process; what is known after each phase is written at once.

    Raises:
        TrainingError: the plan has no such variant, or its training fails.
    """
    plan = plan_of(read_values(path))
    variant = next((variant for variant in plan.variants if variant.name == name), None)
    if variant is None:
        raise TrainingError("no such variant", given=name, expected=", ".join(v.name for v in plan.variants))
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    folder = out / f"{name}-{seed}"
    run_variant(plan, variant, seed, device, folder, lambda r: _write(folder / RESULT_FILE, json.dumps(r) + "\n"))
