#!/bin/bash
# Runs all GPU tests and benchmarks on a machine with one GPU, in less than nine minutes, and writes
# gpu_report.md and a log of each part into a folder:
#
#   scripts/gpu_check.sh [FOLDER = gpu_report]
#
# It builds nothing: it takes the programs of the bundle that it is in (scripts/bundle.sh), else
# those of TASUKI_BUILD (default: build/ beside scripts/). Each part has a time limit of its own, and
# a part that fails or hangs does not keep the next from running. Exit code 1 when a part failed, 77
# when there is no GPU that can be used.
set -uo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
out=${1:-gpu_report}
total=530  # seconds for everything
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1

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

said=$("$test_gpu" --gtest_filter='Precisions/Gpu.Bias/fp32' 2>&1)
if [ $? -eq 77 ]; then
  echo "gpu_check.sh: no GPU can be used here:" \
    "$(awk '/: Skipped$/ { getline; print; exit }' <<< "$said")"
  exit 77
fi

mkdir -p "$out"
out=$(cd "$out" && pwd)
report=$out/gpu_report.md
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
begun=$SECONDS failures=0

{
  echo "# GPU report"
  echo
  date -u '+%Y-%m-%d %H:%M UTC'
  echo
  echo '```'
  uname -srm
  grep -m 1 'model name' /proc/cpuinfo | cut -d: -f2-
  nvidia-smi --query-gpu=index,name,driver_version,memory.total,clocks.max.sm,power.limit \
    --format=csv 2>&1
  "$(program train_mnist)" --version 2>&1
  echo '```'
  echo
  echo "| part | result | seconds | log |"
  echo "|---|---|--:|---|"
} > "$report"

# part NAME LIMIT COMMAND...: runs it within its limit and what is left of the whole.
part() {
  local name=$1 limit=$2 left=$((total - SECONDS + begun)) code=0 result
  shift 2
  if [ "$left" -lt 10 ]; then
    echo "| $name | left out for lack of time | | |" >> "$report"
    failures=$((failures + 1))
    return
  fi
  [ "$limit" -le "$left" ] || limit=$left
  local start=$SECONDS
  echo "$name ..."
  { echo "\$ $*"; timeout -k 5 "$limit" "$@"; } > "$out/$name.log" 2>&1 || code=$?
  case $code in
    0) result=passed ;;
    77) result=skipped ;;
    124 | 137) result="**no end in $limit s**" ;;
    *) result="**failed ($code)**" ;;
  esac
  case $code in 0 | 77) ;; *) failures=$((failures + 1)) ;; esac
  echo "| $name | $result | $((SECONDS - start)) | $name.log |" >> "$report"
}

# Images that need no download: MNIST's format, ten patterns with noise.
python3 - "$scratch/data" <<'PYTHON'
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
PYTHON
data=$scratch/data
[ -z "${TASUKI_DATA:-}" ] || [ ! -d "$TASUKI_DATA/mnist" ] || data=$TASUKI_DATA/mnist
train=("$(program train_mnist)" --data "$data")

part functions 90 "$test_gpu"
part training 60 "$(program test_gpu_training)"
part mnist_20_epochs 40 "${train[@]}" --gpu --out "$scratch/fp32"
for dtype in tf32 bf16 fp16; do
  part "mnist_$dtype" 20 "${train[@]}" --gpu --dtype $dtype --epoch 3 --out "$scratch/$dtype"
done
for communicator in naive flat single_node hierarchical two_dimensional non_cuda_aware pure_nccl; do
  part "shared_by_4_$communicator" 15 "$mpirun" -np 4 --bind-to none --oversubscribe "${train[@]}" \
    --gpu --share-gpu --communicator $communicator --examples 6000 --epoch 1 \
    --out "$scratch/$communicator"
done
for tool in memcheck racecheck; do
  part "sanitizer_$tool" 45 "$sanitize" $tool "$test_gpu"
done
part steps_against_pytorch 250 python3 "$bench/compare_gpu.py" "$(program bench_gpu_step)" \
  --seconds 1 --budget 180 --out "$out/steps.md"

{
  echo
  echo "## train_mnist --gpu, 20 epochs"
  echo
  echo '```'
  tail -5 "$out/mnist_20_epochs.log"
  echo '```'
  if [ -s "$out/steps.md" ]; then
    echo
    echo "## Training steps against PyTorch"
    echo
    cat "$out/steps.md"
  fi
  echo
  echo "$((SECONDS - begun)) seconds, $failures parts without success."
} >> "$report"
echo "gpu_check.sh: $report, $failures parts without success"
[ "$failures" -eq 0 ]
