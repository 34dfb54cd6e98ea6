#!/usr/bin/env bash
# Runs comparisons of `road reproduce` from a published encoder. Finished arms and seeds are skipped
# and stopped ones resume, so the script can be stopped and started again.
# Usage: docs/results/campaign.sh MODEL DATA RUNS COMPARISON...
# COMPARISON: low_resource noisy_labels compression road_distillation road_multitask domain, and
# squad_v1 (road_distillation on SQuAD 1.1; SQUAD_ARMS).
# MODEL is a directory in Hugging Face format, such as all-MiniLM-L6-v2; DATA is data.root.
# LABELS, UNLABELLED, EPOCHS, SEEDS and ARMS (low_resource), ROWS and MORE_ROWS (compression) set
# the size. DRY_RUN=--dry-run estimates.
set -euo pipefail
MODEL=$1 DATA=$2 RUNS=$3
shift 3
LABELS=${LABELS:-300} UNLABELLED=${UNLABELLED:-900} EPOCHS=${EPOCHS:-2} SEEDS=${SEEDS:-5}
ARMS=${ARMS:-[mean, correctness]}
export OMP_NUM_THREADS=${OMP_NUM_THREADS:-1} TOKENIZERS_PARALLELISM=false HF_HUB_OFFLINE=1
road=${ROAD:-road}

# reproduce NAME KEY=VALUE...: MiniLM's fine-tuning as in minilm.py.
reproduce() {
    local name=$1
    shift
    $road reproduce "${PUBLISHED:-$name}" --run-dir "$RUNS/$name" ${DRY_RUN:-} -q init="$MODEL" data.root="$DATA" \
        num_seeds="$SEEDS" data.epochs="$EPOCHS" optimizer.peak_lr=1e-4 optimizer.layer_decay=1.0 \
        optimizer.schedule=warmup_then_decay optimizer.bias_correction=true "$@"
}

low_resource() {
    reproduce low_resource data.dataset=sst2 data.max_length_tokens=64 data.batch_size=16 \
        data.max_rows="$LABELS" data.max_unlabelled_rows="$UNLABELLED" arms="$ARMS"
}

noisy_labels() {
    reproduce noisy_labels data.dataset=sst2 data.max_length_tokens=64 data.batch_size=16 \
        data.max_rows=1000
}

compression() {
    reproduce compression data.dataset=sst2 data.max_length_tokens=64 data.batch_size=16 \
        data.max_rows="${ROWS:-2000}" data.max_unlabelled_rows="${MORE_ROWS:-8000}" \
        arms=longer_half,kd_half,rows_half,longer_third,kd_third,rows_third
}

road_distillation() {
    reproduce road_distillation data.max_length_tokens=256 data.max_rows=5000
}

squad_v1() {
    PUBLISHED=road_distillation reproduce squad_v1 data.dataset=squad_v1 data.max_length_tokens=256 \
        data.max_rows=5000 data.max_judged_rows=2500 arms="${SQUAD_ARMS:-[none, mean, weighted_0.75]}"
}

road_multitask() {
    reproduce road_multitask data.max_length_tokens=128 data.max_rows=2000 \
        multitask.data.max_length_tokens=128 \
        "multitask.data.datasets=[qasrl, mnli, snli, amazon, qqp]"
}

domain() {
    reproduce domain data.dataset=amazon data.max_length_tokens=128 data.max_rows=1000
}

for stage in "$@"; do "$stage"; done
