#!/bin/bash
# Open MPI: the gate on every node, then the job with its NCCL logs kept. Inside an allocation, or with HOSTFILE set.
set -u
logs=${LOGS:-$PWD/nccl-logs}
mkdir -p "$logs"
hosts=()
[ -n "${HOSTFILE:-}" ] && hosts=(--hostfile "$HOSTFILE")

# mpirun returns the code of one process only, so the last lines of all nodes are read: FAIL on any node stops the job.
mpirun "${hosts[@]}" --map-by ppr:1:node nccl-insight preflight --level standard --quiet --exit-map 3=0 |
    tee "$logs/gate.txt"
gate=${PIPESTATUS[0]}
if grep -q '^NCCL-INSIGHT preflight FAIL ' "$logs/gate.txt"; then
    echo "preflight failed on $(grep -c ' FAIL ' "$logs/gate.txt") node(s); not starting the job" >&2
    exit 1
elif [ "$gate" -ne 0 ]; then
    echo "preflight ended with $gate; not starting the job" >&2
    exit "$gate"
fi

export NCCL_DEBUG=INFO
export NCCL_DEBUG_SUBSYS=INIT,BOOTSTRAP,ENV,NET,GRAPH,TUNING
export NCCL_DEBUG_FILE="$logs/nccl.%h.%p.log"

mpirun "${hosts[@]}" -x NCCL_DEBUG -x NCCL_DEBUG_SUBSYS -x NCCL_DEBUG_FILE python train.py
status=$?
if [ "$status" -ne 0 ]; then
    nccl-insight analyze "$logs" --output "html=$logs/report.html"
fi
exit "$status"
