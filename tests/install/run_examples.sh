#!/bin/bash
# Runs examples that have learnt something by their last line, with one rank and with two.
#
#   run_examples.sh BUILD [SIMULATED_CUDA FAKE_DRIVER_FOLDER]
#
# With the last two: runs those with --gpu on GPUs that the processor simulates, too.
set -euo pipefail
build=$(realpath "$1")

# Programs print more than the table: leaves its rows in the file `table`.
rows() {
  awk '/^epoch +main/ { inside = 1 } / steps in / { inside = 0 }
       inside && /^ *[0-9]+( +[0-9][0-9.e+-]*)+ *$/' said >table
}
# program NP NAME [flags...]: what it says is left in the file `said`. With `again`, results stay.
program() {
  [[ -n ${again:-} ]] || rm -rf result result_*
  mpirun -np "$1" --oversubscribe --bind-to none "$build/$2" "${@:3}" >said 2>&1 ||
    { cat said; echo "$* failed"; exit 1; }
}
# ends_with EPOCH COLUMN at-least|at-most LIMIT
ends_with() {
  rows
  awk -v epoch="$1" -v column="$2" -v direction="$3" -v limit="$4" '
    END { found = $column
          exit !($1 == epoch && (direction == "at-most" ? found <= limit : found >= limit)) }' table ||
    { cat said; echo "expected epoch $1 and $3 $4 in column $2"; exit 1; }
}
for np in 1 2; do
  program $np my_training --communicator double --unit 64 --threads 1
  grep -q '^Using double communicator: MPI_Allreduce in double' said
  grep -q "^Num process (COMM_WORLD): $np\$" said
  ends_with 5 5 at-least 0.9  # validation/main/accuracy
  [[ -s result/log && -s result/snapshot_iter_$((400 / np)) ]]

  program $np own_rule --threads 1 --no-decay-1d
  grep -q 'Lion, lr 0.001, .* weight_decay_rate 0.1, no decay of parameters with one axis' said
  ends_with 5 5 at-least 0.9  # validation/main/accuracy

  # The rate of an epoch's last step, in cycles of two epochs; a resumed run goes on with it.
  program $np own_schedule --threads 1 --batchsize $((100 / np))
  rows
  awk '{ t = 40 * $1; x = (t - 1) % 80 / 80
         rate = 1e-3 * (0.01 + 0.99 * (1 + cos(atan2(0, -1) * x)) / 2)
         rate *= sqrt(1 - 0.999 ^ t) / (1 - 0.9 ^ t)  # the bias correction of Adam
         if (($4 / rate - 1) ^ 2 < 1e-8) ++equal }
       END { exit !(equal == 4) }' table || { cat said; echo "own_schedule: expected other rates"; exit 1; }
  last=$(tail -n 1 table)
  program $np own_schedule --threads 1 --batchsize $((100 / np)) --epoch 3
  again=1 program $np own_schedule --threads 1 --batchsize $((100 / np)) --epoch 4 --resume auto
  rows
  [[ $(tail -n 1 table) == "$last" ]] || { cat said; echo "expected the line $last"; exit 1; }

  program $np own_extension --threads 1 --keep-best validation/main/top_3
  ends_with 5 4 at-least 0.95  # validation/main/top_3
  [[ -s "result/$(<result/best)/state.npz" ]]
  grep -q '"weights/growth"' result/log

  program $np autoencoder --threads 1
  ends_with 10 2 at-most 0.055  # main/loss
  program $np two_inputs --threads 1
  ends_with 10 4 at-least 0.95  # main/accuracy
  program $np sequences --threads 1
  ends_with 10 5 at-least 0.9  # validation/main/accuracy
  program $np own_layer --threads 1
  ends_with 5 5 at-least 0.9  # validation/main/accuracy

  # A resumed run continues with the batches that the iterator would have made.
  program $np own_data --threads 1
  ends_with 10 3 at-most 0.02  # validation/main/loss
  last=$(tail -n 1 table | cut -c 1-40)
  program $np own_data --threads 1 --epoch 4
  again=1 program $np own_data --threads 1 --epoch 10 --resume auto
  rows
  [[ $(tail -n 1 table | cut -c 1-40) == "$last" ]] ||
    { cat said; echo "expected the line $last"; exit 1; }

  program $np regression
  ends_with 20 3 at-most 0.01  # validation/main/loss
  [[ -s result_regression/log ]]

  program $np resuming 6
  rows
  last=$(tail -n 1 table)
  program $np resuming 3
  again=1 program $np resuming 6
  grep -q "^going on from /.*/result_resuming/checkpoints/iter_$((120 / np))\$" said
  rows
  [[ $(tail -n 1 table) == "$last" ]] || { cat said; echo "expected the line $last"; exit 1; }

  program $np plain_loop
  [[ $(grep -c '^epoch ' said) == 5 ]]
  awk '/^epoch 1,/ { first = $4 } /^epoch 5,/ { last = $4 } END { exit !(last < first / 2) }' said ||
    { cat said; echo "plain_loop: expected half the loss"; exit 1; }

  for name in auto naive; do
    program $np allreduce $name
    sum=$((np * (np + 1) / 2))
    [[ $(grep -c "^after, rank [0-9]: $sum $((10 * sum)) $((100 * sum))\$" said) == "$np" ]] ||
      { cat said; echo "allreduce $name: expected $sum $((10 * sum)) $((100 * sum)) on $np ranks"; exit 1; }
  done

  # A surrogate that was learned while the solver ran.
  rm -f solver.png surrogate.png
  program $np in_situ
  awk '/^after 40 time steps/ { found = $(NF - 1) < 0.15 } END { exit !found }' said ||
    { cat said; echo "in_situ: expected a difference below 0.15"; exit 1; }
  for picture in solver.png surrogate.png; do
    [[ $(head -c 4 $picture | tail -c 3) == PNG ]] || { echo "in_situ: no $picture"; exit 1; }
  done

  # The examples' project leaves it out where there is no compiler for it.
  if [[ -x $build/in_situ_fortran ]]; then
    rm -f surrogate.npz
    program $np in_situ_fortran
    awk '/^after 96 time steps/ { found = $(NF - 1) < 0.15 } END { exit !found }' said ||
      { cat said; echo "in_situ_fortran: expected a difference below 0.15"; exit 1; }
    program $np in_situ_fortran
    grep -q '^going on after step 3600$' said || { cat said; exit 1; }
  fi

  # A loss over the examples of all ranks is that of one process.
  program $np contrastive
  [[ $np != 1 ]] || cp said alone
  paste alone said | awk '
    /^step / { apart = $4 - $8; if (apart ^ 2 > 1e-6) exit; last = $8; ++equal }
    END { exit !(equal == 3 && last < 0.2) }' ||
    { cat alone said; echo "contrastive: expected equal losses, below 0.2 at the end"; exit 1; }
