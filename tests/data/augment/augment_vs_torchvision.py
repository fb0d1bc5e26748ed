"""Compares the augmentation with torchvision's transforms for the same factors. Usage: augment_vs_torchvision.py AUGMENT_TOOL"""

import pathlib
import subprocess
import sys
import tempfile

import numpy
import torch
import torchvision.transforms.functional as F

TOLERANCE = 2 / 255

torch.set_num_threads(1)
image = numpy.random.default_rng(1).integers(0, 256, (48, 64, 3), dtype=numpy.uint8)
smooth = numpy.stack(numpy.meshgrid(numpy.arange(64) * 4, numpy.arange(48) * 5), -1)
image[..., :2] = image[..., :2] // 4 + smooth * 3 // 4  # noise alone would hide what a wrong place does
worst = {}


def check(name, expected, side, rectangle=(0, 8, 48, 48), flip=0, brightness=1, contrast=1, saturation=1, hue=0, where=None):
    with tempfile.TemporaryDirectory() as folder:
        source, result = pathlib.Path(folder, "in"), pathlib.Path(folder, "out")
        source.write_bytes(image.tobytes())
        numbers = [flip, *rectangle, brightness, contrast, saturation, hue]
        subprocess.run([sys.argv[1], source, "48", "64", str(side), result, *map(str, numbers)], check=True)
        got = torch.from_numpy(numpy.fromfile(result, dtype=numpy.float32)).view(side, side, 3).permute(2, 0, 1)
    difference = (got - expected).abs()
    worst[name] = max(worst.get(name, 0), (difference if where is None else difference[:, where]).max().item())


def inside(extent, side):
    """Output places that read between two pixels of the crop: at its border torchvision repeats it, dtrain reads on."""
    at = (torch.arange(side) + 0.5) * extent / side - 0.5
    return (at >= 0) & (at <= extent - 1)


pixels = torch.from_numpy(image).permute(2, 0, 1).float() / 255
square = pixels[:, :, 8:56]
check("plain", square, 48)
check("flip", F.hflip(square), 48, flip=1)
for factor in (0.0, 0.3, 0.8, 1.2, 2.0):
    check("brightness", F.adjust_brightness(square, factor), 48, brightness=factor)
    check("contrast", F.adjust_contrast(square, factor), 48, contrast=factor)
    check("saturation", F.adjust_saturation(square, factor), 48, saturation=factor)
for turn in (-0.5, -0.3, -0.02, 0.02, 0.1, 0.5):
    check("hue", F.adjust_hue(square, turn), 48, hue=turn)
for side in (33, 80):
    whole = F.resize(pixels, [side, side], F.InterpolationMode.BILINEAR, antialias=False)
    check("resize", whole, side, rectangle=(0, 0, 48, 64))
for y, x, height, width in ((0, 8, 48, 36), (5, 3, 20, 31), (11, 0, 37, 64), (30, 40, 7, 9)):
    for side in (24, 48):
        cut = F.resized_crop(pixels, y, x, height, width, [side, side], F.InterpolationMode.BILINEAR, antialias=False)
        where = inside(height, side)[:, None] & inside(width, side)
        assert where.float().mean() > 0.5
        check("crop", cut, side, rectangle=(y, x, height, width), where=where)
center = F.center_crop(pixels, [42, 42])  # of 48: a share of 0.875, no resampling
check("center", center, 42, rectangle=(3, 11, 42, 42))
if worst["center"] > 1e-6:
    sys.exit(f"the center crop was resampled: {worst['center']:.1e}")
chain = F.adjust_hue(F.adjust_saturation(F.adjust_contrast(F.adjust_brightness(F.hflip(square), 1.3), 0.7), 1.4), 0.05)
check("all", chain, 48, flip=1, brightness=1.3, contrast=0.7, saturation=1.4, hue=0.05)

bad = {name: value for name, value in worst.items() if not value <= TOLERANCE}
print("largest difference:", ", ".join(f"{name} {value:.1e}" for name, value in worst.items()))
if bad:
    sys.exit(f"more than {TOLERANCE:.1e}: {bad}")
