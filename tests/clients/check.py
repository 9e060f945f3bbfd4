#!/usr/bin/env python3
"""Checks files for other programs with those programs, and prints the table of docs/clients.md.

    scripts/check_clients.sh [NAME...]          makes a virtual environment, and calls this there

NAME: h5py, safetensors, torchvision, transformers, onnx, onnxruntime, tensorboard, chainer (default:
all). What is compared is computed by them and by DIR/apps (--build DIR). Ends with 1 if a check fails.
"""
import argparse
import contextlib
import importlib.metadata
import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time
import traceback
import urllib.error
import urllib.request

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
APPS = ROOT / "build/apps"  # main() sets it
LARGEST = 1e-4  # difference of scores, relative to the largest


def run(*words):
    command = [str(word) for word in words]
    ran = subprocess.run(command, capture_output=True, text=True)
    if ran.returncode != 0:
        raise AssertionError(f"{' '.join(command)}: exit code {ran.returncode}: "
                             f"{(ran.stderr or ran.stdout).strip()[-300:]}")
    return ran.stdout


def difference(found, expected):
    """Relative to the largest expected value."""
    found, expected = np.asarray(found, np.float64), np.asarray(expected, np.float64)
    return float(np.abs(found - expected).max() / np.abs(expected).max())


def check(condition, what):
    if not condition:
        raise AssertionError(what)


# --- safetensors ---

def safetensors_bytes(folder):
    """What tasuki-export writes has the bytes that the library writes, and the library reads it."""
    import safetensors.numpy
    arrays = {"l1/W": np.arange(20, dtype=np.float32).reshape(4, 5), "l1/b": np.zeros(4, np.float32),
              "l2/W": np.ones((4, 4), np.float32), "l2/b": np.full(4, 0.5, np.float32),
              "l3/W": np.ones((2, 4), np.float32), "l3/b": np.full(2, 0.25, np.float32)}
    np.savez(folder / "mlp.npz", **arrays)
    run(APPS / "tasuki-export", folder / "mlp.npz", "--arch", "mlp", "--names", "tasuki", "-o",
        folder / "mlp.safetensors")
    ours = (folder / "mlp.safetensors").read_bytes()
    check(ours == safetensors.numpy.save(arrays, {"format": "pt"}), "the bytes differ")
    read = safetensors.numpy.load(ours)
    check(all(np.array_equal(read[name], arrays[name]) for name in arrays), "arrays differ")
    return "the same bytes"


def safetensors_types(folder):
    """Weights of other types are read with the values that PyTorch reads."""
    import safetensors.torch
    import torch
    codes = torch.arange(256, dtype=torch.uint8)
    checked = []
    for name in ("float16", "bfloat16", "float64", "float8_e4m3fn", "float8_e5m2",
                 "float8_e4m3fnuz", "float8_e5m2fnuz", "int8", "uint8", "int16", "int32", "int64",
                 "uint16", "uint32", "bool"):
        dtype = getattr(torch, name)
        if name.startswith("float8"):
            values = codes.view(dtype)
        elif name == "bool":
            values = codes % 2 == 0
        elif name.startswith(("float", "bfloat")):
            values = torch.linspace(-3, 3, 256).to(dtype)
        else:
            info = torch.iinfo(dtype)
            values = torch.tensor([info.min, info.max, 1, 100] * 64, dtype=dtype)
        if values.dtype.is_floating_point:  # --init and tasuki-predict refuse other weights
            wide = values.to(torch.float32)
            values = torch.where(wide.isfinite(), wide, torch.zeros(())).to(dtype)
        state = {"l1.weight": values.reshape(4, 64), "l1.bias": torch.zeros(4),
                 "l2.weight": torch.zeros(4, 4), "l2.bias": torch.zeros(4),
                 "l3.weight": torch.zeros(2, 4), "l3.bias": torch.zeros(2)}
        safetensors.torch.save_file(state, folder / "types.safetensors")
        run(APPS / "tasuki-export", folder / "types.safetensors", "--arch", "mlp", "-o",
            folder / "types.npz")
        with np.load(folder / "types.npz") as found:
            check(np.array_equal(found["l1/W"], state["l1.weight"].to(torch.float32).numpy()),
                  f"values of {name} differ")
        checked.append(name)
    return f"{len(checked)} types equal"


