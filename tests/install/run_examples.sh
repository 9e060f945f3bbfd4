#!/bin/bash
# Runs examples that have learnt something by their last line, with one rank and with two.
#
#   run_examples.sh BUILD
set -euo pipefail
build=$(realpath "$1")

# learns NAME EPOCHS COLUMN at-most|at-least LIMIT [arguments...]
learns() {
  local name=$1 epochs=$2 column=$3 direction=$4 limit=$5 np
  shift 5
  for np in 1 2; do
    echo "-- $name, $np rank(s)"
    rm -rf "result_$name"
    mpirun -np "$np" --oversubscribe --bind-to none "$build/$name" "$@" | tee table
    awk -v epochs="$epochs" -v column="$column" -v direction="$direction" -v limit="$limit" '
      END { found = $column
            if ($1 == epochs && (direction == "at-most" ? found <= limit : found >= limit)) exit 0
            print "expected epoch", epochs, "and", direction, limit, "in column", column; exit 1 }' table
    [[ -s result_$name/log ]]
  done
}

learns regression 20 3 at-most 0.01
learns autoencoder 10 2 at-most 0.055
learns two_inputs 10 3 at-least 0.95

# A table that is wrong ends all ranks with one line that says where.
printf 'area,price\n1,2\n1,two\n' >broken.csv
if mpirun -np 2 --oversubscribe --bind-to none "$build/regression" broken.csv 2>error; then
  echo "regression trained on a broken table"
  exit 1
fi
grep -F "broken.csv: line 3, column 'price': expected a number, found 'two'" error
