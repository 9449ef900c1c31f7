#!/usr/bin/env bash
# Types README.md's two commands as a newcomer does: on a clone of HEAD, without ../shared, in a new
# minimal Debian or Ubuntu that has git and nothing else. Each command runs twice: the second time
# nothing is left to install or to build.
#
#     tools/fresh.sh [SUITE [root|sudo]]      [this machine's suite, root]
#
# With `sudo` they are typed by a user who may use sudo, on a machine that has the distribution's own
# Rust, which is too old. Needs root for debootstrap and mounts.
set -euo pipefail
cd "$(dirname "$0")/.."

fail() {
    echo "fresh.sh: FAILED, $1" >&2
    exit 1
}

. /etc/os-release
suite=${1:-$VERSION_CODENAME}
user=${2:-root}
[ "$user" = root ] || [ "$user" = sudo ] || fail "expected root or sudo, found $user"
include=ca-certificates,git
[ "$user" = root ] || include+=,sudo,cargo
case $suite in
bookworm | trixie | forky | sid) mirror=http://deb.debian.org/debian keyring=debian-archive-keyring ;;
*) mirror=http://archive.ubuntu.com/ubuntu keyring=ubuntu-archive-keyring ;;
esac
tools/packages.sh debootstrap git $keyring
place=$(mktemp -d)
root=$place/root
end() {
    umount --quiet "$root/proc" "$root/dev/shm" "$root/dev/pts" "$root/dev" || true
    # Never through a mount that is still there.
    rm -rf --one-file-system "$place"
}
trap end EXIT

components=main
[ $keyring = debian-archive-keyring ] || components=main,universe
debootstrap --variant=minbase --include=$include --components=$components \
    --keyring=/usr/share/keyrings/$keyring.gpg "$suite" "$root" "$mirror" >"$place/log" ||
    fail "debootstrap: $(tail -n 1 "$place/log")"
# The way to the network: names, and authorities that this machine trusts besides.
cp /etc/resolv.conf "$root/etc/"
cp /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/"
mount --bind /dev "$root/dev"
mount --bind /dev/pts "$root/dev/pts"
mount -t tmpfs tmpfs "$root/dev/shm"
mount -t proc proc "$root/proc"
home=/root
if [ "$user" = sudo ]; then
    home=/home/somebody
    chroot "$root" useradd --create-home somebody
    echo 'somebody ALL=(ALL) NOPASSWD: ALL' >"$root/etc/sudoers.d/somebody"
fi
git clone --quiet --no-hardlinks . "$root$home/wattgate"
chroot "$root" chown -R "$([ "$user" = root ] && echo root || echo somebody)" "$home"

inside() {
    echo "\$ $*"
    local start=$SECONDS as=
    [ "$user" = root ] || as='setpriv --reuid=somebody --regid=somebody --init-groups'
    # Not by chroot, below which Linux refuses the user namespaces that some tests make.
    env -i HOME=$home TERM=dumb PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
        unshare --mount --propagation private sh -c "mount --rbind $root $root && cd $root && pivot_root . . &&
            umount -l . && exec $as sh -c 'cd $home/wattgate && $*'" || fail "$*"
    echo "$* took $((SECONDS - start)) s"
}

for command in $(sed -nE 's/^    (tools\/(demo|test)\.sh) .*/\1/p' README.md); do
    inside "$command"
    inside "$command"
done
[ -s "$root$home/wattgate/demo-report/index.html" ] || fail "no page"
