#!/usr/bin/env bash
# Boots Debian's arm64 kernel with systemd and four cores in QEMU, without network, and checks what
# an emulated program cannot show: the real driver of the INA3221 on a stub of its bus, cores that
# the kernel takes offline, and the life of the packaged daemon from installation to removal, with
# a crash, an upgrade, a full disk, a power cut and a reboot. tools/kernel/README.md has the
# findings. Not in CI: needs Debian 12 on amd64, and takes 5 to 7 minutes on two cores once the
# programs are built.
#
#     tools/kernel.sh
set -euo pipefail
cd "$(dirname "$0")/.."
. tools/debian.sh

cores=4
most_minutes=20
guest=tools/kernel
board_model=weights/orin-nano-8-super-resnet18.wgt

tools/packages.sh bc binutils cpio e2fsprogs gcc gcc-aarch64-linux-gnu kmod libc6-dev make \
    mmdebstrap qemu-system-arm xz-utils
# On a disk, because the packages and the image take 3 GB.
mkdir -p "$target"
place=$(mktemp -d --tmpdir="$target" kernel.XXXXXX)
vm=
end() {
    [ -z "$vm" ] || kill "$vm" || true
    rm -rf "$place"
}
trap end EXIT
package wattgate-watchdog wattgated 'MIT|Apache-2.0' -p wattgate-watchdog -p wattgate-profiler \
    >"$place/package"
tools/cross.sh $triple build --release --locked -p wattgate-judge

# The kernel, its headers and its source, unpacked and not installed.
dpkg --print-foreign-architectures | grep -qx arm64 || {
    dpkg --add-architecture arm64
    apt-get update -q
}
image=$(apt-cache depends linux-image-arm64:arm64 | sed -n 's/^  Depends: \(linux-image.*\)/\1/p')
release=${image#linux-image-}
release=${release%:arm64}
common=linux-headers-${release%-arm64}-common
mkdir "$place/debs"
(cd "$place/debs" && apt-get download -q "$image" "linux-headers-$release:arm64" "$common" \
    linux-kbuild-6.1 linux-source-6.1) >"$place/apt" 2>&1 || fail "$(cat "$place/apt")"
kernel=$place/kernel
for package in "$place"/debs/linux-{image,headers,kbuild}*.deb; do
    dpkg-deb -x "$package" "$kernel"
done
depmod -b "$kernel" "$release"

# Debian's kernel lacks the driver and the stub of the bus. Debug information would name the paths
# of this machine.
modules=$place/modules
mkdir "$modules"
dpkg-deb --fsys-tarfile "$place"/debs/linux-source-6.1_*.deb |
    tar xO ./usr/src/linux-source-6.1.tar.xz |
    tar xJ -C "$modules" --transform 's|.*/||' \
        linux-source-6.1/drivers/{hwmon/ina3221,i2c/i2c-stub}.c
echo 'obj-m := ina3221.o i2c-stub.o' >"$modules/Kbuild"
headers=$kernel/usr/src/linux-headers-$release
echo "include $kernel/usr/src/$common/Makefile" >"$headers/Makefile"
make -s -C "$headers" M="$modules" modules DEB_BUILD_ARCH=amd64 DEB_HOST_ARCH=arm64 \
    DEB_HOST_GNU_TYPE=aarch64-linux-gnu >"$place/make" 2>&1 || fail "$(cat "$place/make")"
aarch64-linux-gnu-strip --strip-debug "$modules"/*.ko

# The root file system. No package is configured: that would need the emulator as well.
root=$place/disk
packages=base-files,base-passwd,bash,bsdutils,busybox-static,coreutils,dash,debianutils,diffutils
packages+=,dpkg,findutils,grep,gzip,i2c-tools,init-system-helpers,kmod,libc-bin,login,mawk,mount
packages+=,sed,systemd,systemd-sysv,sysvinit-utils,tar,util-linux
mmdebstrap --quiet --variant=extract --architectures=arm64 --include="$packages" bookworm "$root" \
    http://deb.debian.org/debian
for file in passwd group; do
    cp "$root/usr/share/base-passwd/$file.master" "$root/etc/$file"
done
ln -s mawk "$root/usr/bin/awk"
rm "$root/etc/fstab"
echo vm >"$root/etc/hostname"
echo 0123456789abcdef0123456789abcdef >"$root/etc/machine-id"
cat >"$root/var/lib/dpkg/status" <<'STATUS'
Package: systemd
Status: install ok installed
Version: 252
Architecture: arm64
Maintainer: none
Description: none
STATUS
mkdir "$root/test" "$root/var/log/journal"
cp "$guest"/* "$board_model" "$modules"/*.ko "$root/test"
cp "$target/$triple/release/wattgate-simulator" "$root/test"
cp "$kernel/lib/modules/$release/kernel/drivers/i2c/i2c-dev.ko" "$root/test"
cp "$deb" "$root/test/wattgated.deb"
units=$root/etc/systemd/system
mkdir -p "$units/wattgated.service.d" "$units/wattgated-safe.service.d" \
    "$units/wattgated-early.service.d" "$units/restore.service.d" \
    "$units/multi-user.target.wants"
cp "$guest"/*.service "$units"
for unit in wattgated{,-early,-safe} restore; do
    cp "$guest/wattgated.conf" "$units/$unit.service.d"
done
ln -s ../guest.service "$units/multi-user.target.wants"
ln -s /lib/systemd/system/multi-user.target "$units/default.target"
mke2fs -q -t ext4 -d "$root" "$place/image" 1200M

# What the kernel needs to find the root: its drivers of disk and file system are modules.
initrd=$place/initrd
mkdir -p "$initrd"/{bin,dev,modules,root}
cp "$root/bin/busybox" "$initrd/bin"
{
    echo '#!/bin/busybox sh'
    echo '/bin/busybox mount -t devtmpfs dev /dev'
    for module in virtio_pci virtio_blk ext4; do
        modprobe -S "$release" -d "$kernel" --show-depends "$module" | while read -r _ path; do
            cp "$path" "$initrd/modules"
            echo "/bin/busybox insmod /modules/${path##*/}"
        done
    done
    echo '/bin/busybox mount -t ext4 /dev/vda /root'
    echo 'exec /bin/busybox switch_root /root /sbin/init'
} >"$initrd/init"
chmod +x "$initrd/init"
(cd "$initrd" && find . | cpio --quiet -o -H newc) >"$place/initrd.cpio"

: >"$place/console"
timeout "${most_minutes}m" qemu-system-aarch64 -M virt -cpu cortex-a57 -smp $cores -m 1024 \
    -nic none -display none -monitor none -serial stdio \
    -kernel "$kernel/boot/vmlinuz-$release" -initrd "$place/initrd.cpio" \
    -append "console=ttyAMA0 quiet panic=-1 systemd.show_status=no" \
    -drive "if=virtio,format=raw,file=$place/image" </dev/null >>"$place/console" 2>&1 &
vm=$!
tail -f --pid=$vm "$place/console" &
wait $vm || fail "the virtual machine ended with $?"
vm=
debugfs -R 'cat /test/sensor.out' "$place/image" 2>/dev/null >"$place/sensor"
diff "$guest/sensor.txt" "$place/sensor" || fail "the driver answers otherwise than sensor.txt says"
grep -q '^ok .* removed' "$place/console" || fail "the daemon"
