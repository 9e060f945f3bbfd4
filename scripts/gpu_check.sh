#!/bin/bash
# Runs all GPU tests and benchmarks on a machine with one GPU, in less than nine minutes, and writes
# gpu_report.md and a log of each part into a folder:
#
#   scripts/gpu_check.sh [FOLDER = gpu_report] [SECONDS = 530] [FLAGS of train_mnist...]
#
# It trains on MNIST if that is in mnist/ of TASUKI_DATA, of the current folder, of the folder above
# this script's or beside that, or in ~/.cache/tasuki/mnist; else on patterns of MNIST's size. FLAGS
# such as `--unit 32` are for testing the script itself on slow GPUs. With TASUKI_GPU_PARTS, a
# regular expression, only the parts whose names match it are run: `steps`, which alone could use
# all the time, and the other parts can so be run in separate calls.
#
# It builds nothing: it uses the programs of the bundle that it is in (scripts/bundle.sh), else
# those of TASUKI_BUILD (default: build/ beside scripts/). The most important parts come first. Each
# part has a time limit, and a part that fails, crashes or hangs does not affect the others: each
# function is tested in a separate process, and no process that a part started outlives it. The
# report is complete at any time and shows the end of each failed part's log; logs are kept short.
# Exit code 1 if a part failed, 77 if there is no usable GPU.
set -uo pipefail
source "$(dirname "$(readlink -f "$0")")/usage.sh"
take_flags -- "${@:1:2}"
root=$(cd "$(dirname "$0")/.." && pwd)
out=${1:-gpu_report}
total=${2:-530}   # seconds for everything
wanted=${TASUKI_GPU_PARTS:-.}
flags=("${@:3}")
most_of_log=65536 # bytes
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
ulimit -c 0 # crashes leave no cores

if [ -d "$root/libexec" ]; then
  program() { echo "$root/bin/$1"; }
  mpirun=$root/bin/mpirun bench=$root/bench sanitize=$root/scripts/sanitize.sh
else
  build=${TASUKI_BUILD:-$root/build}
  program() { find "$build/apps" "$build/bench" "$build/tests/gpu" -name "$1" -type f | head -1; }
  mpirun=mpirun bench=$root/bench/gpu sanitize=$root/tests/gpu/sanitize.sh
fi
test_gpu=$(program test_gpu)
if [ ! -x "$test_gpu" ]; then
  echo "gpu_check.sh: there is no program test_gpu; build first, or set TASUKI_BUILD" >&2
  exit 1
fi

mkdir -p "$out" || exit 1
out=$(cd "$out" && pwd)
report=$out/gpu_report.md
scratch=$(mktemp -d)
watcher=''
trap 'rm -rf "$scratch"; [ -z "$watcher" ] || kill "$watcher" 2>/dev/null' EXIT
begun=$SECONDS failures=0
data='' data_name=MNIST
: > "$scratch/details"

# Ends what is left of a session, including further process groups (mpirun's ranks).
end_session() {
  local stat line fields
  for stat in /proc/[0-9]*/stat; do
    { read -r line < "$stat"; } 2>/dev/null || continue
    read -ra fields <<< "${line##*) }" # after "pid (name)": state, parent, group, session, ...
    [ "${fields[3]}" != "$1" ] || kill -KILL "${line%% *}" 2>/dev/null
  done
}

# limited SECONDS COMMAND...: runs it in a new session, of which nothing is left afterwards.
limited() {
  local limit=$1 session code=0
  shift
  setsid timeout -k 5 "$limit" "$@" < /dev/null &
  session=$!
  wait "$session" || code=$?
  end_session "$session"
  return $code
}

# Keeps the beginning and the end of a long log.
shorten() {
  local size
  size=$(stat -c %s "$1")
  [ "$size" -gt "$most_of_log" ] || return 0
  { head -c $((most_of_log / 4)) "$1"
    printf '\n... %s bytes left out ...\n' $((size - most_of_log))
    tail -c $((most_of_log * 3 / 4)) "$1"; } > "$1.short"
  mv "$1.short" "$1"
}

