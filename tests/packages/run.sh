#!/bin/bash
# Tries Tasuki's Debian packages, and the other ways to distribute it, in a minimal Debian 12 that
# debootstrap makes (tests/fresh/system.sh). Needs root, debootstrap and a mirror of Debian's packages.
#
#   tests/packages/run.sh [--keep]
#
# On this machine scripts/packages.sh builds the packages. In the minimal system:
#   installed    apt installs tasuki and tasuki-dev; a user trains with two ranks and compiles a program.
#                With tasuki-gpu, where it was built, --gpu misses nothing but NVIDIA's driver
#   removed      apt removes them, and they leave no file and no folder
#   lintian      finds nothing in the packages that has no override with its reason
#   module       Environment Modules and Lmod load the module file of an installed folder that was moved
#   containers   buildah makes packaging/Containerfile's image, in which two ranks train and ssh works as
#                Kubernetes' MPI Operator needs it; %post and %test of packaging/tasuki.def succeed
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
  require_namespaces
  grep -q '^VERSION_CODENAME=bookworm$' /etc/os-release || skip "the packages are tried on Debian 12"
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
# A system that is thrown away need not be safe on the disk after each package.
apt='DEBIAN_FRONTEND=noninteractive apt-get -q -y -o Acquire::Retries=3 -o Dpkg::Options::=--force-unsafe-io'
mkdir "$system/tmp/packages"
cp "$here"/build-packages/tasuki*.deb "$system/tmp/packages/"
chmod -R a+rX "$system/tmp/packages"
tar -C "$system" --one-file-system --exclude ./tmp/packages -cf "$inside/base.tar" .
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
installed='tasuki tasuki-dev'
if compgen -G "$system/tmp/packages/tasuki-gpu_*.deb" >/dev/null; then
  in_system_quietly root 300 "$apt install /tmp/packages/tasuki-gpu_*.deb"
  installed+=' tasuki-gpu'
  ! in_system user 60 'train_mnist --gpu' || fail "expected --gpu to miss the driver"
  expect 'no NVIDIA driver was found on this machine' "the backend to miss the driver"
fi

# --- removed ---
in_system_quietly root 300 "$apt remove $installed"
# apt's and dpkg's own notes have grown.
list_files | diff "$inside/files-before" - | grep '^[<>]' |
  grep -vE '^. /var/(cache|lib|log)/(apt|dpkg|debconf)(/|$)' >"$inside/left" || true
[[ ! -s $inside/left ]] || { cat "$inside/left"; fail "the packages leave files, or take others away"; }
in_system_quietly root 300 "$apt purge $installed"
list_packages | diff "$inside/packages-before" - || fail "other packages are installed than before"
say "apt remove leaves nothing"

# --- lintian ---
in_system_quietly root 900 "$apt install --no-install-recommends lintian"
in_system user 600 'lintian --fail-on error,warning /tmp/packages/*.deb' || fail "lintian ended with $?"

# --- module ---
cmake --install "$here/build-packages" --prefix "$system/opt/first" >/dev/null
mv "$system/opt/first" "$system/opt/moved"
for modules in environment-modules lmod; do
  in_system_quietly root 600 "$apt install --no-install-recommends $modules"
  in_system user 120 "rm -rf loaded result && bash -l -c '
    module use /opt/moved/share/modulefiles && module load tasuki && command -v train_mnist &&
    tasuki-run -np 2 train_mnist --dry-run &&
    cmake -S /opt/moved/share/doc/tasuki/examples -B loaded >cmake.log &&
    module unload tasuki && ! command -v train_mnist && echo LD_LIBRARY_PATH=\$LD_LIBRARY_PATH'" ||
    fail "$modules: the module cannot be used"
  expect '^/opt/moved/bin/train_mnist$' "$modules to find the program"
  expect '^LD_LIBRARY_PATH=$' "$modules to unload the module"
  grep -q '^tasuki_DIR:PATH=/opt/moved/' "$system/home/user/loaded/CMakeCache.txt" ||
    fail "$modules: find_package(tasuki) finds another one"
done

# --- containers ---
in_system_quietly root 600 "$apt install --no-install-recommends buildah iproute2"
give_checkout "$here" root /root
cp -r "$here"/build-packages/tasuki*.deb "$system/root/"
cp "$inside/base.tar" "$system/root/base.tar"
# The image compiles what this machine has compiled already.
cache=$(ccache --get-config cache_dir)
mkdir -p "$cache" "$system/ccache"
mount --bind "$cache" "$system/ccache"
buildah="export BUILDAH_ISOLATION=chroot STORAGE_DRIVER=overlay &&"
in_system_quietly root 600 "$buildah base=\$(buildah from scratch) && buildah add -q \$base base.tar / &&
  buildah run \$base -- userdel user && buildah commit -q --rm \$base localhost/base && rm base.tar"
in_system root 5400 "$buildah cd tasuki && buildah build --build-arg BASE=localhost/base \
  --volume /ccache:/root/.cache/ccache -f packaging/Containerfile -t tasuki ." >"$inside/image.log" ||
  { tail -n 40 "$inside/image.log" >&2; fail "the image cannot be built"; }
in_system root 300 "$buildah buildah from -q --name tasuki localhost/tasuki &&
  buildah run tasuki -- tasuki-run -np 2 train_mnist --epoch 1 --threads 1" || fail "training in the image ended with $?"
expect '^1 +[0-9.]+ +[0-9.]+ +0\.[78][0-9]* ' "the table's row of epoch 1, with an accuracy above 0.7"
# As the operator's pods: a key for all, and the server that a worker runs.
cat >"$system/root/reach" <<'END'
mkdir -m 700 ~/.ssh
ssh-keygen -q -t rsa -N '' -f ~/.ssh/id_rsa
cp ~/.ssh/id_rsa.pub ~/.ssh/authorized_keys
/usr/sbin/sshd -De -f /home/mpiuser/.sshd_config &
for ((i = 0; i < 20; ++i)); do
  ! ssh -o BatchMode=yes 127.0.0.1 id -un || break
  sleep 1
done
kill $!
END
in_system root 60 "$buildah buildah copy -q tasuki reach / &&
  unshare --net sh -c 'ip link set lo up && buildah run tasuki -- bash /reach'" || fail "ssh in the image ended with $?"
expect '^mpiuser$' "ssh to reach mpiuser"

section() { sed -n "/^%$1/,/^%/ { /^%/!p }" "$here/packaging/tasuki.def"; } # of the definition
section post >"$system/root/post"
section test >"$system/root/test"
in_system_quietly root 900 "$buildah buildah from -q --name apptainer localhost/base &&
  buildah copy -q apptainer tasuki_*.deb tasuki-dev_*.deb /packages/ && buildah copy -q apptainer post test / &&
  buildah run apptainer -- sh -e /post"
in_system root 120 "$buildah buildah run apptainer -- sh -e /test" || fail "%test ended with $?"
say "passed"
