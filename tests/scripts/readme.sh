#!/bin/bash
# The code in README.md and docs/{your-own,layers,tutorial}.md is that of the files it names: each "<!-- path -->" stands
# before a block. Files and folders that the pages name, in `code` or as links, exist.
#
#   readme.sh          compares
#   readme.sh --fix    copies the files into the pages
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

status=0
for page in README.md docs/{your-own,layers,tutorial}.md; do
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

# missing PAGE NAME FOLDER: NAME is not in FOLDER.
missing() {
  [[ -e $3/$2 ]] || { echo "$1 names $2, which does not exist" >&2; status=1; }
}

for page in README.md CONTRIBUTING.md SECURITY.md docs/*.md hostfiles/README.md; do
  # In `code`: paths that begin with a folder of this tree, and names of sources.
  while read -r name; do
    case $name in
      # Folders that git does not know, such as build/ and result/, are made by programs.
      */*) ! git ls-files --error-unmatch -- "${name%%/*}" &>/dev/null || missing "$page" "$name" . ;;
      *) [[ -n $(find . -path ./build -prune -o -name "$name" -print -quit) ]] ||
        { echo "$page names $name, which does not exist" >&2; status=1; } ;;
    esac
  done < <(grep -oE '`([A-Za-z0-9_.-]+/[A-Za-z0-9_./-]*|[a-z0-9_]+\.(hpp|cpp|cu|sh|cmake))`' "$page" |
    tr -d '`' | sort -u)
  while read -r name; do
    missing "$page" "$name" "$(dirname "$page")"
  done < <(grep -oE '\]\([^) :#]+[)#]' "$page" | tr -d ")#" | cut -c3- | sort -u)
done
exit "$status"
