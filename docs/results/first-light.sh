#!/usr/bin/env bash
# First light: all stages on real data, at laptop size. Finished runs are skipped, so the script can
# be stopped and started again. Usage: docs/results/first-light.sh DATA RUNS STAGE...
# Stages: pretrain sst2 squad.
set -euo pipefail
DATA=$1 RUNS=$2
shift 2
export OMP_NUM_THREADS=${OMP_NUM_THREADS:-1} TOKENIZERS_PARALLELISM=false HF_HUB_OFFLINE=1
road=${ROAD:-road}

pretrain() {
    $road pretrain --preset tiny_mlm --run-dir "$RUNS/mlm-256" data.root="$DATA" data.shards="$RUNS/corpus"
    $road pretrain --preset tiny_electra --run-dir "$RUNS/electra-256" data.root="$DATA" \
        data.shards="$RUNS/corpus" init="$RUNS/mlm-256" generator.init="$RUNS/mlm-256"
}

# Three teachers; students without teachers, with them, and from scratch. distillation.sh has all
# variants.
students() {
    VARIANTS="none scratch mean correctness" "$(dirname "$0")/distillation.sh" "$DATA" "$RUNS" "$1"
}
sst2() { students sst2; }
squad() { students squad; }

for stage in "$@"; do "$stage"; done
