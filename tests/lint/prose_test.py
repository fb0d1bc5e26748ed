"""The supervisor decides by records (dist/supervisor_lines.h): it reads no words that dtrain prints, so that they can change."""
import re
import unittest

import tree

WORDS = "src/supervisor/mpirun_words.cpp"  # which alone reads prose, that of mpirun
LITERAL = re.compile(r'"((?:[^"\\\n]|\\.)*)"')
SEARCH = re.compile(r"\b(?:find|rfind|starts_with|ends_with|contains|compare|regex\w*|after|has_one_of|take_prefix)\s*\(([^()]*)\)")
LIST = re.compile(r"std::array<std::string_view[^;=]*=([^;]*);")  # one of them may be looked for in a loop
CONSTANT = re.compile(r"\b(k[A-Z]\w*)\b[^;=]*=([^;]*);")


def literals(text):
    """The string literals of C++ code, those that stand side by side as one."""
    joined = re.sub(r'"\s*\n\s*"', "", text)
    return [found for found in LITERAL.findall(re.sub(r"//[^\n]*|#include[^\n]*", "", joined)) if found]


def prose(text):
    return [one for one in literals(text) if re.search(r"[a-z]{2,} [a-z]|[a-z] [a-z]{2,}", one)]


def searched(text):
    """The prose that a file looks for in other text."""
    constants = {name: prose(value) for name, value in CONSTANT.findall(text)}
    found = [words for value in LIST.findall(text) for words in prose(value)]
    for arguments in SEARCH.findall(re.sub(r"//[^\n]*", "", text)):
        found += prose(arguments)
        found += [one for name in re.findall(r"\bk[A-Z]\w*", arguments) for one in constants.get(name, [])]
    return found


class Prose(unittest.TestCase):
    def test_it_finds_what_is_searched(self):
        self.assertEqual(searched('if (line.find("has died") == npos) say("it has died");'), ["has died"])
        self.assertEqual(searched('constexpr std::string_view kBlame = "no heartbeat";\nif (text.contains(kBlame)) f();'), ["no heartbeat"])
        self.assertEqual(searched('std::array<std::string_view, 2> kAll = {"sent no heartbeat", "x"};'), ["sent no heartbeat"])
        self.assertEqual(searched('name.starts_with("vader_segment."); line.find("\\"kind\\"");'), [])
        self.assertEqual(literals('f("a "\n  "b");  // "c"'), ["a b"])

    def test_the_supervisor_looks_for_no_words(self):
        found = [(str(path), words) for path in tree.files("src/supervisor/*") if str(path) != WORDS for words in searched(tree.read(path))]
        self.assertFalse(found)

    def test_the_words_that_it_reads_are_none_of_ours(self):
        read = searched(tree.read(WORDS))
        self.assertIn("ORTE was unable to reliably start one or more daemons", read)
        ours = [(str(path), text) for folder in ("src", "dist", "monitoring") for path in tree.files("*.cpp", "*.h")
                if path.parts[0] == folder and path.parts[:2] != ("src", "supervisor") for text in literals(tree.read(path))]
        found = [(path, words, text) for words in read for path, text in ours if words.strip() in text]
        self.assertFalse(found)


if __name__ == "__main__":
    unittest.main()
