"""Who takes part: ranks with hosts and processes, communicators, groups, connections, jobs within one input."""
