#!/bin/bash
# Slurm epilog (EpilogSlurmctld or a site's job epilog): one line about a failed job into its comment.
# Reads the logs that the job kept, e.g. by slurm.sbatch; needs no GPU and changes nothing but the comment.
set -u
logs="${NCCL_LOGS:-${SLURM_SUBMIT_DIR:-.}/nccl-${SLURM_JOB_ID:-0}.${SLURM_RESTART_COUNT:-0}}"
[ -d "$logs" ] || exit 0

verdict=$(timeout 300 nccl-insight analyze "$logs" --exit-zero --color never 2>/dev/null | head -n 1)
[ -n "$verdict" ] || exit 0
logger -t nccl-insight -- "job ${SLURM_JOB_ID:-?}: $verdict" || true
scontrol update "JobId=${SLURM_JOB_ID:-0}" "Comment=$verdict" || true
exit 0
