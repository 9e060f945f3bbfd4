#!/bin/bash
# Runs the tests and benchmarks that need a GPU on a machine with one, within a given time:
#
#   scripts/gpu_check.sh [FOLDER = gpu_report] [SECONDS = 530] [FLAGS of train_mnist...]
#
# FOLDER gets gpu_report.md, steps.md (training steps against PyTorch) and logs.tar.gz (a log of
# each part), and no other file; they are complete after each part. Those of an earlier call are
# removed first. The report has 11500 bytes at most and is printed at the end.
#
# It trains on MNIST if that is in mnist/ of TASUKI_DATA, of the current folder, of the folder above
# this script's or beside that, or in ~/.cache/tasuki/mnist; else on patterns of MNIST's size. With
# TASUKI_GPU_PARTS, a regular expression, only the parts whose names match it are run, so that they
# can be split among calls (docs/gpu-status.md has calls that suit). For slow GPUs, such as simulated
# ones: FLAGS such as `--unit 32`, TASUKI_GPU_FUNCTIONS, a filter of GoogleTest for the functions,
# and TASUKI_GPU_STEPS, MODEL:BATCH:PRECISION of each case to be compared with PyTorch,
# TASUKI_GPU_KERNELS, those whose kernels are timed, and TASUKI_GPU_CHOICES, those whose fused calls
# are listed.
#
# It builds nothing: it uses the programs of the bundle that it is in (scripts/bundle.sh), else
# those of TASUKI_BUILD (default: build/ beside scripts/). The most important parts come first, and
# a part gets no time that wanted parts after it need. A part that fails, crashes or hangs does not
# affect the others: each function is tested in a separate process, and no process that a part
# started outlives it. Exit code 1 if a part failed, 77 if there is no usable GPU.
set -uo pipefail
source "$(dirname "$(readlink -f "$0")")/usage.sh"
take_flags -- "${@:1:2}"
root=$(cd "$(dirname "$(readlink -f "$0")")/.." && pwd)
out=${1:-gpu_report}
usual=530
total=${2:-$usual} # seconds for everything
wanted=${TASUKI_GPU_PARTS:-.}
flags=("${@:3}")
[[ $total =~ ^[1-9][0-9]*$ ]] || refuse "SECONDS: a number expected, found '$total'"
most_of_log=65536 # bytes
most_of_report=11500
cores=$(env -u OMP_NUM_THREADS nproc)
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export OMPI_MCA_btl_vader_single_copy_mechanism=none # containers refuse the system call
export LC_ALL=C
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
rm -f "$out"/{gpu_report.md,steps.md,logs.tar.gz}
scratch=$(mktemp -d)
logs=$scratch/logs
mkdir "$logs" "$scratch/symptoms"
watcher=''
trap 'rm -rf "$scratch"; [ -z "$watcher" ] || kill "$watcher" 2>/dev/null' EXIT
begun=$SECONDS failures=0 failed=()
data='' data_name=MNIST

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

# fit BYTES: whole lines of the input, at most so many bytes, and how much is missing.
fit() {
  awk -v most="$1" '
    { size = length($0) + 1 }
    left_out || used + size > most - 60 { left_out += size; next }
    { print; used += size }
    END { if (left_out) printf "... %d bytes left out (logs.tar.gz)\n", left_out }'
}

block() { printf '\n## %s\n\n```\n' "$1" && cat && echo '```'; } # a chapter of verbatim lines

