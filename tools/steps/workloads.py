"""Runs one tool for some seconds and writes the times of its true steps: workloads.py NAME TRUTH

TRUTH gets a line for each step with the time of the monotonic clock at its end. A function here is a workload; its first
word is the tool. A step sleeps, so it is slow against what draws the bar.
"""

import os
import sys
import time

os.environ.update(
    CUDA_VISIBLE_DEVICES="",
    HF_HUB_OFFLINE="1",
    KERAS_BACKEND="torch",
    OMP_NUM_THREADS="1",
    TOKENIZERS_PARALLELISM="false",
    WANDB_DISABLED="true",
    YOLO_OFFLINE="true",
)

STEP, EVALUATION_STEP = 0.02, 0.01
EPOCHS, STEPS, EVALUATION_STEPS = 4, 60, 15
times = []


def work(seconds=STEP):
    time.sleep(seconds)


def done():
    times.append(time.monotonic())


def step():
    work()
    done()


def tqdm_plain():
    from tqdm import tqdm

    for _ in tqdm(range(EPOCHS * STEPS)):
        step()


def tqdm_endless():
    """Without a total."""
    from tqdm import tqdm

    for _ in tqdm(iter(range(EPOCHS * STEPS)), unit=" frames"):
        step()


def tqdm_resumed():
    from tqdm import tqdm

    for _ in tqdm(range(3000, 3000 + EPOCHS * STEPS), initial=3000, total=9000):
        step()


def tqdm_nested():
    """Batches in epochs; the inner bar vanishes, and its last count may not be drawn."""
    from tqdm import tqdm

    for _ in tqdm(range(EPOCHS), desc="epochs"):
        for _ in tqdm(range(STEPS - 3), leave=False):
            step()


def tqdm_validated():
    """Bars in turn, with a preparation before them that counts more than they do."""
    from tqdm import tqdm

    for _ in tqdm(range(5000), desc="Map"):
        work(0.0001)
    for epoch in range(EPOCHS):
        for _ in tqdm(range(STEPS), desc=f"Train {epoch}"):
            step()
        for _ in tqdm(range(EVALUATION_STEPS), desc=f"Valid {epoch}"):
            work(EVALUATION_STEP)


def tqdm_written():
    """With other lines between, and a bar in colours whose words change."""
    from tqdm import tqdm

    bar = tqdm(range(EPOCHS * STEPS), colour="green", ascii=True)
    for at in bar:
        step()
        bar.set_postfix(loss=1 / (at + 1), best=f"{at % 7}/{STEPS}")
        if at % 25 == 0:
            tqdm.write(f"INFO step {at}: loss 0.{at}")


def tqdm_scaled():
    """Counts that are rounded to thousands."""
    from tqdm import tqdm

    with tqdm(total=8000, unit_scale=True) as bar:
        for _ in range(STEPS):
            step()
            bar.update(100)


def model_keras(**options):
    import keras
    import numpy

    class Clock(keras.callbacks.Callback):
        def on_train_batch_begin(self, batch, logs=None):
            work()

        def on_train_batch_end(self, batch, logs=None):
            done()

        def on_test_batch_begin(self, batch, logs=None):
            work(EVALUATION_STEP)

    def data(batches):
        return numpy.zeros((8 * batches, 4)), numpy.zeros((8 * batches, 1))

    model = keras.Sequential([keras.layers.Dense(1)])
    model.compile(loss="mse")
    arguments = {
        "batch_size": 8,
        "callbacks": [Clock()],
        "epochs": EPOCHS,
        "validation_data": data(EVALUATION_STEPS),
        "x": data(STEPS)[0],
        "y": data(STEPS)[1],
    }
    arguments.update(options)
    return model, arguments, data


def keras_fit():
    model, arguments, _ = model_keras()
    model.fit(**arguments)


def keras_lines():
    """A line for each epoch."""
    model, arguments, _ = model_keras(verbose=2, epochs=2 * EPOCHS)
    model.fit(**arguments)


