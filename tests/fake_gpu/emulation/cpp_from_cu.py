"""Rewrites what no C++ compiler reads of a .cu file: launches, and dynamic shared memory. With the name of a mistake, makes it.

usage: cpp_from_cu.py IN.cu OUT.cpp [MISTAKE]"""

import pathlib
import re
import sys

SUM_OF_BLOCK = pathlib.Path(__file__).resolve().parents[3] / "src/kernels/sum_of_block.h"
MISTAKES = {  # text that occurs once, and what takes its place
    "barrier": ("gone[j] = j >= length;\n  __syncthreads();", "gone[j] = j >= length;"),
    "second_barrier": ("scores[j] = sum;\n  }\n  __syncthreads();", "scores[j] = sum;\n  }"),
    "index": ("row(p.queries, p, t, sample);\n  for (int64_t j = warp", "row(p.queries, p, t / 2, sample);\n  for (int64_t j = warp"),
    "mask": ("left += __shfl_xor_sync(0xffffffffu", "left += __shfl_xor_sync(lane < 16 ? 0xffffffffu : 0xffff0000u"),
    "threads": ("kThreads = 128", "kThreads = 2048"),
    "phases": ("if (phase > 0) __syncthreads();", ""),
    "warp": ("sum = sum_of_warp(sum);", ""),
    "stride": ("e += stride", "e += stride + 1"),
    "rows": ("row * batch.features + f)", "row * batch.features)"),
    "end": ("if (i < samples)", "if (i < samples - 1)"),
    "tile": ("of.name(count++, first + k)", "of.name(count++, k)"),
    "half": ("for (int half = kThreads / 2; half > 0; half /= 2) {\n    __syncthreads();", "for (int half = kThreads / 2; half > 0; half /= 2) {"),
    "lanes": ("threadIdx.x % 32 == 0", "threadIdx.x == 0"),
}


def main():
    source, out, *mistake = sys.argv[1:]
    text = pathlib.Path(source).read_text()
    for name in mistake:
        if MISTAKES[name][0] in SUM_OF_BLOCK.read_text():  # this file has its own copy, with the mistake
            text = text.replace('#include "kernels/sum_of_block.h"\n', SUM_OF_BLOCK.read_text().replace("#pragma once\n", ""))
        right, wrong = MISTAKES[name]
        assert text.count(right) == 1, f"{right!r} occurs {text.count(right)} times in {source}"
        text = text.replace(right, wrong)
    text = re.sub(r"(\w+)<<<(.*?)>>>\(", r"EMULATION_LAUNCH(\1, \2, ", text, flags=re.DOTALL)
    text = re.sub(r"extern __shared__ (.*?)(\w+ \w+) (\w+)\[\];",
                  r"\2* \3 = static_cast<\2*>(::emulation::shared_memory());", text)
    pathlib.Path(out).write_text(f'#line 1 "{source}"\n{text}')


if __name__ == "__main__":
    main()
