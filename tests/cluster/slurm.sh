#!/bin/bash
# Runs a batch job on a Slurm cluster of this machine alone, or of nodes made by run.sh, which ends with
# the script. On this machine the cluster has a network namespace of its own: any port may be in use
# outside it.
#
#   slurm.sh TASKS [--hosts FILE] [--signal FILE] -- LINES
#   run.sh --slots 2,2 --shell -- slurm.sh 4 --hosts /run/hosts -- LINES
#
#   TASKS     of the job, on as many (pretended) cores
#   --hosts   the nodes, one per line, with address and name; this one is the first, `ssh NAME` reaches
#             the others, and each gets as many tasks
#   --signal  sends the batch script SIGUSR1, as before a time limit, once there is a file of this
#             name (* as in the shell)
#
# LINES are the batch script. Prints what the job prints, and ends with its exit code; 77 means that this
# machine does not allow it, and says why; 124 means that the job took more than 120 s (times
# $TASUKI_TEST_PATIENCE), and says what Slurm knows of it. Needs root and Debian's slurmctld, slurmd,
# slurm-client, munge, iproute2.
set -u

source "$(dirname "${BASH_SOURCE[0]}")/../../scripts/usage.sh"
skip() { echo "skipped: $*"; exit 77; }
arguments=("$@")
inside=''
if [ "${1-}" = --inside ]; then inside=1; shift; fi  # what this script starts in the namespace
case ${1-} in -h | --help) print_help; exit ;; -*) refuse "unknown flag '$1'" ;; esac
tasks=${1-} sign='' hosts=''
[[ $tasks =~ ^[0-9]+$ ]] || refuse "expected a number of tasks, found '$tasks'"
shift
if [ "${1-}" = --hosts ]; then hosts=${2-}; shift 2 || refuse "--hosts needs a value"; fi
if [ "${1-}" = --signal ]; then sign=${2-}; shift 2 || refuse "--signal needs a value"; fi
[ "${1-}" = -- ] && [ $# -eq 2 ] || refuse "expected the lines of the job after --"

[ "$(id -u)" = 0 ] || skip "only root may start Slurm's daemons here"
PATH=$PATH:/usr/sbin
for tool in slurmctld slurmd sbatch scontrol munged unshare ip; do
  command -v $tool >/dev/null || skip "$tool is not installed"
done
if [ -z "$hosts$inside" ]; then
  reason=$(unshare --net ip link add probe type veth 2>&1) ||
    skip "no network namespace with virtual devices here (${reason%%$'\n'*})"
  exec unshare --net "$0" --inside "${arguments[@]}"
fi
if [ -n "$inside" ]; then
  # Slurm and Open MPI want a network besides the loopback.
  ip link set lo up && ip link add ends type veth peer name here &&
    ip link set ends up && ip link set here up && ip address add 192.0.2.1/24 dev here || exit 1
fi

work=$(mktemp -d)
chmod 755 "$work"
daemons=()
# shellcheck disable=SC2317  # called by the trap
finish() {
  # They have nothing to keep, and would take seconds to end by themselves.
  {
    ((${#daemons[@]} == 0)) || kill -KILL "${daemons[@]}"
    wait
  } 2>/dev/null  # bash names what is killed
  rm -rf "$work"
}
trap finish EXIT
trap 'exit 143' TERM
trap 'exit 130' INT

names=("$(hostname -s)") addresses=(127.0.0.1)
if [ -n "$hosts" ]; then
  mapfile -t addresses < <(cut -d' ' -f1 "$hosts")
  mapfile -t names < <(cut -d' ' -f2 "$hosts")
  ((tasks % ${#names[@]} == 0)) || refuse "$tasks tasks cannot be shared by ${#names[@]} nodes"
fi
mkdir "$work"/{state,munge}
chown munge: "$work/munge" 2>/dev/null || skip "there is no user munge"
dd if=/dev/urandom of="$work/munge/key" bs=128 count=1 2>/dev/null
chown munge: "$work/munge/key" && chmod 600 "$work/munge/key"
cat >"$work/slurm.conf" <<END
ClusterName=test
SlurmctldHost=${names[0]}(${addresses[0]})
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket=$work/munge/socket
StateSaveLocation=$work/state
SlurmdSpoolDir=$work/spool.%n
SlurmctldPidFile=$work/slurmctld.pid
SlurmdPidFile=$work/slurmd.%n.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SlurmdParameters=config_overrides
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP
END
for i in "${!names[@]}"; do
  echo "NodeName=${names[i]} NodeAddr=${addresses[i]} CPUs=$((tasks / ${#names[@]})) State=UNKNOWN"
  mkdir "$work/spool.${names[i]}"
done >>"$work/slurm.conf"
# Names there are the same on all nodes, which share a disk, but not this folder.
echo PMIxCliTmpDirBase=/dev/shm >"$work/mpi.conf"
export SLURM_CONF=$work/slurm.conf

# slurmd looks for the kernel's control groups, which `ip netns exec` hides.
cat >"$work/start_slurmd" <<'END'
if ! mountpoint -q /sys/fs/cgroup; then
  if [[ $(</proc/self/cgroup) = 0::* ]]; then  # the second version alone
    mount -t cgroup2 none /sys/fs/cgroup
  else
    mount -t tmpfs tmpfs /sys/fs/cgroup
    while IFS=: read -r _ what _; do
      [ -n "$what" ] || continue
      mkdir "/sys/fs/cgroup/${what#name=}"
      mount -t cgroup -o "${what/#name=/none,name=}" none "/sys/fs/cgroup/${what#name=}"
    done </proc/self/cgroup
  fi
fi
exec slurmd -D
END
setpriv --reuid=munge --regid=munge --clear-groups munged --foreground --key-file="$work/munge/key" \
  --socket="$work/munge/socket" --pid-file="$work/munge/pid" --seed-file="$work/munge/seed" \
  --log-file="$work/munge/log" >"$work/munged.out" 2>&1 &
daemons+=($!)
slurmctld -D >"$work/slurmctld.out" 2>&1 &
daemons+=($!)
for name in "${names[@]}"; do
  start="PATH=$PATH SLURM_CONF=$SLURM_CONF exec bash $work/start_slurmd"
  if [ "$name" = "${names[0]}" ]; then shell=(bash -c); else shell=(ssh "$name"); fi
  "${shell[@]}" "$start" >"$work/slurmd.$name.out" 2>&1 &
  daemons+=($!)
done
idle_by=$((SECONDS + 60))
until [[ $(sinfo -h -N -o %t 2>/dev/null | sort -u) = idle ]]; do
  for daemon in "${daemons[@]}"; do
    if ((SECONDS >= idle_by)) || ! kill -0 "$daemon" 2>/dev/null; then
      skip "Slurm does not start here: $(tail -n 3 "$work"/*.out)"
    fi
  done
  sleep 0.1
done

job=$(printf '#!/bin/bash\n%s\n' "$2" |
  sbatch --parsable --nodes=${#names[@]} --ntasks="$tasks" --output="$work/said" --open-mode=append)
[ -n "$job" ] || exit 1
record=''
get() { grep -oP "\b$1=\K\S+" <<<"$record"; }
ended_by=$((SECONDS + 120 * ${TASUKI_TEST_PATIENCE:-1}))
until [[ $(get JobState) =~ COMPLETED|FAILED|CANCELLED|TIMEOUT|NODE_FAIL ]]; do
  if ((SECONDS >= ended_by)); then
    echo "Slurm's job did not end in time: $record"
    tail -n 20 "$work"/*.out "$work/said"
    scancel --full --signal=KILL "$job"
    exit 124
  fi
  if [ -n "$sign" ] && compgen -G "$sign" >/dev/null; then
    scancel --signal=USR1 --batch "$job"
    sign=
  fi
  sleep 0.1
  record=$(scontrol show job "$job" 2>&1)
done
cat "$work/said"
code=$(get ExitCode)
exit "${code%:*}"
