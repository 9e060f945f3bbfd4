#!/bin/bash
# README's two commands on a minimal Debian 12: a system that debootstrap makes, which has apt and
# coreutils, but no compiler, Python, git, sudo or certificates. Needs root, debootstrap and a
# mirror of Debian's packages (the one that this machine's apt has).
#
#   tests/fresh/run.sh [--quick] [--keep] [-- ctest arguments]
#
# In this order, in one system with a copy of this checkout for each account:
#   a user     ./quickstart.sh installs nothing, and one line names the packages
#   root       ./quickstart.sh installs them, builds and trains; a second one builds nothing
#   the user   ./quickstart.sh builds from what ccache has of root's build, and trains; for ./test.sh
#              packages are missing still, which one line names
#   root       ./test.sh [ctest arguments]; a quickstart.sh afterwards keeps the tests
#
# --quick leaves out ./test.sh, which takes longest; --keep leaves the system where it was made and
# says where. Ends with 77 if this machine does not allow it, and says why. Everything is mounted and
# runs in namespaces that end with this script.
set -euo pipefail
here=$(cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/../.." && pwd)
source "$here/scripts/usage.sh"
quickstart_limit=7200 test_limit=14400  # seconds

skip() { echo "skipped: $*"; exit 77; }
fail() { echo "fresh: $*" >&2; exit 1; }
say() { printf 'fresh: %s\n' "$*"; }

inside= quick= keep=
while (($#)); do
  case $1 in
    -h | --help) print_help; exit ;;
    --inside) inside=$2; shift ;;
    --quick) quick=1 ;;
    --keep) keep=1 ;;
    --) shift; break ;;
    *) refuse "unknown word '$1'" ;;
  esac
  shift
