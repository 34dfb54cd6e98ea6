#!/usr/bin/env bash
# Four sweeps at laptop size, each one `road sweep`, then its best configurations again with new
# seeds, because the best of many trials is biased upwards. `road sweep` resumes, so the script can be
# stopped and started again; a finished sweep is only read.
# Usage: docs/results/sweeps.sh DATA RUNS STAGE...
#   Stages: weighted_kd temperature generator_size loss_weight figures
# first-light.sh and distillation.sh create what the first two need in RUNS: the encoder INIT, three
# TEACHERS, the store of their logits. ROWS, STEPS, EVERY, TRIALS, SEEDS and LAYERS set the size of
# the sweeps.
set -euo pipefail
DATA=$1 RUNS=$2
shift 2
INIT=${INIT:-$RUNS/electra-256} TEACHERS=${TEACHERS:-$RUNS/sst2-8k/teachers/teachers.json}
ROWS=${ROWS:-4000} STEPS=${STEPS:-200} EVERY=${EVERY:-50} SEEDS=${SEEDS:-3} MAX_CONCURRENT=${MAX_CONCURRENT:-2}
# Half of the trials are stopped at 40 % of their steps, half of the rest at 80 %.
stopping=${STOPPING:-scheduler=asha grace_percent=40 reduction=2}
out=$RUNS/sweeps
export ROAD_DATA=$DATA OMP_NUM_THREADS=${OMP_NUM_THREADS:-1} TOKENIZERS_PARALLELISM=false
export HF_HUB_OFFLINE=1 RAY_USAGE_STATS_ENABLED=0
road=${ROAD:-road} python=${PYTHON:-python} here=$(dirname "$0")

again=(overrides.seed=10) # of the first run; a second one has its own

# swept COUNT NAME KEY=VALUE...: the sweep, then its best COUNT configurations with SEEDS new seeds.
swept() {
    local count=$1 name=$2 points
    shift 2
    $road sweep "$name" --run-dir "$out/$name" max_concurrent="$MAX_CONCURRENT" "$@"
    points=$($python "$here/sweeps.py" best "$out/$name" "$count")
    $road sweep "$name" --run-dir "$out/$name-again" max_concurrent="$MAX_CONCURRENT" "$@" name="$name-again" \
        points="$points" trials="$count" sampler=random scheduler=none seeds="$SEEDS" \
        "${again[@]}"
    $road report "$out/$name" --format png --output "$out/$name/figures"
    $road report "$out/$name"
}

# sst2 SECTION: SST-2 as in distillation.sh, as keys below SECTION.
sst2() {
    local key
    for key in data.dataset=sst2 data.max_rows="$ROWS" data.max_length_tokens=64 data.epochs=1 \
        data.batch_size=16 optimizer.peak_lr=5e-4 optimizer.layer_decay=1.0 \
        optimizer.bias_correction=true training.evaluate_every_steps="$EVERY"; do
        printf '%s.%s\n' "$1" "$key"
    done
}

distilled=(metric=eval/sst2/accuracy overrides.data.evaluate_on=[sst2] overrides.init="$INIT"
    overrides.distillation.teachers="[$TEACHERS]" overrides.distillation.store="$RUNS/store")

# W and T of the rule that has a W (W = 1 is the mean), and kd_weight.
weighted_kd() {
    mapfile -t task < <(sst2 overrides)
    swept 3 weighted_kd "${task[@]}" "${distilled[@]}" $stopping trials="${TRIALS:-24}" \
        space.weighting.rule.choice=[correctness] \
        space.weighting.span_correctness.choice=[independent]
}

temperature() {
    mapfile -t task < <(sst2 overrides)
    swept 1 temperature "${task[@]}" "${distilled[@]}" $stopping trials="${TRIALS:-12}"
}

# A small ELECTRA of LAYERS layers, ranked by its score after fine-tuning.
pretrained() {
    printf '%s\n' data.shards="$RUNS/corpus" training.steps="$STEPS" data.batch_size=16 \
        encoder.layers="${LAYERS:-4}" encoder.intermediate_size=512 \
        data.max_length_tokens=64 optimizer.warmup_steps=$((STEPS / 10)) optimizer.peak_lr=1e-3
    sst2 then.overrides
}

# Figure 3 of Clark et al. 2020: six generators for each of two discriminators.
generator_size() {
    mapfile -t task < <(pretrained)
    local again=(overrides.seed=10 then.overrides.seed=10)
    swept 1 generator_size "${task[@]}" trials="${TRIALS:-12}" seeds="${FIGURE_SEEDS:-2}" \
        space.encoder.hidden_size.choice=[128,256]
}

loss_weight() {
    mapfile -t task < <(pretrained)
    local again=(overrides.seed=10 then.overrides.seed=10)
    swept 1 loss_weight "${task[@]}" $stopping trials="${TRIALS:-12}"
}

figures() { $python "$here/sweeps.py" figures "$out"; }

for stage in "$@"; do "$stage"; done
