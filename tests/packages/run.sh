#!/bin/bash
# Tries Tasuki's Debian packages in a minimal Debian 12 that
# debootstrap makes (tests/fresh/system.sh). Needs root, debootstrap and a mirror of Debian's packages.
#
#   tests/packages/run.sh [--keep]
#
# On this machine scripts/packages.sh builds the packages. In the minimal system:
#   installed    apt installs tasuki and tasuki-dev; a user trains with two ranks and compiles a program
#   removed      apt purges them, and they leave no file and no folder
#   lintian      finds nothing in the packages that has no override with its reason
#
# --keep leaves the system where it was made and says where. Ends with 77 if this machine does not allow
# it, and says why.
set -euo pipefail
here=$(cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/../.." && pwd)
source "$here/scripts/usage.sh"
source "$here/tests/fresh/system.sh"
name=packages

inside= keep=
while (($#)); do
  case $1 in
    -h | --help) print_help; exit ;;
    --inside) inside=$2; shift ;;
    --keep) keep=1 ;;
    *) refuse "unknown word '$1'" ;;
  esac
  shift
done
if [[ -z $inside ]]; then
  "$here/scripts/packages.sh"
  run_in_namespaces
fi

in_system_quietly() {
  say "$1: $3"
  in_system "$@" >/dev/null || { cat "$inside/said" >&2; fail "the last command ended with an error"; }
}
# Files and folders of the system, and the packages that are installed.
list_files() { chroot "$system" find / -xdev -path /root -prune -o -path '/home/*' -prune -o -path '/tmp/*' -prune -o -print | sort; }
list_packages() { chroot "$system" dpkg-query -W -f '${Package} ${db:Status-Status}\n' | sort; }

say "a minimal Debian 12 in $inside/system"
make_system
apt='DEBIAN_FRONTEND=noninteractive apt-get -q -y -o Acquire::Retries=3'
mkdir "$system/tmp/packages"
cp "$here"/build-packages/tasuki*.deb "$system/tmp/packages/"
chmod -R a+rX "$system/tmp/packages"
in_system_quietly root 600 "$apt update"

# --- installed ---
# What they depend on comes first, so that afterwards the two packages alone are missing.
in_system_quietly root 1800 "$apt install cmake g++ && $apt satisfy \"\$(for package in tasuki tasuki-dev; do
  dpkg-deb -f /tmp/packages/\${package}_*.deb Depends Recommends | sed 's/^[A-Za-z]*: //'; done |
  tr '\n' ',' | sed 's/tasuki (= [^)]*), //; s/,\$//')\""
list_files >"$inside/files-before"
list_packages >"$inside/packages-before"
in_system_quietly root 600 "$apt install /tmp/packages/tasuki_*.deb /tmp/packages/tasuki-dev_*.deb"
list_packages | comm -13 "$inside/packages-before" - | cut -d ' ' -f 1 | tr '\n' ' ' >"$inside/said"
grep -qx 'tasuki tasuki-dev ' "$inside/said" || fail "expected tasuki and tasuki-dev, installed $(<"$inside/said")"

in_system user 300 'tasuki-run -np 2 train_mnist --epoch 1 --threads 1' || fail "training ended with $?"
expect '^1 +[0-9.]+ +[0-9.]+ +0\.[78][0-9]* ' "the table's row of epoch 1, with an accuracy above 0.7"
in_system user 900 'cmake -S /usr/share/doc/tasuki/examples -B examples && cmake --build examples --target my_training -j2' ||
  fail "the examples cannot be built"
in_system user 300 'tasuki-run -np 2 examples/my_training --communicator double --threads 1' ||
  fail "a user's program ended with $?"
expect '^5 +[0-9.]+ +[0-9.]+ +(1|0\.9[0-9]*) ' "the table's row of epoch 5, with an accuracy above 0.9"

# --- removed ---
in_system_quietly root 300 "$apt remove tasuki tasuki-dev"
# apt's and dpkg's own notes have grown.
list_files | diff "$inside/files-before" - | grep '^[<>]' |
  grep -vE '^. /var/(cache|lib|log)/(apt|dpkg|debconf)(/|$)' >"$inside/left" || true
[[ ! -s $inside/left ]] || { cat "$inside/left"; fail "the packages leave files, or take others away"; }
in_system_quietly root 300 "$apt purge tasuki tasuki-dev"
list_packages | diff "$inside/packages-before" - || fail "other packages are installed than before"
say "apt remove leaves nothing"

# --- lintian ---
in_system_quietly root 900 "$apt install --no-install-recommends lintian"
in_system user 600 'lintian --fail-on error,warning /tmp/packages/*.deb' || fail "lintian ended with $?"

say "passed"
