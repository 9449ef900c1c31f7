//! Files and nvpmodel answer as on real boards. Sections are those of `jetson-platform.md`.

use std::collections::BTreeSet;

use wattgate_board_tables::Board;
use wattgate_simulated_board::tree::mirror::Mirror;
use wattgate_simulated_board::tree::nvpmodel::NvpmodelError;
use wattgate_simulated_board::tree::{Errno, Tree};
use wattgate_simulated_board::unit::Unit;

use crate::common::{
    agx, booted, cpu, emc, gpu, ina, load, ms, nano, number, online, pass, pin_cpu, pin_gpu, write,
};

#[test]
fn the_cpufreq_directory_of_an_offline_core_gives_eio() {
    // Section 5.1.
    let mut tree = nano();
    write(&mut tree, &online(1), 0);
    let max = cpu(1, "scaling_max_freq");
    assert_eq!(tree.read(&max), Err(Errno::Eio));
    assert_eq!(tree.write(&max, "960000"), Err(Errno::Eio));
    write(&mut tree, &online(1), 1);
    write(&mut tree, &max, 960_000);
}

#[test]
fn a_policy_lives_while_one_core_of_its_cluster_is_online() {
    // Section 8.2.
    let mut tree = nano();
    let max = "/sys/devices/system/cpu/cpufreq/policy4/scaling_max_freq";
    write(&mut tree, &online(4), 0);
    write(&mut tree, max, 960_000);
    write(&mut tree, &online(5), 0);
    assert_eq!(tree.read(max), Err(Errno::Eio));
}

#[test]
fn a_board_on_a_disk_has_a_boot_id_of_its_own() {
    let path = "proc/sys/kernel/random/boot_id";
    let id = || {
        let folder = tempfile::tempdir().expect("a folder");
        let root = folder.path().join("root");
        let _board = Mirror::create(&root, nano()).expect("a tree on the disk");
        std::fs::read_to_string(root.join(path)).expect("an id")
    };
    let [one, other] = [id(), id()];
    assert_ne!(one, other);
    // The form of a UUID of version 4.
    let shape = one.replace(|it: char| it.is_ascii_hexdigit(), "x");
    assert_eq!(shape, "xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx\n");
    assert_eq!(&one[14..15], "4");
}

#[test]
fn cpu0_cannot_be_offlined() {
    // Section 1.
    let mut tree = nano();
    assert_eq!(tree.write(&online(0), "0"), Err(Errno::Ebusy));
    assert_eq!(number(&tree, &online(0)), 1);
}

#[test]
fn the_list_of_online_cores_is_in_ranges() {
    // Section 5.1.
    let mut tree = nano();
    write(&mut tree, &online(4), 0);
    let list = tree.read("/sys/devices/system/cpu/online");
    assert_eq!(list.as_deref(), Ok("0-3,5\n"));
}

#[test]
fn the_sum_of_currents_leaves_out_vin_sys_5v0() {
    // Section 6.1, the AGX Orin.
    let tree = agx();
    let ma = |name: &str| number(&tree, &ina(name));
    assert_eq!(ma("curr4_input"), ma("curr1_input") + ma("curr2_input"));
    assert!(ma("curr3_input") > 0);
}

#[test]
fn a_sensor_channel_without_a_rail_is_called_nc() {
    // Section 6.1, the second sensor of the AGX Orin.
    let tree = agx();
    let label = |channel| {
        let directory = "/sys/bus/i2c/drivers/ina3221/1-0041/hwmon/hwmon1";
        tree.read(&format!("{directory}/in{channel}_label"))
    };
    assert_eq!(label(1).as_deref(), Ok("NC\n"));
    assert_eq!(label(2).as_deref(), Ok("VDDQ_VDD2_1V8AO\n"));
}

#[test]
fn hwmon_numbers_vary_and_names_do_not() {
    // Section 6.1: K varies, resolve by name.
    let number = |seed| {
        let board = Board::named("orin-nano-8-super").expect("a board");
        let tree = Tree::new(board, Unit::NOMINAL, seed, None).expect("its default mode");
        let read = |at: &usize| tree.read(&format!("/sys/class/hwmon/hwmon{at}/name"));
        (0..8).find(|at| read(at).as_deref() == Ok("ina3221\n"))
    };
    assert_eq!([0, 1, 2].map(number), [Some(0), Some(1), Some(2)]);
}

