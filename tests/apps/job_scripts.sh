#!/bin/bash
# Runs the example jobs for PBS and LSF on two nodes made of network namespaces, with the variables and the file
# of hosts that their batch systems give them. LSF's blaunch starts a command on a host as ssh does, and here
# refuses ssh's options as LSF's does.
#
#   job_scripts.sh SOURCE BUILD
set -euo pipefail
source=$1 build=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() { cat "$work/said"; echo "job_scripts: $*"; exit 1; }

ln -s "$build" "$work/build"
printf 'node%d\n' 1 1 2 2 >"$work/nodes"
mkdir "$work/bin"
cat >"$work/bin/blaunch" <<'END'
#!/bin/bash
[[ $1 != -* ]] || { echo "blaunch: $1 is no host" >&2; exit 1; }
exec ssh "$@"
END
chmod +x "$work/bin/blaunch"
for system in pbs lsf; do
  sed 's/--resume auto/& --max-iterations 3 -b 4/' "$source/hostfiles/train_mnist.$system" >"$work/$system"
done

run() { # name of the results, lines that start the job
  local code=0
  "$source/tests/cluster/run.sh" --slots 2,2 --shell -- "cd '$work' && export OMP_NUM_THREADS=1 && $2" \
    >"$work/said" 2>&1 || code=$?
  [[ $code != 77 ]] || { cat "$work/said"; exit 77; }
  [[ $code == 0 ]] || fail "$1 ended with $code"
  for row in '   1  node1 ' '   3  node2 '; do
    grep -q "^$row" "$work/said" || fail "$1: expected a line '$row'"
  done
  [[ -s $work/result/$1/snapshot_iter_3 ]] || fail "$1 saved nothing"
}
run 7.server "PBS_O_WORKDIR=\$PWD PBS_NODEFILE=\$PWD/nodes PBS_JOBID=7.server bash pbs"
run 8 "PATH=\$PWD/bin:\$PATH LSB_DJOB_HOSTFILE=\$PWD/nodes LSB_JOBID=8 bash lsf"
