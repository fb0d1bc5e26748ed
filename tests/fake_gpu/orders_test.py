"""Work that a GPU may do later is done later: what a program must wait for shows as a wrong number, where it does not. PyTorch is the
program."""

import subprocess
import sys

import fake_gpu

PROGRAMS = {
    # What the host reads without waiting has not been copied.
    "copy to the host": """
a = torch.ones(1000, device="cuda") * 2
out = torch.zeros(1000, pin_memory=True)
out.copy_(a, non_blocking=True)
{wait}
print(out.sum().item() == 2000)""",
    # Pinned memory that is written before it has been copied.
    "copy from the host": """
host = torch.ones(1000).pin_memory()
a = host.to("cuda", non_blocking=True)
{wait}
host.fill_(5)
print(a.sum().item() == 1000)""",
    # A stream that reads what another one writes.
    "read after write": """
side = torch.cuda.Stream()
a = torch.ones(1000, device="cuda") * 3
with torch.cuda.stream(side):
    {wait_of_side}
    b = a * 2
side.synchronize()
print(b.sum().item() == 6000)""",
    # And one that writes what another one still reads.
    "write after read": """
side = torch.cuda.Stream()
a = torch.ones(1000, device="cuda")
torch.cuda.synchronize()
b = a * 2
with torch.cuda.stream(side):
    {wait_of_side}
    a.fill_(7)
side.synchronize()
print(b.sum().item() == 2000)""",
    # Memory that is given back while another stream uses it.
    "free": """
side = torch.cuda.Stream()
a = torch.ones(1000, device="cuda")
torch.cuda.synchronize()
with torch.cuda.stream(side):
    b = a * 2
    {record}
del a
c = torch.ones(1, device="cuda").sum().item()
side.synchronize()
print(b.sum().item() == 2000)""",
}
# The memory of one tensor becomes that of the next. NaN must be written to it before the next one is, also where the operator is computed
# at once, because its shape depends on numbers. The last use is on another stream: the allocator asks now and then whether it is over.
REUSE = """
import torch
side = torch.cuda.Stream()
a = torch.ones(1000, dtype=torch.float64, device="cuda")  # of the size of indices
wrong = 0
for i in range(40):
    b = a * 2
    side.wait_stream(torch.cuda.current_stream())
    b.record_stream(side)
    with torch.cuda.stream(side):
        c = b * 2
    del b
    others = [torch.empty(1, device="cuda") for _ in range(i % 7)]
    d = torch.nonzero(a)
    wrong += d.sum().item() != 499500
print(wrong == 0)"""
WAITS = {"wait": "torch.cuda.synchronize()", "wait_of_side": "side.wait_stream(main)", "record": "a.record_stream(side)"}


def run(program, order):
    """Whether each number that it prints is right."""
    env = fake_gpu.environment(gpu_numbers=fake_gpu.OPERATORS, gpu_order=order)
    done = subprocess.run([sys.executable, "-c", program], env=env, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return [line == "True" for line in done.stdout.split()]


def answers(waits, order):
    """Whether each program has the right number."""
    lines = {name: line if waits else "pass" for name, line in WAITS.items()}
    text = "\n".join(["import torch", "main = torch.cuda.current_stream()", *(program.format(**lines) for program in PROGRAMS.values())])
    return dict(zip(PROGRAMS, run(text, order), strict=True))


def waits_make_numbers_right(folder, orders=fake_gpu.SOME_ORDERS):
    for order in orders:
        assert all(answers(True, order).values()), (order, answers(True, order))


def a_wait_that_is_missing_makes_one_wrong(folder):
    right = [answers(False, order) for order in fake_gpu.ORDERS]
    assert not [name for name in PROGRAMS if all(one[name] for one in right)], right


def memory_that_is_reused_becomes_nan_first(folder, orders=fake_gpu.SOME_ORDERS):
    for order in orders:
        assert run(REUSE, order) == [True], order


def other_orders_do_the_same(folder):
    waits_make_numbers_right(folder, fake_gpu.OTHER_ORDERS)
    memory_that_is_reused_becomes_nan_first(folder, fake_gpu.OTHER_ORDERS)


if __name__ == "__main__":
    fake_gpu.main([waits_make_numbers_right, a_wait_that_is_missing_makes_one_wrong, memory_that_is_reused_becomes_nan_first],
                  [other_orders_do_the_same])
