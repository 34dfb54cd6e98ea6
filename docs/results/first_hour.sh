#!/usr/bin/env bash
# Thirteen journeys of a new user, each in a fresh directory; prints first-hour.md's tables.
#
#   bash docs/results/first_hour.sh DATA ENCODER PLACE [JOURNEY...]
#
# DATA has GLUE's SST-2 and SQuAD 2.0 in their published layouts: a few rows of them are the user's files.
# ENCODER is the directory of a published encoder. PLACE is a new directory with a short path. Journeys are a to
# m. `road` is the one of the active environment. Nothing is read from the network.
set -u
CHECKOUT=$(cd "$(dirname "$0")/../.." && pwd)
DATA=$(realpath "$1") ENCODER=$(realpath "$2")
mkdir -p "$3/logs" && PLACE=$(realpath "$3")
shift 3
export PLACE ENCODER HOME=$PLACE/home RAY_TMPDIR=$PLACE/ray HF_HUB_OFFLINE=1 RAY_USAGE_STATS_ENABLED=0
export OMP_NUM_THREADS=1 TOKENIZERS_PARALLELISM=false
export HTTP=${HTTP:-20810} PORT=${PORT:-20811} DASHBOARD=${DASHBOARD:-20812}
mkdir -p "$HOME"
cd "$CHECKOUT" && { [ -d "$PLACE/a" ] || python docs/results/first_hour.py "$DATA" "$PLACE"; } || exit 1
failed=0

begin() {  # begin LETTER TITLE [DIRECTORY]
    journey=$1 number=0 rows="" lines=""
    cd "${3:-$PLACE/$1}" || exit 1
    printf '\n## %s\n\n' "$2"
}

report() {  # report COMMAND CODE LOG PATTERN
    read -r wall user system < "$3.time"
    rows+=$(printf '\n| `%s` | %.0f | %.0f | %s |' "${1//|/\\|}" "$wall" \
        "$(awk "BEGIN {print $user + $system}")" "$2")
    lines+=$'\n'"\$ $1"$'\n'$(grep -vE '^(warning: |\+)' "$3.txt" | grep -E "$4" | cut -c1-150 | head -n 8)
    [ "$2" = 0 ] || failed=$((failed + 1))
    echo "$journey: $1: code $2, $wall s" >&2
}

step() {  # step COMMAND [PATTERN OF THE LINES THAT MATTER] [HOW THE COMMAND IS SHOWN]
    number=$((number + 1))
    local log=$PLACE/logs/$journey-$number TIMEFORMAT='%R %U %S'
    { time bash -c "$1" > "$log.txt" 2>&1; } 2> "$log.time"
    report "${3:-$1}" $? "$log" "${2:-.}"
}

end() {
    printf '| command | wall s | CPU s | exit code |\n|---|---|---|---|'
    printf '%s\n\n```\n%s\n```\n' "$rows" "${lines#$'\n'}"
}

journey_a() {
    begin a "Own CSV to predictions"
    step 'road init reviews.csv --init $ENCODER' 'task|label:|rows:|next:'
    step 'road data peek reviews.yaml' 'train:'
    step 'road finetune reviews.yaml' 'accuracy|model:'
    step 'road predict runs/reviews new.csv --column text=review --output out.jsonl && head -n 2 out.jsonl' 'label|predictions'
    end
}

journey_b() {
    begin b "Own SQuAD file to answers"
    step 'road init manual.json --init $ENCODER' 'task|questions|rows:|next:'
    step 'road finetune manual.yaml' 'f1|model:'
    step 'road predict runs/manual ask.jsonl' 'answer'
    end
}

journey_c() {
    begin c "Own text to a domain encoder to a fine-tuned model"
    step 'road pretrain --run-dir runs/domain data.corpus=notes init=$ENCODER encoder.family=init objective.name=mlm optimizer.peak_lr=5e-5 optimizer.warmup_steps=10 training.steps=60 data.batch_size=16' 'step|loss|model:|initial'
    step 'road init reviews.csv --init runs/domain' 'next:'
    step 'road finetune reviews.yaml data.epochs=2' 'accuracy|model:'
    step 'road predict runs/reviews new.csv --column text=review --output out.jsonl && head -n 1 out.jsonl' 'label|predictions'
    end
}

journey_d() {
    begin d "Three published teachers to a student to ONNX to HTTP"
    step 'road distill student.yaml init=$ENCODER --run-dir runs/student' 'accuracy|teacher|model:'
    step 'road export runs/student --quantize int8' '.'
    number=$((number + 1)) log=$PLACE/logs/d-$number TIMEFORMAT='%R %U %S'
    serve='road serve runs/student/onnx-int8 --port $HTTP'
    { time bash -c "echo \$\$ > $log.pid; exec $serve" > "$log.txt" 2>&1; } 2> "$log.time" &
    timed=$!
    until grep -q '^serving' "$log.txt" || ! kill -0 $timed 2> /dev/null; do sleep 1; done
    step 'curl -s --fail http://127.0.0.1:$HTTP/predict -H "Content-Type: application/json" -d "[{\"text\": \"the plot of this film is dull\"}]"'
    kill -TERM "$(cat "$log.pid")"
    wait $timed
    report "$serve   # in another terminal, ended with Ctrl-C" $? "$log" '^serving'
    end
}

