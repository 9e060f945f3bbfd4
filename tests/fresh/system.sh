# Sourced by scripts that need a system of their own: debootstrap makes it, and it is mounted and used in
# namespaces, whose end ends and unmounts everything. A script calls itself there:
#
#   [[ $1 == --inside ]] || run_in_namespaces ARGUMENTS...    # calls `$0 --inside FOLDER ARGUMENTS...`, and exits
#   make_system [SUITE]                                       # a minimal Debian in $system
#   in_system root 60 'apt-get update'                        # a command in it
#
# Before run_in_namespaces a script sets `name`, which its lines begin with, and `keep`, which leaves the
# system on the disk if it is not empty. `work`, if it is set, is the folder for the system; otherwise it is a
# temporary one. Inside the script sets `inside`, the folder.

skip() { echo "skipped: $*"; exit 77; }
fail() { echo "$name: $*" >&2; exit 1; }
say() { printf '%s: %s\n' "$name" "$*"; }

isolated=(unshare --mount --pid --ipc --fork --kill-child --propagation private)

# Ends with 77 if this machine does not allow it, and says why.
require_namespaces() {
  ((EUID == 0)) || skip "root is needed for a system of its own (debootstrap, chroot)"
  command -v debootstrap >/dev/null || skip "debootstrap is missing (apt-get install debootstrap)"
  "${isolated[@]}" true 2>/dev/null || skip "this machine allows no namespaces (unshare)"
}

run_in_namespaces() {
  require_namespaces
  [[ -n ${work:-} ]] || work=$(mktemp -d "${TMPDIR:-/var/tmp}/tasuki-$name.XXXXXX")
  finish() {
    # unshare ignores SIGTERM; all processes of its namespace end with it.
    [[ -z ${job:-} ]] || { kill -KILL "$job" && wait "$job"; } 2>/dev/null || true
    if [[ -n $keep ]]; then say "the system is in $work/system"; else rm -rf --one-file-system "$work"; fi
  }
  trap finish EXIT
  trap 'exit 130' INT
  trap 'exit 143' TERM
  "${isolated[@]}" "$0" --inside "$work" "$@" &
  job=$!
  local code=0
  wait "$job" || code=$?
  job=
  exit "$code"
}

# A minimal system in $system, $inside/system, with an account `user`: Debian 12 (bookworm) or 13 (trixie), or
# Ubuntu 24.04 (noble). One that is there already is only mounted.
make_system() { # suite (default: bookworm)
  system=$inside/system
  [[ -e $system/home/user ]] || install_system "${1:-bookworm}"
  # A mount of its own, whose propagation tests can change.
  mount --bind "$system" "$system"
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
}

# Packages come from the sources that this machine has for the suite, or at least from its mirror; sources of
# others than Debian are left out. Ubuntu's come from where debootstrap looks for them.
install_system() { # suite
  local of_debian=('Created-By: Packages' 'Origin: Debian') components=main mirror= sources=
  if [[ $1 == noble ]]; then
    [[ -e /usr/share/keyrings/ubuntu-archive-keyring.gpg ]] ||
      skip "Ubuntu's keys are missing (apt-get install ubuntu-keyring)"
    components=main,universe
  else
    mirror=$(apt-get indextargets --format '$(CODENAME) $(REPO_URI)' "${of_debian[@]}" |
      sed -nE 's/^[a-z]+ //p;' | head -n 1)
    sources=$(apt-get indextargets --format 'deb $(REPO_URI) $(CODENAME) $(COMPONENT)' "${of_debian[@]}" |
      grep " $1" | sort -u) || true
  fi
  timeout 1800 debootstrap --variant=minbase --components="$components" "$1" "$system" ${mirror:+"$mirror"} \
    >"$inside/debootstrap.log" 2>&1 || { tail -n 20 "$inside/debootstrap.log" >&2; fail "debootstrap failed"; }
  [[ -z $sources ]] || echo "$sources" >"$system/etc/apt/sources.list"
  apt-config dump Acquire >"$system/etc/apt/apt.conf.d/90machine"
  chroot "$system" useradd --create-home --shell /bin/bash user
}

# in_system ACCOUNT LIMIT COMMAND: in the account's home folder, for so many seconds at most. What it prints is
# in the file $inside/said, too.
in_system() {
  local account=$1 limit=$2 home=/home/$1
  [[ $account != root ]] || home=/root
  say "$account: $3"
  timeout -k 30 "$limit" chroot --userspec="$account:$account" "$system" /usr/bin/env -i \
    HOME="$home" USER="$account" PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
    ${http_proxy:+http_proxy="$http_proxy"} ${https_proxy:+https_proxy="$https_proxy"} \
    /bin/bash -c "cd && $3" </dev/null 2>&1 | tee "$inside/said"
}

expect() { # pattern what
  grep -qE -- "$1" "$inside/said" || fail "expected $2"
}

# The checkout as git would commit it, as ~/tasuki of an account, with a commit of it.
give_checkout() { # checkout account home
  local clone=$system$3/tasuki
  mkdir "$clone"
  git -C "$1" ls-files -z --cached --others --exclude-standard --deduplicate |
    while IFS= read -r -d '' file; do [[ ! -e $1/$file ]] || printf '%s\0' "$file"; done |
    tar -C "$1" --null -T - -c | tar -C "$clone" -x --no-same-owner
  git -C "$clone" init -q
  git -C "$clone" add -A
  git -C "$clone" -c user.name="$name" -c user.email="$name@localhost" commit -qm 'A copy of the checkout'
  chroot "$system" chown -R "$2:$2" "$3/tasuki"
}