#[test]
fn jetpack_4_has_its_sensors_under_iio() {
    // Section 6.1.
    let mut tree = booted("tx2", None);
    pass(&mut tree, ms(430));
    let file = |name: &str| format!("/sys/bus/i2c/drivers/ina3221x/0-0041/iio:device1/{name}");
    assert_eq!(tree.read(&file("rail_name_0")).as_deref(), Ok("VDD_IN\n"));
    let [mv, ma, mw] = ["voltage", "current", "power"]
        .map(|quantity| number(&tree, &file(&format!("in_{quantity}0_input"))));
    assert_eq!(mv * ma / 1000, mw);
    for name in ["samples", "update_interval"] {
        assert_eq!(tree.read(&file(name)), Err(Errno::Enoent), "{name}");
    }
}

#[test]
fn zones_of_unpowered_engines_give_eagain() {
    // Section 7.
    let tree = nano();
    let zone = |at, file| tree.read(&format!("/sys/class/thermal/thermal_zone{at}/{file}"));
    assert_eq!(zone(2, "type").as_deref(), Ok("cv0-thermal\n"));
    assert_eq!(zone(2, "temp"), Err(Errno::Eagain));
    assert!(zone(0, "temp").is_ok());
}

#[test]
fn nvpmodel_applies_a_mode_with_equal_masks_live() {
    // Section 3.1.
    let mut tree = nano();
    assert_eq!(tree.nvpmodel(1), Ok(()));
    assert_eq!(number(&tree, &cpu(0, "scaling_max_freq")), 1_344_000);
    assert_eq!(number(&tree, &gpu("max_freq")), 918_000_000);
}

#[test]
fn nvpmodel_fails_where_masks_differ_and_the_old_mode_stays() {
    // Sections 0, fact 6, and 3.1: closed standard input does not confirm the reboot.
    let mut tree = nano();
    let failed = tree.nvpmodel(3);
    assert_eq!(failed, Err(NvpmodelError::RebootRequired { id: 3 }));
    let text = failed.expect_err("refused").to_string();
    assert!(text.contains("Reboot required for changing to this power mode: 3"));
    assert_eq!(tree.mode(), 2);
    assert_eq!(number(&tree, &cpu(0, "scaling_max_freq")), 1_728_000);
}

#[test]
fn nvpmodel_switches_cores_and_the_memory_ceiling() {
    // Section 3, the Orin NX Super: 0, 3 and 4 switch live (3.1).
    let mut tree = booted("orin-nx-16-super", Some(0));
    assert_eq!(tree.nvpmodel(4), Ok(()));
    let failed = tree.nvpmodel(1);
    assert_eq!(failed, Err(NvpmodelError::RebootRequired { id: 1 }));
    let mut tree = booted("orin-nx-16-super", Some(1));
    assert_eq!(
        tree.read("/sys/devices/system/cpu/online").as_deref(),
        Ok("0-3\n")
    );
    load(&mut tree, "resnet18");
    pass(&mut tree, ms(10));
    assert_eq!(number(&tree, &emc("rate")), 2_133_000_000);
}

#[test]
fn the_status_file_names_the_mode() {
    // Section 4.1.
    let mut tree = nano();
    let status = |tree: &Tree| tree.read("/var/lib/nvpmodel/status");
    assert_eq!(status(&tree).as_deref(), Ok("pmode:0002\n"));
    assert_eq!(tree.nvpmodel(0), Ok(()));
    assert_eq!(status(&tree).as_deref(), Ok("pmode:0000\n"));
}

#[test]
fn in_a_container_nvpmodel_writes_its_status_and_does_nothing() {
    // Section 4.1.
    let mut tree = nano();
    assert_eq!(tree.nvpmodel_in_container(1), Ok(()));
    let status = tree.read("/var/lib/nvpmodel/status");
    assert_eq!(status.as_deref(), Ok("pmode:0001\n"));
    assert_eq!(tree.mode(), 2);
    assert_eq!(number(&tree, &gpu("max_freq")), 1_020_000_000);
}

