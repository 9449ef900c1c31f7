//! What never gets into a probe: serial numbers, host names, addresses and user names.
//!
//! Linux and its drivers write nearly all recorded files, and name nobody in them. Four files
//! can have other texts; only the part that wattgate needs is kept of each. IP and MAC addresses are
//! removed from the text of every file.

use std::net::{IpAddr, SocketAddr};

/// What stands in place of an address.
const REMOVED: &str = "REMOVED";

/// What a daemon that writes nothing has observed, minute by minute.
pub const OBSERVED: &str = "/var/lib/wattgate/observed.csv";

/// The first line of that file.
pub const OBSERVED_COLUMNS: &str = "time_s,passed_ms,mean_mw,highest_mw,over_ms,unknown_ms,limit_mw,gpu_permille,cores,cpu_khz,gpu_khz,emc_khz,\
                                    would_cores,would_cpu_khz,would_gpu_khz,would_emc_khz,would_mw";

/// The text of a file as it may be recorded.
pub fn text(path: &str, text: &str) -> String {
    let kept = match path {
        // Who built Linux, and where, comes after its release.
        "/proc/version" => {
            text.split_whitespace()
                .take(3)
                .collect::<Vec<_>>()
                .join(" ")
                + "\n"
        }
        "/etc/nv_tegra_release" => text.lines().take(1).map(ended).collect(),
        "/etc/nvpmodel.conf" => uncommented(text),
        OBSERVED => observed(text),
        _ => text.to_owned(),
    };
    without_addresses(&kept)
}

fn ended(line: &str) -> String {
    format!("{line}\n")
}

/// The rows of numbers, with times since the first one: when somebody worked is nobody's business.
fn observed(text: &str) -> String {
    let columns = OBSERVED_COLUMNS.split(',').count();
    let is_row = |line: &&str| {
        let is_part = |byte: u8| byte == b',' || byte.is_ascii_digit();
        line.bytes().all(is_part) && line.split(',').count() == columns
    };
    let time = |row: &str| row.split(',').next().and_then(|it| it.parse::<u64>().ok());
    let rows = text.lines().filter(is_row);
    let first = rows.clone().find_map(time).unwrap_or(0);
    let since = |row: &str| match (time(row), row.split_once(',')) {
        (Some(time), Some((_, rest))) => ended(&format!("{},{rest}", time.saturating_sub(first))),
        _ => ended(row),
    };
    ended(OBSERVED_COLUMNS) + &rows.map(since).collect::<String>()
}

/// A config without comments, in which anything may stand.
fn uncommented(text: &str) -> String {
    let code = |line: &str| line.split('#').next().unwrap_or_default().trim().to_owned();
    let lines = text.lines().map(code).filter(|line| !line.is_empty());
    lines.map(|line| ended(&line)).collect()
}

fn without_addresses(text: &str) -> String {
    let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, ':' | '.' | '-' | '[' | ']');
    let mut kept = String::new();
    let mut rest = text;
    while let Some(start) = rest.find(is_part) {
        let (before, from) = rest.split_at(start);
        let length = from.find(|c| !is_part(c)).unwrap_or(from.len());
        let (word, after) = from.split_at(length);
        kept.push_str(before);
        kept.push_str(if is_address(word) { REMOVED } else { word });
        rest = after;
    }
    kept + rest
}

/// Whether a word is an IP address, with a port or without, or a MAC address.
fn is_address(word: &str) -> bool {
    let word = word.trim_matches(['.', '-']);
    word.parse::<IpAddr>().is_ok() || word.parse::<SocketAddr>().is_ok() || is_mac(word)
}

fn is_mac(word: &str) -> bool {
    let is_byte = |part: &str| part.len() == 2 && part.bytes().all(|it| it.is_ascii_hexdigit());
    [':', '-'].into_iter().any(|between| {
        let mut parts = word.split(between);
        parts.clone().count() == 6 && parts.all(is_byte)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_builder_of_linux_is_left_out() {
        let version = "Linux version 5.15.148-tegra (alice@rover) (gcc 11.3.0) #1 SMP PREEMPT\n";
        let kept = text("/proc/version", version);
        assert_eq!(kept, "Linux version 5.15.148-tegra\n");
    }

    #[test]
    fn comments_of_a_config_and_later_lines_of_a_release_are_left_out() {
        let conf =
            "# by alice\n< POWER_MODEL ID=0 NAME=MAXN > # on rover\n\n  CPU_ONLINE CORE_1 1\n";
        let kept = text("/etc/nvpmodel.conf", conf);
        assert_eq!(
            kept,
            "< POWER_MODEL ID=0 NAME=MAXN >\nCPU_ONLINE CORE_1 1\n"
        );
        let release = "# R36 (release), REVISION: 4.3, GCID: 1\n# built on rover\n";
        let kept = text("/etc/nv_tegra_release", release);
        assert_eq!(kept, "# R36 (release), REVISION: 4.3, GCID: 1\n");
    }

    #[test]
    fn of_what_was_observed_numbers_are_kept_and_the_time_of_day_is_not() {
        let rest = "60000,21000,23500,41000,0,20000,970,8,1728000,918000,3199000,8,1728000,612000,3199000,18200";
        let blank = ",60000,21000,,0,0,20000,,,,,,,,,,";
        let file = format!(
            "{OBSERVED_COLUMNS}\n{blank}\n1800000000,{rest}\nalice,{rest}\n1800000060,{rest}\n1800000120,1\n# rover\n"
        );
        let kept = text(OBSERVED, &file);
        assert_eq!(
            kept,
            format!("{OBSERVED_COLUMNS}\n{blank}\n0,{rest}\n60,{rest}\n")
        );
        assert_eq!(text(OBSERVED, "alice\n"), format!("{OBSERVED_COLUMNS}\n"));
    }

    #[test]
    fn addresses_are_removed_and_other_texts_stay() {
        let cases = [
            ("at 192.168.1.7.", "at REMOVED"),
            ("192.168.1.7:80\n", "REMOVED\n"),
            ("[fe80::4ab0:2dff:fe00:1]:22 fe80::1", "REMOVED REMOVED"),
            ("mac=48:b0:2d:0a:1B:2c;", "mac=REMOVED;"),
            ("48-b0-2d-0a-1b-2c", "REMOVED"),
        ];
        for (shown, expected) in cases {
            assert_eq!(text("/sys/class/any", shown), expected);
        }
        for kept in [
            "0-3,5\n",
            "115200 192000 268800\n",
            "204000 665600 (kHz)\n",
            "nvidia,p3767-0005\0nvidia,tegra234\0",
            "17000000.gpu\n",
            "-8\n",
            "sum of shunt voltages\n",
        ] {
            assert_eq!(text("/sys/class/any", kept), kept);
        }
    }
}
