#!/bin/bash
# Builds and tests Tasuki on other systems, and with other compilers and MPIs on this one, one after the other.
#
#   scripts/check_systems.sh [--all] [--work FOLDER] [NAME...]
#   scripts/check_systems.sh --list
#
# Each NAME (by default all) is built with warnings as errors and runs ./test.sh --quick, or with --all
# ./test.sh. Prints a row of docs/systems.md's table for each as it ends; logs are in FOLDER/NAME.log. Ends
# with 1 if one of them failed.
#
#   bookworm  Debian 12: GCC 12, Open MPI 4.1, oneDNN 2.6
#   trixie    Debian 13: GCC 14, Open MPI 5.0, oneDNN 3.7
#   noble     Ubuntu 24.04: GCC 13, Open MPI 4.1, oneDNN 3.1 (needs the package ubuntu-keyring)
#   mpich     this system with MPICH: ./test.sh --mpi mpich, as a whole
#   impi      this system with Intel MPI: ./test.sh --mpi impi, as a whole
#   clang     this system with Clang, $CLANG (default: clang++); without --all the tests of MPI, too
#
# The first three are systems of their own, made by debootstrap in FOLDER/NAME (default:
# /var/tmp/tasuki-systems), which needs root. They stay there with what they have compiled, 3 GB each, so
# that the next run is faster. What this machine does not allow is skipped, and says why.
set -euo pipefail
here=$(cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/.." && pwd)
source "$here/scripts/usage.sh"
source "$here/tests/fresh/system.sh"
name=systems
limit=28800  # seconds for one of them
systems=(bookworm trixie noble) settings=(mpich impi clang)

inside= all= work=/var/tmp/tasuki-systems keep=1 chosen=()
while (($#)); do
  case $1 in
    -h | --help) print_help; exit ;;
    --list) printf '%s\n' "${systems[@]}" "${settings[@]}"; exit ;;
    --inside) inside=$2; shift ;;
    --all) all=1 ;;
    --work) work=$(realpath -m "${2-}"); shift ;;
    -*) refuse "unknown flag '$1'" ;;
    *)
      [[ " ${systems[*]} ${settings[*]} " == *" $1 "* ]] || refuse "unknown system '$1'"
      chosen+=("$1")
      ;;
  esac
  shift
done
((${#chosen[@]})) || chosen=("${systems[@]}" "${settings[@]}")
quick=--quick
[[ -z $all ]] || quick=

# --- inside: in a system of its own ---
if [[ -n $inside ]]; then
  suite=${chosen[0]}
  make_system "$suite"
  rm -rf "$system/root/tasuki.old"
  # The build folder stays.
  [[ ! -e $system/root/tasuki ]] || mv "$system/root/tasuki" "$system/root/tasuki.old"
  give_checkout "$here" root /root
  [[ ! -e $system/root/tasuki.old/build ]] || mv "$system/root/tasuki.old/build" "$system/root/tasuki/"
  in_system root "$limit" "cd tasuki && ./test.sh $quick"
  exit
fi

# --- outside ---
value_of() { sed -nE "s/^-- +$2 +//p" "$1" | tail -n 1; } # log key: of CMake's summary

row() { # name log code
  local system tests found failed total skipped
  if (($3 == 77)); then
    echo "| $1 | skipped: $(sed -n 's/^skipped: //p' "$2" | tail -n 1) | | | | | | |"
    return
  fi
  system=$(source "$work/$1/system/etc/os-release" 2>/dev/null && echo "$PRETTY_NAME") ||
    system=$(source /etc/os-release && echo "$PRETTY_NAME")
  tests=${quick:+quick}${all:+all}
  [[ $1 != *mpi* && $1$all != clang ]] || tests="quick, MPI's"
  found="none was run (exit code $3)"
  # ctest's closing line.
  if read -r failed total; then
    skipped=$(grep -cE '^\s+[0-9]+ - \S+ \(Skipped\)' "$2") || true
    found="$((total - failed - skipped)) / $skipped / $failed"
  fi < <(sed -nE 's/^[0-9]+% tests passed, ([0-9]+) tests? failed out of ([0-9]+)/\1 \2/p' "$2" | tail -n 1)
  echo "| $1 | $system | $(value_of "$2" compiler) | $(value_of "$2" MPI | sed 's/ (.*//') |" \
       "$(value_of "$2" oneDNN | sed 's/,.*//') | $tests | $found | $(date +%F) |"
}

test_with_clang() {
  local compiler=${CLANG:-clang++}
  command -v "$compiler" >/dev/null || skip "$compiler is missing (package clang)"
  cmake -S . -B build-clang -G Ninja -DCMAKE_BUILD_TYPE=Release -DCMAKE_CXX_COMPILER="$compiler" \
        -DTASUKI_WERROR=ON -DTASUKI_CUDA=OFF -DTASUKI_BUILD_TESTS=ON -DTASUKI_BUILD_BENCH=OFF &&
    timeout -k 30 "$limit" cmake --build build-clang ${quick:+--target mpi_tests} &&
    timeout -k 30 "$limit" scripts/run_ctest.py --test-dir build-clang --output-on-failure \
      --parallel "$(nproc)" ${quick:+-L 'quick|mpi'}
}

mkdir -p "$work"
result=0
trap 'exit 130' INT
trap 'exit 143' TERM
echo "| name | system | compiler | MPI | oneDNN | tests | passed / skipped / failed | date |"
echo "|---|---|---|---|---|---|---|---|"
for each in "${chosen[@]}"; do
  log=$work/$each.log code=0
  if [[ " ${systems[*]} " == *" $each "* ]]; then
    mkdir -p "$work/$each"
    (work=$work/$each; run_in_namespaces ${all:+--all} "$each") >"$log" 2>&1 || code=$?
  elif [[ $each == clang ]]; then
    (cd "$here" && test_with_clang) >"$log" 2>&1 || code=$?
  else
    (cd "$here" && timeout -k 30 "$limit" ./test.sh --mpi "$each") >"$log" 2>&1 || code=$?
  fi
  row "$each" "$log" "$code"
  ((code == 0 || code == 77)) || result=1
done
exit "$result"
