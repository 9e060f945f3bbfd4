#!/bin/bash
# Draws the figures of the documents, docs/images/*.svg, from their tables.
#
#   scripts/make_figures.sh [--check] [--to FOLDER] [NAME...]
#
# --check draws nothing and fails where a table has changed since its figure was drawn (a test does
# so). Drawing needs gnuplot and graphviz (Debian: gnuplot-nox, graphviz).
set -euo pipefail
here=$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")
exec python3 "$here/figures/draw.py" "$@"
