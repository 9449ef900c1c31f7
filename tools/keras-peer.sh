#!/usr/bin/env bash
# Trains PowerTrain's network in Keras and writes the results to trainer/lab/src/methods/keras.csv, with which
# the trainer's tests compare their own: tools/keras-peer.sh
set -euo pipefail
cd "$(dirname "$0")/.."

tools/packages.sh python3-venv
place=${CARGO_TARGET_DIR:-target}/keras
/usr/bin/python3 -m venv "$place"
"$place/bin/pip" install -q "jax==0.10.2" "keras==3.12.0" "numpy==2.4.6"
"$place/bin/python" tools/keras-peer.py "$place/keras.csv"
mv "$place/keras.csv" trainer/lab/src/methods/keras.csv
