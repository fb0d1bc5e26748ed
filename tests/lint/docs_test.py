"""The documents are correct: the files, scripts, commands, flags and links that they name exist."""
import os
import re
import shlex
import subprocess
import unittest

import tree

FLAGS_OF_MPIRUN = {"mca", "map-by", "bind-to", "oversubscribe"}  # which `dtrain launch` passes on
FENCE = re.compile(r"^```[a-z]*\n(.*?)^```", re.DOTALL | re.MULTILINE)
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


class Docs(unittest.TestCase):
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
            if page.name == "design.md":
                continue  # it also names planned files
            for named in name.findall("\n".join(FENCE.findall(text) + re.findall(r"`([^`\n]+)`", text))):
                if not (tree.ROOT / named).exists():
                    missing.append(f"{page}: {named}")
        self.assertFalse(missing, "\n" + "\n".join(missing))

    def test_links_have_targets(self):
        broken = []
        for page, text in documents().items():
            for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", FENCE.sub("", text)):
                if not re.match(r"[a-z]+:", target) and not (tree.ROOT / page.parent / target).exists():
                    broken.append(f"{page}: {target}")
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
