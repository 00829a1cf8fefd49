#!/usr/bin/env bash
# Installs the Debian packages of the named sections of debian-packages.txt that are missing; says so before it does.
# Silent when nothing is missing. Writes to standard error only. It touches nothing but packages.
#
# Usage: tools/install_packages.sh SECTION...     e.g. build test
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
list=$here/debian-packages.txt

say() { printf '%s\n' "$*" >&2; }

# The package names in section $1.
packages_of() {
  awk -v wanted="[$1]" '/^\[/ { on = ($0 == wanted); next } on && NF && !/^#/ { print $1 }' "$list"
}

is_installed() {
  [[ $(dpkg-query --show --showformat='${db:Status-Status}' "$1" 2>/dev/null) == installed ]]
}

# apt-get with its talk kept for the case that it fails.
apt_get() {
  local log status=0
  log=$(mktemp)
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -q -y -o DPkg::Lock::Timeout=120 "$@" \
    >"$log" 2>&1 </dev/null || status=$?
  ((status == 0)) || tail -n 20 "$log" >&2
  rm -f "$log"
  return "$status"
}

if ! command -v dpkg-query >/dev/null; then
  say "warning: this is not a Debian system, so nothing is installed; the build needs what $list names"
  exit 0
fi

missing=()
for section in "$@"; do
  while read -r package; do
    is_installed "$package" || missing+=("$package")
  done < <(packages_of "$section")
done
((${#missing[@]} > 0)) || exit 0

as_root=()
if ((EUID != 0)); then
  if ! command -v sudo >/dev/null; then
    say "error: these Debian packages are missing and need root to install (no sudo here): ${missing[*]}"
    exit 1
  fi
  as_root=(sudo)
fi

say "Installing Debian packages (once): ${missing[*]}"
# The package lists of a fresh container are empty, those of an old machine stale: refresh when a first try fails.
apt_get install --no-install-recommends "${missing[@]}" 2>/dev/null && exit 0
apt_get update || { say "error: apt-get update failed; is there a network?"; exit 1; }
apt_get install --no-install-recommends "${missing[@]}" || {
  say "error: apt-get could not install: ${missing[*]}"
  exit 1
}
