"""Live runs: capture and preflight."""
