#!/bin/bash
# README's two commands on a minimal system that debootstrap makes, which has apt and coreutils, but no
# compiler, Python, git, sudo or certificates. Needs root, debootstrap and a mirror of Debian's packages
# (the one that this machine's apt has).
#
#   tests/fresh/run.sh [--suite bookworm|trixie|noble] [--quick] [--keep] [-- ctest arguments]
#
# In this order, in one system with a copy of this checkout for each account:
#   a user     ./quickstart.sh installs nothing, and one line names the packages
#   root       ./quickstart.sh installs them, builds and trains; a second one builds nothing
#   the user   ./quickstart.sh builds from what ccache has of root's build, and trains; for ./test.sh
#              packages are missing still, which one line names
#   root       ./test.sh [ctest arguments]; a quickstart.sh afterwards keeps the tests
#
# --suite chooses Debian 12 (bookworm: the default), Debian 13 (trixie) or Ubuntu 24.04 (noble); --quick
# leaves out ./test.sh, which takes longest; --keep leaves the system where it was made and says where.
# Ends with 77 if this machine does not allow it, and says why. Everything is mounted and runs in
# namespaces that end with this script.
set -euo pipefail
here=$(cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/../.." && pwd)
source "$here/scripts/usage.sh"
source "$here/tests/fresh/system.sh"
name=fresh
quickstart_limit=7200 test_limit=14400  # seconds

inside= quick= keep= suite=bookworm
while (($#)); do
  case $1 in
    -h | --help) print_help; exit ;;
    --inside) inside=$2; shift ;;
    --quick) quick=1 ;;
    --keep) keep=1 ;;
    --suite)
      suite=${2-}
      [[ $suite == bookworm || $suite == trixie || $suite == noble ]] ||
        refuse "--suite: bookworm, trixie or noble expected, found '$suite'"
      shift
      ;;
    --) shift; break ;;
    *) refuse "unknown word '$1'" ;;
  esac
  shift
done
[[ -z $quick || $# == 0 ]] || refuse "--quick runs no test.sh, for which '$*' would be"

[[ -n $inside ]] || run_in_namespaces --suite "$suite" ${quick:+--quick} -- "$@"

as() { in_system "$1" "$2" "cd tasuki && $3"; } # account limit command: in the account's checkout

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

say "a minimal $suite in $inside/system"
make_system "$suite"
give_checkout "$here" root /root
give_checkout "$here" user /home/user

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
