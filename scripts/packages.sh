#!/bin/bash
# Builds Tasuki's Debian packages, on the Debian that they are for:
#
#   scripts/packages.sh [BUILD = build-packages]
#
# tasuki has the programs, tasuki-dev what compiling against the library needs, tasuki-gpu the CUDA
# backend (only where CMake finds CUDA). DEBFULLNAME and DEBEMAIL name who answers for them, as for
# Debian's own tools. `./test.sh --packages` tests them in a minimal Debian.
#
#   apt install ./build-packages/tasuki_*.deb ./build-packages/tasuki-dev_*.deb
set -euo pipefail
source=$(cd "$(dirname "$(readlink -f "$0")")/.." && pwd)
source "$source/scripts/usage.sh"
take_flags -- "$@"
(($# <= 1)) || refuse "BUILD expected, found '$*'"
build=$(realpath -m "${1:-$source/build-packages}")

fail() { echo "packages.sh: $*" >&2; exit 1; }
"$source/scripts/dependencies.sh" packages
[[ -z $(ls -A "$build" 2>/dev/null) ]] || grep -q '^TASUKI_DEBIAN:BOOL=ON$' "$build/CMakeCache.txt" 2>/dev/null ||
  fail "$build is neither empty nor a build of these packages; give another folder"

options=()
[[ -z ${DEBEMAIL:-} ]] ||
  options=(-DTASUKI_DEBIAN_MAINTAINER="${DEBFULLNAME:-Tasuki authors} <$DEBEMAIL>")
# The date in the packages is the last commit's.
commit_date=$(git -C "$source" log -1 --format=%ct 2>/dev/null || true)
export SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-${commit_date:-$(date +%s)}}
umask 022
cd "$source"
said=$(cmake --preset packages -B "$build" "${options[@]}" 2>&1) || { echo "$said" >&2; exit 1; }
cmake --build "$build" --target tasuki_programs >&2
cd "$build"
rm -f tasuki*.deb  # of other versions
said=$(cpack -G DEB 2>&1) || { echo "$said" >&2; fail "CPack failed"; }
printf '%s\n' "$PWD"/tasuki*.deb
