"""No function is so long that a reader would look for the reason."""
import re
import unittest

import tree
from cpp_text import functions

LONGEST_FUNCTION = 120
# Justified exceptions: {"path": {"function", ...}}.
LONG_FUNCTIONS = {}
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
        self.assertGreater(seen, 500)
        if found:
            self.fail(f"{len(found)} places:\n" + "\n".join(found))


if __name__ == "__main__":
    unittest.main()
