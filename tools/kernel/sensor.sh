#!/bin/bash
# Run in the virtual machine by tools/kernel.sh: what the driver of the INA3221 answers. The chip is
# a stub: a register holds what was written last, and nothing is converted.
set -u

bus=$(grep -l 'SMBus stub' /sys/bus/i2c/devices/i2c-*/name | sed 's|.*/i2c-\([0-9]*\)/name|\1|')
address=0x40

# register NUMBER WORD: sets a register of the chip, whose bytes are swapped on the bus.
register() {
    i2cset -f -y "$bus" $address "$1" "0x$(printf %04x $((($2 & 255) << 8 | $2 >> 8)))" w
}

# config: the configuration register as the driver has written it.
config() {
    word=$(i2cget -f -y "$bus" $address 0 w)
    printf '0x%04x\n' $((($word & 255) << 8 | $word >> 8))
}

# get FILE: shows a file of the device, or why it cannot be read.
get() {
    cat "$device/$1" 2>&1 | sed 's/^cat: .*: //'
}

# put WORD FILE [OTHER…]: writes, and shows what the files then hold.
put() {
    word=$1 file=$2
    answer=$({ printf %s "$word" >"$device/$file"; } 2>&1 | sed 's/.*: //')
    shift
    shown=
    for each in "$@"; do
        shown="$shown $each $(get "$each")"
    done
    echo "$file < $word:${answer:+ $answer;}$shown"
}

echo "# Reset values, shunt voltages of 20, 12 and 8 mV, bus voltages of 5 V."
for pair in 0=0x7127 7=0x7ff8 8=0x7ff8 9=0x7ff8 10=0x7ff8 11=0x7ff8 12=0x7ff8 14=0x7ffe 15=2 \
    1=0x0fa0 3=0x0960 5=0x0640 2=0x1388 4=0x1388 6=0x1388 13=0x07d0; do
    register "${pair%=*}" "${pair#*=}"
done
echo ina3221 $address >/sys/bus/i2c/devices/i2c-"$bus"/new_device
device=$(echo /sys/bus/i2c/devices/"$bus"-0040/hwmon/hwmon*)

echo "# Files, with their modes and texts; the device has no entry in a device tree."
for file in $(ls "$device" | grep -v uevent); do
    [ -f "$device/$file" ] && echo "$(stat -c %a "$device/$file") $file $(get "$file")"
done
echo "# L4T's settings, in the order of nvpower.sh, and in the other order"
put 512 samples update_interval
put 430 update_interval samples
put 1 samples update_interval
put 430 update_interval samples
put 512 samples update_interval
put 430 update_interval samples
echo "configuration $(config)"

echo "# samples"
for word in 64 40 41 2 3 10 1024 100000 0 -1 0x40 '64 samples' 9223372036854775808; do
    put "$word" samples update_interval
done
echo "# update_interval, at 512 samples and at 1"
put 512 samples update_interval
for word in 0 430 1 528 529 5000 1000000 5000000 -1 soon; do
    put "$word" update_interval
done
put 1 samples update_interval
for word in 0 1 2 4 7 13 25 49 1000; do
    put "$word" update_interval
done

echo "# Shunts"
for word in 5000 0 -5 0x1388 1.5 5000000000; do
    put "$word" shunt1_resistor curr1_input curr4_input in7_input
done
for channel in 1 2 3; do
    put 5000 shunt${channel}_resistor curr${channel}_input curr4_input in7_input
done

echo "# Limits at 5 mOhm: one step of the register is 8 mA"
for word in 4984 4985 4990 4991 4992 7 8 0 -1 -8 32760 32761 100000 500000 -40000 soon; do
    put "$word" curr1_crit
done
put 4991 curr1_max
put 4991 curr4_crit
put 40000 curr4_crit
put 1 curr4_max
put 1000 curr1_input
echo "# Limits at 2 mOhm: 20 mA"
put 2000 shunt1_resistor curr1_crit curr4_input in7_input
for word in 4980 4999 5000; do
    put "$word" curr1_crit
done
put 5000 shunt1_resistor curr1_crit

echo "# Alarms: flags of the chip's register, which the stub does not clear"
register 15 0x0022
echo "warning of channel 1: max $(get curr1_max_alarm), crit $(get curr1_crit_alarm)"
register 15 0x0242
echo "critical of channel 1 and of the sum: $(get curr1_crit_alarm), $(get curr4_crit_alarm)"
register 15 2

echo "# A negative shunt voltage and the ends of the scale"
for word in 0xfff8 0x8000 0x7ff8; do
    register 1 "$word"
    echo "register $word: in4 $(get in4_input), curr1 $(get curr1_input)"
done
register 2 0x7ff8
echo "bus 0x7ff8: in1 $(get in1_input)"

echo "# Channels"
put 512 samples update_interval
put 0 in2_enable in2_input in5_input curr2_input curr2_crit curr2_crit_alarm in7_input \
    update_interval
put 0 in1_enable update_interval
put 2 in1_enable
put 1 in2_enable in2_input update_interval
put 0 in4_enable
