#!/usr/bin/env bash
# Runs the first commands of README.md as a newcomer does: on a clone of HEAD, without ../shared, in
# a new Debian that has its minimal packages, what README.md tells to install, and this machine's
# Rust toolchain.
#
#     tools/fresh.sh
#
# Needs root for debootstrap and chroot.
set -euo pipefail
cd "$(dirname "$0")/.."

fail() {
    echo "fresh.sh: FAILED, $1" >&2
    exit 1
}

tools/packages.sh debootstrap git
toolchain=$(rustc --print sysroot)
place=$(mktemp -d)
root=$place/root
end() {
    umount --quiet "$root/proc" "$root/dev" "$root/opt/rust" || true
    # Never through a mount that is still there.
    rm -rf --one-file-system "$place"
}
trap end EXIT

. /etc/os-release
debootstrap --variant=minbase --include=ca-certificates "$VERSION_CODENAME" "$root" >"$place/log" ||
    fail "debootstrap: $(tail -n 1 "$place/log")"
# The way to the network: names, and authorities that this machine trusts besides.
cp /etc/resolv.conf "$root/etc/"
cp /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/"
mkdir -p "$root/opt/rust"
mount --bind -o ro "$toolchain" "$root/opt/rust"
mount --bind /dev "$root/dev"
mount -t proc proc "$root/proc"
git clone --quiet --no-hardlinks . "$root/root/wattgate"

inside() {
    echo "\$ $*"
    local start=$SECONDS
    env -i HOME=/root TERM=dumb DEBIAN_FRONTEND=noninteractive \
        PATH=/opt/rust/bin:/usr/sbin:/usr/bin:/sbin:/bin \
        chroot "$root" sh -c "cd /root/wattgate && $*" || fail "$*"
    echo "$((SECONDS - start)) s"
}

# readme PATTERN: the one text of README.md that a sed pattern takes out of its line.
readme() {
    sed -n "s/$1/\1/p" README.md | grep . || fail "README.md has no $1"
}

inside apt-get update -q
inside "$(readme '.*`\(apt install [^`]*\)`.*') -qy --no-install-recommends"
inside "$(readme '^    \(cargo run .*-p wattgate-demo\)$')"
[ -s "$root/root/wattgate/demo-report/index.html" ] || fail "no page"
inside "$(readme '^    \(tools\/tour.sh\) .*')"
