"""Writes what PowerTrain's network gives in Keras, for the tests of the trainer's own: keras-peer.py FILE

All numbers have 64 bits, since a training amplifies rounding. Weights, order of the rows and dropout
masks come from SplitMix64, which the tests use too: the start and each training have a seed of their
own. Modes and times are those of a made-up workload.
"""

import os
import sys

os.environ["KERAS_BACKEND"] = "jax"

import jax
import keras
import numpy as np

jax.config.update("jax_enable_x64", True)
keras.config.set_floatx("float64")

SIZES = [4, 256, 128, 64, 1]
DROPOUT = [0.4, 0.3]
BATCH, EPOCHS, REPEATS = 32, 100, 40
MODES = 12


class SplitMix64:
    def __init__(self, seed):
        self.state = np.uint64(seed)

    def draw(self, count):
        gamma = np.uint64(0x9E3779B97F4A7C15)
        with np.errstate(over="ignore"):
            z = self.state + gamma * np.arange(1, count + 1, dtype=np.uint64)
            self.state = z[-1]
            z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
            z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return z ^ (z >> np.uint64(31))

    def weights(self, inputs, outputs):
        """Glorot-uniform."""
        limit = np.sqrt(6.0 / (inputs + outputs))
        share = (self.draw(inputs * outputs) >> np.uint64(12)).astype(np.float64) / 2.0**52
        return (share * (2.0 * limit) - limit).reshape(inputs, outputs)

    def order(self, rows):
        return rows[np.argsort(self.draw(len(rows)), kind="stable")]

    def mask(self, dropped, rows, width):
        kept = self.draw(rows * width) >= np.uint64(int(dropped * 2.0**64))
        return (kept / (1.0 - dropped)).reshape(rows, width)


def workload():
    """Knobs and times of all modes."""
    knobs, times = [], []
    for i in range(MODES):
        cores, cpu = 2 + 2 * (i % 4), 400_000 + 150_000 * (5 * i % MODES)
        gpu, emc = 300_000 + 90_000 * (7 * i % MODES), [665_600, 2_133_000, 3_199_000][i % 3]
        knobs.append([cores, cpu, gpu, emc])
        times.append(round(3e9 / gpu + 2e9 / (cpu * cores) + 1e9 / emc))
    return np.array(knobs, float), np.array(times, float)


def network(random):
    """The masks of the dropout layers are inputs. Without dropout they are ones."""
    masks = [keras.Input([width]) for width in SIZES[1:3]]
    inputs = keras.Input([SIZES[0]])
    x = inputs
    for at, width in enumerate(SIZES[1:]):
        x = keras.layers.Dense(width, activation="relu" if at < 3 else None, name=f"dense{at}")(x)
        if at < len(masks):
            x = keras.layers.Multiply()([x, masks[at]])
    model = keras.Model([inputs, *masks], x)
    for at, (before, after) in enumerate(zip(SIZES, SIZES[1:])):
        model.get_layer(f"dense{at}").set_weights(
            [random.weights(before, after), np.zeros(after)]
        )
    return model


def ready(model, loss):
    model.compile(optimizer=keras.optimizers.Adam(0.001), loss=loss)
    return model


def predict(model, x):
    return model.predict_on_batch([x, *ones(len(x))])[:, 0]


def ones(rows):
    return [np.ones([rows, width]) for width in SIZES[1:3]]


def masks(random, rows):
    pairs = zip(DROPOUT, SIZES[1:3])
    return [random.mask(dropped, rows, width) for dropped, width in pairs]


def run(x, y, loss, seed, reference=None):
    """A whole training: the predictions of the best epoch's network, and its weights."""
    random = SplitMix64(seed)
    model = network(random)
    if reference:
        for at, weights in enumerate(reference[:3]):
            model.get_layer(f"dense{at}").set_weights(weights)
    ready(model, loss)
    order = random.order(np.arange(len(x)))
    held = max(len(order) // 10, 1)
    validation, training = order[:held], order[held:]
    rows = np.tile(training, REPEATS)
    best = (np.inf, None)
    for _ in range(EPOCHS):
        rows = random.order(rows)
        for at in range(0, len(rows), BATCH):
            batch = rows[at : at + BATCH]
            model.train_on_batch([x[batch], *masks(random, len(batch))], y[batch, None])
        # Not test_on_batch, which returns the mean over all batches so far.
        cost = float(keras.losses.get(loss)(y[validation], predict(model, x[validation])))
        if cost < best[0]:
            best = (cost, [model.get_layer(f"dense{at}").get_weights() for at in range(4)])
    for at, weights in enumerate(best[1]):
        model.get_layer(f"dense{at}").set_weights(weights)
    return predict(model, x), best[1]


def main(path):
    knobs, times = workload()
    x = ((knobs - knobs.mean(0)) / knobs.std(0))
    unit = sorted(times)[MODES // 2] / 100.0
    y = (times / unit)
    rows = [["mode", *(int(value) for value in [*mode, time])] for mode, time in zip(knobs, times)]

    random = SplitMix64(1)
    model = ready(network(random), "mse")
    rows.append(["start", *predict(model, x)])
    model.train_on_batch([x, *masks(random, MODES)], y[:, None])
    rows.append(["step", *predict(model, x)])
    whole, reference = run(x, y, "mse", 2)
    rows.append(["square", *whole])
    rows.append(["transfer", *run(x, y, "mse", 3, reference)[0]])
    rows.append(["percentage", *run(x, y, "mape", 4)[0]])
    # What Keras drops and how it scales the rest.
    dropped = np.asarray(keras.layers.Dropout(0.4)(np.ones([1000, 100]), training=True))
    assert np.allclose(dropped[dropped > 0], 1 / 0.6) and abs((dropped == 0).mean() - 0.4) < 0.01
    with open(path, "w") as file:
        file.write(f"# Keras {keras.__version__}, by tools/keras-peer.sh\n")
        for row in rows:
            values = (str(v) if isinstance(v, (str, int)) else f"{v:.9g}" for v in row)
            file.write(",".join(values) + "\n")


main(sys.argv[1])