#[test]
fn a_run_of_the_service_resets_minima_and_maxima() {
    // Sections 0, fact 9, and 8.2.
    let mut tree = nano();
    assert_eq!(tree.nvpmodel(1), Ok(()));
    pin_cpu(&mut tree, 0, 883_200);
    pin_gpu(&mut tree, 510_000_000);
    assert_eq!(tree.nvpmodel_service(), Ok(()));
    let limits = ["scaling_min_freq", "scaling_max_freq"].map(|file| number(&tree, &cpu(0, file)));
    assert_eq!(limits, [729_600, 1_344_000]);
    let limits = ["min_freq", "max_freq"].map(|file| number(&tree, &gpu(file)));
    assert_eq!(limits, [306_000_000, 918_000_000]);
}

#[test]
fn jetson_clocks_sets_minima_to_maxima() {
    // Sections 8.1 and 8.2: a second tool at any moment.
    let mut tree = nano();
    tree.control("jetson-clocks").expect("a command");
    pass(&mut tree, ms(10));
    assert_eq!(number(&tree, &cpu(4, "scaling_min_freq")), 1_728_000);
    assert_eq!(number(&tree, &gpu("min_freq")), 1_020_000_000);
    assert_eq!(number(&tree, &emc("rate")), 3_199_000_000);
    let idle = "/sys/devices/system/cpu/cpu2/cpuidle/state1/disable";
    assert_eq!(number(&tree, idle), 1);
    let governor = tree.read(&cpu(0, "scaling_governor"));
    assert_eq!(governor.as_deref(), Ok("schedutil\n"));
}

#[test]
fn another_mask_cannot_be_written_while_the_gpu_runs() {
    // Section 3.1: errno 19 on fbp_pg_mask.
    let mut tree = nano();
    let device = "/sys/devices/platform/17000000.gpu";
    for (mask, other) in [("tpc_pg_mask", "252"), ("fbp_pg_mask", "0")] {
        let path = format!("{device}/{mask}");
        let same = tree.read(&path).expect("a mask");
        assert_eq!(tree.write(&path, &same), Ok(()));
        assert_eq!(tree.write(&path, other), Err(Errno::Enodev));
    }
}

#[test]
fn the_gpu_has_the_path_of_the_release() {
    // Section 5.2.
    let places = [
        ("orin-agx-64", "17000000.ga10b", "ga10b\0"),
        ("orin-nano-8-super", "17000000.gpu", "gpu\0"),
        ("orin-nano-8-super-jp7", "17000000.gpu", "gpu\0"),
        ("xavier-agx", "17000000.gv11b", "gv11b\0"),
        ("tx2", "17000000.gp10b", "gp10b\0"),
    ];
    for (board, name, node) in places {
        let tree = booted(board, None);
        let devfreq = format!("/sys/class/devfreq/{name}");
        let found = tree.read(&format!("{devfreq}/device/of_node/name"));
        assert_eq!(found.as_deref(), Ok(node), "{board}");
        let max = number(&tree, &format!("{devfreq}/max_freq"));
        assert!(max > 300_000_000, "{board}");
    }
    let alias = "/sys/devices/platform/gpu.0/devfreq_dev/governor";
    assert_eq!(nano().read(alias).as_deref(), Ok("nvhost_podgov\n"));
}

#[test]
fn jetpack_7_keeps_the_names_of_jetpack_6() {
    // Section 5.2 and the addendum.
    let [old, new] = ["orin-nano-8-super", "orin-nano-8-super-jp7"].map(|it| booted(it, None));
    let release = new.read("/etc/nv_tegra_release").expect("a text");
    assert!(release.starts_with("# R39 (release), REVISION: 2.0, GCID: "));
    let devfreq = "/sys/class/devfreq/17000000.gpu";
    for file in ["min_freq", "max_freq", "available_frequencies", "governor"] {
        let [old, new] = [&old, &new].map(|it| it.read(&format!("{devfreq}/{file}")));
        assert!(old.is_ok() && new == old, "{file}");
    }
    let conf = new.read("/etc/nvpmodel.conf").expect("a text");
    let max = conf.lines().find_map(|line| {
        let path = line.strip_prefix("MAX_FREQ_KNEXT ")?;
        path.contains("devfreq").then_some(path)
    });
    assert!(number(&new, max.expect("a path")) > 300_000_000);
    // Section 6.4: the Orin Nano warns at a lower current.
    assert_eq!(number(&old, &ina("curr1_max")), 4_984);
    assert_eq!(number(&new, &ina("curr1_max")), 4_050);
}