journey_e() {
    begin e "A sweep to its page"
    step 'road sweep examples/sweep.yaml init=$ENCODER trials=4' 'trial|best|report'
    step 'road report runs/sweeps/sweep' 'html'
    end
}

journey_f() {
    begin f "A job on a local cluster" "$CHECKOUT"
    export STUDENT=$ENCODER TEACHERS=$PLACE/f/teachers/teachers.json RUN=$PLACE/f/student HEAD=$PLACE/f/head
    export OPTIONS="data.root=miniature data.dataset=sst2 distillation.num_teachers=2 distillation.host=process training.steps=20"
    export RAY_OPTIONS="--num-cpus=2 --object-store-memory=200000000 --dashboard-agent-listen-port=$((PORT + 5)) --ray-client-server-port=$((PORT + 6))"
    export RAY_AUTH_MODE=token
    guide() { awk -v name="$1" '/^```/ {on = ($0 == "```bash " name); next} on' docs/guides/cluster.md; }
    step 'road teachers init=$STUDENT data.root=miniature data.dataset=sst2 training.steps=10 num_teachers=2 --run-dir $PLACE/f/teachers' 'accuracy|teacher'
    step "$(guide head); cat $HEAD.log" 'Ray runtime|started' "ray start --head --block ...   # the block of step 1"
    step 'road submit --cluster http://127.0.0.1:$DASHBOARD -- distill init=$STUDENT distillation.teachers=[$TEACHERS] --run-dir $RUN $OPTIONS' 'job|accuracy|submitted|model:|succeeded'
    step 'road submit --cluster http://127.0.0.1:$DASHBOARD list' '.'
    step "$(guide down)" '.'
    end
}

journey_g() {
    begin g "A data set of the hub, from a recorded copy"
    export HF_DATASETS_CACHE=$PLACE/g/cache
    step 'road init hub:acme/reviews --init $ENCODER' 'task|text:|classes|split|next:'
    step 'road finetune reviews.yaml data.epochs=2' 'accuracy|model:'
    step 'echo "a moving and funny film" | road predict runs/reviews' 'label'
    end
}

journey_h() {
    begin h "Several labels a row"
    step 'road init notes.jsonl --init $ENCODER' 'task|label|rows:|next:'
    step 'road finetune notes.yaml data.epochs=3' 'f1|model:'
    step 'road predict runs/notes new.jsonl --output out.jsonl && head -n 2 out.jsonl' 'label|predictions'
    end
}

# The tiny causal model stands where a large one would; the command is the same.
journey_i() {
    begin i "Answers of a causal model as the teacher"
    python "$CHECKOUT/examples/tiny_llm.py" --port "$PORT" > "$PLACE/logs/i-llm.txt" 2>&1 &
    local llm=$!
    until curl -s --fail "http://127.0.0.1:$PORT/v1/models" > /dev/null || ! kill -0 $llm; do sleep 1; done
    step 'road label http://127.0.0.1:$PORT/v1 films.csv --labels positive,negative --prompt prompt.txt --output answers.csv' '.'
    kill $llm
    step 'road distill student.yaml init=$ENCODER distillation.teachers=answers.csv --run-dir runs/student' 'accuracy|teacher|model:'
    end
}

journey_j() {
    begin j "A decoder as the teacher"
    step 'road distill student.yaml init=$ENCODER distillation.teachers=decoder --run-dir runs/student' 'accuracy|teacher|model:'
    step 'echo "the plot of this film is dull" | road predict runs/student' 'label'
    end
}

journey_k() {
    begin k "Wrong labels found by teachers of folds"
    step 'road init reviews.csv --init $ENCODER' 'task|next:'
    step 'road teachers reviews.yaml num_folds=3 num_teachers=1 --run-dir runs/folds' 'accuracy'
    step 'road data errors runs/folds --output errors.csv' '.'
    step 'road finetune reviews.yaml data.corrections=errors.csv --run-dir runs/clean' 'correct|accuracy|model:'
    end
}

journey_l() {
    begin l "Parts of one's own"
    export PYTHONPATH=$PLACE/l/parts${PYTHONPATH:+:$PYTHONPATH}
    step 'pip install -q --no-deps --target parts examples/extension' '.' 'pip install examples/extension'
    step 'road finetune examples/extension/reviews.yaml init=$ENCODER --run-dir runs/parts' 'kappa|model:'
    step 'head -n 2 runs/parts/curves.csv' '.'
    end
}

journey_m() {
    begin m "Long documents"
    step 'road init pages.csv --init $ENCODER' 'task|length|tokens|next:'
    step 'road finetune pages.yaml data.max_length_tokens=64 --run-dir runs/cut' 'accuracy|truncated|cut|model:'
    step 'road finetune pages.yaml data.max_length_tokens=64 data.windows=mean --run-dir runs/windows' 'accuracy|truncated|cut|model:'
    step 'road predict runs/windows new.csv --output out.jsonl && head -n 2 out.jsonl' 'label|predictions'
    end
}
for one in "${@:-a b c d e f g h i j k l m}"; do
    for letter in $one; do "journey_$letter"; done
done
printf '\n%s commands failed.\n' "$failed" >&2
exit "$failed"
