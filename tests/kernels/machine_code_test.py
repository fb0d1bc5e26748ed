"""The machine code of every kernel, for every GPU that the build is for. Values are in registers: what is in a stack or spilled is
in the memory of the GPU. There are at most 96 registers, so that a multiprocessor runs several blocks at a time. Kernels whose layout
allows it load and store 16 bytes at a time. `--list` prints what was read."""
import dataclasses
import os
import pathlib
import re
import shutil
import subprocess
import sys
import sysconfig
import unittest

import runner

BUILD = pathlib.Path(os.environ["DTRAIN_BUILD"])
SOURCES = sorted(runner.SOURCE.glob("src/**/*.cu"))
MOST_REGISTERS = 96
# Kernels whose threads take packs of 16 bytes, and the packs that a visit loads and stores. Batch norm's packs have 4 elements of `float`,
# 8 of the others; there are the passes of TensorPass, with pooling or not.
PACKS = r"TensorKernel<(float, 4|c10::\w+, 8), {pooled}, \(TensorPass\){number}>"
WIDE = [(PACKS.format(pooled=pooled, number=number), loads, stores) for pooled, number, loads, stores in [
    ("false", 0, 1, 0),  # kSums: x
    ("false", 1, 2, 1),  # kNormalize: x and residual; out
    ("false", 2, 3, 1),  # kGradientSums: x, dy and y; out
    ("false", 3, 2, 1),  # kInputGradient: x and dy; out
    ("true", 1, 4, 1),   # of windows of 4
    ("true", 2, 5, 0),
    ("true", 3, 5, 4),
]] + [("^multiply$", 1, 1)]  # of unscale.cu


@dataclasses.dataclass
class Kernel:
    gpu: str
    name: str
    registers: int
    stack: int  # bytes, with what is spilled
    local: int = 0  # instructions that use it
    loads: int = 0  # of 16 bytes
    stores: int = 0


def resources(text):
    """The kernels in what `cuobjdump --dump-resource-usage` says, by GPU and mangled name."""
    found, gpu, name = {}, "", ""
    for line in text.splitlines():
        if match := re.match(r"arch = (\S+)", line):
            gpu = match[1]
        elif match := re.match(r" Function (\S+):$", line):
            name = match[1]
        elif match := re.match(r"  REG:(\d+) STACK:(\d+) .*\bLOCAL:(\d+)", line):
            found[gpu, name] = Kernel(gpu, name, int(match[1]), int(match[2]) + int(match[3]))
    return found


def count_accesses(lines, kernels):
    """Adds to kernels what `cuobjdump --dump-sass` says."""
    gpu, kernel = "", None
    for line in lines:
        if match := re.match(r"arch = (\S+)", line):
            gpu = match[1]
        elif match := re.match(r"\s+Function : (\S+)", line):
            kernel = kernels[gpu, match[1]]
        elif match := re.match(r"\s+/\*[0-9a-f]+\*/\s+(?:@!?U?P\w+ )?\s*(LDL?G?|STL?G?)((?:\.\w+)*) ", line):
            wide = ".128" in match[2]
            kernel.local += match[1] in ("LDL", "STL")
            kernel.loads += wide and match[1] in ("LD", "LDG")
            kernel.stores += wide and match[1] in ("ST", "STG")


def demangled(names):
    """Without namespaces and parameters."""
    done = subprocess.run(["c++filt", "-p"], input="\n".join(names), capture_output=True, text=True, check=True)
    return [re.sub(r"\bdtrain::(?:\w+::|\(anonymous namespace\)::)*", "", name) for name in done.stdout.splitlines()]


def widths(name):
    """The loads and stores of 16 bytes that a kernel must have at least."""
    return next(((loads, stores) for pattern, loads, stores in WIDE if re.search(pattern, name)), (0, 0))


def problems(kernel):
    loads, stores = widths(kernel.name)
    lacks = [f"{kernel.stack} bytes of stack or spills, {kernel.local} instructions for them"] if kernel.stack or kernel.local else []
    lacks += [f"{kernel.registers} registers"] if kernel.registers > MOST_REGISTERS else []
    lacks += [f"{kernel.loads} loads of 16 bytes, not {loads}"] if kernel.loads < loads else []
    lacks += [f"{kernel.stores} stores of 16 bytes, not {stores}"] if kernel.stores < stores else []
    return [f"{kernel.gpu}: {kernel.name}: {lack}" for lack in lacks]


def cuobjdump(option, file):
    """cuobjdump asks nvdisasm, which it looks for in PATH."""
    path = f"{sysconfig.get_path('purelib')}/nvidia/cu13/bin:{os.environ['PATH']}"
    missing = [tool for tool in ("cuobjdump", "nvdisasm") if not shutil.which(tool, path=path)]
    if missing:
        raise AssertionError(f"there is no {' and no '.join(missing)}: run launch/bootstrap --tests")
    done = subprocess.run([shutil.which("cuobjdump", path=path), option, file], capture_output=True, text=True, check=False,
                          env={**os.environ, "PATH": path})
    if done.returncode != 0:
        raise AssertionError(f"{file}: {done.stderr}")
    return done.stdout


