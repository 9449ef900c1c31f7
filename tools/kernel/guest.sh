#!/bin/bash
# Run in the virtual machine at each boot: the checks of this boot.
set -u

boot=$(($(cat /test/boot 2>/dev/null || echo 0) + 1))
echo $boot >/test/boot
if [ $boot = 1 ]; then
    insmod /test/i2c-dev.ko
    insmod /test/i2c-stub.ko chip_addr=0x40
    insmod /test/ina3221.ko
    bash /test/sensor.sh >/test/sensor.out 2>&1
fi
echo "boot $boot, $(uname -r), $(cat /proc/sys/kernel/random/boot_id)"
bash /test/daemon.sh $boot && [ $boot -lt 3 ] || systemctl poweroff --force
