#!/usr/bin/env bash
# Installs the Debian packages that are missing: tools/packages.sh PACKAGE… Waits for another
# program that installs, as a fresh machine may run one for its updates.
set -euo pipefail

missing=()
for package in "$@"; do
    state=$(dpkg-query -W -f '${Status}' "$package" 2>/dev/null || true)
    [ "$state" = "install ok installed" ] || missing+=("$package")
done
[ ${#missing[@]} -eq 0 ] && exit

root=()
[ "$(id -u)" -eq 0 ] || root=(sudo)
"${root[@]}" apt-get update -q
"${root[@]}" env DEBIAN_FRONTEND=noninteractive \
    apt-get install -qy --no-install-recommends -o DPkg::Lock::Timeout=300 "${missing[@]}"
