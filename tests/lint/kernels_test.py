"""Each kernel of src/kernels says what it is worth, with a command that measures it, and when to delete it. bench/kernel_gains.py can
still turn each kernel off."""
import re
import sys
import unittest

import tree

sys.path.insert(0, str(tree.ROOT / "bench"))
from kernel_gains import KERNELS, TASKS, turned_off  # noqa: E402

FOLDER = "src/kernels"
# Types, and what the loops of several kernels share.
NO_KERNEL = {"activation.h", "batch_norm_types.h", "intra_op.h", "launch.h", "launch_check.h", "lengths.h", "sum_of_block.h", "vector_headers.h", "work_parts.h"}
GAIN = re.compile(r"\bGain \(([^()]+)\): ")
OTHER = re.compile(r"\bGain: see (\w+\.h)\b")
REASON = re.compile(r"\bReason: ")  # of those that are not about speed
PROGRAM = re.compile(r"\bbuild/bench/(\w+)|\b(bench/\w+\.py)|(dtrain bench)")


def comment_of(header):
    """What a header says before its code, as one line."""
    above = re.split(r"^#include|^namespace", header, maxsplit=1, flags=re.MULTILINE)[0]
    return " ".join(line[2:].strip() for line in above.splitlines() if line.startswith("//"))


def programs_in(command):
    """The files that a command needs."""
    return [script or (f"bench/{binary}.cpp" if binary else "src/cli/bench.cpp") for binary, script, _ in PROGRAM.findall(command)]


def problems_of(name, comments):
    """What the comment of a header lacks; comments: {name of a header: comment}."""
    comment = comments[name]
    other, gain = OTHER.search(comment), GAIN.search(comment)
    if other:
        return [] if GAIN.search(comments.get(other[1], "")) else [f"{name}: {other[1]} states no gain"]
    if not gain and not REASON.search(comment):
        return [f"{name}: neither 'Gain (COMMAND): ...', 'Gain: see OTHER.h' nor 'Reason: ...'"]
    found = [] if re.search(r"\bDelete (it|them) (when|if)\b", comment) else [f"{name}: it does not say when to delete it"]
    if gain and not programs_in(gain[1]):
        found.append(f"{name}: no program of bench/ in '{gain[1]}'")
    return found + [f"{name}: there is no {path}" for path in programs_in(gain[1] if gain else "") if not (tree.ROOT / path).exists()]


class Kernels(unittest.TestCase):
    def test_the_rules_can_fail(self):
        good = "Loops. Gain (bench/kernel_gains.py lstm): 1.2. Delete it when LibTorch is as fast."
        comments = {"good.h": good, "pair.h": "Loops. Gain: see good.h.", "exact.h": "Reason: equal bits. Delete them if no test needs them.",
                    "none.h": "Loops.", "stays.h": good.replace("Delete", "Keep"), "lost.h": "Gain: see none.h.",
                    "fast.h": "Gain (by eye): 2. Delete it when slow.", "gone.h": good.replace("kernel_gains", "kernel_losses")}
        self.assertEqual([name for name in comments if problems_of(name, comments)], ["none.h", "stays.h", "lost.h", "fast.h", "gone.h"])
        self.assertEqual(comment_of("#pragma once\n\n// a\n// b\n\n// c\n\n#include <x>\n// d\n"), "a b c")
        with self.assertRaises(SystemExit):
            turned_off(KERNELS["lstm"], "the source has changed")

    def test_each_header_states_its_gain(self):
        comments = {path.name: comment_of(tree.read(path)) for path in tree.files(f"{FOLDER}/*.h")}
        self.assertLessEqual(NO_KERNEL, comments.keys())
        found = [problem for name in comments.keys() - NO_KERNEL for problem in problems_of(name, comments)]
        self.assertFalse(found, "\n" + "\n".join(sorted(found)))

    def test_each_kernel_can_be_turned_off(self):
        for name, kernel in KERNELS.items():
            source = tree.read(kernel.file)
            self.assertNotEqual(turned_off(kernel, source), source, name)
            self.assertRegex(comment_of(tree.read(f"{FOLDER}/{kernel.header}")), rf"Gain \([^()]*bench/kernel_gains\.py [^()]*\b{name}\b")
            for network in kernel.networks.split(","):
                self.assertIn(network.split(":")[0], TASKS, name)


if __name__ == "__main__":
    unittest.main()
