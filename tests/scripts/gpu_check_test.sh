#!/bin/bash
# gpu_check.sh with programs that pass, fail, crash, hang and leave processes behind: the report says so,
# no part costs another one, and three files are left. Usage: gpu_check_test.sh
set -euo pipefail
source=$(cd "$(dirname "$0")/../.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
said=$work/said
fail() { cat "$said"; echo "gpu_check_test: $*" >&2; exit 1; }
mkdir -p "$work"/build/{apps,bench,tests/gpu} "$work/commands"
make() { printf '#!/bin/bash\n%s\n' "$2" > "$1"; chmod +x "$1"; }

# Functions: one passes, one fails, one crashes, one says more than a report can hold. First looks
# fail as often as the file says, and miss a library unless it is where the file says.
make "$work/build/tests/gpu/test_gpu" '
work='"$work"'
case $* in
  *list_tests*)
    printf "Precisions/Gpu.\n  Bias/fp32\n  Bias/bf16\n  Crash/fp32\n  Wrong/fp32\n"
    printf "Precisions/Other.\n  Talk/fp32\n" ;;
  *Crash*) echo "about to crash"; kill -SEGV $$ ;;
  *Wrong*) echo "y differs from the CPU by 0.5"; exit 1 ;;
  *Talk*)
    [[ $* == *Precisions/Other.Talk/fp32 ]] || exit 2
    for ((i = 0; i < 2000; ++i)); do echo "line $i differs from what was expected"; done; exit 1 ;;
  *)
    looks=$(cat $work/looks_that_fail 2>/dev/null)
    if ((looks > 0)); then
      echo $((looks - 1)) > $work/looks_that_fail
      echo "an error of the first look"; exit 71
    fi
    wanted=$(cat $work/library 2>/dev/null)
    if [[ -n $wanted && ":$LD_LIBRARY_PATH:" != *":${wanted%/*}:"* &&
          $(command -v python3) != */venv/bin/python3 ]]; then
      echo "file.cpp:1: Skipped"
      echo "the CUDA backend needs ${wanted##*/}, which is neither on the path"; exit 77
    fi ;;
esac'
make "$work/build/tests/gpu/test_gpu_training" 'for ((i = 0; i < 20000; ++i)); do echo "line $i"; done'
# Leaves a process in a group of its own, as mpirun does with ranks.
make "$work/build/tests/gpu/test_gpu_communicators" "
set -m
sleep 1000 &
echo \$! > $work/left_behind"
# Says what it was given, and is less accurate on GPUs. Hangs where it is told to.
make "$work/build/apps/train_mnist" '
echo "the program $*"
[[ ! -e '"$work"'/hangs || $* != *bf16* ]] || sleep 1000
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
make "$work/build/apps/tasuki-bench-allreduce" 'exit 77'
make "$work/build/bench/bench_gpu_step" 'echo "no such thing"; exit 3'
make "$work/commands/mpirun" 'shift 5; exec "$@"'
make "$work/commands/nvidia-smi" '
case $* in *query*) echo "made up, 580.1" ;; -L) echo "GPU 0: made up" ;; esac; sleep 0.1'
make "$work/commands/compute-sanitizer" 'exit 0'
# Prints CSV of three launches as Nsight Compute does, with units of several sizes; hangs or may not count where it
# is told to.
make "$work/commands/ncu" '
[ ! -e '"$work"'/ncu_hangs ] || sleep 1000
if [ -e '"$work"'/ncu_refuses ]; then
  echo "==PROF== Connected to process 7"
  echo "==ERROR== ERR_NVGPUCTRPERM - The user does not have permission"
  echo "==PROF== Disconnected from process 7"
  exit 1
fi
[[ "$*" == *gpu__time_duration.sum*/bench_gpu_step\ gpt2_small\ 8\ bf16* ]] || exit 2
echo "==PROF== Profiling \"add\" - 0: 0%....50%....100% - 9 passes"
printf "{\"model\": \"gpt2_small\"}\n==PROF== Disconnected from process 7\n"
echo "\"ID\",\"Process ID\",\"Kernel Name\",\"Section Name\",\"Metric Name\",\"Metric Unit\",\"Metric Value\""
launch() { # ID KERNEL UNIT TIME MEMORY COMPUTE
  line="\"$1\",\"7\",\"$2\",\"Command line profiler metrics\""
  echo "$line,\"dram__throughput.avg.pct_of_peak_sustained_elapsed\",\"%\",\"$5\""
  echo "$line,\"gpu__time_duration.sum\",\"$3\",\"$4\""
  echo "$line,\"sm__throughput.avg.pct_of_peak_sustained_elapsed\",\"%\",\"$6\""
}
launch 0 "void tasuki::kernels::add<float, (int)2>(Array, int)" us 900.5 80 10
launch 1 "gemm" ms 1.5 20 90
launch 2 "void tasuki::kernels::add<float, (int)2>(Array, int)" nsecond 100,500 10 20
launch 3 "gemm" us 5 n/a 1'

