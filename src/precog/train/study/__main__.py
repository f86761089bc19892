"""``python -m precog.train.study PLAN.json --out DIR``."""

import argparse
import math
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

import torch

from precog.errors import PrecogError
from precog.train.study.jobs import run_job, run_study


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; returns its exit status."""
    parser = argparse.ArgumentParser(prog="python -m precog.train.study", description="Compare shapes of the model.")
    parser.add_argument("plan", type=Path, help="the plan, as JSON")
    parser.add_argument("--out", type=Path, required=True, help="folder of study.json, study.md and every job's log")
    parser.add_argument("--cards", type=int, default=torch.cuda.device_count(), help="devices (default: all)")
    parser.add_argument("--jobs-per-card", type=int, default=1, help="jobs that share a device")
    parser.add_argument("--data", type=Path, help="prepared data in place of the plan's")
    parser.add_argument("--mixture", type=Path, help="shares of it in place of the plan's")
    parser.add_argument("--limit-sec", type=float, default=math.inf, help="stop what still runs after so long")
    parser.add_argument("--job", help="run this one variant here")
    parser.add_argument("--seed", type=int, default=0, help="seed of --job")
    options = parser.parse_args(arguments)
    try:
        if options.job:
            run_job(options.plan, options.out, options.job, options.seed)
            return 0
        study = run_study(
            options.plan,
            options.out,
            options.cards,
            options.jobs_per_card,
            lambda line: print(line, file=sys.stderr, flush=True),  # noqa: T201
            options.data,
            options.mixture,
            options.limit_sec,
        )
    except KeyboardInterrupt:
        sys.stderr.write(f"interrupted: what was finished is in {options.out / 'study.md'}\n")
        return 130
    except PrecogError as error:
        sys.stderr.write(f"error: {error}\n")
        return error.exit_status
    sys.stdout.write((options.out / "study.md").read_text("utf-8"))
    return 1 if study["failed"] else 0


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # told to stop, it stops its jobs and keeps what it has
    sys.exit(main())
