"""Times ONNX Runtime on one intra-op thread: onnxruntime_peer.py NETWORK.onnx FEATURES.f32

For each line of the standard input, a number of runs, it prints the microseconds of a run.
Input and output are bound once, so that a run copies and allocates nothing.
"""

import sys
import time

import numpy as np
import onnxruntime


def main(network, features):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(network, options, providers=["CPUExecutionProvider"])
    [source], [sink] = session.get_inputs(), session.get_outputs()
    inputs = np.fromfile(features, "<f4").reshape(source.shape)
    outputs = onnxruntime.OrtValue.ortvalue_from_shape_and_type(sink.shape, np.float32)
    binding = session.io_binding()
    binding.bind_cpu_input(source.name, inputs)
    binding.bind_ortvalue_output(sink.name, outputs)
    for line in sys.stdin:
        runs = int(line)
        start = time.perf_counter()
        for _ in range(runs):
            session.run_with_iobinding(binding)
        print((time.perf_counter() - start) * 1e6 / runs, flush=True)


main(*sys.argv[1:])
