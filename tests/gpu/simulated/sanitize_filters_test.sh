#!/bin/bash
# sanitize.sh gives compute-sanitizer tests to run, for both tools: its filters fit the tests' names.
# In place of compute-sanitizer stands a script that lists them.
# Usage: sanitize_filters_test.sh TEST_GPU TEST_GPU_COMMUNICATORS MPIRUN
set -euo pipefail
sanitize=$(cd "$(dirname "$0")/.." && pwd)/sanitize.sh
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cat > "$work/compute-sanitizer" <<'END'
#!/bin/sh
for word; do
  case $word in
    --help) echo "--kernel-name"; exit ;;
    */test_gpu*) break ;;
  esac
  shift
done
"$@" --gtest_list_tests | grep -c '^  ' || { echo "no test: $*" >&2; exit 1; }
END
chmod +x "$work/compute-sanitizer"
export PATH=$work:$PATH
for tool in memcheck racecheck; do
  "$sanitize" "$tool" "$@" > "$work/said" 2>&1 || { cat "$work/said"; exit 1; }
  # Two ranks and two processes without MPI have listed their tests.
  (($(grep -c '^[1-9][0-9]*$' "$work/said") == 4)) || { cat "$work/said"; exit 1; }
done