# --- h5py ---

def digits(count, seed):
    """Images whose label shows as a bright column, and the labels."""
    random = np.random.default_rng(seed)
    labels = random.integers(0, 10, count)
    images = random.integers(0, 64, (count, 28, 28))
    for image, label in zip(images, labels):
        image[:, 2 * label + 2] += 190
    return images, labels


def losses(folder, *words):
    run(APPS / "train_mnist", "--unit", 16, "--batchsize", 32, "--epoch", 1, "--log-every", 1, "--threads", 1,
        "--out", folder / "run", "--overwrite", "--classes", 10, *words)
    return [entry["main/loss"] for entry in json.loads((folder / "run/log").read_text())]


def h5py_arrays(folder):
    """train_mnist on arrays of all types and layouts that h5py writes, and on the same values in .npy files."""
    import h5py
    images, labels = digits(300, 1)
    layouts = {"contiguous": {}, "chunked": {"chunks": (7, 28, 28)}, "h5py's chunks": {"chunks": True},
               "gzip": {"chunks": (9, 28, 28), "compression": "gzip", "shuffle": True, "fletcher32": True}}
    checked = 0
    for version in ("earliest", "v110"):
        for descr in ("<u1", "<i2", ">u2", "<i4", ">i8", "<f2", "<f4", ">f4", ">f8", "?"):
            # What the network gets, as floats: uint8 is divided by 255 by both.
            values = (images > 100 if descr == "?" else images).astype(descr)
            np.save(folder / "x.npy", values if descr == "<u1" else values.astype(np.float32))
            np.save(folder / "t.npy", labels.astype(np.int32))
            expected = losses(folder, "--dataset", "npy", "--data", folder)
            check(expected[-1] < expected[0] and len(expected) > 5, f"{descr}: nothing was learnt: {expected}")
            with h5py.File(folder / "arrays.h5", "w", libver=(version, "v110")) as file:
                for name, how in layouts.items():
                    file.create_dataset(f"images/{name}", data=values, **how)
                file["labels"] = labels.astype(">u2")
            for name in layouts:
                found = losses(folder, "--dataset", "hdf5", "--data", folder / "arrays.h5", "--stream",
                               "--fields", f"x=images/{name},t=/labels", "--loader-threads", 2)
                check(found == expected, f"{descr}, {name}: losses {found} in place of {expected}")
                checked += 1
    return f"{checked} arrays give the same losses"


# --- torchvision ---

def make_images(folder):
    """Images that are cropped, but not scaled: Pillow's pixels, scaled, are not ours to the bit."""
    from PIL import Image
    random = np.random.default_rng(0)
    paths = []
    for number, (height, width) in enumerate([(256, 400), (256, 256), (333, 256)]):
        cells = random.integers(0, 256, (height // 8 + 1, width // 8 + 1, 3), dtype=np.uint8)
        paths.append(folder / f"image{number}.png")
        Image.fromarray(cells).resize((width, height)).save(paths[-1])
    return paths


def torchvision_scores(network, paths):
    import torch
    from PIL import Image
    from torchvision import transforms
    read = transforms.Compose([
        transforms.Resize(256), transforms.CenterCrop(224), transforms.ToTensor(),
        transforms.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225])])
    with torch.no_grad():
        scores = network(torch.stack([read(Image.open(path)) for path in paths]))
        return torch.log_softmax(scores.double(), 1).numpy()


def our_scores(file, arch, paths, classes):
    said = run(APPS / "tasuki-predict", file, *paths, "--arch", arch, "--top", classes, "--conv",
               "direct", "--format", "json")
    scores = np.zeros((len(paths), classes))
    for line in said.splitlines():
        example = json.loads(line)
        for each in example.get("predictions", []):
            scores[example["example"], each["class"]] = np.log(each["probability"])
    return scores


