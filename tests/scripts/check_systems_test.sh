#!/bin/bash
# scripts/check_systems.sh makes a row of what a system's test.sh has printed, here of one that only prints.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() { echo "check_systems_test: $*"; exit 1; }

mkdir -p "$work"/{scripts,tests/fresh}
cp scripts/{check_systems.sh,usage.sh} "$work/scripts/"
cp tests/fresh/system.sh "$work/tests/fresh/"
cat >"$work/test.sh" <<'END'
#!/bin/bash
echo "-- Tasuki 0.1.0, Release in /somewhere
--   compiler          GNU 12.2.0
--   MPI               MPICH 4.0.2 (MPI 4.0), /usr/bin/mpiexec
--   oneDNN            2.6.3, CPU runtime OMP
The following tests did not run:
	  7 - app_first (Skipped)
	 12 - app_other (Skipped)"
[ "$2" = mpich ] || { echo 'CMake Error: no such MPI'; exit 1; }
echo "98% tests passed, 1 tests failed out of 60"
exit 8
END
chmod +x "$work/test.sh"

code=0
said=$(CLANG=no-such-compiler "$work/scripts/check_systems.sh" --work "$work/logs" mpich impi clang) || code=$?
((code == 1)) || fail "ends with $code where tests failed: $said"
expect() { grep -qE -- "$1" <<<"$said" || fail "expected $1 in: $said"; }
expect "^\| mpich \| .+ \| GNU 12\.2\.0 \| MPICH 4\.0\.2 \| 2\.6\.3 \| quick, MPI's \| 57 / 2 / 1 \| 20..-..-.. \|$"
expect '^\| impi \| .+ \| none was run \(exit code 1\) \| 20..-..-.. \|$'
expect '^\| clang \| skipped: no-such-compiler is missing '
grep -q 'no such MPI' "$work/logs/impi.log" || fail "impi.log has no error"

code=0
"$work/scripts/check_systems.sh" windows 2>"$work/said" || code=$?
((code == 64)) || fail "ends with $code for a system that it does not know"
grep -q "unknown system 'windows'" "$work/said" || fail "says $(<"$work/said")"
CLANG=no-such-compiler "$work/scripts/check_systems.sh" --work "$work/logs" clang >/dev/null ||
  fail "ends with $? where all was skipped"
