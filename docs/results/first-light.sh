#!/usr/bin/env bash
# First light: the whole story on real data, at laptop size. Finished runs are skipped, so it may be stopped and
# started again. Usage: docs/results/first-light.sh DATA RUNS STAGE...   (stages: pretrain, sst2, squad)
set -euo pipefail
DATA=$1 RUNS=$2
shift 2
export OMP_NUM_THREADS=${OMP_NUM_THREADS:-1} TOKENIZERS_PARALLELISM=false HF_HUB_OFFLINE=1
road=${ROAD:-road}

pretrain() {
    $road pretrain --preset tiny_mlm --run-dir "$RUNS/mlm" data.root="$DATA" data.shards="$RUNS/corpus"
    $road pretrain --preset tiny_electra --run-dir "$RUNS/electra" data.root="$DATA" \
        data.shards="$RUNS/corpus" generator.init="$RUNS/mlm"
}

for stage in "$@"; do "$stage"; done
