"""Times a network in another engine, with one thread:

    peer.py tract|onnxruntime NETWORK.onnx FEATURES.f32 OUTPUTS.f32

It writes the outputs of one run. Then, for each line of the standard input, a number of runs, it
prints the microseconds of a run.
"""

import sys
import time

import numpy as np


def tract(network, features):
    import tract

    network = tract.onnx().load(network).into_model()
    shape = [int(dim) for dim in network.input_fact(0).dump().split(",")[:-1]]
    inputs = [tract.Tensor.from_numpy(np.fromfile(features, "<f4").reshape(shape))]
    network = network.into_runnable()
    return lambda: network.run(inputs), lambda: network.run(inputs)[0].to_numpy()


def onnxruntime(network, features):
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(network, options, providers=["CPUExecutionProvider"])
    [source], [sink] = session.get_inputs(), session.get_outputs()
    inputs = np.fromfile(features, "<f4").reshape(source.shape)
    outputs = onnxruntime.OrtValue.ortvalue_from_shape_and_type(sink.shape, np.float32)
    # Input and output are bound once, so that a run copies and allocates nothing.
    binding = session.io_binding()
    binding.bind_cpu_input(source.name, inputs)
    binding.bind_ortvalue_output(sink.name, outputs)

    def run():
        session.run_with_iobinding(binding)

    def logs():
        run()
        return outputs.numpy()

    return run, logs


def main(engine, network, features, outputs):
    run, logs = {"tract": tract, "onnxruntime": onnxruntime}[engine](network, features)
    logs().astype("<f4").tofile(outputs)
    for line in sys.stdin:
        runs = int(line)
        start = time.perf_counter()
        for _ in range(runs):
            run()
        print((time.perf_counter() - start) * 1e6 / runs, flush=True)


main(*sys.argv[1:])