# The report so far: facts, the table of parts, results, ends of failed logs.
write_report() {
  {
    cat "$scratch/facts" "$scratch/parts"
    if compgen -G "$out/mnist_20_epochs*.log" > /dev/null; then
      printf '\n## train_mnist --gpu, 20 epochs on %s\n\n```\n' "$data_name"
      tail -v -n 5 "$out"/mnist_20_epochs*.log
      echo '```'
    fi
    if compgen -G "$out/*_as_on_cpu.log" > /dev/null; then
      printf '\n## GPU against CPU, on %s\n\n```\n' "$data_name"
      tail -q -n 1 "$out"/*_as_on_cpu.log
      echo '```'
    fi
    if [ -s "$out/steps.md" ]; then
      printf '\n## Training steps against PyTorch\n\n'
      cat "$out/steps.md"
    fi
    cat "$scratch/details"
    printf '\n%s seconds, %s parts without success.\n' $((SECONDS - begun)) $failures
  } > "$report.new"
  mv "$report.new" "$report"
}

# part NAME LIMIT COMMAND...: runs it within its limit and the remaining time.
part() {
  local name=$1 limit=$2 left=$((total - SECONDS + begun)) code=0 result
  shift 2
  [[ $name =~ $wanted ]] || return 0
  if [ "$left" -lt 10 ]; then
    echo "| $name | left out for lack of time | | |" >> "$scratch/parts"
    failures=$((failures + 1))
    write_report
    return
  fi
  [ "$limit" -le "$left" ] || limit=$left
  local start=$SECONDS
  echo "$name ..."
  { echo "\$ $*"; limited "$limit" "$@"; } > "$out/$name.log" 2>&1 || code=$?
  shorten "$out/$name.log"
  case $code in
    0) result=passed ;;
    77) result=skipped ;;
    124 | 137) result="**no end in $limit s**" ;;
    *) result="**failed ($code)**" ;;
  esac
  case $code in
    0) ;;
    77) printf '\n%s was skipped: %s\n' "$name" "$(tail -1 "$out/$name.log")" >> "$scratch/details" ;;
    *)
      failures=$((failures + 1))
      { printf '\n## %s\n\n```\n' "$name"
        grep -E '^(rank [0-9]+ on |error: )|Failure$|differ|expected' "$out/$name.log" | head -20
        echo ...
        tail -12 "$out/$name.log" | cut -c1-300
        echo '```'; } >> "$scratch/details"
      ;;
  esac
  echo "| $name | $result | $((SECONDS - start)) | $name.log |" >> "$scratch/parts"
  write_report
}

{
  printf '# GPU report\n\n'
  date -u '+%Y-%m-%d %H:%M UTC'
  printf '\n```\n'
  uname -srm
  grep -m 1 'model name' /proc/cpuinfo | cut -d: -f2-
  limited 15 nvidia-smi --format=csv \
    --query-gpu=index,name,driver_version,memory.total,clocks.max.sm,power.limit 2>&1
  limited 15 "$(program train_mnist)" --version 2>&1
  echo '```'
} > "$scratch/facts"
printf '\n| part | result | seconds | log |\n|---|---|--:|---|\n' > "$scratch/parts"

# While a process uses a GPU, its driver stays ready; otherwise each program may wait seconds for
# it.
nvidia-smi -l 30 > /dev/null 2>&1 &
watcher=$!

# A first look: whether a GPU can be used at all.
code=0
limited 60 "$test_gpu" --gtest_filter='Precisions/Gpu.Bias/fp32' > "$out/first_look.log" 2>&1 ||
  code=$?
if [ $code -eq 77 ]; then
  reason=$(awk '/: Skipped$/ { getline; print; exit }' "$out/first_look.log")
  printf '\nNothing was run: no GPU can be used here: %s\n' "$reason" > "$scratch/details"
  write_report
  echo "gpu_check.sh: no GPU can be used here: $reason"
  exit 77
fi
[ $code -eq 0 ] || tail -20 "$out/first_look.log"

for folder in ${TASUKI_DATA:+"$TASUKI_DATA"} "$PWD" "$root" "$root/.." "${HOME:-/}/.cache/tasuki"; do
  if compgen -G "$folder/mnist/train-images-idx3-ubyte*" > /dev/null; then
    data=$(cd "$folder/mnist" && pwd)
    break
  fi
done
if [ -z "$data" ]; then
  # What needs no download: MNIST's format, ten patterns, shifted at times.
  data=$scratch/data data_name='patterns (MNIST was not found)'
  limited 30 python3 -c '
import os, random, struct, sys
folder = sys.argv[1]
os.makedirs(folder)
random.seed(1)
patterns = [bytes(random.randrange(256) for _ in range(784)) for _ in range(10)]
for part, count in (("train", 60000), ("t10k", 10000)):
    labels = bytes(random.randrange(10) for _ in range(count))
    with open(f"{folder}/{part}-images-idx3-ubyte", "wb") as file:
        file.write(struct.pack(">IIII", 2051, count, 28, 28))
        for label in labels:
            at = random.randrange(784)
            file.write(patterns[label][at:] + patterns[label][:at] if at % 5 == 0
                       else patterns[label])
    with open(f"{folder}/{part}-labels-idx1-ubyte", "wb") as file:
        file.write(struct.pack(">II", 2049, count) + labels)
' "$data"
fi
train=("$(program train_mnist)" --data "$data" "${flags[@]}")

# Every function on its own, four at a time: an error of CUDA spoils the process that meets it.
each_function() {
  local program=$1 failed=0
  one_function() {
    local code=0 said
    said=$(timeout -k 5 120 "$1" --gtest_brief=1 --gtest_filter="Precisions/*.$2/*" 2>&1) || code=$?
    [ $code -eq 77 ] && code=0
    printf '%s: exit code %s\n%s\n' "$2" $code "$(tail -c 4000 <<< "$said")"
    [ $code -eq 0 ]
  }
  export -f one_function
  "$program" --gtest_list_tests | sed -n 's|^  \([A-Za-z0-9]*\)/.*|\1|p' | sort -u |
    xargs -P 4 -I {} bash -c 'one_function "$1" "$2"' one "$program" {} || failed=1
  return $failed
}
export -f each_function

ranks() { echo "$mpirun" -np "$1" --bind-to none --oversubscribe; }
shared=(--gpu --share-gpu)
# The same run on the CPU and on the GPU: as_on_cpu LOGS KEY each|mean|last TOLERANCE COMMAND...
as_on_cpu() {
  local logs=$1 comparison=("${@:2:3}")
  shift 4
  "$@" --out "$logs.cpu" && "$@" --gpu --out "$logs.gpu" &&
    python3 "$compare_logs" "$logs.gpu/log" "$logs.cpu/log" "${comparison[@]}"
}
export -f as_on_cpu
export compare_logs=$root/scripts/compare_logs.py
first_losses=(--max-iterations 100 --epoch 100 --log-every 1 --test-examples 100 --quiet)

part functions 200 bash -c 'each_function "$1"' each "$test_gpu"
part training 60 "$(program test_gpu_training)"
part momentum_losses_as_on_cpu 40 bash -c 'as_on_cpu "$@"' as "$scratch/momentum" \
  main/loss each 1e-4 "${train[@]}" "${first_losses[@]}" --optimizer momentum_sgd
part adam_losses_as_on_cpu 40 bash -c 'as_on_cpu "$@"' as "$scratch/adam" \
  main/loss mean 5e-3 "${train[@]}" "${first_losses[@]}"
part mnist_20_epochs 40 "${train[@]}" --gpu --out "$scratch/fp32"
part mnist_20_epochs_autotune 40 "${train[@]}" --gpu --autotune --out "$scratch/autotune"
part accuracy_as_on_cpu 45 bash -c 'as_on_cpu "$@"' as "$scratch/accuracy" \
  validation/main/accuracy last 5e-3 "${train[@]}" --epoch 2
steps_limit=190  # of the whole when nothing else is wanted
[ "$wanted" != steps ] || steps_limit=$total
part steps_against_pytorch $steps_limit python3 "$bench/compare_gpu.py" \
  "$(program bench_gpu_step)" --seconds 1 --budget $((steps_limit - 50)) --out "$out/steps.md"
for np in 1 2 4; do
  part "communicators_of_$np" $((np == 4 ? 200 : 90)) $(ranks $np) "$(program test_gpu_communicators)"
done
# More ranks than GPUs are refused unless they may share.
refuses() {
  local said
  ! said=$("$@" --gpu 2>&1) && grep -e --share-gpu <<< "$said"
}
export -f refuses
gpus=$(limited 15 nvidia-smi -L 2>/dev/null | grep -c '^GPU')
part refused_unless_shared 30 bash -c 'refuses "$@"' refuses $(ranks $((gpus + 1))) "${train[@]}"
for communicator in auto pure_nccl hierarchical flat naive single_node two_dimensional \
    non_cuda_aware; do
  part "shared_by_4_$communicator" 40 $(ranks 4) "${train[@]}" "${shared[@]}" \
    --communicator $communicator --examples 6000 --epoch 1 --out "$scratch/$communicator"
done
for dtype in bf16 fp16 tf32; do
  part "mnist_$dtype" 15 "${train[@]}" --gpu --dtype $dtype --epoch 3 --out "$scratch/$dtype"
done
part allreduce_of_2 30 $(ranks 2) "$(program bench_allreduce)" "${shared[@]}" --communicator all \
  --min 65536 --max 16777216 --factor 16 --iterations 5 --warmup 2
part allreduce_of_2_bf16 15 $(ranks 2) "$(program bench_allreduce)" "${shared[@]}" \
  --communicator pure_nccl --wire-dtype bf16 --min 16777216 --factor 1 --iterations 5 --warmup 2
for tool in memcheck racecheck; do
  part "sanitizer_$tool" 90 "$sanitize" $tool "$test_gpu" "$(program test_gpu_communicators)" "$mpirun"
done

write_report
echo "gpu_check.sh: $report, $failures parts without success"
[ "$failures" -eq 0 ]
