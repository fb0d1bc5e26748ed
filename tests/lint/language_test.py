"""The language rule of CONTRIBUTING.md, as far as a program can check it: no flourishes, no comments broken by clang-format
or that lean on the name before them."""
import re
import unittest

import tree

# What may not be written, as a regular expression, and what to write instead. A blank stands for any white space, also
# across the lines of a comment.
PHRASES = {
    r"of no account": "is ignored",
    r"of no (more )?(use|interest)": "is not needed, is not used",
    r"left the numbers": "is not finite",
    r"one's own": "your own, a separate",
    r"mend(s|ed|ing)?": "fix",
    r"by turns": "alternately",
    r"(is|are|was|were|be|been|being) told": "receives, is given",
    r"lay(s|ing)? (a|the|another) config": "write a config",
    r"knock(s|ed|ing)?": "connect, request",
    r"who (has|have|is|are) gone": "which rank has exited",
    r"in the midst of": "during",
    r"seams?": "interface",
    r"without a word": "silently",
    r"has its say": "applies",
    r"anew": "again, from the start",
    r"lest|nought|naught|aught|betwixt|henceforth": "a common word",
}
# The same in documents, scripts and comments. Texts that the program prints keep them: users and scripts know those.
WORDS = {
    r"is no matter of": "is not, does not depend on",
    r"no more(?! (\w+ )?than\b)": "no longer, not again",
    r"(no|some|every|any)body(?!\")|no one|(some|every|any)one": "no process, a person, all users: say who",
    r"otherwise than": "not as, unlike",
    r"whom": "which, or another order of the sentence",
    r"shall": "must, is to",
    r"so many": "this number of",
    r"as everybody knows": "leave it out",
}
# American spelling, in documents and comments (an identifier or a test's input may be spelled otherwise).
SPELLINGS = {
    r"(initialis|normalis|summaris|quantis|serialis|vectoris|synchronis|optimis|recognis|generalis|minimis)\w*": "-ize",
    r"(behaviour|colour|favour|neighbour|centre|centring|catalogue)\w*": "behavior, color, center, ...",
    r"grey\w*|licen[c]e|artefact\w*|modell\w+|labell\w+|cancelled": "gray, license, artifact, modeling, labeled, canceled",
}
# Also inside of names: of tests, functions and constants
NAMES = {re.compile(r"\b\w+(no|some|every|any)body|\b(no|some|every|any)body\w+", re.IGNORECASE): "NoRank, another_user: say who"}
TEXT = re.compile(r"\.(h|cuh|cpp|cu|inc|def|py|sh|md|yaml|yml|cmake|txt|in|sbatch|json|js|html|css)$|(^|/)[^./]+$")
NOT_OURS = re.compile(r"^(LICENSE$|launch/requirements/|launch/packages/|docs/images/|monitoring/grafana/)")
HEADERS = (".h", ".cuh", ".inc", ".def")
CPP = (*HEADERS, ".cpp", ".cu")
PAGE = (".js", ".html", ".css")
COLUMNS = 100  # of .clang-format


def compiled(phrases):
    gap = r"\s+(?:(?://|#|\*)+\s*)?"
    return {re.compile(r"(?<![\w.])(?:" + phrase.replace(" ", gap) + r")(?![\w(])", re.IGNORECASE): advice
            for phrase, advice in phrases.items()}


PHRASES, WORDS, SPELLINGS = compiled(PHRASES), compiled(WORDS), compiled(SPELLINGS)


def prose(path, text):
    """The text with everything blanked that is neither a comment nor a document. Line numbers are kept."""
    if path.suffix == ".md":
        return text
    comment = r"(?<!:)//[^\n]*|/\*.*?\*/|<!--.*?-->" if path.suffix in CPP + PAGE else r"(?:^|(?<=\s))#[^\n]*|\"\"\".*?\"\"\""
    string = r"\"(?:\\.|[^\"\\\n])*\""
    kept, end = [], 0
    for match in re.finditer(rf"(?P<comment>{comment})|{string}", text, re.DOTALL | re.MULTILINE):
        kept.append(re.sub(r"[^\n]", " ", text[end:match.start()]))
        kept.append(match.group() if match.group("comment") else " " * len(match.group()))
        end = match.end()
    return "".join(kept) + re.sub(r"[^\n]", " ", text[end:])


def flourishes(path, text):
    """[(line, what was found, what to write instead)] of one file."""
    found = []
    words_in = prose(path, text) if path.suffix in CPP + PAGE else text
    for patterns, searched in ((PHRASES, text), (NAMES, text), (WORDS, words_in), (SPELLINGS, prose(path, text))):
        for pattern, advice in patterns.items():
            for match in pattern.finditer(searched):
                found.append((searched.count("\n", 0, match.start()) + 1, " ".join(match.group().split()), advice))
    return sorted(found)


def leaning_comments(text, header=False):
    """[(line, first word)] of each comment after code, and in headers of each paragraph above a declaration, that a reader has to
    join with a name."""
    found, lines = [], re.sub(r"\"(?:\\.|[^\"\\\n])*\"", "s", text).splitlines()
    for number, (above, line) in enumerate(zip(["", *lines], lines), 1):
        match = re.match(r"\s*[^\s/].*\s// (of|in|by|as)\b", line)
        if header and "//" not in above:
            match = match or re.match(r"\s*// (of|in|by|as)\b", line, re.IGNORECASE)
        if match:
            found.append((number, match.group(1)))
    return found