#[test]
fn possible_rates_end_with_their_unit() {
    // Section 5.3.
    let rates = nano().read("/sys/kernel/debug/bpmp/debug/emc/possible_rates");
    let expected = "204000 665600 2133000 3199000 (kHz)\n";
    assert_eq!(rates.as_deref(), Ok(expected));
}

#[test]
fn the_board_is_identified_as_a_real_one() {
    // Section 9.
    let tree = nano();
    let model = "NVIDIA Jetson Orin Nano Engineering Reference Developer Kit Super\0";
    let base = "/sys/firmware/devicetree/base";
    assert_eq!(tree.read(&format!("{base}/model")).as_deref(), Ok(model));
    let compatible = tree.read("/proc/device-tree/compatible");
    let compatible = compatible.expect("a text");
    assert!(compatible.ends_with("nvidia,tegra234\0"));
    let release = tree.read("/etc/nv_tegra_release").expect("a text");
    assert!(release.starts_with("# R36 (release), REVISION: 4.3, GCID: "));
}

#[test]
fn nvpmodel_conf_has_the_stock_grammar() {
    // Section 4: parameters, then modes, then the default; R35 has 0 for no EMC cap, R36 -1.
    let conf = |tree: &Tree| tree.read("/etc/nvpmodel.conf").expect("a text");
    let (agx, nano) = (conf(&agx()), conf(&nano()));
    for text in [&agx, &nano] {
        let mut declared = BTreeSet::new();
        let mut in_mode = false;
        for line in text.lines() {
            let words: Vec<&str> = line.split_whitespace().collect();
            match words.as_slice() {
                [] | ["#", ..] => {}
                ["<", "PARAM", kind, name, ">"] => {
                    assert!(["TYPE=FILE", "TYPE=CLOCK"].contains(kind), "{line}");
                    declared.insert(name.trim_start_matches("NAME="));
                }
                ["<", "POWER_MODEL", id, name, ">"] => {
                    assert!(id.starts_with("ID=") && name.starts_with("NAME="), "{line}");
                    in_mode = true;
                }
                ["<", "PM_CONFIG", default, ">"] => assert!(default.starts_with("DEFAULT=")),
                [name, _, _] if in_mode => assert!(declared.contains(name), "{line}"),
                [_, path] if !in_mode => assert!(path.starts_with("/sys/"), "{line}"),
                _ => panic!("`{line}`"),
            }
        }
    }
    assert!(agx.contains("ID=0 NAME=MAXN >") && agx.contains("EMC MAX_FREQ 0\n"));
    assert!(nano.contains("EMC MAX_FREQ -1\n") && nano.contains("MAX_FREQ_KNEXT "));
    assert!(agx.ends_with("< PM_CONFIG DEFAULT=2 >\n"));
}

#[test]
fn directories_are_listed_through_links() {
    let mut tree = nano();
    let names = |tree: &Tree, path| tree.list(path);
    let class = vec!["17000000.gpu".to_owned()];
    assert_eq!(names(&tree, "/sys/class/devfreq"), Ok(class));
    let device = names(&tree, "/sys/class/devfreq/17000000.gpu/device").expect("a device");
    assert!(device.contains(&"load".to_owned()) && device.contains(&"devfreq".to_owned()));
    assert_eq!(names(&tree, "/sys/none"), Err(Errno::Enoent));
    assert!(names(&tree, "/sys/devices/system/cpu/cpu4/cpufreq/").is_ok());
    for core in [4, 5] {
        write(&mut tree, &online(core), 0);
    }
    let offline = names(&tree, "/sys/devices/system/cpu/cpu4/cpufreq");
    assert_eq!(offline, Err(Errno::Eio));
    assert!(names(&tree, "/sys/devices/system/cpu/cpufreq/policy4").is_ok());
}
