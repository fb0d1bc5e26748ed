"""INT8 of each image network that was trained for a short time is as accurate as float32, in dtrain and in onnxruntime.

usage: int8_test.py [NETWORK]...
"""

import sys

from export_test import classes, exported_twice, test_split, trained_classifier
from networks import session

import runner

SAMPLES = 3000

# Without the augmentations that take longest to learn, and on one thread, which suffers least on a busy machine.
COMMON = {"augment.crop_scale": 1, "augment.hue": 0, "device.threads": 1}
# What trains each network in a minute or two; the top-1 in percent that it must reach (chance is 10); and how many points INT8 may lose. Of the 300
# samples of the test split a network that is trained less has more samples near a border.
NETWORKS = {
    "simple_cnn": ({"train.epochs": 6}, 80, 1),
    "resnet18": ({"train.epochs": 4}, 80, 1),
    "resnet50": ({"train.epochs": 3}, 45, 2),
    "mobilenet_v2": ({"train.epochs": 8}, 45, 2),
}


def top1(file, images, targets):
    return 100 * (session(file).run(["logits"], {"images": images})[0].argmax(1) == targets).mean()


def within_the_bound(network):
    def test(folder):
        data = classes(folder, SAMPLES)
        options, floor, bound = NETWORKS[network]
        run = trained_classifier(folder, network, **COMMON, **options)
        before, after = exported_twice(run, folder, "calibrated on 64 samples of the val split", "top-1 on 300 samples of the test split", "points")
        images, targets = test_split(data)
        float32, int8 = (top1(folder / file, images, targets) for file in ("m.onnx", "i.onnx"))
        print(f"        {network}: dtrain {before:.2f} % and {after:.2f} %, onnxruntime {float32:.2f} % and {int8:.2f} %")
        assert before > floor, f"{before} %: not really trained, so it says little of INT8"
        assert abs(float32 - before) < 0.5 and abs(int8 - after) < 1.1, "onnxruntime disagrees"  # one and three samples
        assert after > before - bound - 0.01 and int8 > float32 - bound - 0.01, f"INT8 loses more than {bound} points"

    test.__name__ = f"int8_of_{network}_is_almost_as_accurate"
    return test


runner.main([within_the_bound(network) for network in sys.argv[1:] or NETWORKS])
