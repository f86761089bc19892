"""Tasks, metrics and baselines that answers are scored with."""
