#!/bin/bash
# gpu_check.sh with programs that pass, fail, crash and leave processes behind: the report says so, and
# no part costs another one. Usage: gpu_check_test.sh
set -euo pipefail
source=$(cd "$(dirname "$0")/../.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() { cat "$work/said" "$work/report/gpu_report.md"; echo "gpu_check_test: $*" >&2; exit 1; }
mkdir -p "$work"/build/{apps,bench,tests/gpu} "$work/commands"
make() { printf '#!/bin/bash\n%s\n' "$2" > "$1"; chmod +x "$1"; }

# Functions: one passes, one fails, one crashes.
make "$work/build/tests/gpu/test_gpu" '
case $* in
  *list_tests*) printf "Precisions/Gpu.\n  Bias/fp32\n  Bias/bf16\n  Crash/fp32\n  Wrong/fp32\n" ;;
  *Crash*) echo "about to crash"; kill -SEGV $$ ;;
  *Wrong*) echo "y differs from the CPU by 0.5"; exit 1 ;;
esac'
make "$work/build/tests/gpu/test_gpu_training" 'for ((i = 0; i < 20000; ++i)); do echo "line $i"; done'
# Leaves a process in a group of its own, as mpirun does with ranks.
make "$work/build/tests/gpu/test_gpu_communicators" "
set -m
sleep 1000 &
echo \$! > $work/left_behind"
# Says what it was given, and is less accurate on GPUs.
make "$work/build/apps/train_mnist" '
echo "the program $*"
accuracy=0.97
while [ $# -gt 0 ]; do
  case $1 in
    --gpu) accuracy=0.9 ;;
    --out) mkdir -p "$2" && out=$2 ;;
  esac
  shift
done
[ -z "$out" ] ||
  echo "[{\"main/loss\": 0.5}, {\"validation/main/accuracy\": $accuracy}]" > "$out/log"'
make "$work/build/apps/bench_allreduce" 'exit 77'
make "$work/build/bench/bench_gpu_step" 'echo "no such thing"; exit 3'
make "$work/commands/mpirun" 'shift 5; exec "$@"'
make "$work/commands/nvidia-smi" '[ "$1" = -L ] && echo "GPU 0: made up"; sleep 0.1'
make "$work/commands/compute-sanitizer" 'exit 0'

mkdir -p "$work/here/mnist"
touch "$work/here/mnist/train-images-idx3-ubyte.gz"
cd "$work/here"
code=0
env -u TASUKI_DATA PATH="$work/commands:$PATH" TASUKI_BUILD="$work/build" \
  "$source/scripts/gpu_check.sh" "$work/report" 60 --unit 32 > "$work/said" 2>&1 || code=$?
report=$work/report/gpu_report.md
[ $code -eq 1 ] || fail "exit code $code"
grep -q '^| functions | \*\*failed' "$report" || fail "the failure of a function is not in the table"
grep -q '^Bias: exit code 0' "$work/report/functions.log" || fail "a function was not tested"
grep -q '^Crash: exit code 139' "$work/report/functions.log" || fail "a crash was not noticed"
grep -q 'y differs from the CPU by 0.5' "$report" || fail "the report does not say what was wrong"
grep -q '^| training | passed' "$report" || fail "a part after a failed one was not run"
grep -q '^| allreduce_of_2 | skipped' "$report" || fail "a skipped part does not show"
grep -q '^| sanitizer_racecheck | passed' "$report" || fail "the last part was not run"
[ "$(stat -c %s "$work/report/training.log")" -lt 70000 ] || fail "a long log was kept"
grep -q "the program --data $work/here/mnist --unit 32 --gpu" "$report" ||
  fail "the end of the 20 epochs, on the data found here, is not in the report"
grep -q '^| momentum_losses_as_on_cpu | passed' "$report" || fail "equal losses are none"
grep -q '^| accuracy_as_on_cpu | \*\*failed' "$report" || fail "another accuracy is not noticed"
grep -q '^validation/main/accuracy: 1 values, last: 0.07 apart (0.9 and 0.97' "$report" ||
  fail "the accuracies are not in the report"
# Some parts alone.
code=0
env -u TASUKI_DATA PATH="$work/commands:$PATH" TASUKI_BUILD="$work/build" \
  TASUKI_GPU_PARTS='^training|20_epochs' "$source/scripts/gpu_check.sh" "$work/some" 60 \
  > "$work/said" 2>&1 || code=$?
[ $code -eq 0 ] || fail "exit code $code of some parts"
[ "$(grep -c '\.log |$' "$work/some/gpu_report.md")" -eq 3 ] || fail "other parts were run, too"
# One that has ended may wait for its parent's notice (state Z).
state=$(sed -n 's/^State:[[:space:]]*//p' "/proc/$(cat "$work/left_behind")/status" 2>/dev/null || true)
[[ -z $state || $state == Z* ]] || fail "a process outlived its part"
tail -1 "$report"
