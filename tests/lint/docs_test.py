"""The documents are correct and can be read: files, commands, flags and links that they name exist, lines and sentences are short."""
import os
import re
import shlex
import subprocess
import unittest

import tree

FLAGS_OF_MPIRUN = {"mca", "map-by", "bind-to", "oversubscribe"}  # which `dtrain launch` passes on
FENCE = re.compile(r"^```[a-z]*\n(.*?)^```", re.DOTALL | re.MULTILINE)
COLUMNS = 120  # of a line outside of tables
WORDS = 40  # of a sentence
COMMAS = 7  # of a sentence: what has more is a list
GENERATED_TABLES = {"docs/configuration.md", "docs/diagnosis.md", "docs/metrics.md"}  # whose texts are in the sources
LINES = {"README.md": 120, "docs/design.md": 250}
# Flags of other programs are on the same lines.
COMMAND = re.compile(r"(?:^|[\s;&|(])dtrain(?=\s|$)(.*)")


def documents():
    """README, CONTRIBUTING, the pages of docs/, except the generated reference, and those of the tasks."""
    pages = tree.files("README.md", "CONTRIBUTING.md", "src/tasks/*/README.md")
    pages += [p for p in tree.files("docs/*.md") if p.name != "configuration.md"]
    return {path: tree.read(path) for path in pages}


def commands_in(text):
    """Yields every `dtrain ...` in the code of a page, without what follows a pipe, && or a comment."""
    code = "\n".join(FENCE.findall(text)) + "\n" + "\n".join(re.findall(r"`([^`\n]+)`", FENCE.sub("", text)))
    for line in code.replace("\\\n", " ").splitlines():
        found = COMMAND.search(line.split(" #")[0])
        if found:
            yield re.split(r"\s*(?:&&|\|\||[;&|>)])", found.group(1))[0].strip()


def words(command):
    try:
        return shlex.split(command)
    except ValueError:
        return command.split()


def long_lines(text):
    """[(line, columns)] of the lines that are too long, tables left out."""
    return [(number, len(line)) for number, line in enumerate(text.splitlines(), 1) if len(line) > COLUMNS and not line.startswith("|")]


def paragraphs(text):
    """[(line, text, whether it is a cell)] of paragraphs, items of lists and cells of tables, without code blocks, headings and pictures."""
    text = re.sub(r"<!--.*?-->", lambda match: re.sub(r"[^\n]", "", match.group()), text, flags=re.DOTALL)
    found, current, first = [], [], 0
    for number, line in enumerate(re.sub(r"(?ms)^```.*?^```", lambda match: re.sub(r"[^\n]", "", match.group()), text).splitlines() + [""], 1):
        words = line.strip()
        item = re.match(r"(?:[-*]|\d+\.) ", words)
        is_text = words and not words.startswith(("|", "#", "![", "<")) and (current or not line.startswith("    "))
        if current and (item or not is_text):
            found.append((first, " ".join(current), False))
            current = []
        if words.startswith("|"):
            found += [(number, cell.strip(), True) for cell in re.split(r"(?<!\\)\|", words.strip("|")) if cell.strip(" -:")]
        if is_text:
            first = first if current else number
            current.append(words[item.end():] if item else words)
    return found


def sentences(paragraph):
    """The sentences of a paragraph. A piece of code is one word, a link its text."""
    plain = re.sub(r"`[^`]*`", "Code", re.sub(r"\]\([^)]*\)", "]", paragraph))
    return re.split(r"(?<=[.!?])[*_)\"]*\s+(?=[^a-z]|dtrain\b|mpirun\b|srun\b)", plain)


def long_sentences(text):
    """[(line, what is wrong, sentence)]"""
    found = []
    for line, paragraph, is_cell in paragraphs(text):
        for sentence in sentences(paragraph):
            if len(sentence.split()) > WORDS:
                found.append((line, f"{len(sentence.split())} words", sentence))
            elif not is_cell and len(re.findall(r"[,;](?=\s)", re.sub(r"\([^)]*\)", "", sentence))) > COMMAS:
                found.append((line, "a list in a sentence", sentence))
    return found


def anchors(text):
    """The targets of links into a page, as GitHub makes them of its headings."""
    titles = re.findall(r"^#+ (.*)$", FENCE.sub("", text), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", re.sub(r"\]\([^)]*\)", "]", title).lower()).strip().replace(" ", "-") for title in titles}


