"""Watching a job that runs: how far each rank is, who lags, since when."""