mkdir -p "$work/here/mnist"
touch "$work/here/mnist/train-images-idx3-ubyte.gz"
cd "$work/here"
# check FOLDER SECONDS PARTS [FLAGS...]: runs it; its exit code is in `code`.
check() {
  code=0
  env -u TASUKI_DATA PATH="$work/commands:$PATH" TASUKI_BUILD="$work/build" TASUKI_GPU_PARTS="$3" \
    TASUKI_GPU_STEPS=mlp:1:fp32 "$source/scripts/gpu_check.sh" "$1" "$2" "${@:4}" > "$said" 2>&1 || code=$?
  report=$1/gpu_report.md
}
logs() { tar -xOzf "$work/report/logs.tar.gz" "logs/$1.log"; }

check "$work/report" 115 . --unit 32
[ $code -eq 1 ] || fail "exit code $code"
grep -q '^| functions | \*\*failed' "$report" || fail "the failure of a function is not in the table"
logs functions > "$work/functions.log"
grep -q '^Bias: exit code 0' "$work/functions.log" || fail "a function was not tested"
grep -q '^Crash: exit code 139' "$work/functions.log" || fail "a crash was not noticed"
grep -q '^passed: Bias$' "$report" || fail "which functions passed is not in the report"
grep -q '^y differs from the CPU by 0.5' "$report" || fail "the report does not say what was wrong"
grep -q '^mlp, batch 1, fp32: Tasuki graph: no such thing' "$report" ||
  fail "what stopped a step is not in the report"
grep -q '^| training | passed' "$report" || fail "a part after a failed one was not run"
grep -q '^| allreduce_of_2 | skipped' "$report" || fail "a skipped part does not show"
grep -q '^| steps_slowest_kernels | passed' "$report" || fail "no kernels were counted"
grep -qF '| `gemm` | 1 | 1,500.0 | 60.0% | 20% | 90% |' "$report" || fail "the slowest kernel is not in the report"
grep -qF '| `add<float, (int)2>` | 2 | 1,001.0 | 40.0% | 73% | 11% |' "$report" ||
  fail "launches of a kernel are not added up"
grep -q '^| sanitizer_racecheck | passed' "$report" || fail "the last part was not run"
grep -q '^| communicators_of_4 | left out' "$report" || fail "there was no time to spare for it"
[ "$(logs training | wc -c)" -lt 70000 ] || fail "a long log was kept"
grep -q "the program --data $work/here/mnist --unit 32 --gpu" "$report" ||
  fail "the end of the 20 epochs, on the data found here, is not in the report"
grep -q '^| momentum_losses_as_on_cpu | passed' "$report" || fail "equal losses are none"
grep -q '^| accuracy_as_on_cpu | \*\*failed' "$report" || fail "another accuracy is not noticed"
grep -q '^validation/main/accuracy: 1 values, last: 0.07 apart (0.9 and 0.97' "$report" ||
  fail "the accuracies are not in the report"
# All that is left are three files, and the last that is said is the report, within its limit.
[ "$(ls -A "$work/report" | tr '\n' ' ')" = 'gpu_report.md logs.tar.gz steps.md ' ] ||
  fail "the folder holds $(ls -A "$work/report")"
