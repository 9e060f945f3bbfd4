#!/bin/bash
# The code in README.md and docs/your-own.md is that of the files it names: each "<!-- path -->" stands
# before a block.
#
#   readme.sh          compares
#   readme.sh --fix    copies the files into the pages
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

status=0
for page in README.md docs/your-own.md; do
  filled=$(awk -v page="$page" '
    /^<!-- .* -->$/ { path = $2 }
    /^```$/ && inside { inside = 0; path = "" }
    !inside { print }
    /^```cpp$/ && path != "" {
      inside = 1
      while ((status = (getline line < path)) > 0) print line
      if (status < 0) { print page " names " path ", which is not there" > "/dev/stderr"; exit 1 }
      close(path)
    }' "$page")
  if [[ ${1:-} == --fix ]]; then
    printf '%s\n' "$filled" >"$page"
  else
    diff -u "$page" <(printf '%s\n' "$filled") || status=1
  fi
done
((status == 0)) ||
  echo "a page is behind its examples; tests/scripts/readme.sh --fix copies them" >&2
exit "$status"
