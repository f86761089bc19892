"""The paper on one command: its experiments, calculations and figures, run again and written up beside its figures."""