[ "$(wc -c < "$report")" -le 11500 ] || fail "the report has $(wc -c < "$report") bytes"
tail -c "$(wc -c < "$report")" "$said" | cmp - "$report" || fail "the report is not said last"
# One that has ended may wait for its parent's notice (state Z).
state=$(sed -n 's/^State:[[:space:]]*//p' "/proc/$(cat "$work/left_behind")/status" 2>/dev/null || true)
[[ -z $state || $state == Z* ]] || fail "a process outlived its part"
summary=$(tail -1 "$report")
# Each part is in one of the calls that the document has.
mapfile -t calls < <(sed -nE "s/^TASUKI_GPU_PARTS='([^']*)' .*/\1/p" "$source/docs/gpu-status.md")
parts=$(awk '/^\| part /, /^$/ { if (/^\| [a-z]/) print $2 }' "$report" | tail -n +2)
[ "$(wc -w <<< "$parts")" -gt 20 ] || fail "the table has few parts: $parts"
for part in $parts; do
  in_calls=0
  for call in "${calls[@]}"; do [[ ! $part =~ $call ]] || in_calls=$((in_calls + 1)); done
  [ $in_calls -eq 1 ] || fail "$part is in $in_calls of the calls in docs/gpu-status.md"
done

# A part that hangs gets what the others do not need. Once it hangs, the checks below run.
touch "$work/hangs"
(
  said=$work/said_hanging
  check "$work/hanging" 40 '^mnist_(bf16|fp16|tf32)'
  grep -q '^| mnist_bf16 | \*\*no end in 15 s' "$report" || fail "the hanging part does not show"
  grep -q '^| mnist_tf32 | passed' "$report" || fail "a hanging part took the time of the last one"
) &
hanging=$!
while kill -0 $hanging 2>/dev/null && ! grep -qs '^mnist_bf16 ' "$work/said_hanging"; do sleep 0.1; done

# Some parts alone, and none. What an earlier call has left is not part of the report.
mkdir "$work/some"
echo 'steps of an earlier call' > "$work/some/steps.md"
check "$work/some" 60 '^training|20_epochs'
[ ! -e "$work/some/steps.md" ] || fail "the steps of an earlier call are left"
! grep -q 'an earlier call' "$report" || fail "the steps of an earlier call are in the report"
[ $code -eq 0 ] || fail "exit code $code of some parts"
[ "$(grep -c '^| .* passed' "$report")" -eq 3 ] || fail "other parts were run, too"
check "$work/none" 60 '^no_such_part'
[ $code -eq 64 ] || fail "exit code $code where nothing was chosen"

# Kernels that may not be counted, or not in time, are no failure.
touch "$work/ncu_refuses"
check "$work/kernels" 60 '^steps_slowest'
[ $code -eq 0 ] || fail "exit code $code where kernels may not be counted"
grep -q '^| steps_slowest_kernels | skipped: ncu counted nothing: ==ERROR== ERR_NVGPUCTRPERM' "$report" ||
  fail "the report does not say why nothing was counted"
rm "$work/ncu_refuses"
touch "$work/ncu_hangs"
check "$work/kernels" 12 '^steps_slowest'
[ $code -eq 0 ] || fail "exit code $code where ncu hangs"
grep -q '^| steps_slowest_kernels | skipped: ncu counted nothing: no end in' "$report" || fail "a hang does not show"
rm "$work/ncu_hangs"

# A first look may fail once.
echo 1 > "$work/looks_that_fail"
check "$work/again" 60 '^training'
[ $code -eq 0 ] || fail "exit code $code after a first look that failed once"
echo 2 > "$work/looks_that_fail"
check "$work/failing" 60 '^training'
[ $code -eq 1 ] || fail "exit code $code after first looks that failed twice"
grep -q '^an error of the first look' "$report" || fail "the reason is not in the report"
! grep -q '^| training' "$report" || fail "parts were run although no GPU can be used"

# A library that is in a folder of its own, or in the packages of another Python, is found there.
venv=$work/home/venv
mkdir -p "$work/home/lib" "$venv/lib/python3.99/site-packages/nvidia/some/lib" "$venv/bin"
ln -s "$(command -v python3)" "$venv/bin/python3"
for folder in "$work/home/lib" "$venv/lib/python3.99/site-packages/nvidia/some/lib"; do
  echo "$folder/libsome.so.9" > "$work/library"
  HOME=$work/home check "$work/elsewhere" 60 '^training'
  [ $code -eq 77 ] && grep -q 'no GPU can be used here: the CUDA backend needs libsome.so.9' "$report" ||
    fail "exit code $code without the library"
  touch "$folder/libsome.so.9"
  HOME=$work/home check "$work/elsewhere" 60 '^training'
  [ $code -eq 0 ] || fail "exit code $code: $folder was not searched"
  rm "$folder/libsome.so.9"
done
wait $hanging
echo "$summary"