# The report so far: facts, the table of parts, results, symptoms of failed parts.
write_report() {
  local name each
  {
    cat "$scratch/facts" "$scratch/parts"
    if compgen -G "$logs/mnist_20_epochs*.log" > /dev/null; then
      tail -v -n 4 "$logs"/mnist_20_epochs*.log | sed "s|$logs/||" | cut -c1-200 | fit 1600 |
        block "train_mnist --gpu, 20 epochs on $data_name"
    fi
    if compgen -G "$logs/*_as_on_cpu.log" > /dev/null; then
      tail -q -n 1 "$logs"/*_as_on_cpu.log | cut -c1-200 | fit 800 |
        block "GPU against CPU, on $data_name"
    fi
    if [ -s "$logs/choices_of_fused_calls.log" ]; then
      tail -n +2 "$logs/choices_of_fused_calls.log" | cut -c1-240 | fit 1600 |
        block 'bias and ReLU by cuDNN, GELU by cuBLASLt'
    fi
    if [ -s "$out/steps.md" ]; then
      printf '\n## Training steps against PyTorch\n\n'
      fit 3600 < "$out/steps.md"
    fi
    if grep -qs '^|' "$logs/steps_slowest_kernels.log"; then
      printf '\n## How near kernels come to the GPU'\''s limits (Nsight Compute)\n\n'
      tail -n +2 "$logs/steps_slowest_kernels.log" | fit 1600
    fi
  } > "$scratch/report"
  if [ ${#failed[@]} -gt 0 ]; then
    each=$(((most_of_report - $(stat -c %s "$scratch/report") - 100) / ${#failed[@]} - 60))
    for name in "${failed[@]}"; do
      [ $each -lt 100 ] || fit $each < "$scratch/symptoms/$name" | block "$name"
    done >> "$scratch/report"
  fi
  { fit $((most_of_report - 60)) < "$scratch/report"
    printf '\n%s seconds, %s parts without success.\n' $((SECONDS - begun)) $failures
  } > "$out/gpu_report.md"
  tar -C "$scratch" -czf "$out/logs.tar.gz" logs
}

# Ends the script; the report is the last thing that is printed.
finish() {
  write_report
  printf 'gpu_check.sh: %s/gpu_report.md\n\n' "$out"
  cat "$out/gpu_report.md"
  exit "$1"
}

# What a failed log says: GoogleTest's failures with their problems, errors (a few lines of each
# function), which functions passed, and its end.
note_symptoms() {
  {
    sed 's|/[^ :]*/\([^/ :]*[.]cpp:\)|\1|' "$logs/$1.log" | cut -c1-240 | awk '
      /: exit code [0-9]/ { of_function = 1; said = 0 }
      /: exit code 0$/ { passed = passed " " substr($1, 1, length($1) - 1); next }
      /^rank [0-9]+ on |: exit code |Failure$|Actual: |apart|differ|[Ee]rror|_test.cpp:/ {
        if (said++ < (of_function ? 5 : 24)) print
      }
      END { if (passed) print "passed:" passed }' | fold -s -w 240
    echo ...
    tail -6 "$logs/$1.log" | cut -c1-240
  } > "$scratch/symptoms/$1"
  failed+=("$1")
  failures=$((failures + 1))
}

row() { echo "| $1 | $2 | $3 |" >> "$scratch/parts"; }

# part NAME NEED LIMIT COMMAND...: runs it within its limit and the time that is left, less the
# seconds that wanted parts after it need; limits grow with the whole time if that is longer than
# usual. The command finds its limit in PART_SECONDS.
# spare NAME NEED LIMIT COMMAND...: the same where NEED seconds are left; else it is left out.
part() { one_part part "$@"; }
spare() { one_part spare "$@"; }
one_part() {
  local kind=$1 name=$2 need=$3 limit=$4 code=0 result start=$SECONDS time
  [ "$total" -le $usual ] || limit=$((limit * total / usual))
  shift 4
  [[ $name =~ $wanted ]] || return 0
  if [ $planning = yes ]; then
    matches=$((matches + 1))
    [ "$kind" = spare ] || reserved=$((reserved + need))
    return
  fi
  time=$((total - SECONDS + begun))
  if [ "$kind" = spare ]; then
    [ $time -ge "$need" ] || { row "$name" 'left out (only with time to spare)' ''; return; }
  else
    reserved=$((reserved - need))
    if [ $time -lt 10 ]; then
      row "$name" '**left out for lack of time**' ''
      failures=$((failures + 1))
      return
    fi
    local own=$((time - reserved))
    [ $own -ge "$need" ] || own=$need
    [ $own -ge $time ] || time=$own
  fi
  [ "$limit" -le $time ] || limit=$time
  echo "$name ..."
  { echo "\$ $*"; PART_SECONDS=$limit limited "$limit" "$@"; } > "$logs/$name.log" 2>&1 || code=$?
  shorten "$logs/$name.log"
  case $code in
    0) result=passed ;;
    77) result="skipped: $(tail -1 "$logs/$name.log" | sed 's/^skipped: //' | cut -c1-160)" ;;
    124 | 137) result="**no end in $limit s**" ;;
    *) result="**failed ($code)**" ;;
  esac
  [ $code -eq 0 ] || [ $code -eq 77 ] || note_symptoms "$name"
  row "$name" "$result" $((SECONDS - start))
  write_report
}

