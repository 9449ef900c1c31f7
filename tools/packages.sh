#!/usr/bin/env bash
# Installs the Debian packages that are missing: tools/packages.sh PACKAGE… Waits for another
# program that installs, as a fresh machine may run one for its updates.
#
#     tools/packages.sh --missing PACKAGE…     prints those that are missing, and installs nothing
set -euo pipefail

only_print=
if [ "${1-}" = --missing ]; then
    only_print=yes
    shift
fi

fail() {
    echo "packages.sh: $1" >&2
    exit 1
}

command -v dpkg-query >/dev/null ||
    fail "this is neither Debian nor Ubuntu: install what these packages have yourself: $*"
missing=()
for package in "$@"; do
    state=$(dpkg-query -W -f '${Status}' "$package" 2>/dev/null || true)
    [ "$state" = "install ok installed" ] || missing+=("$package")
done
if [ -n "$only_print" ]; then
    echo "${missing[*]}"
    exit
fi
[ ${#missing[@]} -eq 0 ] && exit

root=()
if [ "$(id -u)" -ne 0 ]; then
    # sudo asks for a password where somebody can type one.
    command -v sudo >/dev/null && { sudo -n true 2>/dev/null || [ -t 0 ]; } ||
        fail "installing needs root; as root, type:
    apt-get update && apt-get install -y --no-install-recommends ${missing[*]}"
    root=(sudo)
fi
echo "packages.sh: updating the lists of packages"
# The lists have a lock of their own, for which apt-get does not wait.
for _ in {1..150}; do
    said=$("${root[@]}" apt-get update -q 2>&1) && break
    case $said in *"Could not get lock"*) sleep 2 ;; *) break ;; esac
done
# Old lists may do; else the installation says why not.
grep -E '^[EW]:' <<<"$said" >&2 || true
"${root[@]}" env DEBIAN_FRONTEND=noninteractive \
    apt-get install -qy --no-install-recommends -o DPkg::Lock::Timeout=300 "${missing[@]}" ||
    fail "apt-get did not install ${missing[*]}: its last line says why; without a network nothing can be installed"