def random_network(name):
    """Random weights, whose scores for several images differ, and random statistics."""
    import torch
    import torchvision
    torch.manual_seed(7)
    network = getattr(torchvision.models, name)().eval()
    for key, value in network.state_dict().items():
        if key.endswith("running_mean"):
            value.normal_(0, 0.2)
        elif key.endswith("running_var"):
            value.uniform_(0.5, 1.5)
        elif value.dim() > 1:
            torch.nn.init.kaiming_normal_(value)
        elif key.endswith("bias"):
            value.normal_(0, 0.1)
    # Scores of deep networks would be so large that all probabilities but one are 0.
    with torch.no_grad():
        scores = network(torch.randn(4, 3, 224, 224))
        list(network.parameters())[-2].mul_(2 / scores.std())
    return network


def torchvision_networks(folder):
    """Scores of torchvision's weights here, and of weights exported from here in torchvision."""
    import safetensors.torch
    results = []
    paths = make_images(folder)
    for name in ("resnet18", "resnet50", "vgg16_bn", "alexnet"):
        network = random_network(name)
        state = {key: value.contiguous() for key, value in network.state_dict().items()}
        safetensors.torch.save_file(state, folder / "theirs.safetensors", {"format": "pt"})
        expected = torchvision_scores(network, paths)
        there = difference(our_scores(folder / "theirs.safetensors", f"tv_{name}", paths, 1000),
                           expected)
        run(APPS / "tasuki-export", folder / "theirs.safetensors", "--arch", f"tv_{name}", "-o",
            folder / "ours.npz")
        run(APPS / "tasuki-export", folder / "ours.npz", "--arch", f"tv_{name}", "-o",
            folder / "ours.safetensors")
        back = safetensors.torch.load_file(folder / "ours.safetensors")
        check(sorted(back) == sorted(state), f"{name}: other names")
        other = random_network(name)
        for value in other.state_dict().values():
            value.zero_()
        other.load_state_dict(back)
        again = difference(torchvision_scores(other, paths), expected)
        check(max(there, again) <= LARGEST, f"{name}: scores differ by {there:.1e} and {again:.1e}")
        results.append(f"{name} {there:.0e}, {again:.0e}")
    return "largest differences of log-probabilities: " + "; ".join(results)


# --- transformers ---

def transformers_gpt(folder):
    """A transformer of train_lm in GPT2LMHeadModel (without tied weights), and back."""
    import safetensors.torch
    import torch
    import transformers
    context, width = 32, 16
    random = np.random.default_rng(3)
    text = bytes(random.choice(list(b"etaoin shrdlu"), 20000).astype(np.uint8))
    (folder / "text").write_bytes(text)
    run(APPS / "train_lm", "--data", folder / "text", "--layers", 2, "--heads", 2, "--width", width,
        "--context", context, "--max-iterations", 20, "--threads", 1, "--sample", 0, "--out",
        folder / "run")
    run(APPS / "tasuki-export", folder / "run", "-o", folder / "lm.safetensors")

    model = transformers.GPT2LMHeadModel(transformers.GPT2Config(
        vocab_size=256, n_positions=context, n_embd=width, n_layer=2, n_head=2,
        activation_function="gelu", tie_word_embeddings=False)).eval()
    state = safetensors.torch.load_file(folder / "lm.safetensors")
    check(sorted(state) == sorted(model.state_dict()), "the names differ")
    model.load_state_dict(state)
    windows = (len(text) - 1) // context
    ids = torch.tensor(list(text))
    with torch.no_grad():
        scores = model(ids[:windows * context].reshape(windows, context)).logits.double()
    targets = ids[1:windows * context + 1]
    bits = float(torch.nn.functional.cross_entropy(scores.reshape(-1, 256), targets) / np.log(2))

    model.save_pretrained(folder / "theirs")
    found = []
    for file in (folder / "lm.safetensors", folder / "theirs/model.safetensors"):
        said = run(APPS / "tasuki-predict", file, folder / "text", "--arch", "gpt", "--heads", 2,
                   "--format", "json")
        found.append(json.loads(said.splitlines()[-1])["summary"]["bits_per_byte"])
    largest = max(abs(each / bits - 1) for each in found)
    check(largest <= LARGEST, f"bits per byte: {found}, and {bits} there")
    return f"{bits:.4f} bits per byte, which differ by {largest:.0e}"


