"""dtrain's HDF5 files for a DataLoader, for peer_train.py: the training split, in batches without end and without augmentation.

Images are read from the file one by one, as h5py users do. Sequences and sets, which are small, are held in memory.
Batches are drawn at random; `grouped` sorts each epoch by length and draws batches of neighbors, `exact` gives each batch one length.
"""

import random

import h5py
import numpy
import torch
from torch.utils.data import Dataset, get_worker_info

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


class Images(Dataset):
    def __init__(self, path, channels_last):
        self.path, self.channels_last, self.file = path, channels_last, None
        with h5py.File(path) as file:
            self.ids = file["splits/train"][:]
            self.size = file["inputs"].shape[1]
            self.targets = torch.from_numpy(file["targets"][:])
            self.classes = len(file.attrs["class_names"].decode().split("\n")) if "class_names" in file.attrs else 0
        self.lengths = None

    def __len__(self):
        return len(self.ids)

    def __getitem__(self, index):
        if self.file is None:  # once in each process
            self.file = h5py.File(self.path)
            self.inputs = self.file["inputs"]
        at = self.ids[index]
        return torch.from_numpy(self.inputs[at]), self.targets[at]

    def collate(self, samples):
        images = torch.stack([image for image, _ in samples]).permute(0, 3, 1, 2)  # as stored, which is channels_last
        if not self.channels_last:
            images = images.contiguous()
        images = images.float().div_(255).sub_(torch.tensor(MEAN).view(3, 1, 1)).div_(torch.tensor(STD).view(3, 1, 1))
        return images, torch.stack([target for _, target in samples])


class Rows(Dataset):
    """Sequences with a class, or sets with an order."""

    def __init__(self, path):
        with h5py.File(path) as file:
            self.ids = file["splits/train"][:]
            self.offsets = file["inputs/offsets"][:]
            self.values = torch.from_numpy(file["inputs/values"][:])
            self.is_order = "targets/values" in file
            self.targets = torch.from_numpy(file["targets/values" if self.is_order else "targets"][:])
            self.classes = len(file.attrs["class_names"].decode().split("\n")) if "class_names" in file.attrs else 0
        self.features = self.values.shape[1]
        self.lengths = numpy.diff(self.offsets)[self.ids]

    def __len__(self):
        return len(self.ids)

    def __getitem__(self, index):
        at = self.ids[index]
        rows = slice(self.offsets[at], self.offsets[at + 1])
        return self.values[rows], self.targets[rows] if self.is_order else self.targets[at]

    def collate(self, samples):
        pad = torch.nn.utils.rnn.pad_sequence
        rows, targets = zip(*samples)
        lengths = torch.tensor([len(each) for each in rows])
        return pad(rows, batch_first=True), lengths, pad(targets, batch_first=True) if self.is_order else torch.stack(targets)


class Batches:
    """Lists of sample numbers for one rank, epoch after epoch. All ranks draw the same and take every world-th sample."""

    def __init__(self, data, batch, rank, world, order="shuffled", seed=0):
        self.data, self.total, self.rank, self.world, self.order, self.seed = data, batch * world, rank, world, order, seed

    def __iter__(self):
        draws = random.Random(self.seed)
        while True:
            ids = list(range(len(self.data)))
            draws.shuffle(ids)
            for batch in self.batches(ids, draws):
                yield batch[self.rank::self.world]

    def batches(self, ids, draws):
        if self.order == "shuffled":
            return self.cut(ids)
        lengths = self.data.lengths
        ids.sort(key=lambda i: lengths[i])
        if self.order == "exact":
            of_length = {}
            for i in ids:
                of_length.setdefault(lengths[i], []).append(i)
            batches = [batch for same in of_length.values() for batch in self.cut(same)]
        else:
            batches = self.cut(ids)
        draws.shuffle(batches)
        return batches

    def cut(self, ids):
        return [ids[i:i + self.total] for i in range(0, len(ids) - self.total + 1, self.total)]


def prepare_worker(_):
    torch.set_num_threads(1)
    get_worker_info().dataset.file = None


def open_data(path, channels_last):
    with h5py.File(path) as file:
        ragged = isinstance(file["inputs"], h5py.Group)
    return Rows(path) if ragged else Images(path, channels_last)
