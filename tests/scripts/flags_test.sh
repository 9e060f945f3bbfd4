#!/bin/bash
# Every script prints its help, refuses a flag that it does not know in one line, and does nothing else.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
errors=$(mktemp)
trap 'rm -f "$errors"' EXIT
fail() { echo "flags_test: $*"; exit 1; }

scripts=(./quickstart.sh ./test.sh tests/cluster/run.sh tests/cluster/slurm.sh tests/gpu/sanitize.sh tests/fuzz/run.py
         tests/fault/suite/run.py tests/fresh/run.sh tests/packages/run.sh)
for file in scripts/*; do [[ ! -f $file || ! -x $file ]] || scripts+=("$file"); done
((${#scripts[@]} >= 12)) || fail "found ${scripts[*]} alone"
for script in "${scripts[@]}"; do
  help=$(timeout 20 "$script" --help 2>"$errors") || fail "$script --help ends with $?"
  [[ ! -s $errors ]] || fail "$script --help writes errors: $(<"$errors")"
  lines=$(wc -l <<<"$help")
  ((lines >= 2 && lines <= 35)) || fail "$script --help has $lines lines"
  ! grep -qE '^(set |#!)' <<<"$help" || fail "$script --help prints more than its help: $help"

  case $script in *test.sh | *run_ctest.py) continue ;; esac  # they hand flags on to ctest
  code=0
  said=$(timeout 20 "$script" --no-such-flag 2>"$errors") || code=$?
  ((code == 64)) || fail "$script --no-such-flag ends with $code"
  [[ -z $said && $(wc -l <"$errors") == 1 ]] || fail "not one line: $said$(<"$errors")"
  grep -q -e --no-such-flag "$errors" || fail "$script does not name the flag: $(<"$errors")"
done

# test.sh names its switches, and refuses what they cannot take before it builds anything.
for switch in tidy asan fuzz faults scaling fresh packages; do
  ./test.sh --help | grep -q -e "--$switch" || fail "test.sh --help does not name --$switch"
done
for wrong in "--fuzz soon" "--faults no-such-case" "--fresh soon" "--packages soon"; do
  code=0
  # shellcheck disable=SC2086  # two words
  said=$(timeout 20 ./test.sh $wrong 2>"$errors") || code=$?
  ((code == 64)) || fail "test.sh $wrong ends with $code"
  [[ -z $said && $(wc -l <"$errors") == 1 ]] || fail "not one line: $said$(<"$errors")"
done
timeout 20 ./test.sh --faults --list >"$errors" || fail "test.sh --faults --list ends with $?"
grep -q cut-host "$errors" || fail "test.sh --faults --list prints $(<"$errors")"

# Called by a link, as from a folder on PATH.
links=$(mktemp -d)
trap 'rm -rf "$errors" "$links"' EXIT
for name in plot_monitor get_data.sh dependencies.sh bundle.sh packages.sh gpu_check.sh; do
  ln -s "$PWD/scripts/$name" "$links/$name"
  "$links/$name" --help >/dev/null || fail "$name --help fails when it is called by a link"
done
echo "flags_test: ${#scripts[@]} scripts"
