"""kernel_memory_test.py NVCC TORCH_INCLUDE: kernels keep their values in registers. What the compiler keeps in a stack or
spills is in the memory of the GPU, and an array that it indexes with a value of the data always is."""
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

SOURCE = pathlib.Path(os.environ["DTRAIN_SOURCE"])
NVCC, TORCH_INCLUDE = sys.argv[1:3]
ENTRY = re.compile(r"Compiling entry function '(\S+)'.*?(\d+) bytes stack frame, (\d+) bytes spill stores", re.DOTALL)


def stacks(report):
    """Of each kernel in what ptxas says: its name, and the bytes of its stack and of what it spills."""
    return {name: int(stack) + int(spilled) for name, stack, spilled in ENTRY.findall(report)}


class Kernels(unittest.TestCase):
    def test_of_batch_norm_have_no_stack(self):
        with tempfile.TemporaryDirectory() as folder:
            done = subprocess.run(
                [NVCC, "-cubin", "-Xptxas", "-v", "-arch=sm_86", "-std=c++20", "--fmad=false", f"-I{SOURCE}", f"-I{SOURCE}/src",
                 "-isystem", TORCH_INCLUDE, f"{SOURCE}/src/kernels/batch_norm_launch.cu", "-o", f"{folder}/kernels.cubin"],
                capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        found = stacks(done.stderr)
        self.assertGreater(len(found), 40, done.stderr[:2000])
        self.assertFalse({name: size for name, size in found.items() if size > 0})

    def test_a_stack_is_found(self):
        report = ("ptxas info    : Compiling entry function '_Z1fv' for 'sm_86'\nptxas info    : Function properties for _Z1fv\n"
                  "    32 bytes stack frame, 12 bytes spill stores, 12 bytes spill loads\n")
        self.assertEqual(stacks(report), {"_Z1fv": 44})


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