# --- onnx, onnxruntime ---

def onnx_models(folder):
    """Its checker accepts each function that can be exported, and its inference of shapes agrees."""
    import onnx
    run(APPS.parent / "tests/saving/onnx_examples", "--small", folder)
    files = sorted(folder.glob("*.onnx"))
    for file in files:
        onnx.checker.check_model(str(file), full_check=True)
        model = onnx.load(file, load_external_data=False)
        batch = model.graph.input[0].type.tensor_type.shape.dim[0]
        check(batch.dim_param == "batch", f"{file.name}: the first axis is not of any size")
    return f"{len(files)} models"


def runtime_results(file, inputs):
    import onnxruntime
    session = onnxruntime.InferenceSession(str(file), providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(names, inputs)))


def runtime_results_of_networks(folder):
    """It computes what Tasuki computes, for all networks of the catalogue, too."""
    import onnxruntime
    onnxruntime.set_default_logger_severity(3)
    run(APPS.parent / "tests/saving/onnx_examples", folder)
    largest, count, where = 0.0, 0, ""
    for file in sorted(folder.glob("*.onnx")):
        with np.load(file.with_suffix(".npz")) as arrays:
            for size in ("", "larger_"):
                begin, end = f"{size}in/", f"{size}out/"
                inputs = {name[len(begin):]: arrays[name] for name in arrays if name.startswith(begin)}
                found = runtime_results(file, inputs)
                for name in (name for name in arrays if name.startswith(end)):
                    result = found[name[len(end):]]
                    check(result.shape == arrays[name].shape, f"{file.stem}: another shape")
                    apart = difference(result, arrays[name])
                    check(apart <= LARGEST, f"{file.stem}: results differ by {apart:.1e}")
                    if apart > largest:
                        largest, where = apart, file.stem
        count += 1
        file.unlink()
    return f"{count} models, each at two sizes, largest difference {largest:.0e} ({where})"


def transformers_gpt2(folder):
    """GPT2LMHeadModel as it is published (tied, tanh), with other sizes: exported weights, and scores by ONNX."""
    import safetensors.torch
    import torch
    import transformers
    torch.manual_seed(5)
    model = transformers.GPT2LMHeadModel(transformers.GPT2Config(
        vocab_size=503, n_positions=24, n_embd=128, n_layer=3, n_head=2)).eval()
    with torch.no_grad():
        for value in model.parameters():
            value.add_(torch.randn_like(value) * 0.05)
    model.save_pretrained(folder / "theirs")
    theirs = folder / "theirs/model.safetensors"
    for read, written in ((theirs, "gpt2.onnx"), (theirs, "ours.safetensors"), (theirs, "ours.npz"),
                          (folder / "ours.npz", "again.safetensors")):
        run(APPS / "tasuki-export", read, "--arch", "gpt2", "--heads", 2, "-o", folder / written)
    state = safetensors.torch.load_file(theirs)
    for file in ("ours.safetensors", "again.safetensors"):
        back = safetensors.torch.load_file(folder / file)
        for name, value in back.items():
            check(torch.equal(value, state[name]), f"{file}: {name} differs")
        check(len(back) == len(state), f"{file}: {len(back)} arrays, expected {len(state)}")
    ids = torch.randint(0, 503, (3, 24))
    with torch.no_grad():
        expected = model(ids).logits.double().numpy()
    found = runtime_results(folder / "gpt2.onnx", {"x": ids.numpy()})["y"]
    apart = difference(found, expected)
    check(apart <= LARGEST, f"scores differ by {apart:.1e}")
    return f"{len(state)} arrays equal, largest difference of scores {apart:.0e}"


# --- tensorboard ---

def write_digits(folder):
    """Random images in MNIST's format: 480 to train on, 100 to evaluate on."""
    random = np.random.default_rng(0)
    folder.mkdir()
    for kind, count in (("train", 480), ("t10k", 100)):
        labels = random.integers(0, 10, count, dtype=np.uint8)
        images = random.integers(0, 64, (count, 28, 28), dtype=np.uint8)
        images[np.arange(count), labels] += 128  # a row that tells the label
        for name, magic, values in (("images-idx3", 0x803, images), ("labels-idx1", 0x801, labels)):
            header = np.array([magic, *values.shape], ">u4").tobytes()
            (folder / f"{kind}-{name}-ubyte").write_bytes(header + values.tobytes())


