#!/bin/bash
# Runs examples that have learnt something by their last line, with one rank and with two.
#
#   run_examples.sh BUILD [SIMULATED_CUDA FAKE_DRIVER_FOLDER]
#
# With the last two: runs those with --gpu on GPUs that the processor simulates, too.
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

# Programs with flags print more than the table: leaves its rows in the file.
rows() { grep -E '^ *[0-9]+( +[0-9][0-9.e+-]*){4,} *$' said >table; }
# program NP NAME [flags...]: what it says is left in the file `said`.
program() {
  rm -rf result
  mpirun -np "$1" --oversubscribe --bind-to none "$build/$2" "${@:3}" >said ||
    { cat said; echo "$* failed"; exit 1; }
}
# ends_with EPOCH COLUMN LEAST
ends_with() {
  rows
  awk -v epoch="$1" -v column="$2" -v least="$3" '
    END { exit !($1 == epoch && $column >= least) }' table ||
    { cat said; echo "expected epoch $1 and at least $3 in column $2"; exit 1; }
}
for np in 1 2; do
  program $np my_training --communicator double --unit 64 --threads 1
  grep -q '^Using double communicator: MPI_Allreduce in double' said
  grep -q "^Num process (COMM_WORLD): $np\$" said
  ends_with 5 5 0.9  # validation/main/accuracy
  [[ -s result/log && -s result/snapshot_iter_$((400 / np)) ]]

  program $np own_extension --threads 1 --keep-best validation/main/top_3
  ends_with 5 4 0.95  # validation/main/top_3
  [[ -s result/snapshot_best ]]
  grep -q '"weights/growth"' result/log

  program $np plain_loop
  [[ $(grep -c '^epoch ' said) == 5 ]]
  awk '/^epoch 1,/ { first = $4 } /^epoch 5,/ { last = $4 } END { exit !(last < first / 2) }' said ||
    { cat said; echo "plain_loop: expected half the loss"; exit 1; }
done
# All flags are there, with defaults of the program's own.
program 1 my_training --help
tr -s ' \n' ' ' <said | grep -qF -- '--unit N units in each of the two hidden layers (default: 100)'
grep -q -- '--clip-norm X' said
program 2 my_training --print-config
grep -q '^lr = 0.003 ' said
if [[ $# == 3 ]]; then
  for name in my_training own_extension; do
    TASUKI_CUDA_LIBRARY=$2 LD_LIBRARY_PATH=$3 FAKE_CUDA_DEVICES=2 \
      program 2 $name --gpu --epoch 1 --max-iterations 4
    grep -q 'cuda:1' said
  done
fi

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
