#!/usr/bin/env bash
# Checks the Python package: types and style, its wheel, the tests with the installed wheel, and what
# counting steps costs: tools/python.sh [TORCH-RELEASE…]
#
# The cost is measured with Debian's PyTorch, and with the releases from PyPI that are named, each in
# an environment of its own (2.0.1: 2.2 GB to download, 4.4 GB on disk). The daemon and the simulator
# take part in the tests if they were built.
set -euo pipefail
cd "$(dirname "$0")/.."

tools/packages.sh g++ gcc libc6-dev python3-torch python3-venv
place=${CARGO_TARGET_DIR:-target}/python
rm -rf "$place"
mkdir -p "$place"
place=$(realpath "$place")

# fresh NAME OPTION…: an environment with the wheel. Debian's Python, to which its PyTorch belongs.
fresh() {
    /usr/bin/python3 -m venv "${@:2}" "$place/$1"
    [ ! -e "$place/wheel" ] || "$place/$1/bin/pip" install -q --no-index "$place"/wheel/*.whl
}

# From a copy, since setuptools writes beside the source.
cp -rL tools/python "$place/source"
fresh lint
"$place/lint/bin/pip" install -q mypy==1.14.1 ruff==0.8.6
(
    cd "$place/source"
    "$place/lint/bin/ruff" format --no-cache --check
    "$place/lint/bin/ruff" check --no-cache
    "$place/lint/bin/mypy" --cache-dir "$place/mypy"
)
"$place/lint/bin/pip" wheel -q --no-deps -w "$place/wheel" "$place/source"
ls -l "$place/wheel"

fresh debian --system-site-packages
export PYTHONDONTWRITEBYTECODE=1
"$place/debian/bin/python" -W error::ResourceWarning -m unittest discover -s tools/python/tests
"$place/debian/bin/python" tools/python/cost.py
for release in "$@"; do
    fresh "torch-$release"
    "$place/torch-$release/bin/pip" install -q "torch==$release" 'numpy<2'
    "$place/torch-$release/bin/python" -m unittest discover -s tools/python/tests -p test_torch.py
    "$place/torch-$release/bin/python" tools/python/cost.py
done