def steps_of_run(folder, *more):
    """Of ten steps an epoch."""
    run(APPS / "train_mnist", "--data", folder / "data", "--unit", "32", "-b", "48", "--threads", "1", "--out",
        folder / "run", "--snapshot-every", "1", "--tensorboard", "--histograms", "5", *more)


RESUMED = "--epoch", "4", "--resume"  # from the end of the second epoch, after a run of three


def tensorboard_reader(folder):
    """All that a resumed run has written in EventAccumulator: the log's values, and each step once."""
    from tensorboard.backend.event_processing import event_accumulator
    from tensorboard.plugins.hparams import plugin_data_pb2
    write_digits(folder / "data")
    steps_of_run(folder, "--epoch", "3")
    steps_of_run(folder, *RESUMED, folder / "run/snapshot_iter_20")
    log = json.loads((folder / "run/log").read_text())
    read = event_accumulator.EventAccumulator(str(folder / "run/tensorboard"), size_guidance=dict.fromkeys(
        ("scalars", "histograms", "images", "tensors"), 0))
    read.Reload()
    tags = read.Tags()
    for key in log[0].keys() - {"iteration"}:
        found = [(event.step, np.float32(event.value)) for event in read.Scalars(key)]
        check(found == [(entry["iteration"], np.float32(entry[key])) for entry in log], f"{key} differs: {found}")
    for key in ("step/main/loss", "step/main/accuracy", "step/lr", "step/time/seconds", "step/time/forward"):
        check([event.step for event in read.Scalars(key)] == list(range(1, 41)), f"steps of {key} differ")
    losses = [event.value for event in read.Scalars("step/main/loss")]
    for i, entry in enumerate(log):
        check(difference(np.mean(losses[10 * i:10 * i + 10]), entry["main/loss"]) < 1e-5, "the mean loss differs")
    paths = [f"predictor/l{layer}/{part}" for layer in (1, 2, 3) for part in "Wb"]
    for tag in [f"{kind}/{path}" for kind in ("weights", "gradients") for path in paths]:
        histograms = read.Histograms(tag)
        check([each.step for each in histograms] == list(range(5, 41, 5)), f"steps of {tag} differ")
        for each in histograms:
            counts = each.histogram_value
            check(sum(counts.bucket) == counts.num and len(counts.bucket) == len(counts.bucket_limit),
                  f"intervals of {tag} differ")
    with np.load(folder / "run/snapshot_iter_40") as saved:
        weights = saved["updater/model:main/predictor/l1/W"]
    last = read.Histograms("weights/predictor/l1/W")[-1].histogram_value
    expected, edges = np.histogram(weights, 64)
    check(np.allclose(edges[1:], last.bucket_limit) and np.abs(expected - last.bucket).sum() <= 4,
          "the histogram of weights differs from NumPy's")
    check(difference([last.sum, last.sum_squares], [weights.sum(dtype=float), (weights.astype(float)**2).sum()])
          < 1e-6, "the sums of weights differ")
    image = read.Images("validation/misclassified")[0]
    check(image.encoded_image_string.startswith(b"\x89PNG"), "the image is no PNG file")
    metadata = read.summary_metadata["_hparams_/session_start_info"]
    settings = plugin_data_pb2.HParamsPluginData.FromString(metadata.plugin_data.content).session_start_info.hparams
    check(settings["batchsize"].number_value == 48 and settings["optimizer"].string_value == "adam"
          and settings["quiet"].bool_value is False, "the settings differ")
    return f"{len(tags['scalars'])} scalars, {len(tags['histograms'])} histograms, images, settings equal"


