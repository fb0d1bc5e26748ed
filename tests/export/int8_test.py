"""INT8 of each image network that was trained for a short time is as accurate as float32, in dtrain and in onnxruntime.

usage: int8_test.py [NETWORK]...
"""

import os
import sys
from concurrent.futures import ThreadPoolExecutor

from export_test import classes, exported_twice, test_split, trained_classifier
from networks import session

import runner

SAMPLES = 9000

# Without the augmentations that take longest to learn, and on one thread: as many networks are trained at a time as there are cores.
COMMON = {"augment.crop_scale": 1, "augment.hue": 0, "device.threads": 1, "data.share": 0.3333, "train.eval_every": "99epochs"}
# What trains each network in a minute or two; the top-1 in percent that it must reach (chance is 10); and how many points INT8 may lose. A network
# that is trained less has more samples near a border: a tenth of the 900 in the test split may change sides, most of them by chance.
NETWORKS = {
    "simple_cnn": ({"train.epochs": 6}, 80, 1),
    "resnet18": ({"train.epochs": 4}, 80, 1),
    "resnet50": ({"train.epochs": 3}, 45, 3),
    "mobilenet_v2": ({"train.epochs": 8}, 45, 3),
}


def top1(file, images, targets):
    return 100 * (session(file).run(["logits"], {"images": images})[0].argmax(1) == targets).mean()


def check_the_bound(run, network, data, folder):
    _, floor, bound = NETWORKS[network]
    before, after = exported_twice(run, folder, "calibrated on 64 samples of the val split", "top-1 on 900 samples of the test split", "points")
    images, targets = test_split(data)
    float32, int8 = (top1(folder / file, images, targets) for file in ("m.onnx", "i.onnx"))
    print(f"        {network}: dtrain {before:.2f} % and {after:.2f} %, onnxruntime {float32:.2f} % and {int8:.2f} %")
    assert before > floor, f"{network}, {before} %: not really trained, so it says little of INT8"
    assert abs(float32 - before) < 0.5 and abs(int8 - after) < 1.1, f"{network}: onnxruntime disagrees"  # a few samples
    assert after > before - bound - 0.01 and int8 > float32 - bound - 0.01, f"INT8 of {network} loses more than {bound} points"


def int8_is_almost_as_accurate(folder):
    data, networks = classes(folder, SAMPLES), sys.argv[1:] or list(NETWORKS)
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        runs = list(pool.map(lambda network: trained_classifier(folder, network, **COMMON, **NETWORKS[network][0]), networks))
    for run, network in zip(runs, networks):
        (folder / network).mkdir()
        check_the_bound(run, network, data, folder / network)


runner.main([int8_is_almost_as_accurate])
