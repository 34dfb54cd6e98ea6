#!/usr/bin/env bash
# Where weighting by correctness could differ from the mean: wrong labels, few labels (weak
# teachers) and teachers of folds, on reviews of the embedded data set. Finished arms and seeds are
# skipped and stopped ones resume. The tables are by rules.py.
# Usage: docs/results/rules.sh DEMO RUNS [noisy|few|folds]...     SEEDS and NOISY (its arms) set the size
# DEMO is a directory of `road demo`, whose multi-task encoder all models start from.
set -euo pipefail
DEMO=$1 RUNS=$2
shift 2
SEEDS=${SEEDS:-5} NOISY=${NOISY:-[]}
export OMP_NUM_THREADS=${OMP_NUM_THREADS:-1} TOKENIZERS_PARALLELISM=false HF_HUB_OFFLINE=1
road=${ROAD:-road}

# reproduce NAME COMPARISON KEY=VALUE...: fine-tuning as in the demo, about 200 updates.
reproduce() {
    local name=$1 comparison=$2
    shift 2
    $road reproduce "$comparison" --run-dir "$RUNS/$name" -q init="$DEMO/multitask" \
        data.root=miniature data.dataset=sst2 data.max_length_tokens=64 data.batch_size=16 \
        num_seeds="$SEEDS" optimizer.peak_lr=1e-3 optimizer.layer_decay=1.0 \
        optimizer.bias_correction=true "$@"
}

noisy() { reproduce noisy noisy_labels data.max_rows=1000 data.epochs=3 arms="$NOISY"; }
few() { reproduce few road_distillation data.max_rows=300 data.epochs=10 'arms=[weighted_0.75]'; }
folds() { reproduce folds road_distillation data.max_rows=1000 data.epochs=3 'arms=[weighted_0.75, folds]'; }

for stage in "${@:-noisy few folds}"; do for one in $stage; do "$one"; done; done