def keras_endless():
    """A generator, whose length Keras does not know in the first epoch."""
    model, arguments, data = model_keras()
    xs, ys = data(1)
    import torch.utils.data

    class Endless(torch.utils.data.IterableDataset):
        def __iter__(self):
            return iter((x, y) for _ in range(STEPS) for x, y in zip(xs, ys))

    del arguments["y"], arguments["batch_size"]
    arguments["x"] = torch.utils.data.DataLoader(Endless(), batch_size=8)
    model.fit(**arguments)


def keras_evaluated():
    """An evaluation with a bar of its own after each epoch."""
    model, arguments, data = model_keras(epochs=1)
    for _ in range(EPOCHS):
        model.fit(**arguments)
        model.evaluate(*data(EVALUATION_STEPS), batch_size=8, callbacks=arguments["callbacks"])


def trainer(**options):
    import torch
    import transformers

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(4, 1)

        def forward(self, x, labels):
            if not self.training:
                work(EVALUATION_STEP)
            out = self.layer(x)
            return {"loss": ((out - labels) ** 2).mean(), "logits": out}

    class Clock(transformers.TrainerCallback):
        def on_step_begin(self, *arguments, **names):
            work()

        def on_step_end(self, *arguments, **names):
            done()

    rows = [{"x": torch.zeros(4), "labels": torch.zeros(1)}] * 8
    arguments = {
        "eval_strategy": "steps",
        "eval_steps": STEPS,
        "logging_steps": 10,
        "max_steps": EPOCHS * STEPS,
        "output_dir": os.path.join(os.path.dirname(sys.argv[2]), "hf"),
        "per_device_eval_batch_size": 8,
        "per_device_train_batch_size": 8,
        "report_to": [],
        "save_strategy": "no",
        "use_cpu": True,
    }
    arguments.update(options)
    return transformers.Trainer(
        Model(),
        transformers.TrainingArguments(**arguments),
        train_dataset=rows * STEPS,
        eval_dataset=rows * EVALUATION_STEPS,
        callbacks=[Clock()],
    )


def hf_trainer():
    trainer().train()


def hf_evaluated():
    """With more batches of evaluations than steps of the training, one evaluation before it, and one after it."""
    trainer = globals()["trainer"](eval_steps=10)
    trainer.evaluate()
    trainer.train()
    trainer.evaluate()


def hf_accumulated():
    trainer(gradient_accumulation_steps=4, eval_strategy="no").train()


def fit_lightning(bar=None, **options):
    import lightning
    import torch

    class Model(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(4, 1)

        def training_step(self, batch, at):
            work()
            loss = self.layer(batch).mean()
            self.log("train_loss", loss, prog_bar=True)
            return loss

        def on_train_batch_end(self, *arguments):
            done()

        def validation_step(self, batch, at):
            work(EVALUATION_STEP)
            self.log("val_loss", self.layer(batch).mean(), prog_bar=True)

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), lr=0.1)

    def loader(batches):
        return torch.utils.data.DataLoader(torch.zeros(8 * batches, 4), batch_size=8)

    lightning.Trainer(
        max_epochs=EPOCHS,
        accelerator="cpu",
        logger=False,
        enable_checkpointing=False,
        callbacks=[bar] if bar else [],
        **options,
    ).fit(Model(), loader(STEPS), loader(EVALUATION_STEPS))


def lightning_rich():
    fit_lightning()


def lightning_tqdm():
    from lightning.pytorch.callbacks import TQDMProgressBar

    fit_lightning(TQDMProgressBar())


def lightning_often():
    """Validation within the epoch."""
    from lightning.pytorch.callbacks import TQDMProgressBar

    fit_lightning(TQDMProgressBar(), val_check_interval=0.25)


def yolo(name):
    import pathlib

    import numpy
    from PIL import Image
    from ultralytics import YOLO

    folder = pathlib.Path(sys.argv[2]).parent / "yolo"
    for part, images in (("train", 2 * STEPS), ("val", 2 * EVALUATION_STEPS)):
        for kind in ("images", "labels"):
            (folder / kind / part).mkdir(parents=True, exist_ok=True)
        for at in range(images):
            noise = numpy.random.default_rng(at).integers(0, 255, (64, 64, 3), numpy.uint8)
            Image.fromarray(noise).save(folder / "images" / part / f"{at}.png")
            (folder / "labels" / part / f"{at}.txt").write_text("0 0.5 0.5 0.3 0.3\n")
    (folder / "data.yaml").write_text(f"path: {folder}\ntrain: images/train\nval: images/val\nnames: [thing]\n")
    return YOLO(name), folder


