"""No function is so long, and no header so short, that a reader would look for the reason."""
import re
import unittest

import tree

LONGEST_FUNCTION = 120
SHORTEST_HEADER = 15
# Justified exceptions: {"path": {"function", ...}} and {"path"}.
LONG_FUNCTIONS = {}
SHORT_HEADERS = set()
SOURCE = re.compile(r"^(src|dist|monitoring)/.*\.(h|cuh|cpp|cu)$")

TYPE = re.compile(r"^(?:\[\[.*?\]\]\s*)?(?:inline\s+)?(?:namespace|class|struct|union|enum|extern\s+\"C\")\b")
TEMPLATE = re.compile(r"^template\s*<.*?>\s*(?=\w|\[)")
NAME = re.compile(r"(operator\s*[^\s\w(]+|operator\s+\w+|~?\w+)\s*\(")


def blanked(text):
    """C++ text with comments, literals and preprocessor lines blanked; line numbers are kept."""
    pattern = re.compile(r'R"(\w*)\(.*?\)\1"|//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|(?<![\w])\'(?:\\.|[^\'\\\n])+\'|^[ \t]*#(?:\\\n|[^\n])*',
                         re.DOTALL | re.MULTILINE)
    return pattern.sub(lambda m: re.sub(r"[^\n]", " ", m.group()), text)


def functions(text):
    """[(name, first line, number of lines)] of the function definitions, members included; lambdas count as part of theirs."""
    text = blanked(text)
    found, start, parentheses, position = [], 0, 0, 0

    def matching(opening):
        depth = 0
        for index in range(opening, len(text)):
            depth += {"{": 1, "}": -1}.get(text[index], 0)
            if depth == 0:
                return index
        return len(text) - 1

    while position < len(text):
        character = text[position]
        if character in "()":
            parentheses += 1 if character == "(" else -1
        elif parentheses == 0 and character in ";}":
            start = position + 1
        elif character == "{":
            head = TEMPLATE.sub("", text[start:position].strip())
            if parentheses == 0 and TYPE.match(head):
                start = position + 1  # what is inside is looked at like what is outside
            else:
                closing = matching(position)
                is_initializer = parentheses != 0 or text[closing + 1:].lstrip()[:1] in (",", "{", ")")
                if not is_initializer:
                    name = NAME.search(head)
                    if name and not head.endswith("="):
                        first = text.count("\n", 0, start + len(text[start:position]) - len(text[start:position].lstrip())) + 1
                        found.append((name.group(1), first, text.count("\n", 0, closing) + 2 - first))
                    start = closing + 1
                position = closing
        position += 1
    return found


class Sizes(unittest.TestCase):
    def test_functions_are_found(self):
        text = """
namespace a {
struct B {
  B(int x = {}) : x_{x}, y_{"}"} {  // }
    x_ = 1;
  }
  bool operator==(const B&) const { return true; }
  int x_{0}, y_;
};
template <typename T, int N = 1>
void
run(T t) {
  const auto f = [&](int i) {
    return t + i;
  };
}
const int table[] = {
    1, call(2),
};
}  // namespace a
"""
        self.assertEqual(functions(text), [("B", 4, 3), ("operator==", 7, 1), ("run", 10, 7)])

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
