"""No function is so long that a reader would look for the reason, and no line of C++ is wider than a page."""
import re
import unittest

import tree
from cpp_text import LITERALS, functions

LONGEST_FUNCTION = 120
# Justified exceptions: {"path": {"function", ...}}.
LONG_FUNCTIONS = {}
COLUMNS = 100  # of .clang-format, which breaks neither strings nor .def files
PRODUCT = re.compile(r"^(src|dist|monitoring)/.*\.(h|cuh|cpp|cu|inc|def)$")
PRODUCT_AND_TESTS = re.compile(r"^(src|dist|monitoring|tests)/.*\.(h|cuh|cpp|cu|inc|def)$")


def sources(pattern):
    return [(path, tree.read(path)) for path in tree.files() if pattern.match(str(path))]


def wide_lines(text):
    """[(line, columns)] of the lines that are too wide. A raw string of several lines is left out: its lines are those that are
    printed or read."""
    def narrow(literal):
        is_page = literal.group().startswith('R"') and "\n" in literal.group()
        return re.sub(r"[^\n]", "", literal.group()) if is_page else literal.group()

    page = re.sub(LITERALS, narrow, text, flags=re.DOTALL)
    return [(number, len(line)) for number, line in enumerate(page.splitlines(), 1) if len(line) > COLUMNS]


class Sizes(unittest.TestCase):
    def test_wide_lines_are_found(self):
        wide = "a" * 101
        self.assertEqual(wide_lines(f"{wide}\n// {wide}\n\"{wide}\"\nR\"({wide})\"\n" + "é" * 100), [(1, 101), (2, 104), (3, 103), (4, 106)])
        self.assertEqual(wide_lines(f'f(R"(\n{wide}\n)");\n{wide}'), [(4, 101)])

    def test_lines_of_the_tree(self):
        found = [f"{path}:{line}: {columns} columns; at most {COLUMNS}"
                 for path, text in sources(PRODUCT_AND_TESTS) for line, columns in wide_lines(text)]
        self.assertFalse(found, "\n" + "\n".join(found))

    def test_functions_of_the_tree(self):
        found, seen = [], 0
        for path, text in sources(PRODUCT):
            of_file = functions(text)
            seen += len(of_file)
            found += [f"{path}:{first}: {name}() has {lines} lines; split it" for name, first, lines in of_file
                      if lines > LONGEST_FUNCTION and name not in LONG_FUNCTIONS.get(str(path), ())]
        self.assertGreater(seen, 500)
        if found:
            self.fail(f"{len(found)} places:\n" + "\n".join(found))


if __name__ == "__main__":
    unittest.main()
