#!/bin/bash
# Runs a program under mpirun on several "nodes" of this machine, each with its own network
# namespace, host name and /dev/shm, connected by a bridge: what runs here over TCP and a hostfile
# runs on real hosts.
#
#   run.sh [--nodes N] [--slots S | --slots S1,S2,...] [--np N] [--rate 1gbit] [--map-by node]
#          [--networks N] [--block-udp N] [--tune FILE] [--launch-agent PROGRAM]
#          [--settle SECONDS] [--ssh] [--cut SECONDS|FILE [--silently]] -- PROGRAM ARGUMENTS...
#   run.sh [the same without --np, --map-by, --tune] --shell -- LINES
#
#   --nodes, --slots  N nodes of S ranks each (default 2 x 2), or one number per node: --slots 3,1
#   --rate            shapes what each node sends, as tc writes it (1gbit, 200mbit)
#   --map-by          how mpirun deals ranks to nodes (slot: the default; node: in turn)
#   --networks        how many connect the nodes (default 1); MPI uses the first
#   --block-udp       on so many of them, from the first, no UDP gets through
#   --tune            mpirun's, instead of the networks it is told otherwise; with Open MPI 5 this and
#                     prte-FILE are the user's own files (hostfiles/README.md)
#   --launch-agent    mpirun's: what starts the daemons, in the foreground
#   --settle          when mpirun has ended, says after how many seconds from then on the last process
#                     on any node had; after so many, which ones are left
#   --ssh             mpirun reaches the nodes by ssh, with a server on each, and is called as
#                     hostfiles/README.md says: no settings but --tune's (needs root)
#   --cut             cuts the last node off so many seconds after the start, or when there is a file
#                     of this name (* as in the shell); says after how many seconds from then on the
#                     last process on any node had ended; ends what is left after 60
#   --silently        with --cut: the link stays up and the network drops every packet, as a router
#                     behind which a host has gone away does: only time-outs tell
#   --shell           has bash run LINES on the first node, from where mpirun and `ssh NODE` reach the
#                     others by name (with --ssh really by ssh); neither is told anything else about
#                     the nodes; /run/hostfile names them
#
# TASUKI_MPIEXEC=FILE in the environment is called in place of mpirun; mpiexec.hydra is known by its
# name (MPICH, Intel MPI). It has nothing like --tune, which is ignored, and no --launch-agent.
#
# Ends with the program's exit code; 77 means that this machine does not allow it, and says why.
# Everything lives in namespaces of its own, so nothing stays behind however it ends.

set -u

source "$(dirname "${BASH_SOURCE[0]}")/../../scripts/usage.sh"
skip() { echo "skipped: $*"; exit 77; }

nodes='' slots=2 np='' rate='' map_by=slot settle='' networks=1 block_udp=0 shell= ssh='' cut=''
silently=''
tune='' agent=''
inside=
[ "${1-}" = --inside ] && { inside=1; shift; }
arguments=("$@")
while [ $# -gt 0 ]; do
  flag=$1
  case $flag in
    -h | --help) print_help; exit ;;
    --nodes) nodes=${2-} ;;
    --slots) slots=${2-} ;;
    --np) np=${2-} ;;
    --rate) rate=${2-} ;;
    --map-by) map_by=${2-} ;;
    --networks) networks=${2-} ;;
    --block-udp) block_udp=${2-} ;;
    --tune) tune=${2-} ;;
    --launch-agent) agent=${2-} ;;
    --settle) settle=${2-} ;;
    --cut) cut=${2-} ;;
    --ssh) ssh=1; shift; continue ;;
    --silently) silently=1; shift; continue ;;
    --shell) shell=1; shift; continue ;;
    --) shift; break ;;
    -*) refuse "unknown flag '$flag'" ;;
    *) refuse "-- expected before '$flag'" ;;
  esac
  shift 2 || refuse "$flag needs a value"
