#!/bin/bash
# Slurm prolog or HealthCheckProgram: quick checks only, no collective, no file written.
# Only what a person has to take out of service drains the node (action=isolate: dead hardware, a driver that hangs).
# Settings of a user (action=config), doubts (action=triage), "nothing to judge" and faults of the tool do not.
line=$(timeout 45 nccl-insight preflight --level quick --quiet --expect gpus=8 2>&1 | tail -n 1)
logger -t nccl-insight -- "$line" || true
case "$line" in
    *" FAIL "*" action=isolate "*) exit 1 ;;
    *) exit 0 ;;
esac