done

# Models whose parts are on two ranks. Two such models with half the batch each learn as well.
for np in 2 4; do
  program $np model_parallel --threads 1 -b $((100 / np))
  grep -q "^Model: on 2 ranks, $((np / 2)) time" said
  ends_with 5 5 at-least 0.9  # validation/main/accuracy
  [[ -s result/snapshot_iter_400.0 && -s result/snapshot_iter_400.1 ]]
done
program 2 two_stages
awk '/^step 500,/ { found = $4 < 0.5 } END { exit !found }' said ||
  { cat said; echo "two_stages: expected a loss below 0.5"; exit 1; }
if mpirun -np 1 "$build/two_stages" >said 2>&1; then
  echo "two_stages ran on one rank"
  exit 1
fi
grep -q 'expected 2 ranks, found 1' said || { cat said; exit 1; }

"$build/own_layer" check-gradients
program 1 own_rule --help optimizer
tr -s ' \n' ' ' <said | grep -q -- '--optimizer NAME.*, lion'
# All flags are there, with the program's defaults.
program 1 my_training --help all
tr -s ' \n' ' ' <said | grep -qF -- '--unit N units in each of the two hidden layers (default: 100)'
grep -q -- '--clip-norm X' said
program 2 my_training --print-config
grep -q '^lr = 0.003 ' said
if [[ $# == 3 ]]; then
  library=$2 driver=$3
  simulated() {
    TASUKI_CUDA_LIBRARY=$library LD_LIBRARY_PATH=$driver FAKE_CUDA_DEVICES=2 "$@"
  }
  for name in my_training autoencoder two_inputs own_data own_layer own_extension sequences; do
    flags=(--gpu --epoch 1 --max-iterations 6 --verbose)
    # The activation of own_layer and the loss of sequences read values on the host in each step.
    [[ $name == own_layer || $name == sequences ]] || flags+=(--graph on)
    simulated program 2 $name "${flags[@]}"
    grep -q 'cuda:1' said
    [[ $name != own_layer ]] || grep -q 'not recorded as a graph: swish is computed on the host' said
    [[ $name != sequences ]] || grep -q 'not recorded as a graph: tokens are counted' said
  done
  # Its evaluator, which six steps do not reach, reads values on the host.
  simulated program 2 own_extension --gpu --epoch 2 -b 500 --verbose
  grep -q 'not recorded as a graph: top_3 is counted on the host' said
  rows
  [[ $(wc -l <table) == 2 ]]
  # Its rule has a loop for CPUs only.
  if simulated mpirun -np 1 "$build/own_rule" --gpu >said 2>&1; then
    echo "own_rule trained on a GPU, for which it has no kernel"
    exit 1
  fi
  grep -q 'optimizer Lion has no kernel for cuda:0' said || { cat said; exit 1; }
fi

# A table that is wrong ends all ranks with one line that says where.
printf 'area,price\n1,2\n1,two\n' >broken.csv
if mpirun -np 2 --oversubscribe --bind-to none "$build/regression" broken.csv 2>error; then
  echo "regression trained on a broken table"
  exit 1
fi
grep -F "broken.csv: line 3, column 'price': expected a number, found 'two'" error
