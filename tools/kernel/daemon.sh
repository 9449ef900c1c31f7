#!/bin/bash
# Run in the virtual machine by tools/kernel.sh, once in each of three boots: the life of the
# packaged daemon. The unit sees the simulated board's files in the place of /sys, and in them the
# `online` files of the kernel's own cores. Everything else is the system's: systemd, the unit's
# sandbox, the boot's number.
set -euo pipefail

state=/var/lib/wattgate
cores=/sys/devices/system/cpu/online
# A group of version 1, as a container has it on JetPack 4 and 5.
container=/run/board/sys/fs/cgroup/cpuset/container/cpuset.cpus

fail() {
    echo "FAILED: $1"
    journalctl -b -o cat -u wattgated -u board -n 40 || true
    exit 1
}

# eventually WHAT COMMAND…: waits until the command succeeds.
eventually() {
    local what=$1
    shift
    for _ in {1..60}; do
        "$@" && return
        sleep 1
    done
    fail "not within a minute: $what"
}

# now: a place in the journal; logged TEXT: the daemon has said this since.
now() {
    cursor=$(journalctl -n 0 --show-cursor | sed -n 's/^-- cursor: //p')
}
logged() {
    journalctl -b -o cat -u wattgated --after-cursor "$cursor" | grep "$1" >/dev/null
}

online_is() {
    [ "$(cat $cores)" = "$1" ]
}

# The kernel has the cores online that the daemon's last mode has, of the first four.
cores_of_the_mode() {
    local mode
    mode=$(journalctl -b -o cat -u wattgated | sed -n 's/.*: \([0-9]*\) cores,.*/\1/p' | tail -n 1)
    [ "$(getconf _NPROCESSORS_ONLN)" = $((mode < 4 ? mode : 4)) ]
}

is() {
    [ "$(systemctl show -P "$1" wattgated)" = "$2" ]
}

ok() {
    echo "ok $(cut -d ' ' -f 1 /proc/uptime) s: $1"
}

holds() {
    eventually "$1: the daemon measures" logged 'tracking; measured'
    eventually "$1: the kernel's cores are those of the mode" cores_of_the_mode
    ok "$1: holds the limit; the kernel has cores $(cat $cores) online"
}

first_boot() {
    for core in 1 3; do
        echo 0 >/sys/devices/system/cpu/cpu$core/online
    done
    online_is 0,2 || fail "cores 1 and 3 go off"
    for core in 1 3; do
        echo 1 >/sys/devices/system/cpu/cpu$core/online
    done
    online_is 0-3 || fail "cores 1 and 3 come back"
    ok "cores go off and come back"

    now
    dpkg -i /test/wattgated.deb
    getent group wattgate >/dev/null || fail "no group"
    is ActiveState inactive || fail "the package starts the daemon"
    [ "$(systemctl is-enabled wattgated)" = disabled ] || fail "the package enables the daemon"
    ok "installed: neither enabled nor started"
    ! systemctl start wattgated 2>/dev/null || fail "starts without a config"
    ok "without a config, the start fails: $(systemctl show -P Result wattgated)"

    cp /test/wattgated.toml /etc/
    systemctl enable wattgated
    [ "$(systemctl is-enabled wattgated-early)" = enabled ] || fail "the early unit is not enabled"
    now
    systemctl start wattgated || fail "the daemon does not start"
    holds started
    shared

    now
    systemctl kill -s KILL wattgated
    eventually "the unit sets the safe mode" logged 'once: 1 core'
    eventually "a restart" is NRestarts 1
    holds "killed"

    now
    systemctl kill -s STOP wattgated
    eventually "the watchdog ends a stopped daemon" is NRestarts 2
    logged 'once: 1 core' || fail "no safe mode after the watchdog"
    holds "stopped by SIGSTOP"

    now
    before=$(systemctl show -P MainPID wattgated)
    dpkg -i /test/wattgated.deb
    ! is MainPID "$before" || fail "the upgrade does not restart the daemon"
    holds upgraded

    escalation
    full_disk
    sync
    ok "power cut"
    echo b >/proc/sysrq-trigger
}

is_given() {
    [ "$(stat -c '%a %G' /run/wattgated/socket /run/wattgated | tr '\n' ' ')" = '660 wattgate 750 wattgate ' ]
}

# Who may use the sockets, also after a reload: before each command of a unit systemd sets owner and mode of its
# directories.
shared() {
    systemctl reload wattgated
    eventually "the group may use its socket" is_given
    [ "$(stat -c '%a' /run/wattgate /run/wattgate/steps | tr '\n' ' ')" = '755 666 ' ] ||
        fail "the socket for steps is not everybody's"
    ok "after a reload, the group and everybody may use their sockets"
}

