"""Speed and memory as ratios to what the machine can do, measured side by side in one run."""
