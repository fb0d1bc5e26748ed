"""dtrain's own networks for images in Python, with its names of parameters."""

from torch import nn


def headpose_cnn(outputs):
    def block(i, o):
        return nn.Sequential(nn.Conv2d(i, o, 3, padding=1, bias=False), nn.BatchNorm2d(o), nn.ReLU(), nn.MaxPool2d(2))

    class HeadposeCnn(nn.Module):
        def __init__(self):
            super().__init__()
            widths = [3, 32, 64, 128, 256, 512]
            self.features = nn.Sequential(*[block(i, o) for i, o in zip(widths, widths[1:])])
            self.fc = nn.Sequential(nn.Linear(512, 256), nn.ReLU(), nn.Linear(256, outputs))

        def forward(self, x):
            return self.fc(self.features(x).mean((2, 3)))

    return HeadposeCnn()


def simple_cnn(outputs, size=64, dropout=0.5):
    class SimpleCnn(nn.Module):
        def __init__(self):
            super().__init__()
            widths = [3, 32, 64, 128]
            self.features = nn.Sequential(*[nn.Sequential(nn.Conv2d(i, o, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2))
                                            for i, o in zip(widths, widths[1:])])
            self.fc = nn.Sequential(nn.Linear(128 * (size // 8) ** 2, 256), nn.ReLU(), nn.Dropout(dropout), nn.Linear(256, outputs))

        def forward(self, x):
            return self.fc(self.features(x).flatten(1))

    return SimpleCnn()
