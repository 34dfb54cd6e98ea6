#!/usr/bin/env bash
# The comparisons of docs/results/pretraining.md on a laptop, two arms at a time. To resume, run the
# same command. Usage: docs/results/pretraining.sh [RUNS] [overrides ...]
#   docs/results/pretraining.sh runs/pretraining                      (table 5, about an hour)
#   COMPARISONS="tying algorithms" docs/results/pretraining.sh runs/pretraining flops=2e14
set -euo pipefail
runs=${1:-runs/pretraining}
shift || true
export OMP_NUM_THREADS=${OMP_NUM_THREADS:-1} TOKENIZERS_PARALLELISM=false
for comparison in ${COMPARISONS:-table5}; do
  python -m road_ray reproduce comparison="$comparison" run_dir="$runs/$comparison" \
    data.root="${ROAD_DATA:?name the directory of the data sets}" max_concurrent="${MAX_CONCURRENT:-2}" \
    pretrain.data.shards="$runs/shards" "$@"
done
