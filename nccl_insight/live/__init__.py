"""What runs on the machines of a job: checks before it, the watch while it runs, capture of its traffic."""
