"""Live capture: runs collectives (or a given command) with the right settings and keeps all there is to read."""
