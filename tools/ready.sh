# Makes a fresh Debian or Ubuntu ready to build, or says what to type. Sourced by the scripts that a
# newcomer types:
#
#     . tools/ready.sh
#     ready MIB MINUTES PACKAGE…
#
# says what it installs, how much of the disk the build needs (MIB) and how long all takes (MINUTES),
# then installs the packages that are missing, and Rust where there is none or an older one.

script=${0##*/}
target=$(realpath -m "${CARGO_TARGET_DIR:-target}")

# What Rust and the sources of the crates take, in MiB.
RUST_MIB=700 CRATES_MIB=700

fail() {
    echo "$script: $*" >&2
    exit 1
}

# What is built, installed or fetched is kept, and the next run goes on from there.
trap 'echo >&2; fail "stopped; type it again to go on from here"' INT TERM

# The version of the Rust that `cargo` starts, such as 1.95.0; empty if none does.
rust_version() {
    { cargo --version 2>/dev/null || true; } | sed -nE 's/^cargo ([0-9.]+).*/\1/p'
}

# is_at_least WANTED FOUND: whether a version is as new as another one.
is_at_least() {
    [ -n "$2" ] && [ "$(printf '%s\n%s\n' "$1" "$2" | sort -V | head -n 1)" = "$1" ]
}

# disk FOLDER: where the disk of a folder, or of the one that it will be made in, is mounted.
disk() {
    local folder=$1
    while [ ! -d "$folder" ]; do folder=$(dirname "$folder"); done
    df --output=target "$folder" | tail -n 1
}

# has_space FOLDER MIB VARIABLE: fails if the disk of a folder has less than that.
has_space() {
    local free
    free=$(df --output=avail -m "$(disk "$1")" | tail -n 1 | tr -d ' ')
    [ "$free" -ge "$2" ] ||
        fail "$1 needs $2 MiB more, and its disk has $free MiB free; free some, or set $3 to a folder of another disk"
}

# Installs Rust: another toolchain of rustup where there is a rustup, else rustup too.
install_rust() {
    local wanted=$1 installer
    if command -v rustup >/dev/null; then
        rustup toolchain install "$wanted" --profile minimal --no-self-update ||
            fail "rustup did not install Rust $wanted: its last lines say why; type the same again when the network is there"
        export RUSTUP_TOOLCHAIN=$wanted
        return
    fi
    installer=$(mktemp)
    curl --proto '=https' --tlsv1.2 -fsS -o "$installer" \
        https://static.rust-lang.org/rustup/rustup-init.sh ||
        fail "static.rust-lang.org cannot be reached, and Rust $wanted or later is not here; type the same again when the network is there"
    # An older Rust of Debian may stay; `cargo` is the one of rustup from here on.
    RUSTUP_INIT_SKIP_PATH_CHECK=yes sh "$installer" -y --no-modify-path --profile minimal \
        --default-toolchain "$wanted" ||
        fail "rustup did not install Rust $wanted: its last lines say why"
    rm "$installer"
    echo "$script: Rust is in ${CARGO_HOME:-$HOME/.cargo}/bin, which is not in PATH"
}

ready() {
    local mib=$1 minutes=$2 wanted missing built fetched rust=
    local cargo=${CARGO_HOME:-$HOME/.cargo}
    shift 2
    wanted=$(sed -nE 's/^rust-version = "(.*)"/\1/p' Cargo.toml)
    if ! is_at_least "$wanted" "$(rust_version)"; then
        # rustup's folder, and its toolchain of this version, may be there from an earlier run.
        PATH=$cargo/bin:$PATH
        if ! is_at_least "$wanted" "$(rust_version)"; then
            # Where a toolchain is missing, `cargo` of rustup would fetch it.
            if rustup toolchain list 2>/dev/null | grep -q "^$wanted[.-]"; then
                export RUSTUP_TOOLCHAIN=$wanted
            else
                rust=yes
                command -v rustup >/dev/null || set -- "$@" ca-certificates curl
            fi
        fi
    fi
    missing=$(tools/packages.sh --missing "$@")
    built=0
    [ ! -d "$target" ] || built=$(du -sm "$target" | cut -f 1)
    mib=$((mib > built ? mib - built : 0))
    fetched=0
    [ -d "$cargo/registry" ] || fetched=$CRATES_MIB
    [ -z "$rust" ] || fetched=$((fetched + RUST_MIB))
    echo "$script takes up to $minutes minutes of two cores, less where parts are built, and $mib MiB of $target."
    [ -z "$missing" ] || echo "It installs the packages $missing."
    [ -z "$rust" ] || echo "It installs Rust $wanted for this user, by rustup, into $cargo and ${RUSTUP_HOME:-$HOME/.rustup}."
    [ "$fetched" -eq 0 ] || echo "What it fetches takes $fetched MiB of $cargo and beside it."
    if [ "$(disk "$target")" = "$(disk "$cargo")" ]; then
        has_space "$target" $((mib + fetched)) CARGO_TARGET_DIR
    else
        has_space "$target" "$mib" CARGO_TARGET_DIR
        has_space "$cargo" "$fetched" 'CARGO_HOME and RUSTUP_HOME'
    fi
    exec {turn}<.
    flock -n "$turn" || {
        echo "$script: another of these scripts installs or builds here; waiting for it"
        flock "$turn"
    }
    # shellcheck disable=SC2086
    tools/packages.sh $missing
    [ -z "$rust" ] || install_rust "$wanted"
}

# Ends a script whose build failed.
not_built() {
    fail "the build failed, and the lines above say why; what is fetched or built is kept, so that the same command goes on from there"
}

# Ends the turn of this script, for the next one that waits.
built() {
    exec {turn}<&-
    trap 'echo >&2; fail "stopped; what is built is kept, and the next run begins anew with it"' INT TERM
}
