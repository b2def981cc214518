#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs a command in a clone of this repository's HEAD on a bare Debian, as an ordinary user, in a folder with a long path.
#
# usage: bare_debian.sh RESULTS COMMAND
#
# The root has what the README names and nothing else; mmdebstrap makes it once, and it is kept in a cache. It needs root.
# pip's settings and the wheels that lie on this machine's disk are bound into it. build/test-results of the clone is
# copied to RESULTS.
#
# FRESH_SUITE      Debian's release (bookworm)
# FRESH_COMPILER   package of the C++ compiler (g++), or empty: the ziglang wheel's is used then
set -euo pipefail

results=$(realpath "$1")
command=$2
suite=${FRESH_SUITE:-bookworm}
compiler=${FRESH_COMPILER-g++}
packages=python3,python3-venv,python3-dev,make,git,ca-certificates${compiler:+,$compiler}
repository=$(git -C "$(dirname "$0")" rev-parse --show-toplevel)
home=srv/newcomer
clone=$home/projects/distributed-training/experiments/allreduce/checkouts/of-a-newcomer/with-a-long-path-to-it/ringtune

[ "$(id -u)" = 0 ] || { echo "bare_debian.sh: chroot needs root, and this is $(id -un)" >&2; exit 2; }
command -v mmdebstrap >/dev/null || { echo "bare_debian.sh: mmdebstrap not found; 'make system-packages' installs it" >&2; exit 2; }

cache=${XDG_CACHE_HOME:-$HOME/.cache}/ringtune/bare-debian
archive=$cache/$suite-${compiler:-no-compiler}-$(printf '%s' "$packages" | sha256sum | cut -c1-12).tar
mkdir -p "$cache"
if [ ! -f "$archive" ]; then
  echo "makes a bare Debian ($suite: ${packages//,/ }) in $archive"
  mmdebstrap --quiet --variant=minbase --include="$packages" "$suite" "$archive.part.tar"
  mv "$archive.part.tar" "$archive"
fi

root=$(mktemp -d /var/tmp/bare-debian.XXXXXX)
leave() {
  cp -r "$root/$clone/build/test-results/." "$results/" 2>/dev/null || true
  umount --lazy "$root"/{opt,dev,proc,sys} 2>/dev/null || true
  rm -rf --one-file-system "$root"
}
trap leave EXIT
trap 'exit 143' TERM
trap 'exit 130' INT

tar -xf "$archive" -C "$root" --exclude='./dev/*'
for folder in opt dev proc sys; do
  mkdir -p "$root/$folder"
  mount --rbind "/$folder" "$root/$folder"
  mount --make-rslave "$root/$folder"
done
cp /etc/resolv.conf /etc/hosts "$root/etc/"
cp /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/"
[ ! -f /etc/pip.conf ] || cp /etc/pip.conf "$root/etc/"
chroot "$root" useradd --create-home --home-dir "/$home" newcomer
for settings in "$HOME/.config/pip/pip.conf" "$HOME/.pip/pip.conf"; do
  [ ! -f "$settings" ] || install -D "$settings" "$root/$home/.config/pip/pip.conf"
done
mkdir -p "$root/$clone"
git clone --quiet "$repository" "$root/$clone"
chroot "$root" chown -R newcomer:newcomer "/$home"

mapfile -t passed < <(env | grep -E '^(CI|PIP_[A-Z_]*|[a-zA-Z]*_(proxy|PROXY)|SSL_CERT_[A-Z]*|REQUESTS_CA_BUNDLE)=' || true)
env --ignore-environment PATH=/usr/local/bin:/usr/bin:/bin HOME="/$home" LANG=C.UTF-8 TERM="${TERM:-dumb}" "${passed[@]}" \
  "$(command -v chroot)" --userspec=newcomer "$root" bash -c "cd '/$clone' && $command"
