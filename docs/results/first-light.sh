#!/usr/bin/env bash
# First light: the whole story on real data, at laptop size. Finished runs are skipped, so it may be
# stopped and started again. Usage: docs/results/first-light.sh DATA RUNS STAGE...
# Stages: pretrain starts sst2 squad. INIT is the encoder that teachers and students start from (see
# first-light.md for why it is the masked model). SST2_ROWS, SQUAD_ROWS, JUDGED_ROWS, SEEDS: larger runs.
set -euo pipefail
DATA=$1 RUNS=$2
shift 2
SST2_ROWS=${SST2_ROWS:-16000} SQUAD_ROWS=${SQUAD_ROWS:-3000} JUDGED_ROWS=${JUDGED_ROWS:-400}
SEEDS=${SEEDS:-10 11 12} INIT=${INIT:-$RUNS/mlm}
export OMP_NUM_THREADS=${OMP_NUM_THREADS:-1} TOKENIZERS_PARALLELISM=false HF_HUB_OFFLINE=1
road=${ROAD:-road}

pretrain() {
    $road pretrain --preset tiny_mlm --run-dir "$RUNS/mlm" data.root="$DATA" data.shards="$RUNS/corpus"
    $road pretrain --preset tiny_electra --run-dir "$RUNS/electra" data.root="$DATA" \
        data.shards="$RUNS/corpus" init="$RUNS/mlm" generator.init="$RUNS/mlm"
}

# What the start from the corpus is worth: 600 updates (0.6 million tokens) of the masked model.
starts() {
    for start in random corpus; do
        $road pretrain --preset tiny_mlm --run-dir "$RUNS/start-$start" data.root="$DATA" \
            data.shards="$RUNS/corpus" start="$start" training.steps=600
    done
}

# students NAME KEY=VALUE...: three teachers, then students without and with them, and from scratch.
students() {
    local name=$1
    shift
    local common=(init="$INIT" data.root="$DATA" "$@")
    $road teachers --run-dir "$RUNS/$name/teachers" "${common[@]}"
    local taught=(distillation.teachers="[$RUNS/$name/teachers/teachers.json]" distillation.host=process)
    for seed in $SEEDS; do
        $road finetune --seed "$seed" --run-dir "$RUNS/$name/none-$seed" "${common[@]}"
        for rule in mean correctness; do
            $road distill --seed "$seed" --run-dir "$RUNS/$name/$rule-$seed" "${common[@]}" \
                "${taught[@]}" weighting.rule="$rule"
        done
        $road finetune --seed "$seed" --run-dir "$RUNS/$name/scratch-$seed" "${common[@]}" from_scratch=true
    done
}

sst2() {
    students sst2 data.dataset=sst2 data.max_length_tokens=64 data.epochs=1 data.batch_size=16 \
        data.max_rows="$SST2_ROWS" optimizer.peak_lr=5e-4 optimizer.layer_decay=1.0 \
        optimizer.bias_correction=true
}

squad() {
    students squad data.dataset=squad_v2 "data.evaluate_on=[squad_v2,newsqa]" data.epochs=1 \
        data.max_length_tokens=256 data.batch_size=16 data.max_rows="$SQUAD_ROWS" \
        data.max_judged_rows="$JUDGED_ROWS" optimizer.peak_lr=5e-4 optimizer.layer_decay=1.0 \
        optimizer.bias_correction=true
}

for stage in "$@"; do "$stage"; done