class Docs(unittest.TestCase):
    def test_the_rules_can_fail(self):
        words = " ".join(["word"] * 41) + "."
        code = "`" + " ".join(["word"] * 41) + "`"
        self.assertEqual(long_lines("a" * 121 + "\n| " + "b" * 121 + " |\n" + "c" * 120), [(1, 121)])
        self.assertEqual([line for line, _, _ in long_sentences(f"# {words}\n\nshort\n\n{words}\n- {words}\n```\n{words}\n```\n| a | {words} |")], [5, 6, 10])
        self.assertEqual(long_sentences(f"A {code} is one word. It ends.\n\n    {words}\n" + "Two sentences of. Words here. " * 20), [])
        self.assertEqual([what for _, what, _ in long_sentences("It has a, b, c, d, e, f, g, h, i, j, k and l.")], ["a list in a sentence"])
        self.assertEqual(anchors("## 2. What `it` is: a, b\n```sh\n# no\n```"), {"2-what-it-is-a-b"})

    def test_lines_and_sentences_are_short(self):
        found = []
        reference = tree.pathlib.PurePosixPath("docs/configuration.md")
        for page, text in (documents() | {reference: tree.read(reference)}).items():
            found += [f"{page}:{line}: {columns} columns" for line, columns in long_lines(text)]
            prose = re.sub(r"(?m)^\|.*", "", text) if str(page) in GENERATED_TABLES else text
            found += [f"{page}:{line}: {what}: {sentence[:80]}..." for line, what, sentence in long_sentences(prose)]
            lines = text.count("\n")
            if lines > LINES.get(str(page), lines):
                found.append(f"{page}: {lines} lines; at most {LINES[str(page)]}")
        if found:
            self.fail(f"{len(found)} places:\n" + "\n".join(found))

    def test_commands_are_found_in_text(self):
        text = "do `dtrain eval RUN` or\n```sh\nmpirun -np 4 \\\n  dtrain --epochs 2 && echo done # dtrain no\n. dtrain.sh\n```\n"
        self.assertEqual(list(commands_in(text)), ["--epochs 2", "eval RUN"])

    def test_the_two_commands_are_in_the_readme(self):
        text = tree.read("README.md")
        for command in ("./launch/quickstart", "./tests/run"):
            self.assertIn(command, text)

    def test_named_files_exist(self):
        folders = sorted({path.parts[0] for path in tree.files() if len(path.parts) > 1})
        name = re.compile(r"(?<![\w/.-])(?:\./)?((?:" + "|".join(map(re.escape, folders)) + r")/[\w./-]*\w)")
        missing = []
        for page, text in documents().items():
            for named in name.findall("\n".join(FENCE.findall(text) + re.findall(r"`([^`\n]+)`", text))):
                if not (tree.ROOT / named).exists():
                    missing.append(f"{page}: {named}")
        self.assertFalse(missing, "\n" + "\n".join(missing))

    def test_links_have_targets(self):
        broken = []
        for page, text in documents().items():
            for target, anchor in re.findall(r"\]\(([^)#\s]*)(?:#([^)]*))?\)", FENCE.sub("", text)):
                path = tree.ROOT / page.parent / target if target else tree.ROOT / page
                if re.match(r"[a-z]+:", target):
                    continue
                if not path.exists():
                    broken.append(f"{page}: {target}")
                elif anchor and path.suffix == ".md" and anchor not in anchors(path.read_text(encoding="utf-8")):
                    broken.append(f"{page}: {target}#{anchor}")
        self.assertFalse(broken, "\n" + "\n".join(broken))

    def test_commands_and_flags_exist(self):
        binary = os.environ["DTRAIN"]

        def help_of(*command):
            return subprocess.run([binary, *command, "--help"], capture_output=True, text=True, timeout=60, check=True).stdout

        general = help_of()
        every_key = subprocess.run([binary, "--help", "all"], capture_output=True, text=True, timeout=60, check=True).stdout
        known = re.findall(r"^  ([a-z]+)\s", general.split("commands:")[1].split("flags of train")[0], re.MULTILINE)
        self.assertIn("train", known)
        pages = {name: help_of(name) for name in known}
        pages["train"] += every_key
        pages["bench"] += "".join(help_of("bench", part) for part in ("data", "comm", "step"))
        wrong = []
        for page, text in documents().items():
            if page.name == "design.md":
                continue
            for command in commands_in(text):
                parts = words(command)
                name = parts[0] if parts and re.fullmatch(r"[a-z]+", parts[0]) else "train"
                if name not in known:
                    wrong.append(f"{page}: dtrain {command}: no command {name}")
                    continue
                own, _, of_train = command.partition(" -- ")  # of `launch`
                for part, text_of_help in ((own, pages[name]), (of_train, pages["train"])):
                    for flag in re.findall(r"(?<!\S)--([a-z][\w.-]*)", part):
                        of_mpirun = name == "launch" and part is own and flag in FLAGS_OF_MPIRUN
                        if not of_mpirun and not re.search(rf"--{re.escape(flag)}(?![\w.-])", text_of_help):
                            wrong.append(f"{page}: dtrain {command}: no flag --{flag}")
        self.assertFalse(wrong, "\n" + "\n".join(wrong))

    def test_commands_have_the_short_names(self):
        """A key that has a short name is called by it: one thing, one word."""
        every_key = subprocess.run([os.environ["DTRAIN"], "--help", "all"], capture_output=True, text=True, timeout=60, check=True).stdout
        short = dict(re.findall(r"^  --([a-z_.]+\.[a-z_0-9]+), --([a-z-]+)\s", every_key, re.MULTILINE))
        self.assertGreater(len(short), 15)
        short["data"] = "dataset"  # a former name
        wrong = []
        for page, text in documents().items():
            for command in commands_in(text):
                wrong += [f"{page}: dtrain {command}: --{flag} is --{short[flag]}"
                          for flag in re.findall(r"(?<!\S)--([a-z][\w.-]*)", command) if flag in short]
        self.assertFalse(wrong, "\n" + "\n".join(wrong))

    def test_messages_exist(self):
        """Those of the troubleshooting tables: the pieces between the values that are left out are in the program."""
        text = "\n".join(re.sub(r'"\s*\n\s*"', "", tree.read(path)).replace('\\"', '"')
                         for path in tree.files("*.cpp", "*.h") if path.parts[0] in ("src", "dist", "monitoring"))
        section = tree.read("docs/operations.md").split("## 9. ")[1].split("### Of other programs")[0]
        messages = re.findall(r"^\| `([^`]+)` \|", section, re.MULTILINE)
        self.assertGreater(len(messages), 40)
        missing = [f"{message}: {piece}" for message in messages for piece in message.split(" … ") if piece not in text]
        self.assertFalse(missing, "docs/operations.md names messages that the program has not:\n" + "\n".join(missing))


if __name__ == "__main__":
    unittest.main()
