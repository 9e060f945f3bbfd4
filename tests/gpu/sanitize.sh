#!/bin/sh
# Runs the tests of our own kernels under compute-sanitizer: memory errors, or races in shared memory.
#
#   sanitize.sh memcheck|racecheck TEST_GPU TEST_GPU_COMMUNICATORS [MPIRUN]
#
# Kernels of cuBLAS, cuDNN and NCCL are left out by name: they are not ours, and slow under it. Those
# of the wire run on two ranks that share a GPU. Exit code 77, with the reason, where there is no
# compute-sanitizer or no GPU.
set -eu
case ${1-} in
  -h | --help) sed -n '2,/^[^#]/ s/^# \{0,1\}//p' "$0"; exit ;;
esac
if [ $# -lt 3 ] || [ "$1" != memcheck ] && [ "$1" != racecheck ]; then
  echo "sanitize.sh: memcheck or racecheck and two programs expected, found '$*';" \
       "sanitize.sh --help says more" >&2
  exit 64
fi
tool=$1 test_gpu=$2 test_communicators=$3 mpirun=${4:-mpirun}
for folder in "${CUDA_HOME:-/usr/local/cuda}/bin" "${CUDA_HOME:-/usr/local/cuda}/compute-sanitizer"; do
  PATH=$PATH:$folder
done
if ! command -v compute-sanitizer >/dev/null; then
  echo "skipped: there is no compute-sanitizer on this machine (CUDA's toolkit has it)"
  exit 77
fi
code=0
"$test_gpu" --gtest_filter=Precisions/Gpu.Post/fp32 || code=$?
[ $code -eq 0 ] || exit $code

# Namespace tasuki::kernels as it is in the symbols. CUDA 12's first versions have another name for
# the option.
by_name=--kernel-name
compute-sanitizer --help | grep -q -e '--kernel-name' || by_name=--kernel-regex
sanitized="compute-sanitizer --tool $tool --target-processes all --error-exitcode 1"
sanitized="$sanitized $by_name kernel_substring=6tasuki7kernels"
# The backend looks at all that CUDA answers; some tests ask for what is refused.
[ "$tool" != memcheck ] || sanitized="$sanitized --report-api-errors no"

"$mpirun" -np 2 --bind-to none --oversubscribe $sanitized "$test_communicators" --gtest_brief=1 \
  --gtest_filter='*RoundingOnGpus*' || code=$?
# TF32 has the kernels of float32, timing and determinism are about libraries, and some kernels know
# no type of activations.
left_out='*/tf32:*Timed*:*RepeatTheirBits*'
for subject in Update LossScale Post Copy Metrics; do
  left_out="$left_out:*.$subject/*16"
done
$sanitized "$test_gpu" --gtest_brief=1 --gtest_filter="Precisions/*-$left_out" || code=$?
# What cuDNN computes otherwise.
TASUKI_GPU_ATTENTION=own $sanitized "$test_gpu" --gtest_brief=1 \
  --gtest_filter='*.AttentionOperations/*16:*GpuAttention*/*16' || code=$?
exit $code
