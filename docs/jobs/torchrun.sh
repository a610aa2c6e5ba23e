#!/bin/bash
# One call a node: gate, then the job with its NCCL logs kept.
set -u
logs=${LOGS:-$PWD/nccl-logs}
mkdir -p "$logs"

nccl-insight preflight --level standard --quiet
case $? in
    0) ;;
    3) echo "preflight judged nothing; going on" ;;
    5) echo "preflight: a collective hangs on this node" >&2; exit 5 ;;
    *) exit 1 ;;
esac

export NCCL_DEBUG=INFO
export NCCL_DEBUG_SUBSYS=INIT,BOOTSTRAP,ENV,NET,GRAPH,TUNING
export NCCL_DEBUG_FILE="$logs/nccl.%h.%p.log"

torchrun --nnodes "${NNODES:-1}" --nproc-per-node gpu \
    --rdzv-backend c10d --rdzv-endpoint "${RDZV:-localhost:29500}" train.py
status=$?
if [ "$status" -ne 0 ]; then
    nccl-insight analyze "$logs" --output "html=$logs/report.html"
fi
exit "$status"