# While a process uses a GPU, its driver stays ready; otherwise each program may wait seconds for
# it.
nvidia-smi -l 30 > /dev/null 2>&1 &
watcher=$!

# A first look: whether a GPU can be used at all. The loader notes where it finds libraries.
look() {
  LD_DEBUG=libs LD_DEBUG_OUTPUT=$scratch/loads \
    limited 60 "$test_gpu" --gtest_filter='Precisions/Gpu.Bias/fp32' > "$logs/first_look.log" 2>&1
}
why_skipped() { awk '/: Skipped$/ { getline; print; exit }' "$logs/first_look.log"; }

# A library that neither the loader nor the first python3 knows: of another Python's packages, which
# becomes the first one then, or in any folder.
find_missing_library() {
  local missing found folder
  missing=$(why_skipped | sed -n 's/.*the CUDA backend needs \(lib[^ ,]*\), .*/\1/p')
  [ -n "$missing" ] || return 1
  found=$(limited 20 find "${HOME:-/root}" /opt /usr /root /home -name "$missing" -print -quit 2>/dev/null)
  folder=${found%/*}
  [[ -n $found && ":${LD_LIBRARY_PATH:-}:" != *":$folder:"* ]] || return 1
  if [[ $folder =~ ^(.*)/lib/python3[^/]*/site-packages/ && -x ${BASH_REMATCH[1]}/bin/python3 &&
        ":$PATH:" != *":${BASH_REMATCH[1]}/bin:"* ]]; then
    export PATH=${BASH_REMATCH[1]}/bin:$PATH
  else
    export LD_LIBRARY_PATH=${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}$folder
  fi
}

code=0 again=yes
until look; do
  code=$?
  if [ $code -eq 77 ]; then
    find_missing_library || break
  elif [ $again = yes ]; then
    again=no
  else
    break
  fi
  code=0
done

# Which of CUDA's libraries the loader found where, with versions.
libraries() {
  cat "$scratch"/loads.* 2>/dev/null |
    sed -nE 's#.*calling init: (/.*/lib(cuda|cudnn|cublasLt|nccl|tasuki_cuda)[a-z_]*\.so.*)#\1#p' |
    sort -u | xargs -r python3 -c '
import re, sys
def version(path):
    import ctypes
    name = re.match(r".*/lib(\w+)\.", path).group(1)
    if name == "nccl":
        number = ctypes.c_int()
        ctypes.CDLL(path).ncclGetVersion(ctypes.byref(number))
        return number.value
    getter = {"cudnn": "cudnnGetVersion", "cublasLt": "cublasLtGetVersion"}.get(name)
    return getattr(ctypes.CDLL(path), getter)() if getter else ""
for path in sys.argv[1:]:
    try:
        print(path, version(path))
    except Exception as error:
        print(path, error)
'
}
export -f libraries
export scratch

{
  printf '# GPU report\n\n%s; parts %s in %s s\n\n```\n' "$(date -u '+%Y-%m-%d %H:%M UTC')" \
    "$wanted" "$total"
  echo "$(uname -srm), $cores cores,$(grep -m 1 'model name' /proc/cpuinfo | cut -d: -f2-)"
  limited 15 nvidia-smi --format=csv,noheader \
    --query-gpu=index,name,driver_version,memory.total,clocks.max.sm,power.limit 2>&1 | head -4
  limited 15 "$(program train_mnist)" --version 2>&1 | cut -c1-160 | head -3
  limited 30 bash -c libraries 2>&1 | cut -c1-160 | head -8
  echo "$(python3 -c 'import sys; print(sys.executable, sys.version)' 2>&1 | head -1 | cut -c1-160)"
  echo '```'
} > "$scratch/facts"
printf '\n| part | result | seconds |\n|---|---|--:|\n' > "$scratch/parts"

if [ $code -eq 77 ]; then
  printf '\nNothing was run: no GPU can be used here: %s\n' "$(why_skipped)" >> "$scratch/facts"
  finish 77
elif [ $code -ne 0 ]; then
  row first_look "**failed ($code), twice**; the rest was left out" $((SECONDS - begun))
  note_symptoms first_look
  finish 1
