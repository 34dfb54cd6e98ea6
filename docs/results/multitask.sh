#!/usr/bin/env bash
# Compares ROaD's mixing, the MT-DNN baseline and no multi-task stage on equal numbers of examples:
# each mixture, then fine-tuning on each of TUNED: SST-2, MNLI (also evaluated out of domain on SNLI),
# and SQuAD 2.0 (also on NewsQA). Finished runs are skipped, so the script can be stopped and started
# again. Two runs are trained in parallel (JOBS).
# Usage: docs/results/multitask.sh DATA RUNS INIT [ARM...]
# INIT: a pre-training run (first-light.sh creates RUNS/electra-256). Arms: none mtdnn passes-1
# passes-2 passes-4 passes-8. The environment variables STEPS, RATE, EXAMPLES, ROWS, JUDGED, SEEDS
# and TUNED set the size of the runs.
set -euo pipefail
DATA=$1 RUNS=$2 INIT=$3
shift 3
ARMS=${*:-none mtdnn passes-1 passes-2 passes-4 passes-8}
STEPS=${STEPS:-200} EXAMPLES=${EXAMPLES:-32} ROWS=${ROWS:-3000} JUDGED=${JUDGED:-1000}
RATE=${RATE:-5e-5} SEEDS=${SEEDS:-0 1 2} JOBS=${JOBS:-2} TUNED=${TUNED:-sst2 mnli}
export OMP_NUM_THREADS=${OMP_NUM_THREADS:-1} TOKENIZERS_PARALLELISM=false HF_HUB_OFFLINE=1
road=${ROAD:-road}
shared="data.root=$DATA data.max_judged_rows=$JUDGED console=plain"

# Not in the mix: SST-2 and SQuAD, which follow, and SNLI and NewsQA, which are out of domain.
SETS="[qasrl,qazre,duorc,mnli,qqp,amazon,boolq,commonsenseqa,conll2003]"

mixture() {
    local arm=$1 seed=$2 passes=1 heads=task
    case $arm in
        mtdnn) heads=dataset ;;
        passes-*) passes=${arm#passes-} ;;
    esac
    $road multitask --preset road_small_mix --run-dir "$RUNS/$arm-$seed" $shared init="$INIT" \
        seed="$seed" data.datasets="$SETS" data.max_judged_rows=100 mixing.passes="$passes" \
        mixing.heads=$heads optimizer.peak_lr="$RATE" data.batch_size=$((EXAMPLES / passes)) training.steps="$STEPS" \
        training.keep_checkpoints=1
}

tuned() {
    local arm=$1 seed=$2 name=$3 start=$RUNS/$1-$2
    [ "$arm" = none ] && start=$INIT
    local more="data.max_length_tokens=64"
    case $name in
    squad_v2) more="data.max_length_tokens=256 data.evaluate_on=[squad_v2,newsqa]" ;;
    mnli) more+=" data.evaluate_on=[mnli,snli]" ;;
    esac
    # Every arm trains a new head, so that only the encoders differ.
    $road finetune --run-dir "$RUNS/$arm-$seed-$name" $shared init="$start" seed="$seed" \
        init_weights=encoder data.dataset="$name" data.max_rows="$ROWS" data.epochs=2 $more \
        data.batch_size=16 optimizer.peak_lr=5e-4 optimizer.layer_decay=1.0 \
        optimizer.bias_correction=true \
        training.keep_checkpoints=1
}

one() {
    [ "$1" = none ] || mixture "$1" "$2"
    local name
    for name in $TUNED; do tuned "$1" "$2" "$name"; done
}

for seed in $SEEDS; do
    for arm in $ARMS; do
        one "$arm" "$seed" >"$RUNS/$arm-$seed.log" 2>&1 || { tail -5 "$RUNS/$arm-$seed.log"; } &
        while [ "$(jobs -rp | wc -l)" -ge "$JOBS" ]; do wait -n; done
    done
done
wait
"${PYTHON:-python}" "$(dirname "$0")/multitask.py" "$RUNS"
