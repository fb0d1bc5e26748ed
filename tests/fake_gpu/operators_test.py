"""LibTorch's operators on fake GPUs that compute have the numbers of the CPU's. PyTorch is the program."""

import subprocess
import sys

import fake_gpu

COMPARED = """
import torch
from torch.nn import functional as F

torch.manual_seed(1)

def compare(name, function, *tensors, bound=1e-6):
    results = [function(*(t.to(device) for t in tensors)) for device in ("cpu", "cuda")]
    cpu, gpu = ([r] if torch.is_tensor(r) else list(r) for r in results)
    assert len(cpu) == len(gpu), name
    for a, b in zip(cpu, gpu):
        b = b.cpu()
        assert a.shape == b.shape and a.dtype == b.dtype, (name, a.shape, b.shape, a.dtype, b.dtype)
        a, b = a.double(), b.double()
        torch.testing.assert_close(b, a, rtol=0, atol=bound * max([1.0, *a.abs().flatten().tolist()]), msg=lambda text: name + ": " + text)

x, w, m = torch.randn(4, 3, 16, 16), torch.randn(6, 3, 3, 3), torch.randn(5, 5)
compare("in place", lambda a: a.clone().add_(1).mul_(a), m)
compare("broadcast", lambda a: a + a[0] * 2 - a[:, :1], m)
compare("out with another shape", lambda a: torch.add(a, a, out=torch.empty(0, device=a.device)), m)
compare("data-dependent shape", lambda a: torch.nonzero(a > 0), m)
compare("several results", lambda a: torch.sort(a, dim=1), m)
compare("index", lambda a: a[torch.tensor([3, 1])], m)
compare("index with a mask", lambda a: a[a > 0], m)
compare("list", lambda a: torch._foreach_add([a, a * 2], 1.5), m)
compare("a scalar of the host", lambda a: a * torch.tensor(3.0) + 2, m)
compare("no elements", lambda a: a[:0] + 1, m)
compare("strides", lambda a: a.t().contiguous() + a.t(), m)
compare("convolution", lambda a, b: F.conv2d(a, b, padding=1, stride=2), x, w)
compare("channels last", lambda a, b: F.conv2d(a.contiguous(memory_format=torch.channels_last), b), x, w)
compare("transposed", lambda a, b: F.conv_transpose2d(a, b, stride=2, output_padding=1), torch.randn(2, 6, 5, 5), w)
compare("groups", lambda a: F.conv2d(a, torch.ones(3, 1, 3, 3, device=a.device), groups=3), x)
for kind in (torch.float16, torch.bfloat16):
    compare("narrow", lambda a: (a.to(kind) @ a.to(kind)).float(), m, bound=1e-2)

def trained(device, kind, optimizer, amp=None):
    torch.manual_seed(2)
    network = torch.nn.ModuleDict(dict(
        c=torch.nn.Conv2d(3, 6, 3), n=torch.nn.BatchNorm2d(6), l=torch.nn.Linear(6 * 49, 8), r=torch.nn.LSTM(8, 7, batch_first=True),
        s=torch.nn.LSTMCell(7, 5), o=torch.nn.Linear(5, 3))).to(device, kind)
    update = optimizer(network.parameters())
    inputs, classes = x.to(device, kind), torch.tensor([0, 2, 1, 0], device=device)
    losses = []
    for _ in range(4):
        update.zero_grad()
        with torch.autocast(device, dtype=amp or torch.bfloat16, enabled=amp is not None):
            y = F.max_pool2d(F.relu(network["n"](network["c"](inputs))), 2).flatten(1)
            y, _ = network["r"](network["l"](y)[:, None])
            h, _ = network["s"](y[:, 0])
            loss = F.cross_entropy(network["o"](h), classes, label_smoothing=0.1)
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(network.parameters(), 0.5)
        update.step()
        losses += [loss.item(), norm.item()]
    return losses

optimizers = [lambda p: torch.optim.AdamW(p, 1e-2, fused=True), lambda p: torch.optim.AdamW(p, 1e-2, foreach=True),
              lambda p: torch.optim.SGD(p, 1e-2, momentum=0.9, nesterov=True, foreach=False)]
for optimizer in optimizers:
    for kind, bound in ((torch.float64, 1e-9), (torch.float32, 1e-3)):
        cpu, gpu = (trained(device, kind, optimizer) for device in ("cpu", "cuda"))
        assert all(abs(a - b) <= bound * abs(a) for a, b in zip(cpu, gpu)), (cpu, gpu)
cpu, gpu = (trained(device, torch.float32, optimizers[0], torch.bfloat16) for device in ("cpu", "cuda"))
assert abs(cpu[0] - gpu[0]) < 2e-2 * cpu[0], (cpu, gpu)
"""
NOT_COMPUTED = "import torch; torch.ones(1, device='cuda'); torch.cuda._sleep(100)"


def python(text, **settings):
    env = fake_gpu.environment(gpu_numbers=fake_gpu.OPERATORS, **settings)
    return subprocess.run([sys.executable, "-c", text], env=env, capture_output=True, text=True, timeout=180)


def operators_compute_as_on_the_cpu(folder):
    for order in [{}, {"gpu_order": 0}, {"gpu_order": 5}]:
        done = python(COMPARED, **order)
        assert done.returncode == 0, done.stderr


def a_kernel_that_is_not_computed_ends_the_process(folder):
    done = python(NOT_COMPUTED)
    assert done.returncode != 0 and "fake GPU: not computed: at::cuda::" in done.stderr, done.stderr


if __name__ == "__main__":
    fake_gpu.main([operators_compute_as_on_the_cpu, a_kernel_that_is_not_computed_ends_the_process])