def ultralytics_train():
    model, folder = yolo("yolo11n.yaml")
    model.add_callback("on_train_batch_end", lambda trainer: step())
    model.train(
        data=str(folder / "data.yaml"), epochs=2, imgsz=64, batch=2, workers=0, plots=False, device="cpu", project=str(folder)
    )


def ultralytics_predict():
    """Images one after another, as from a camera."""
    model, folder = yolo("yolo11n.yaml")
    from PIL import Image

    images = [Image.open(path).convert("RGB") for path in sorted((folder / "images/train").iterdir())]
    for image in images:
        model.predict(image, imgsz=64, device="cpu")
        step()


def ultralytics_folder():
    model, folder = yolo("yolo11n.yaml")
    model.add_callback("on_predict_batch_end", lambda predictor: step())
    for _ in model.predict(str(folder / "images/train"), imgsz=64, device="cpu", stream=True):
        pass


def ultralytics_video():
    import cv2
    import numpy

    model, folder = yolo("yolo11n.yaml")
    path = str(folder / "video.avi")
    video = cv2.VideoWriter(path, cv2.VideoWriter_fourcc(*"MJPG"), 30, (64, 64))
    for at in range(2 * STEPS):
        video.write(numpy.full((64, 64, 3), at, numpy.uint8))
    video.release()
    model.add_callback("on_predict_batch_end", lambda predictor: step())
    for _ in model.predict(path, imgsz=64, device="cpu", stream=True):
        pass


def model_llama(path):
    """A model of one layer with random weights and a vocabulary of bytes."""
    import gguf
    import numpy

    size, inner, words = 32, 64, 259
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_context_length(512)
    writer.add_embedding_length(size)
    writer.add_block_count(1)
    writer.add_feed_forward_length(inner)
    writer.add_head_count(2)
    writer.add_head_count_kv(2)
    writer.add_rope_dimension_count(size // 2)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_tokenizer_model("llama")
    writer.add_token_list(["<unk>", "<s>", "</s>"] + [f"<0x{byte:02X}>" for byte in range(256)])
    writer.add_token_scores([0.0] * words)
    writer.add_token_types([2, 3, 3] + [6] * 256)
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    random = numpy.random.default_rng(1)

    def tensor(name, *shape):
        writer.add_tensor(name, random.normal(0, 0.1, shape).astype(numpy.float32))

    tensor("token_embd.weight", words, size)
    tensor("output_norm.weight", size)
    tensor("output.weight", words, size)
    for name, shape in {
        "attn_norm": (size,),
        "attn_q": (size, size),
        "attn_k": (size, size),
        "attn_v": (size, size),
        "attn_output": (size, size),
        "ffn_norm": (size,),
        "ffn_gate": (inner, size),
        "ffn_up": (inner, size),
        "ffn_down": (size, inner),
    }.items():
        tensor(f"blk.0.{name}.weight", *shape)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def llama_cpp_server():
    """Requests to the server of llama.cpp, in this process."""
    import xllamacpp

    path = os.path.join(os.path.dirname(sys.argv[2]), "random.gguf")
    model_llama(path)
    parameters = xllamacpp.CommonParams()
    parameters.model.path = path
    parameters.n_ctx = 512
    parameters.n_parallel = 1
    parameters.warmup = False
    server = xllamacpp.Server(parameters)
    for at in range(2 * STEPS):
        server.handle_completions({"prompt": f"step {at}", "max_tokens": 8, "temperature": 0.0})
        step()


if __name__ == "__main__":
    globals()[sys.argv[1]]()
    with open(sys.argv[2], "w") as truth:
        truth.writelines(f"{at:.6f}\n" for at in times)
