#!/usr/bin/env bash
# Compares variants of distillation at laptop size. Finished runs are skipped, so the script can be
# stopped and started again. Usage: docs/results/distillation.sh DATA RUNS STAGE...   Stages: sst2 squad
# INIT is the encoder that teachers and students start from (first-light.sh makes it).
# SST2_ROWS, SQUAD_ROWS, JUDGED_ROWS, SEEDS, VARIANTS set the size of the runs.
set -euo pipefail
DATA=$1 RUNS=$2
shift 2
SST2_ROWS=${SST2_ROWS:-8000} SQUAD_ROWS=${SQUAD_ROWS:-2000} JUDGED_ROWS=${JUDGED_ROWS:-400}
SEEDS=${SEEDS:-10 11 12} INIT=${INIT:-$RUNS/electra-256}
VARIANTS=${VARIANTS:-none scratch mean correctness correctness-0.5 correctness-0.9 single annealing folds born}
export OMP_NUM_THREADS=${OMP_NUM_THREADS:-1} TOKENIZERS_PARALLELISM=false HF_HUB_OFFLINE=1
road=${ROAD:-road}

# students NAME KEY=VALUE...: three teachers, three for each of two folds, one student per variant.
students() {
    local name=$1 variant seed
    shift
    local place=$RUNS/$name common=(init="$INIT" data.root="$DATA" "$@")
    $road teachers --run-dir "$place/teachers" "${common[@]}"
    case " $VARIANTS " in *" folds "*)
        $road teachers --run-dir "$place/teachers-of-folds" "${common[@]}" num_folds=2 ;;
    esac
    local distilled=("${common[@]}" distillation.host=process distillation.store="$RUNS/store")
    local all="distillation.teachers=[$place/teachers/teachers.json]"
    local folds="distillation.teachers=[$place/teachers-of-folds/teachers.json]"
    local one=("distillation.teachers=[$place/teachers/teacher-0]" distillation.num_teachers=1)
    for seed in $SEEDS; do
        for variant in $VARIANTS; do
            local run=(--seed "$seed" --run-dir "$place/$variant-$seed")
            case $variant in
            none) $road finetune "${run[@]}" "${common[@]}" ;;
            scratch) $road finetune "${run[@]}" "${common[@]}" init_weights=none ;;
            mean) $road distill "${run[@]}" "${distilled[@]}" "$all" weighting.rule=mean ;;
            correctness) $road distill "${run[@]}" "${distilled[@]}" "$all" ;;
            correctness-*) $road distill "${run[@]}" "${distilled[@]}" "$all" \
                weighting.wrong="${variant#*-}" ;;
            single) $road distill "${run[@]}" "${distilled[@]}" "${one[@]}" ;;
            annealing) $road distill "${run[@]}" "${distilled[@]}" "$all" weighting.rule=mean \
                distillation.schedule=linear ;;
            folds) $road distill "${run[@]}" "${distilled[@]}" "$folds" ;;
            born) $road distill "${run[@]}" "${distilled[@]}" "${one[@]}" distillation.generations=2 ;;
            *) echo "unknown variant $variant" >&2; exit 2 ;;
            esac
        done
    done
}

sst2() {
    students sst2-8k data.dataset=sst2 data.max_length_tokens=64 data.epochs=1 data.batch_size=16 \
        data.max_rows="$SST2_ROWS" optimizer.peak_lr=5e-4 optimizer.layer_decay=1.0 \
        optimizer.bias_correction=true
}

squad() {
    students squad-2k data.dataset=squad_v2 "data.evaluate_on=[squad_v2,newsqa]" data.epochs=1 \
        data.max_length_tokens=256 data.batch_size=16 data.max_rows="$SQUAD_ROWS" \
        data.max_judged_rows="$JUDGED_ROWS" optimizer.peak_lr=5e-4 optimizer.layer_decay=1.0 \
        optimizer.bias_correction=true
}

for stage in "$@"; do "$stage"; done