done
[[ -z $quick || $# == 0 ]] || refuse "--quick runs no test.sh, for which '$*' would be"

# --- outside: namespaces, whose end ends and unmounts everything ---
if [[ -z $inside ]]; then
  ((EUID == 0)) || skip "root is needed for a system of its own (debootstrap, chroot)"
  command -v debootstrap >/dev/null || skip "debootstrap is missing (apt-get install debootstrap)"
  isolated=(unshare --mount --pid --ipc --fork --kill-child --propagation private)
  "${isolated[@]}" true 2>/dev/null || skip "this machine allows no namespaces (unshare)"
  work=$(mktemp -d "${TMPDIR:-/var/tmp}/tasuki-fresh.XXXXXX")
  finish() {
    # unshare ignores SIGTERM; all processes of its namespace end with it.
    [[ -z ${job:-} ]] || { kill -KILL "$job" && wait "$job"; } 2>/dev/null || true
    if [[ -n $keep ]]; then say "the system is in $work/system"; else rm -rf --one-file-system "$work"; fi
  }
  trap finish EXIT
  trap 'exit 130' INT
  trap 'exit 143' TERM
  "${isolated[@]}" "$0" --inside "$work" ${quick:+--quick} -- "$@" &
  job=$!
  code=0
  wait "$job" || code=$?
  job=
  exit "$code"
fi

# --- inside ---
system=$inside/system

make_system() {
  # The packages' sources as this machine has them, those of others left out.
  local of_debian=('Created-By: Packages' 'Origin: Debian') mirror
  mirror=$(apt-get indextargets --format '$(CODENAME) $(REPO_URI)' "${of_debian[@]}" |
    sed -n 's/^bookworm //p;' | head -n 1)
  timeout 1800 debootstrap --variant=minbase bookworm "$system" ${mirror:+"$mirror"} \
    >"$inside/debootstrap.log" 2>&1 || { tail -n 20 "$inside/debootstrap.log" >&2; fail "debootstrap failed"; }
  if [[ -n $mirror ]]; then
    apt-get indextargets --format 'deb $(REPO_URI) $(CODENAME) $(COMPONENT)' "${of_debian[@]}" |
      grep ' bookworm' | sort -u >"$system/etc/apt/sources.list"
  fi
  apt-config dump Acquire >"$system/etc/apt/apt.conf.d/90machine"
  mount -t proc proc "$system/proc"
  mount --rbind /sys "$system/sys"
  mount -t tmpfs -o mode=755 dev "$system/dev"
  mkdir "$system"/dev/{pts,shm}
  mount -t devpts -o newinstance,ptmxmode=0666,mode=620 devpts "$system/dev/pts"
  mount -t tmpfs -o mode=1777 shm "$system/dev/shm"
  ln -s pts/ptmx "$system/dev/ptmx"
  ln -s /proc/self/fd "$system/dev/fd"
  local device
  for device in null zero full random urandom tty; do
    touch "$system/dev/$device"
    mount --bind "/dev/$device" "$system/dev/$device"
  done
  chroot "$system" useradd --create-home --shell /bin/bash user
}

# The checkout as git would commit it, with a commit of it, as test.sh asks git for the files.
give_checkout() { # account home
  local clone=$system$2/tasuki
  mkdir "$clone"
  git -C "$here" ls-files -z --cached --others --exclude-standard --deduplicate |
    while IFS= read -r -d '' file; do [[ ! -e $here/$file ]] || printf '%s\0' "$file"; done |
    tar -C "$here" --null -T - -c | tar -C "$clone" -x --no-same-owner
  git -C "$clone" init -q
  git -C "$clone" add -A
  git -C "$clone" -c user.name=fresh -c user.email=fresh@localhost commit -qm 'A copy of the checkout'
  chroot "$system" chown -R "$1:$1" "$2/tasuki"
}

# as ACCOUNT LIMIT COMMAND: in the account's checkout; what it prints is in the file `said`, too.
as() {
  local account=$1 limit=$2 home=/home/$1
  [[ $account != root ]] || home=/root
  say "$account: $3"
  timeout -k 30 "$limit" chroot --userspec="$account:$account" "$system" /usr/bin/env -i \
    HOME="$home" USER="$account" PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
    ${http_proxy:+http_proxy="$http_proxy"} ${https_proxy:+https_proxy="$https_proxy"} \
    /bin/bash -c "cd && cd tasuki && $3" </dev/null 2>&1 | tee "$inside/said"
}

expect() { # pattern what
  grep -qE -- "$1" "$inside/said" || fail "expected $2"
}

trains() { # account
  local began=$SECONDS
  as "$1" "$quickstart_limit" ./quickstart.sh || fail "quickstart.sh as $1 ended with $?"
  expect '^1 +[0-9.]+ ' "the table's row of epoch 1"
  say "$1: quickstart.sh took $((SECONDS - began)) s"
}

# The user's command ends with one line that names the missing packages.
names_packages() { # command build|test
  local code=0 package
  as user 60 "$1" || code=$?
  ((code == 1)) || fail "expected exit code 1 where packages are missing, found $code"
  (($(wc -l <"$inside/said") == 1)) || fail "expected one line about the missing packages"
  while read -r package; do
    chroot "$system" dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null | grep -qx installed ||
      expect " ${package//+/\\+}( |$)" "the package $package in that line"
  done < <("$here/scripts/dependencies.sh" --list "$2")
}

say "a minimal Debian 12 in $system"
make_system
give_checkout root /root
give_checkout user /home/user

names_packages ./quickstart.sh build

trains root
trains root
expect '^ninja: no work to do' "a second quickstart.sh to build nothing"

mkdir -p "$system/home/user/.cache"
cp -r "$system/root/.cache/ccache" "$system/home/user/.cache/"
chroot "$system" chown -R user:user /home/user/.cache
trains user
names_packages ./test.sh test

if [[ -n $quick ]]; then
  say "passed; skipped: ./test.sh (--quick)"
  exit
fi
code=0
as root "$test_limit" "./test.sh${*:+$(printf ' %q' "$@")}" || code=$?
((code == 0)) || fail "test.sh ended with exit code $code"
trains root
grep -q '^TASUKI_BUILD_TESTS:BOOL=ON$' "$system/root/tasuki/build/CMakeCache.txt" ||
  fail "quickstart.sh has switched off the tests that test.sh had built"
say "passed"
