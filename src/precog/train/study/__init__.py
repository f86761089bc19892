"""Several shapes of the model trained side by side under one budget, and one table of what each of them can do.

A variant is trained twice in a row: on key–value pairs made in memory, which shows whether its state binds, and on
prepared data, which shows whether it reads. The two have schedules of their own, limited by steps (equal examples), by
minutes (equal time), or by whichever comes first. Every variant and seed is a process of its own; several share a
card.

    python -m precog.train.study PLAN.json --out DIR [--cards N] [--jobs-per-card K] [--data DIR]

The plan, all of it but ``config``, ``recall`` and ``variants`` optional::

    {"config": {…}, "recall": {…}, "text": {…}, "data": "DIR", "mixture": "FILE", "held_out": ["squad"],
     "pairs": [1, 2, …], "asked": [1, 2, …, 64], "seeds": [0],
     "variants": {"NAME": {"config": {…}, "recall": {…}, "text": {…}, "seeds": [0, 1]}}}

``config`` is a `TennsConfig`, ``recall`` and ``text`` are `TrainSettings`; a variant changes some of their keys.
"""
