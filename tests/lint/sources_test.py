"""Rules of this project that a compiler does not check."""
import re
import unittest

import tree

# rule: (pattern, files that are checked, files where it is allowed, what to do instead)
CODE = re.compile(r"^(src|dist|monitoring)/.*\.(h|cuh|cpp|cu|inc|def)$")
RULES = {
    "environment": (r"\b(secure_)?getenv\s*\(", CODE, r"^(dist/launcher\.cpp|src/config/|src/os/vector_set\.cpp)", "ask World or the config"),
    "exit": (r"(?<![\w.>])(std::)?(quick_)?exit\s*\(", CODE, r"^$", "throw; main returns the code"),
    # A forked process must not run the destructors of its parent.
    "_exit": (r"\b_[Ee]xit\s*\(", CODE, r"^(dist/world|src/main|src/data/hdf5/probe_process|src/job/signals)\.cpp",
              "throw; only abort_job() (dist/world.h), main(), the forks of probe_process.cpp and the handler of an early signal exit immediately"),
    "abort": (r"(?<![\w.>])(std::)?abort\s*\(\s*\)", CODE, r"^$", "throw"),
    "at::parallel_for": (r"\bat::parallel_(for|reduce)\b", CODE, r"^src/kernels/intra_op\.cpp", "it runs on one thread here: intra_op_for() in kernels/intra_op.h"),
    # What a launch returns may be the error of any earlier kernel, which handlers know as LibTorch's.
    "throw": (r"\bthrow\b", re.compile(r"\.cu$"), r"^$", "return the cudaError_t; check_launch() in kernels/launch_check.h throws"),
    "static initializer": (r"\bconst bool registered\b", CODE, r"^$", "use a .def list"),
}
TEXT = re.compile(r"\.(h|cuh|cpp|cu|inc|def|py|sh|md|yaml|yml|cmake|txt|json)$|(^|/)[^./]+$")
LATER = re.compile(r"\b(" + "|".join(["TO" + "DO", "FIX" + "ME", "X" * 3, "HA" + "CK"]) + r")\b|not (yet )?" + "implemented")
MACHINE = re.compile(r"(?<![\w.$}/])/(work/(main|wt|shared)|home/(?!mpiuser\b)\w+)\b")


def without_comments(text):
    """Returns C++ text with blanked comments; line numbers and string literals are kept."""
    pattern = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"', re.DOTALL)
    return pattern.sub(lambda m: m.group() if m.group()[0] == '"' else re.sub(r"[^\n]", " ", m.group()), text)


def lines_with(pattern, text):
    return [text.count("\n", 0, match.start()) + 1 for match in re.finditer(pattern, text)]


class Sources(unittest.TestCase):
    def test_the_rules_can_fail(self):
        for name, bad in [("environment", 'std::getenv("HOME")'), ("exit", "std::exit(1);"), ("exit", " exit(2)"),
                          ("_exit", "::_exit(1)"), ("abort", "std::abort();"), ("throw", "throw DeviceError(why);")]:
            self.assertTrue(lines_with(RULES[name][0], bad), bad)
        for name, good in [("exit", "MPI_Abort_exit(1)"), ("exit", "kExit(1)"), ("exit", "at_exit (f)"), ("abort", "c.abort()")]:
            self.assertFalse(lines_with(RULES[name][0], good), good)
        self.assertEqual(without_comments('a // exit(1)\n"//" b'), 'a ' + " " * 10 + '\n"//" b')

    def test_of_the_tree(self):
        found = []
        for path in tree.files():
            if CODE.search(str(path)):
                text = without_comments(tree.read(path))
                for name, (pattern, where, allowed, cure) in RULES.items():
                    if where.search(str(path)) and not re.search(allowed, str(path)):
                        found += [f"{path}:{line}: {name}: {cure}" for line in lines_with(pattern, text)]
                if path.suffix == ".h" and "#pragma once" not in text:
                    found.append(f"{path}: no #pragma once")
        self.assertFalse(found, "\n" + "\n".join(found))

    def test_nothing_is_unfinished_and_no_machine_is_named(self):
        found = []
        for path in tree.files():
            if TEXT.search(str(path)) and path.name != "sources_test.py":
                text = tree.read(path)
                found += [f"{path}:{line}: finish it or open an issue" for line in lines_with(LATER, text)]
                found += [f"{path}:{line}: a path of one machine" for line in lines_with(MACHINE, text)]
        self.assertFalse(found, "\n" + "\n".join(found))

    def test_text_is_clean(self):
        found = []
        for path in tree.files():
            data = (tree.ROOT / path).read_bytes()
            if TEXT.search(str(path)) and data:
                if b"\r" in data or b"\t" in data and path.suffix in (".h", ".cuh", ".cpp", ".cu", ".inc", ".def", ".py", ".cmake"):
                    found.append(f"{path}: tabs or carriage returns")
                if not data.endswith(b"\n"):
                    found.append(f"{path}: no newline at the end")
        self.assertFalse(found, "\n" + "\n".join(found))


if __name__ == "__main__":
    unittest.main()
