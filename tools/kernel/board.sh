#!/bin/bash
# Run in the virtual machine by board.service: the simulated board below /run/board. Tells it which
# of the kernel's cores are online, so that it draws the power of these.
set -euo pipefail

board=/run/board
kernel=/run/cpu
mkdir -p $board $kernel
mount --bind /sys/devices/system/cpu $kernel
/test/wattgate-simulator board --board orin-nano-8-super --workload resnet18 --root $board &
until [ -s $board/progress ]; do
    sleep 0.1
done
# The unit hides the control groups, so there must be a place for them.
mkdir -p $board/sys/fs/cgroup/cpuset
mount -t cgroup -o cpuset cpuset $board/sys/fs/cgroup/cpuset
mkdir $board/sys/fs/cgroup/cpuset/container
echo 0 >$board/sys/fs/cgroup/cpuset/container/cpuset.mems
echo 0-3 >$board/sys/fs/cgroup/cpuset/container/cpuset.cpus
cp $board/etc/* /etc/
mkdir -p /var/lib/nvpmodel
cp $board/var/lib/nvpmodel/status /var/lib/nvpmodel/
systemd-notify --ready
while sleep 0.2; do
    for core in 1 2 3; do
        online=$(cat $kernel/cpu$core/online)
        simulated=$board/sys/devices/system/cpu/cpu$core/online
        [ "$online" = "$(cat $simulated)" ] || echo "$online" >$simulated
    done
done
