#!/bin/bash
# Builds everything with warnings as errors and runs all checks and tests, or one of the long ones.
#
#   ./test.sh [--tidy] [ctest arguments]
#   ./test.sh --quick [ctest arguments]       a few tests of each folder, with one rank and with two: five
#                                             minutes after quickstart.sh, for use while you work
#   ./test.sh --asan [ctest arguments]        all tests, with sanitizers for addresses and undefined
#                                             behaviour, in build-asan/
#   ./test.sh --mpi mpich|impi [ctest arguments]
#                                             quick tests, and those of communicators, jobs and tasuki-run,
#                                             with another MPI (docs/mpi.md), in build-mpich/ or build-impi/
#   ./test.sh --fuzz [SECONDS [NAME...]]      arbitrary input to each parser for so long (600)
#   ./test.sh --faults [flags and cases]      jobs that are killed, cut off, stopped, ...: over an
#                                             hour; --faults --list shows the cases
#   ./test.sh --bits [flags]                  runs with --reproducible, on 1 to 8 ranks and up to three nodes
#                                             (scripts/check_bits.py): a quarter of an hour
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
  --quick | --tidy | --asan | --fuzz | --faults | --bits | --scaling | --fresh | --packages | --mpi)
    what=${1#--}
    shift
    ;;
esac
if [[ $what == mpi ]]; then
  mpi=${1:-}
  [[ $mpi == mpich || $mpi == impi ]] || refuse "--mpi: expected mpich or impi, found '$mpi'"
  shift
  export I_MPI_ROOT=${I_MPI_ROOT:-/opt/intel/oneapi/mpi/latest}  # Intel's compilers need it
fi
# The compiler of the chosen MPI: in MPICH_HOME, or Debian's; in I_MPI_ROOT, the one for GCC.
mpi_compiler() {
  local compiler=${MPICH_HOME:-/usr}/bin/mpicxx
  [[ -n ${MPICH_HOME:-} ]] || compiler+=.mpich
  local advice="install mpich and libmpich-dev, or set MPICH_HOME to the folder of an MPICH"
  if [[ $mpi == impi ]]; then
    compiler=$I_MPI_ROOT/bin/mpigxx
    advice="set I_MPI_ROOT to Intel MPI's folder (docs/mpi.md)"
  fi
  [[ -x $compiler ]] || { echo "test.sh: there is no $compiler: $advice" >&2; return 1; }
  echo "$compiler"
}
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
if [[ $what == mpi ]]; then
  folder=build-$mpi compiler=$(mpi_compiler)
  # What CMake remembers of one MPI does not fit another.
  grep -qsxF "MPI_CXX_COMPILER:FILEPATH=$compiler" "$folder/CMakeCache.txt" ||
    rm -f "$folder/CMakeCache.txt"
  cmake --preset release -B "$folder" -DTASUKI_CUDA=OFF -DTASUKI_BUILD_TESTS=ON -DTASUKI_BUILD_BENCH=OFF \
        -DMPI_CXX_COMPILER="$compiler"
  cmake --build "$folder" --target mpi_tests
  exec scripts/run_ctest.py --test-dir "$folder" --output-on-failure --parallel "$(nproc)" \
       -L 'quick|mpi' "$@"
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
  bits) exec scripts/check_bits.py "$@" ;;
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
