"""A function that LibTorch may call and the fake does not have ends the process, with its name."""

import subprocess
import sys

import fake_gpu

CALL = "import ctypes, sys; ctypes.CDLL(sys.argv[1])[sys.argv[2]]()"


def a_function_that_the_fake_does_not_have_is_named(folder):
    for library, function in [("libcudart.so.13", "cudaGraphDebugDotPrint"), ("libcudnn.so.9", "cudnnCTCLoss"), ("libcuda.so.1", "cuLaunchKernel")]:
        done = subprocess.run([sys.executable, "-c", CALL, fake_gpu.FOLDER / library, function], env=fake_gpu.environment(),
                              capture_output=True, text=True)
        assert done.returncode < 0, done
        assert f"fake GPU: {function} was called, and the fake does not have it" in done.stderr, done.stderr


if __name__ == "__main__":
    fake_gpu.main([a_function_that_the_fake_does_not_have_is_named])