fi

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

# Every function on its own: an error of CUDA spoils the process that meets it.
each_function() {
  local program=$1 failed=0 at_once=$((cores / 2))
  [ $at_once -le 8 ] || at_once=8
  [ $at_once -ge 1 ] || at_once=1
  export OMP_NUM_THREADS=${OMP_NUM_THREADS:-2}
  one_function() {
    local code=0 said
    said=$(timeout -k 5 $((PART_SECONDS / 2)) "$1" --gtest_brief=1 --gtest_filter="$3" 2>&1) || code=$?
    [ $code -eq 77 ] && code=0
    printf '%s: exit code %s\n%s\n' "$2" $code "$(tail -c 4000 <<< "$said")"
    [ $code -eq 0 ]
  }
  export -f one_function
  # A suite's tests follow its name; a line: the function, then all its tests.
  "$program" --gtest_list_tests --gtest_filter="${TASUKI_GPU_FUNCTIONS:-*}" | awk '
      /^[^ ]/ { suite = $1; next }
      { split($1, words, "/"); tests[words[1]] = tests[words[1]] ":" suite $1 }
      END { for (name in tests) print name, substr(tests[name], 2) }' | sort |
    xargs -P "$at_once" -n 2 bash -c 'one_function "$1" "$2" "$3"' one "$program" || failed=1
  return $failed
}
export -f each_function
export cores

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

# More ranks than GPUs are refused unless they may share.
refuses() {
  local said
  ! said=$("$@" --gpu 2>&1) && grep -e --share-gpu <<< "$said"
}
export -f refuses
# What the trials of calls that do more than a product or a convolution found (--verbose).
choices() {
  local case
  for case in ${TASUKI_GPU_CHOICES:-vgg_small:128:bf16 gpt:64:bf16}; do
    "$1" ${case//:/ } --steps 1 --verbose > "$scratch/said" 2>&1 || { tail -5 "$scratch/said"; return 1; }
    grep -E 'GELU|ReLU' "$scratch/said" | sed "s/^/$case: /" || echo "$case: nothing was tried"
  done
}
export -f choices
gpus=$(limited 15 nvidia-smi -L 2>/dev/null | grep -c '^GPU')

cases=()
for case in ${TASUKI_GPU_STEPS:-}; do cases+=(--case "$case"); done

# In the order of what they are worth.
all_parts() {
  part functions 100 200 bash -c 'each_function "$1"' each "$test_gpu"
  part functions_with_own_attention 15 40 env TASUKI_GPU_ATTENTION=own "$test_gpu" --gtest_brief=1 \
    --gtest_filter='*.AttentionOperations/*16:*GpuAttention*/*16'
  # Two processors are up to 4e-4 apart after 100 steps: the order of a sum is another.
  part momentum_losses_as_on_cpu 20 40 bash -c 'as_on_cpu "$@"' as "$scratch/momentum" \
    main/loss each 1e-3 "${train[@]}" "${first_losses[@]}" --optimizer momentum_sgd
  part adam_losses_as_on_cpu 15 40 bash -c 'as_on_cpu "$@"' as "$scratch/adam" \
    main/loss mean 5e-3 "${train[@]}" "${first_losses[@]}"
  part mnist_20_epochs 20 40 "${train[@]}" --gpu --out "$scratch/fp32"
  part mnist_20_epochs_autotune 20 40 "${train[@]}" --gpu --autotune --out "$scratch/autotune"
  part accuracy_as_on_cpu 20 45 bash -c 'as_on_cpu "$@"' as "$scratch/accuracy" \
    validation/main/accuracy last 5e-3 "${train[@]}" --epoch 2
  part steps_against_pytorch 60 "$total" \
    bash -c 'exec python3 "$@" --budget $((PART_SECONDS - 10))' steps "$bench/compare_gpu.py" \
    "$(program bench_gpu_step)" --seconds 1 --out "$out/steps.md" "${cases[@]}"
  part choices_of_fused_calls 15 40 bash -c 'choices "$@"' choices "$(program bench_gpu_step)"
  for dtype in bf16 fp16 tf32; do
    part "mnist_$dtype" 15 25 "${train[@]}" --gpu --dtype $dtype --epoch 3 --out "$scratch/$dtype"
  done
  part steps_slowest_kernels 40 40 bash -c 'exec "$@" --limit $((PART_SECONDS - 5))' kernels \
    "$bench/kernel_limits.py" "$(program bench_gpu_step)" gpt2_small 8 bf16
  sanitize memcheck
  part training 60 120 "$(program test_gpu_training)"
  communicators part 1 30 90
  communicators part 2 60 120  # ranks that share a GPU take turns of milliseconds
  part refused_unless_shared 15 30 bash -c 'refuses "$@"' refuses $(ranks $((gpus + 1))) \
    "${train[@]}"
  share part auto
  part allreduce_of_2 20 30 $(ranks 2) "$(program tasuki-bench-allreduce)" "${shared[@]}" \
    --communicator all --min 65536 --max 16777216 --factor 16 --iterations 5 --warmup 2
  part allreduce_of_2_bf16 12 15 $(ranks 2) "$(program tasuki-bench-allreduce)" "${shared[@]}" \
    --communicator pure_nccl --wire-dtype bf16 --min 16777216 --factor 1 --iterations 5 --warmup 2
  sanitize racecheck
  for communicator in pure_nccl hierarchical flat naive single_node two_dimensional \
      non_cuda_aware; do
    share spare $communicator
  done
  communicators spare 4 120 200
  [ $planning = yes ] || [[ ! program_train_imagenet =~ $wanted ]] || make_images "$scratch/images"
  for program in lm seq2seq dcgan imagenet; do
    part "program_train_$program" 20 40 bash -c 'as_on_cpu "$@"' as "$scratch/$program" \
      main/loss mean 2e-2 "$(program train_$program)" $(data_of $program) \
      --max-iterations 10 --epoch 100 --log-every 1 --test-examples 32 --quiet
  done
  for case in ${TASUKI_GPU_KERNELS:-gpt2_small:8:bf16 lstm:64:bf16 wrn_28_10:128:bf16 gpt:64:bf16}; do
    part "kernels_${case//:/_}" 15 40 "$bench/kernel_times.py" "$(program bench_gpu_step)" ${case//:/ } \
      --graph
  done
}
# Photographs' place: stripes of two directions, one for each class.
make_images() {
  limited 60 python3 -c '
import os, random, struct, sys, zlib
random.seed(1)
def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
def png(side, is_lying):
    phase, width = random.randrange(side), random.randrange(8, 32)
    rows = b"".join(b"\0" + bytes(255 if ((y if is_lying else x) + phase) // width % 2 else channel
                                  for x in range(side) for channel in (0, 64, 128))
                    for y in range(side))
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0))
            + chunk(b"IDAT", zlib.compress(rows, 1)) + chunk(b"IEND", b""))
