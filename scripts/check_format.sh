#!/bin/bash
# Checks all C++ sources that git tracks against .clang-format.
#
#   scripts/check_format.sh          says which files differ and where
#   scripts/check_format.sh --fix    formats them
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source scripts/usage.sh
take_flags --fix -- "$@"

clang_format=$(command -v clang-format-14 || command -v clang-format) ||
  { echo "check_format: clang-format is missing (package clang-format)" >&2; exit 1; }
# Each version formats some lines in its own way.
version=$("$clang_format" --version)
if [[ $version != *" version 14."* ]]; then
  echo "format: nothing is checked or formatted without clang-format 14; found $version"
  exit
fi
mapfile -d '' files < <(git ls-files -z --cached --others --exclude-standard --deduplicate \
                          -- '*.cpp' '*.hpp' '*.cu' '*.cuh')
mapfile -t differing < <(
  printf '%s\0' "${files[@]}" | xargs -0 -n 20 -P "$(nproc)" "$clang_format" --dry-run 2>&1 |
    sed -nE 's/^(.*):[0-9]+:[0-9]+: warning: .*/\1/p' | sort -u)

if ((${#differing[@]} == 0)); then
  echo "format: ${#files[@]} files are as clang-format has them"
  exit
fi
if [[ ${1:-} == --fix ]]; then
  "$clang_format" -i "${differing[@]}"
  echo "format: formatted ${differing[*]}"
  exit
fi
for file in "${differing[@]}"; do
  diff -u --label "$file" --label "$file (formatted)" "$file" <("$clang_format" "$file") || true
done | head -200
echo "format: ${#differing[@]} of ${#files[@]} files differ; scripts/check_format.sh --fix formats:" \
     "${differing[*]}" >&2
exit 1