# A limit below the least mode: root's unit is started.
escalation() {
    now
    printf '[Service]\nType=oneshot\nExecStart=/bin/touch /run/called\nRemainAfterExit=yes\n' \
        >/etc/systemd/system/wattgated-over.service
    systemctl daemon-reload
    systemctl start wattgated-over.path
    sed -i 's/"8W"/"1W"/' /etc/wattgated.toml
    systemctl kill --kill-who=main -s HUP wattgated
    eventually "root's unit is started" test -e /run/called
    logged 'the limit cannot be held' || fail "the journal says nothing"
    [ "$(stat -c %a /run/wattgated-root)" = 700 ] || fail "root's folder is open to others"
    sed -i 's/"1W"/"8W"/' /etc/wattgated.toml
    systemctl kill --kill-who=main -s HUP wattgated
    eventually "the call is taken back" test ! -e /run/wattgated/over
    systemctl stop wattgated-over.path wattgated-over.service
    ok "the least mode over the limit: wattgated-over.path starts what root wants"
}

# fill: leaves no block of the disk free, not even to root.
fill() {
    dd if=/dev/zero of=/full bs=64k 2>/dev/null || true
    ! echo text 2>/dev/null >/probe || fail "the disk is not full"
}

# The unit for failures has set the safe mode, of one core.
set_safe() {
    [ "$(systemctl show -P ExecMainExitTimestampMonotonic wattgated-safe)" -gt 0 ] && online_is 0
}

full_disk() {
    fill
    sleep 3
    is ActiveState active || fail "a full disk ends the daemon"
    ok "the disk is full: the daemon runs on"
    now
    systemctl kill -s KILL wattgated
    eventually "on a full disk, the unit for failures sets the safe mode" set_safe
    journalctl -b -o cat -u wattgated --after-cursor "$cursor" | sed -n 1,4p
    ok "killed on a full disk: $(systemctl show -P ActiveState wattgated), then the safe mode"
    rm /full /probe
    systemctl reset-failed wattgated
    now
    systemctl restart wattgated
    holds "the disk has space again"
}

# early: the unit before basic.target has set a mode.
early() {
    local set basic
    set=$(systemctl show -P ExecMainExitTimestampMonotonic wattgated-early)
    basic=$(systemctl show -P ActiveEnterTimestampMonotonic basic.target)
    is_set=$(journalctl -b -o cat -u wattgated-early | grep -o 'once: .*') || fail "the early unit sets no mode"
    [ "$set" -lt "$basic" ] || fail "the early unit ends at $set us, basic.target is reached at $basic us"
    ok "$((set / 1000)) ms, before basic.target: $is_set"
}

second_boot() {
    early
    eventually "the daemon measures" after_boot
    holds_after_boot "after a power cut"
    ok "reboot"
    systemctl reboot
}

third_boot() {
    early
    eventually "the daemon measures" after_boot
    journalctl -b -1 -o cat -u wattgated | grep 'stopped; the board stays at' >/dev/null ||
        fail "the shutdown leaves no mode"
    holds_after_boot "after a reboot"
    now
    systemctl stop wattgated
    logged 'stopped; the board stays at' || fail "the stop leaves no mode"
    systemctl start wattgated-safe
    eventually "one core" online_is 0
    [ "$(cat $container)" = 0 ] || fail "the kernel takes no core from the container"
    systemctl start restore
    eventually "all cores are back" online_is 0-3
    [ "$(cat $container)" = 0-3 ] || fail "the container keeps the cores $(cat $container)"
    ok "restored: the container has its cores back"
    systemctl start wattgated
    eventually "the daemon measures" after_boot
    dpkg -r wattgated 2>&1 | grep 'the board keeps its present cores' || fail "the removal says nothing"
    [ ! -e /usr/bin/wattgated ] || fail "the removal leaves the program"
    [ -d $state ] || fail "the removal purges"
    dpkg -P wattgated
    [ ! -e $state ] || fail "the purge leaves $state"
    ok "removed: cores $(cat $cores)"
}

after_boot() {
    journalctl -b -o cat -u wattgated | grep "tracking; measured" >/dev/null
}
holds_after_boot() {
    eventually "$1: the kernel's cores are those of the mode" cores_of_the_mode
    journalctl -b -o cat -u wattgated
    ok "$1: holds the limit; cores $(cat $cores)"
}

case $1 in
1) first_boot ;;
2) second_boot ;;
3) third_boot ;;
esac
