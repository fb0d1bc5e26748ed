"""No function is so long, and no header so short, that a reader would look for the reason."""
import re
import unittest

import tree
from cpp_text import functions

LONGEST_FUNCTION = 120
SHORTEST_HEADER = 15
# Justified exceptions: {"path": {"function", ...}} and {"path"}.
LONG_FUNCTIONS = {}
SHORT_HEADERS = set()
SOURCE = re.compile(r"^(src|dist|monitoring)/.*\.(h|cuh|cpp|cu)$")


class Sizes(unittest.TestCase):
    def test_of_the_tree(self):
        found, seen = [], 0
        for path in tree.files():
            if not SOURCE.match(str(path)):
                continue
            text = tree.read(path)
            of_file = functions(text)
            seen += len(of_file)
            found += [f"{path}:{first}: {name}() has {lines} lines; split it" for name, first, lines in of_file
                      if lines > LONGEST_FUNCTION and name not in LONG_FUNCTIONS.get(str(path), ())]
            lines = text.count("\n")
            if path.suffix in (".h", ".cuh") and lines < SHORTEST_HEADER and str(path) not in SHORT_HEADERS:
                found.append(f"{path}: a header of {lines} lines; merge it into a neighbor")
        self.assertGreater(seen, 500)
        if found:
            self.fail(f"{len(found)} places:\n" + "\n".join(found))


if __name__ == "__main__":
    unittest.main()