for part, count in (("train", 24), ("test", 16)):
    for name in ("lying", "standing"):
        folder = f"{sys.argv[1]}/{part}/{name}"
        os.makedirs(folder)
        for i in range(count):
            with open(f"{folder}/{i}.png", "wb") as file:
                file.write(png(256, name == "lying"))
' "$1"
}
data_of() {
  case $1 in
    lm) echo --data "$root/docs" --sample 0 --batchsize 16 ;;
    seq2seq) echo --batchsize 32 --examples 2000 ;;
    dcgan) echo --dataset mnist --data "$data" --batchsize 16 --channels 64 ;;
    imagenet) echo --data "$scratch/images" --arch tv_resnet18 --batchsize 16 ;;
  esac
}
sanitize() {
  part "sanitizer_$1" 60 90 "$sanitize" "$1" "$test_gpu" "$(program test_gpu_communicators)" \
    "$mpirun"
}
communicators() { # part|spare RANKS NEED LIMIT
  "$1" "communicators_of_$2" "$3" "$4" $(ranks "$2") "$(program test_gpu_communicators)"
}
share() { # part|spare COMMUNICATOR
  "$1" "shared_by_4_$2" 25 40 $(ranks 4) "${train[@]}" "${shared[@]}" --communicator "$2" \
    --examples 6000 --epoch 1 --out "$scratch/$2"
}

reserved=0 matches=0 planning=yes
all_parts
[ $matches -gt 0 ] || refuse "TASUKI_GPU_PARTS: no part's name matches '$wanted'"
planning=no
all_parts
finish $((failures > 0))
