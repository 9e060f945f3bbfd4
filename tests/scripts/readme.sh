#!/bin/bash
# The code in README.md is that of the files it names: each "<!-- path -->" stands before a block.
#
#   readme.sh          compares
#   readme.sh --fix    copies the files into README.md
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

filled=$(awk '
  /^<!-- .* -->$/ { path = $2 }
  /^```$/ && inside { inside = 0; path = "" }
  !inside { print }
  /^```cpp$/ && path != "" {
    inside = 1
    while ((status = (getline line < path)) > 0) print line
    if (status < 0) { print "README.md names " path ", which is not there" > "/dev/stderr"; exit 1 }
  }' README.md)
if [[ ${1:-} == --fix ]]; then
  printf '%s\n' "$filled" >README.md
else
  diff -u README.md <(printf '%s\n' "$filled") ||
    { echo "README.md is behind its examples; tests/scripts/readme.sh --fix copies them" >&2; exit 1; }
fi