def kernels_in(file):
    """The kernels of an object file. Its machine code is read if there are accesses of 16 bytes to count: without a stack it has no
    others that matter, and reading takes seconds."""
    found = resources(cuobjdump("--dump-resource-usage", file))
    names = demangled([kernel.name for kernel in found.values()])
    if any(widths(name) != (0, 0) for name in names):
        count_accesses(cuobjdump("--dump-sass", file).splitlines(), found)
    return [dataclasses.replace(kernel, name=name) for kernel, name in zip(found.values(), names)]


def objects():
    """The object file of each .cu of the project, which must be one."""
    return {source: list((BUILD / "src").rglob(f"{source.name}.o")) for source in SOURCES}


MADE_KERNEL = "run<TensorKernel<c10::Half, 8, false, (TensorPass)3> >"
RESOURCES = """
Fatbin elf code:
================
arch = sm_90
code version = [1,8]

Resource usage:
 Common:
  GLOBAL:0
 Function good:
  REG:96 STACK:0 SHARED:1024 LOCAL:0 CONSTANT[0]:416 TEXTURE:0 SURFACE:0 SAMPLER:0
 Function spills:
  REG:40 STACK:8 SHARED:0 LOCAL:0 CONSTANT[0]:416 TEXTURE:0 SURFACE:0 SAMPLER:0
 Function large:
  REG:128 STACK:0 SHARED:0 LOCAL:0 CONSTANT[0]:416 TEXTURE:0 SURFACE:0 SAMPLER:0
 Function narrow:
  REG:40 STACK:0 SHARED:0 LOCAL:0 CONSTANT[0]:416 TEXTURE:0 SURFACE:0 SAMPLER:0
"""
INSTRUCTION = "        /*0a00*/                   {} ;      /* 0x0000001204007986 */\n"
SASS = "arch = sm_90\n" + "".join(f"\t\tFunction : {name}\n" + "".join(map(INSTRUCTION.format, instructions)) for name, instructions in {
    "good": ["LDG.E.128.SYS R4, [R2]", "@!P0 LDG.E.128 R8, desc[UR4][R2.64]", "@P1 STG.E.128 desc[UR20][R24.64], R20", "LDS.128 R4, [R2]"],
    "spills": ["STL.64 [R1], R18", "LDL.64 R4, [R1]"],
    "large": ["LDGSTS.E.BYPASS.128 [R5], [R2.64]", "BRA 0x128"],
    "narrow": ["LD.E.128 R4, [R2.64]", "LDG.E.64 R2, [R2.64]", "STG.E.64 [R2.64], R4", "STS.128 [R5], R4"],
}.items())


class Reading(unittest.TestCase):
    def test_what_is_wrong_is_found(self):
        found = resources(RESOURCES)
        count_accesses(SASS.splitlines(), found)
        kernels = {kernel.name: kernel for kernel in found.values()}
        self.assertEqual([(kernel.loads, kernel.stores, kernel.local) for kernel in kernels.values()],
                         [(2, 1, 0), (0, 0, 2), (0, 0, 0), (1, 0, 0)])
        self.assertEqual(problems(dataclasses.replace(kernels["good"], name=MADE_KERNEL)), [])
        self.assertEqual(problems(kernels["spills"]), ["sm_90: spills: 8 bytes of stack or spills, 2 instructions for them"])
        self.assertEqual(problems(kernels["large"]), ["sm_90: large: 128 registers"])
        self.assertEqual(problems(dataclasses.replace(kernels["narrow"], name=MADE_KERNEL)),
                         [f"sm_90: {MADE_KERNEL}: 1 loads of 16 bytes, not 2", f"sm_90: {MADE_KERNEL}: 0 stores of 16 bytes, not 1"])


class Built(unittest.TestCase):
    def test_kernels_have_no_stack_few_registers_and_wide_accesses(self):
        found = []
        for source, files in objects().items():
            self.assertEqual(len(files), 1, f"{source}: {files}")
            kernels = kernels_in(files[0])
            self.assertTrue(kernels, f"{files[0]} has no kernel")
            found += kernels
        if "--list" in sys.argv:
            print("\n".join(map(str, found)))
        for pattern, _, _ in WIDE:
            self.assertTrue(any(re.search(pattern, kernel.name) for kernel in found), f"{pattern} is no kernel")
        wrong = [problem for kernel in found for problem in problems(kernel)]
        if wrong:
            self.fail("\n" + "\n".join(wrong))
        print(f"{len(found)} kernels for {sorted({kernel.gpu for kernel in found})}")


if __name__ == "__main__":
    if not any(objects().values()):
        runner.skip("this build has no GPU code")
    unittest.main(argv=sys.argv[:1])
