#!/bin/sh
# Runs a test binary's tests of our own kernels under compute-sanitizer: sanitize.sh TOOL BINARY.
# cuDNN's and cuBLAS's kernels are left out: they are not ours, and slow under it.
set -eu
tool=$1 binary=$2
for folder in "${CUDA_HOME:-/usr/local/cuda}/bin" "${CUDA_HOME:-/usr/local/cuda}/compute-sanitizer"; do
  PATH=$PATH:$folder
done
if ! command -v compute-sanitizer >/dev/null; then
  echo "skipped: there is no compute-sanitizer on this machine (CUDA's toolkit has it)"
  exit 77
fi
code=0
compute-sanitizer --tool "$tool" --error-exitcode 1 "$binary" \
  --gtest_filter='Precisions/Gpu.*-*Linear*:*Convolution*:*TimedOrDeterministic*' || code=$?
exit $code
