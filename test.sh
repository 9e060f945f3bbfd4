#!/bin/bash
# Builds everything with warnings as errors and runs all checks and tests.
#
#   ./test.sh [--tidy] [ctest arguments]
#
# clang-format checks all sources and clang-tidy those that changed (with --tidy: all, which takes
# some 40 minutes of processor time the first time; files that passed are remembered). Further
# arguments go to ctest: ./test.sh -R communicator. Skipped tests are listed with their reasons. It
# ends with ctest's summary and exit code; if only the style was wrong, the last line says so and
# the exit code is 1.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

source scripts/usage.sh
if [[ ${1:-} == -h || ${1:-} == --help ]]; then
  print_help
  exit
fi
tidy=()
if [[ ${1:-} == --tidy ]]; then
  tidy=(--all)
  shift
fi

scripts/dependencies.sh test
style=0
scripts/check_format.sh || style=1
cmake --preset release -DTASUKI_WERROR=ON -DTASUKI_CUDA_WERROR=ON -DTASUKI_BUILD_TESTS=ON \
      -DTASUKI_BUILD_BENCH=ON
cmake --build --preset release
scripts/check_tidy.py "${tidy[@]}" || style=1

tests=0
scripts/run_ctest.py --test-dir build --output-on-failure --parallel "$(nproc)" "$@" || tests=$?
if ((tests == 0 && style != 0)); then
  echo "test.sh: all tests passed, but clang-format or clang-tidy has findings (above)" >&2
  exit 1
fi
exit "$tests"
