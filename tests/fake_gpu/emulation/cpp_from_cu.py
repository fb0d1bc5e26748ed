"""Rewrites what no C++ compiler reads of a .cu file: launches, and dynamic shared memory. cpp_from_cu.py IN.cu OUT.cpp [--replace A B]"""

import argparse
import pathlib
import re


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("source", type=pathlib.Path)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--replace", nargs=2, action="append", default=[], help="a mutation: text that occurs once, and another")
    options = parser.parse_args()
    text = options.source.read_text()
    for old, new in options.replace:
        assert text.count(old) == 1, f"{old!r} occurs {text.count(old)} times in {options.source}"
        text = text.replace(old, new)
    text = re.sub(r"(\w+)<<<(.*?)>>>\(", r"EMULATION_LAUNCH(\1, \2, ", text, flags=re.DOTALL)
    text = re.sub(r"extern __shared__ (.*?)(\w+ \w+) (\w+)\[\];",
                  r"\2* \3 = static_cast<\2*>(::emulation::shared_memory());", text)
    options.out.write_text(f'#line 1 "{options.source}"\n{text}')


if __name__ == "__main__":
    main()
