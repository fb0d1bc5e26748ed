"""Writes a C++ source with a stub for each symbol that LibTorch needs of a CUDA library and that no object defines.

A stub whose name no pattern fits ends the process with its name: a new LibTorch may need what the fake does not know.

usage: stubs.py --out FILE --symbols REGEX --needed-by LIB... --defined-by OBJECT... [--KIND REGEX]...
  --creates   f(T** object): makes an object, which nothing reads
  --destroys  f(T* object)
  --succeeds  does nothing
  --launches  f(T* handle, ...): counts a launch on the handle's stream, fake_gpu_launch_of(handle, name)
"""

import argparse
import re
import subprocess

KINDS = {
    "creates": "int {0}(void** object) {{ *object = std::calloc(1, 64); return 0; }}",
    "destroys": "int {0}(void* object) {{ std::free(object); return 0; }}",
    "succeeds": "int {0}() {{ return 0; }}",
    "launches": 'int {0}(void* handle) {{ return fake_gpu_launch_of(handle, "{0}"); }}',
}
TRAP = 'int {0}() {{ return fake_gpu_trap("{0}"); }}'

HEAD = """// Made by stubs.py.
#include <cstdio>
#include <cstdlib>

extern "C" {

[[maybe_unused]] static int fake_gpu_trap(const char* name) {
  std::fprintf(stderr, "fake GPU: %s was called, and the fake does not have it\\n", name);
  std::abort();
}
int fake_gpu_launch_of(void* handle, const char* name);

"""


def symbols(file, *options):
    lines = subprocess.run(["nm", *options, file], capture_output=True, text=True, check=True).stdout.splitlines()
    return {line.split()[-1].split("@")[0] for line in lines if line.split()}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", required=True)
    parser.add_argument("--symbols", required=True)
    parser.add_argument("--needed-by", nargs="+", required=True)
    parser.add_argument("--defined-by", nargs="*", default=[])
    for kind in KINDS:
        parser.add_argument("--" + kind)
    options = parser.parse_args()
    needed = set().union(*(symbols(file, "-D", "--undefined-only") for file in options.needed_by))
    defined = set().union(*(symbols(file, "--defined-only") for file in options.defined_by))
    chosen = sorted(name for name in needed - defined if re.match(options.symbols, name))
    with open(options.out, "w") as out:
        out.write(HEAD)
        for name in chosen:
            kind = next((kind for kind in KINDS if re.fullmatch(getattr(options, kind) or "$^", name)), None)
            out.write(KINDS.get(kind, TRAP).format(name) + "\n")
        out.write('\n}  // extern "C"\n')


if __name__ == "__main__":
    main()