def broken_comments(text):
    """[(line, word)] of each // line that holds a single word for which the comment line above had no room."""
    found, lines = [], text.splitlines()
    for number, (above, line) in enumerate(zip(lines, lines[1:]), 2):
        match = re.fullmatch(r"( *)// *(\S+)", line)
        if match and above.find("//") == len(match.group(1)) and len(above) + 1 + len(match.group(2)) > COLUMNS:
            found.append((number, match.group(2)))
    return found


def problems():
    """All of the tree, as lines of text."""
    found = []
    for path in tree.files():
        if not TEXT.search(str(path)) or NOT_OURS.search(str(path)) or path.name == "language_test.py":
            continue
        text = tree.read(path)
        if str(path) == "CONTRIBUTING.md":
            text = re.sub(r"(?m)^\| \"[^|]*", "|", text)  # the left column of its table: what not to write
        found += [f"{path}:{line}: {bad!r}: write {advice}" for line, bad, advice in flourishes(path, text)]
        if path.suffix in CPP:
            found += [f"{path}:{line}: a comment that was broken before its last word ({word}): rewrite it"
                      for line, word in broken_comments(text)]
        if path.suffix in CPP and path.parts[0] in ("src", "dist", "monitoring"):
            found += [f"{path}:{line}: a comment that begins with {word!r}: make it a phrase that stands alone"
                      for line, word in leaning_comments(text, path.suffix in HEADERS)]
    return found


class Language(unittest.TestCase):
    def test_the_rules_can_fail(self):
        for bad in ("// It is of no\n  // account here.", "the loss left the numbers", "Mended by turns", "is told", "# is\n# told", "one's own",
                    "lay a config", "who has gone", "// initialises", "/* the centre */", "a /* b */ c // behaviour"):
            self.assertTrue(flourishes(tree.pathlib.PurePath("a.h"), bad), bad)
        for good in ("recommended", "amend", "we told them", "account", "knockout", "showed", "lowest", 'key("optimiser")', 'a = "// grey";'):
            self.assertFalse(flourishes(tree.pathlib.PurePath("a.h"), good), good)
        for bad in ("It is no matter of taste.", "it is there no more", "Somebody sends it", "so that anyone can", "otherwise\nthan", "to whom", "It shall", "# so\n# many", "as everybody knows"):
            self.assertTrue(flourishes(tree.pathlib.PurePath("a.md"), bad), bad)
            self.assertTrue(flourishes(tree.pathlib.PurePath("a.cpp"), f"// {bad}" if "\n" not in bad else f"/* {bad} */"), bad)
            self.assertFalse(flourishes(tree.pathlib.PurePath("a.cpp"), f'"{" ".join(bad.split())}"'), bad)
        for good in ("no more threads than cores", "no more than", "marshall", "-o \"nobody\"", "also many"):
            self.assertFalse(flourishes(tree.pathlib.PurePath("a.md"), good), good)
        for bad in ("TEST(A, NobodyWaits)", "def what_nobody_sets(folder):", "constexpr int kNobody = 0;"):
            self.assertTrue(flourishes(tree.pathlib.PurePath("a.cpp"), bad), bad)
        for bad, name in (("// nobody looks", "a.js"), ("// so many", "a.inc"), ("<!-- the centre -->", "a.html"), ("/* the colour */", "a.css")):
            self.assertTrue(flourishes(tree.pathlib.PurePath(name), bad), bad)
        self.assertFalse(flourishes(tree.pathlib.PurePath("a.js"), "const SVG = 'http://grey';"))
        self.assertTrue(flourishes(tree.pathlib.PurePath("a.py"), 'x = 1  # the centre'))
        self.assertFalse(flourishes(tree.pathlib.PurePath("a.py"), 'x = "#centre"'))

    def test_a_comment_that_needs_the_name_before_it_is_found(self):
        for bad in ("int rank;  // of the job", "  };  // by name: all", "f(\"a\");  // as typed"):
            self.assertTrue(leaning_comments(bad), bad)
        for good in ("// of the job", "  // As typed", "int rank;  // rank of the job", "f(\" // of x\");", "int a;  // office"):
            self.assertFalse(leaning_comments(good), good)
        for bad in ("// Of the job\nint rank;", "{\n  // in bytes\n  int size;", "int a;  // a number\n\n// By name: all\nint b;"):
            self.assertTrue(leaning_comments(bad, header=True), bad)
        for good in ("// The sizes\n// in bytes\nint a;", "int a;  // number\n        // of ranks", "// Often\nint a;", "// Rank of the job\nint a;"):
            self.assertFalse(leaning_comments(good, header=True), good)

    def test_a_broken_comment_is_found(self):
        full = "  // " + "x" * 91 + " abc"
        self.assertEqual(len(full), COLUMNS)
        self.assertEqual(broken_comments(full + "\n  // end.\n"), [(2, "end.")])
        self.assertEqual(broken_comments("int a;" + " " * 6 + "// " + "x" * 105 + "\n" + " " * 12 + "// end.\n"), [(2, "end.")])
        for whole in (full + "\n  // the end.\n", "  // A short line.\n  // end.\n", full + "\n\n  // end.\n", full + "\n// end.\n"):
            self.assertEqual(broken_comments(whole), [], whole)

    def test_of_the_tree(self):
        found = problems()
        if found:
            self.fail(f"{len(found)} places; CONTRIBUTING.md has the rule:\n" + "\n".join(found))


if __name__ == "__main__":
    unittest.main()