@contextlib.contextmanager
def served(folder, load_fast):
    """A function that waits until the page of TensorBoard would show these steps of a tag."""
    server = subprocess.Popen(
        [sys.executable, "-W", "ignore", "-m", "tensorboard.main", "--logdir", str(folder), "--port", "0",
         "--load_fast", load_fast, "--reload_interval", "1", "--samples_per_plugin", "scalars=1000"],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    def shown(port, tag):
        address = f"http://127.0.0.1:{port}/data/plugin/scalars/scalars?run=tensorboard&tag={tag}"
        try:
            with urllib.request.urlopen(address) as answer:
                return [point[1] for point in json.load(answer)]
        except urllib.error.HTTPError:  # not yet loaded
            return []

    try:
        ports = (re.search(r"http://localhost:(\d+)/", line) for line in server.stdout)
        port = next((found[1] for found in ports if found), None)
        check(port, "TensorBoard did not start")

        def expect(tag, steps):
            deadline = time.monotonic() + 60
            while (found := shown(port, tag)) != steps:
                check(time.monotonic() < deadline, f"--load_fast {load_fast}: steps {found} of {tag}")
                time.sleep(0.5)
        yield expect
    finally:
        server.terminate()
        server.wait()


def tensorboard_pages(folder):
    """The server, with both of its readers, shows each step once, also if it runs while a run is resumed."""
    write_digits(folder / "data")
    for load_fast in ("true", "false"):
        shutil.rmtree(folder / "run", ignore_errors=True)
        steps_of_run(folder, "--epoch", "3")
        with served(folder / "run", load_fast) as expect:
            expect("step/main/loss", list(range(1, 31)))
            steps_of_run(folder, *RESUMED, folder / "run/snapshot_iter_20")
            expect("step/main/loss", list(range(1, 41)))
            expect("main/loss", [10, 20, 30, 40])
        with served(folder / "run", load_fast) as expect:
            expect("step/main/loss", list(range(1, 41)))
            expect("main/loss", [10, 20, 30, 40])
    return "40 of 40 steps"


# --- chainer ---

def chainer_cases(_):
    """Weights of all programs in Chainer, and Chainer's in the programs; steps of optimizers; layers."""
    said = run(ROOT / "scripts/check_chainer.sh", "--build", APPS.parent)
    cases = [(float(apart), f"{name}: {where}") for name, apart, where in re.findall(
        r"^(\w+): (\S+) \((.+)\), \S+ s$", said, re.MULTILINE)]
    check(cases, f"no result of a case in: {said}")
    largest, where = max(cases)
    return f"{len(cases)} cases, largest difference {largest:.0e} ({where})"


CHECKS = {"h5py": [h5py_arrays],
          "safetensors": [safetensors_bytes, safetensors_types],
          "torchvision": [torchvision_networks],
          "transformers": [transformers_gpt, transformers_gpt2],
          "onnx": [onnx_models],
          "onnxruntime": [runtime_results_of_networks],
          "tensorboard": [tensorboard_reader, tensorboard_pages],
          "chainer": [chainer_cases]}


def version_of(name):
    """The installed version, or "none". Chainer has a separate environment."""
    folders = APPS.parent.glob("chainer/lib/python*/site-packages") if name == "chainer" else sys.path
    found = importlib.metadata.distributions(name=name, path=[str(folder) for folder in folders])
    return next((each.version for each in found), "none")


def main():
    global APPS
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", default=list(CHECKS))
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    options = parser.parse_args()
    APPS = options.build.resolve() / "apps"
    names = options.names or list(CHECKS)
    unknown = [name for name in names if name not in CHECKS]
    if unknown:
        parser.exit(64, f"check_clients: unknown check '{unknown[0]}'; expected one of "
                        f"{', '.join(CHECKS)}\n")
    print("| program | version | check | result |\n|---|---|---|---|")
    failed = False
    for name in names:
        for each in CHECKS[name]:
            with tempfile.TemporaryDirectory() as folder:
                try:
                    result = each(pathlib.Path(folder))
                except Exception as error:  # of any kind: the others are still checked
                    traceback.print_exc()
                    result, failed = f"**failed**: {error}", True
            print(f"| {name} | {version_of(name)} | {each.__doc__} | {result} |", flush=True)
    sys.exit(failed)


if __name__ == "__main__":
    main()
