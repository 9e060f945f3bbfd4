#!/bin/bash
# Builds everything with warnings as errors and runs all checks and tests, or one of the long ones.
#
#   ./test.sh [--tidy] [ctest arguments]
#   ./test.sh --quick [ctest arguments]       a few tests of each folder, with one rank and with two: five
#                                             minutes after quickstart.sh, for use while you work
#   ./test.sh --asan [ctest arguments]        all tests, with sanitizers for addresses and undefined
#                                             behaviour, in build-asan/
#   ./test.sh --fuzz [SECONDS [NAME...]]      arbitrary input to each parser for so long (600)
#   ./test.sh --faults [flags and cases]      jobs that are killed, cut off, stopped, ...: over an
#                                             hour; --faults --list shows the cases
#   ./test.sh --scaling [flags]               step times on nodes of this machine (bench/scaling.py)
#   ./test.sh --fresh [--suite trixie] [--quick] [-- ctest arguments]
#                                             README's commands on a minimal Debian 12 (or 13), as root
#                                             and as a user: over an hour (tests/fresh/run.sh)
#   ./test.sh --packages [--keep]             Debian packages, containers and module file on a minimal
#                                             Debian (tests/packages/run.sh)
#
# clang-format checks all sources and clang-tidy those that changed (with --tidy: all, which takes
# some 40 minutes of processor time the first time; files that passed are remembered). Further
# arguments go to ctest: ./test.sh -R communicator. Skipped tests are listed with their reasons. It
# ends with ctest's summary and exit code; if the style was wrong, lines after it name the files, and
# the exit code is 1 even if all tests passed.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

source scripts/usage.sh
what=tests
case ${1:-} in
  -h | --help)
    print_help
    exit
    ;;
  --quick | --tidy | --asan | --fuzz | --faults | --scaling | --fresh | --packages)
    what=${1#--}
    shift
    ;;
esac
if [[ $what == fuzz && -n ${1:-} && ! $1 =~ ^[1-9][0-9]*$ ]]; then
  refuse "--fuzz: expected seconds, found '$1'"
fi
if [[ $what == faults ]]; then
  # Wrong names are refused, and the list is printed, before anything is built.
  list=$(tests/fault/suite/run.py --list "$@") || exit
  if [[ " $* " == *" --list "* || " $* " == *" --help "* ]]; then
    echo "$list"
    exit
  fi
fi

[[ $what != fresh && $what != packages ]] || exec "tests/$what/run.sh" "$@"
scripts/dependencies.sh test
if [[ $what == asan ]]; then
  cmake --preset asan
  cmake --build --preset asan
  exec scripts/run_ctest.py --test-dir build-asan --output-on-failure --parallel "$(nproc)" "$@"
fi
style=
exec 3>&1
# Remembers the closing line of a check that fails, for the end of the output.
check_style() {
  local output
  output=$("$@" 2>&1 | while IFS= read -r line; do printf '%s\n' "$line" >&3; printf '%s\n' "$line"; done) ||
    style+="${output##*$'\n'}"$'\n'
}
if [[ $what == tests || $what == quick || $what == tidy ]]; then
  check_style scripts/check_format.sh
fi
cmake --preset release -DTASUKI_WERROR=ON -DTASUKI_CUDA_WERROR=ON -DTASUKI_BUILD_TESTS=ON \
      -DTASUKI_BUILD_BENCH=ON
if [[ $what == quick ]]; then
  cmake --build --preset release --target quick_tests
else
  cmake --build --preset release
fi
case $what in
  fuzz) exec tests/fuzz/run.py --seconds "${1:-600}" "${@:2}" ;;
  faults) exec tests/fault/suite/run.py "$@" ;;
  scaling) exec bench/scaling.py "${@:---quick}" ;;
esac

chosen=()
case $what in
  quick) chosen=(-L quick) ;;
  tidy) check_style scripts/check_tidy.py --all ;;
  *) check_style scripts/check_tidy.py ;;
esac
tests=0
scripts/run_ctest.py --test-dir build --output-on-failure --parallel "$(nproc)" "${chosen[@]}" "$@" || tests=$?
if [[ -n $style ]]; then
  echo "test.sh: the style is wrong or could not be checked (more above the tests):" >&2
  echo -n "$style" >&2
  ((tests != 0)) || exit 1
fi
exit "$tests"