done
[ $# -gt 0 ] || refuse "expected what to run, after --"
mpirun=${TASUKI_MPIEXEC:-mpirun}
hydra=
[[ ${mpirun##*/} != *hydra* ]] || hydra=1

if [[ $slots = *,* ]]; then
  IFS=, read -ra slots_of <<<"$slots"
  [ -z "$nodes" ] || [ "$nodes" = ${#slots_of[@]} ] ||
    refuse "--nodes $nodes and --slots $slots do not agree"
else
  slots_of=()
  for ((node = 0; node < ${nodes:-2}; ++node)); do slots_of+=("$slots"); done
fi

if [ -z "$inside" ]; then
  for tool in unshare ip tc "$mpirun"; do
    command -v "$tool" >/dev/null || skip "$tool is not installed"
  done
  [ -z "$hydra" ] || [ -z "${agent-}" ] || skip "Hydra has no --launch-agent"
  if [ -n "$ssh" ]; then
    [ "$(id -u)" = 0 ] || skip "only root may start ssh servers"
    [ -x /usr/sbin/sshd ] || skip "sshd is not installed"
  fi
  spaces=(--mount --net --pid --fork --kill-child --mount-proc)
  [ "$(id -u)" = 0 ] || spaces=(--user --map-root-user "${spaces[@]}")
  reason=$(unshare "${spaces[@]}" ip link add probe type veth 2>&1) ||
    skip "no namespaces with virtual network devices here (${reason%%$'\n'*})"
  if [ -n "$rate" ]; then
    reason=$(unshare "${spaces[@]}" tc qdisc add dev lo root tbf rate "$rate" burst 64kb \
      latency 50ms 2>&1) || skip "links cannot be shaped here (${reason%%$'\n'*})"
  fi
  exec unshare "${spaces[@]}" "$0" --inside "${arguments[@]}"
fi

# From here on as the first process of the new namespaces: when it ends, all others do.
trap 'exit 143' TERM
trap 'exit 130' INT
mount -t tmpfs tmpfs /run || skip "no tmpfs can be mounted here"
# Another cluster has the same host names and process ids, of which mpirun makes its folders' names. Open
# MPI 4 reads the settings OMPI_MCA_..., Open MPI 5's mpirun PRTE_MCA_....
export OMPI_MCA_orte_tmpdir_base=/run PRTE_MCA_prte_tmpdir_base=/run

connect_nodes() {
  ip netns add switch && ip -n switch link add bridge type bridge &&
    ip -n switch link set bridge up || return 1
  local i name network
  for i in "${!slots_of[@]}"; do
    name=node$((i + 1))
    ip netns add $name &&
      ip -n switch link add $name type veth peer name eth0 netns $name &&
      ip -n switch link set $name master bridge up &&
      ip -n $name address add 10.231.7.$((i + 1))/24 dev eth0 &&
      ip -n $name link set lo up && ip -n $name link set eth0 up || return 1
    for ((network = 1; network < networks; ++network)); do
      ip -n switch link add $name-$network type veth peer name eth$network netns $name &&
        ip -n switch link set $name-$network master bridge up &&
        ip -n $name address add 10.231.$((7 + network)).$((i + 1))/24 dev eth$network &&
        ip -n $name link set eth$network up || return 1
    done
    for ((network = 0; network < block_udp; ++network)); do
      ip netns exec $name iptables -w -A INPUT -d 10.231.$((7 + network)).0/24 -p udp -j DROP || return 1
    done
    if [ -n "$rate" ]; then
      tc -n $name qdisc add dev eth0 root tbf rate "$rate" burst 64kb latency 50ms || return 1
    fi
    echo "$name slots=${slots_of[i]}" >>/run/hostfile
    echo "$name:${slots_of[i]}" >>/run/hydra_hosts
    echo "10.231.7.$((i + 1)) $name" >>/run/hosts
  done
}
# Without questions for addresses, which go unanswered sooner than anything else.
know_addresses() {
  local i k address
  for i in "${!slots_of[@]}"; do
    address=$(ip netns exec node$((i + 1)) cat /sys/class/net/eth0/address)
    for k in "${!slots_of[@]}"; do
      ((i == k)) || ip -n node$((k + 1)) neighbor replace 10.231.7.$((i + 1)) \
        lladdr "$address" dev eth0 nud permanent || return 1
    done
  done
}
reason=$(connect_nodes 2>&1) || skip "nodes cannot be connected here (${reason%%$'\n'*})"
if [ -n "$silently" ]; then
  reason=$(know_addresses 2>&1) || skip "addresses cannot be fixed here (${reason%%$'\n'*})"
fi

# Starts a command on a node, as ssh would: mpirun calls it with ssh's options, the host and the
# command. By the name of ssh it brings no variables along either, and a node that is cut off does not
# answer.
cat >/run/on_node <<'AGENT'
#!/bin/bash
while [[ $1 = -* ]]; do [ "$1" != -o ] || shift; shift; done
node=$1
shift
if [ "${0##*/}" = ssh ]; then
  if [ "$(ip netns exec "$node" cat /sys/class/net/eth0/carrier)" != 1 ]; then
    echo "ssh: connect to host $node: No route to host" >&2
    exit 255
  fi
  cd 2>/dev/null || cd /
  exec env -i HOME="$HOME" PATH="$PATH" /run/on_node "$node" "$@"
fi
exec ip netns exec "$node" unshare --uts --mount --ipc bash -c '
  hostname "$1" && mount -t tmpfs -o size=64m tmpfs /dev/shm && eval "${@:2}"' - "$node" "$@"
AGENT
chmod +x /run/on_node

# A server on each node, with keys and settings of this run: nothing is read from the user's own.
start_ssh_servers() {
  mount -t tmpfs tmpfs /etc/ssh && mkdir -p /run/sshd &&
    ssh-keygen -q -t ed25519 -N '' -f /run/key && cp /run/key.pub /run/authorized_keys || return 1
  cat >/etc/ssh/sshd_config <<'END'
HostKey /run/key
AuthorizedKeysFile /run/authorized_keys
PermitRootLogin yes
StrictModes no
END
  cat >/etc/ssh/ssh_config <<'END'
IdentityFile /run/key
UserKnownHostsFile /run/known_hosts
StrictHostKeyChecking accept-new
LogLevel ERROR
END
  local i
  mount --bind /run/hosts /etc/hosts || return 1
  for i in "${!slots_of[@]}"; do
    /run/on_node node$((i + 1)) exec /usr/sbin/sshd -D -e >>/run/sshd.log 2>&1 &
  done
  for i in "${!slots_of[@]}"; do
    for ((tries = 0; tries < 100; ++tries)); do
      /run/on_node node1 ssh node$((i + 1)) true 2>/run/reason && break
      sleep 0.1
    done
    ((tries < 100)) || { cat /run/reason /run/sshd.log; return 1; }
  done
}
if [ -n "$ssh" ]; then
  start_ssh_servers >/run/said 2>&1 || skip "no ssh between nodes here ($(head -n 1 /run/said))"
fi

total=0
for count in "${slots_of[@]}"; do total=$((total + count)); done
settings=()
launch_open_mpi() {
  launch=("$mpirun" --hostfile /run/hostfile -np "${np:-$total}")
  [ -z "$agent" ] || settings+=({OMPI_MCA_orte,PRTE_MCA_prte}_launch_agent="$agent")
  if [ -z "$tune" ]; then
    settings+=({OMPI_MCA_btl_tcp,OMPI_MCA_oob_tcp,PRTE_MCA_prte}_if_include=eth0)
  elif command -v prterun >/dev/null; then
    mkdir -p /run/home/.openmpi /run/home/.prte
    cp "$tune" /run/home/.openmpi/mca-params.conf || exit
    cp "${tune%/*}/prte-${tune##*/}" /run/home/.prte/mca-params.conf || exit
    settings+=(HOME=/run/home)
  else
    launch+=(--tune "$tune")
  fi
  if [ -z "$ssh" ]; then
    launch+=(--map-by "$map_by" --oversubscribe --bind-to none)
    settings+=(OMPI_MCA_btl=self,vader,tcp OMPI_MCA_plm=rsh PRTE_MCA_plm=ssh
      {OMPI_MCA_plm_rsh,PRTE_MCA_plm_ssh}_agent=/run/on_node)
  fi
  # With plm_rsh_no_tree_spawn daemons go into the background, as on real hosts, which --settle and --cut
  # need: on_node would tell mpirun when one ends, even on a host that is cut off. A launch agent needs
  # them in the foreground, where they keep their process number. In other runs they stay in the
  # foreground, too, and thus in this script's session: Linux shares cores between sessions
  # (sched_autogroup_enabled), and when ranks of one session poll with sched_yield(), Linux 6.18 can
  # leave a core to that session alone for 13 s and more (one of twenty runs of 2 x 2 ranks on two
  # cores), so that packets of the other "node" wait.
  [ -n "$ssh$agent" ] || settings+=({OMPI_MCA_plm_rsh,PRTE_MCA_plm_ssh}_no_tree_spawn=1)
  [ -n "$ssh$settle$cut" ] || launch+=(--leave-session-attached)
}
# Hydra passes on the whole environment.
launch_hydra() {
  export FI_TCP_IFACE=eth0 UCX_NET_DEVICES=eth0 I_MPI_PIN=0 I_MPI_THREAD_YIELD=2
  local hosts=-f  # Intel's -f ignores slots
  ! "$mpirun" --version | grep -q Intel || hosts=-machine
  [ "$map_by" != node ] || hosts="-ppn 1 -f"
  # shellcheck disable=SC2206  # two flags
  launch=("$mpirun" $hosts /run/hydra_hosts -np "${np:-$total}" -iface eth0 -launcher ssh)
  [ -n "$ssh" ] || launch+=(-launcher-exec /run/on_node)
}
if [ -n "$hydra" ]; then launch_hydra; else launch_open_mpi; fi
# A shell's background commands ignore Ctrl-C unless they are told not to.
if [ -n "$shell" ]; then
  if [ -z "$ssh" ]; then
    mkdir /run/bin && ln -s ../on_node /run/bin/ssh && mount --bind /run/hosts /etc/hosts ||
      skip "names of nodes cannot be given here"
  fi
  (trap - INT QUIT && PATH=/run/bin:$PATH exec /run/on_node node1 "$*") &
else
  export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
  (trap - INT QUIT && exec /run/on_node node1 "$(printf '%q ' exec env "${settings[@]}" "${launch[@]}" "$@")") &
fi
launcher=$!

# Those with a command line, which the dead have not, other than this script's and the ssh servers',
# whose sessions on a host that is cut off wait for the other side, with nothing of the job in them.
others() {
  local process command
  for process in /proc/[0-9]*/cmdline; do
    { command=$(tr '\0' ' ' <"$process"); } 2>/dev/null || continue
    [[ -z $command || $command = *--inside* || $command = sshd:* ]] || echo "$command"
  done
}

if [ -n "$cut" ]; then
  start=${EPOCHREALTIME/./}
  if [[ $cut =~ ^[0-9.]+$ ]]; then
    sleep "$cut"
  else
    until compgen -G "$cut" >/dev/null; do
      kill -0 $launcher 2>/dev/null || { wait $launcher; exit; }
      sleep 0.01
    done
  fi
  moment=${EPOCHREALTIME/./}
  if [ -n "$silently" ]; then
    bridge -n switch link set dev "node${#slots_of[@]}" state disabled
  else
    ip -n switch link set "node${#slots_of[@]}" down
  fi
  since() { awk -v "us=$((${EPOCHREALTIME/./} - $1))" 'BEGIN { printf "%.2f", us / 1e6 }'; }
  echo "cut off node${#slots_of[@]} $(since "$start") s after the start"
  ended=
  while left=$(others); [ -n "$left" ] && ((${EPOCHREALTIME/./} - moment < 60000000)); do
    [ -n "$ended" ] || kill -0 $launcher 2>/dev/null || ended=", mpirun after $(since "$moment") s"
    sleep 0.1
  done
  if [ -z "$left" ]; then
    echo "all had ended after $(since "$moment") s$ended"
  else
    echo "after $(since "$moment") s there are still:" $left
    kill -KILL $launcher 2>/dev/null
  fi
fi
wait $launcher
code=$?
if [ -n "$settle" ]; then
  for ((tenths = 0; tenths < settle * 10; ++tenths)); do
    [ -n "$(others)" ] || break
    sleep 0.1
  done
  echo "settled after $((tenths / 10)) s; left:" $(others)
fi
exit $code
