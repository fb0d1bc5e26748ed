"""Includes go one way: the table of docs/design.md, section 2. Third parties stay inside the .cpp files of one module."""
import re
import unittest

import tree


FLOOR = ("text", "core", "os")  # which every row below them may use


def table_of_design():
    """{module: modules that it may include} from the table "may depend on" of docs/design.md, section 2, top to bottom."""
    allowed = {}
    for line in tree.read("docs/design.md").splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) != 4 or not re.fullmatch(r"[a-z]+(, [a-z]+)*", cells[0]) or cells[0] == "target":
            continue
        for module in cells[0].split(", "):
            above = set(allowed)
            named = above if cells[2] == "all above" else above & set(re.findall(r"[a-z]+", cells[2]))
            same_row = above & set(cells[0].split(", "))
            allowed[module] = named | same_row | above & set(FLOOR)
    return allowed


MAY_INCLUDE = table_of_design()
TORCH = re.compile(r"(torch|ATen|c10)/")
WITH_TORCH = {"device", "dist", "data", "checkpoint", "kernels", "layers", "models", "tasks", "export", "train", "diagnose", "job", "tune", "doctor", "cli"}
# third party: where alone its headers may be included
ONLY_IN = {
    r"mpi\.h$": "dist/", r"nccl\.h$": "dist/", r"(hdf5|H5(?!public)\w+)\.h$": "src/data/hdf5/", r"prometheus/": "monitoring/",
    r"nvml\.h$": "monitoring/", r"yaml-cpp/": "src/config/", r"(spdlog|fmt)/": "src/core/log.cpp", r"xxhash\.h$": "src/core/", r"utf8proc\.h$": "src/text/unicode.cpp",
    r"matio\.h$": "src/formats/", r"(turbojpeg|jpeglib|jerror)\.h$": "src/formats/", r"zip\.h$": "src/formats/",
    r"png\.h$": "src/formats/", r"webp/": "src/formats/",
    r"nvtx3/": "src/device/", r"(onnx|google/protobuf)/": "src/export/onnx_file.cpp",
    r"httplib\.h$": "monitoring/http_pages.cpp",
}
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]', re.MULTILINE)


def module_of(path):
    """The module that a source file belongs to; None for tests and the build's own files."""
    parts = path.parts
    if parts[0] in ("dist", "monitoring"):
        return parts[0]
    if parts[0] != "src":
        return None
    return "cli" if len(parts) == 2 else parts[1]


def problems_of(path, text, exists=lambda path: True, internal=lambda path: False):
    """What is wrong with the includes of one file, as text. internal: a header that only .cpp files of its module include."""
    module, header = module_of(path), path.suffix in (".h", ".cuh")
    found = []
    for kind, name in INCLUDE.findall(text):
        first = name.split("/")[0]
        if kind == '"':
            if "/" not in name:
                if not exists(path.parent / name):
                    found.append(f'{path}: "{name}" is not in this folder')
            elif first not in MAY_INCLUDE:
                found.append(f'{path}: "{name}" names no module; third parties go in <>')
            elif first != module and first not in MAY_INCLUDE[module]:
                found.append(f'{path}: {module} may not include {first} ("{name}"); see docs/design.md, section 2')
            continue
        if TORCH.match(name):
            if name == "torch/torch.h":
                found.append(f"{path}: <{name}> takes seconds to compile; include the headers that the file needs, such as <torch/types.h>")
            if module not in WITH_TORCH:
                found.append(f"{path}: {module} is built without LibTorch, and includes <{name}>")
        elif header and re.search(r"/|\.h", name) and not internal(path) and not (path.suffix == ".cuh" or re.match(r"cuda_\w+\.h$", name)):
            found.append(f"{path}: <{name}> of a third party in a header; include it in a .cpp file")
        for pattern, place in ONLY_IN.items():
            if re.match(pattern, name) and not str(path).startswith(place):
                found.append(f"{path}: <{name}> belongs to {place} alone")
    return found


def cycle_in(graph):
    """A cycle of {node: nodes that it points at}, as a list that ends where it begins; [] where there is none."""
    done, path = set(), []

    def visit(node):
        if node in path:
            return path[path.index(node):] + [node]
        if node in done:
            return []
        path.append(node)
        for other in sorted(graph.get(node, ())):
            found = visit(other)
            if found:
                return found
        path.pop()
        done.add(node)
        return []

    return next((found for found in map(visit, sorted(graph)) if found), [])


def include_graphs(texts):
    """Of {path: text}: which file includes which, and which folder which (folders inside a module too)."""
    files, folders = {}, {}
    by_name = {str(path).removeprefix("src/"): path for path in texts}
    for path, text in texts.items():
        for kind, name in INCLUDE.findall(text):
            other = by_name.get(name) or (path.parent / name if path.parent / name in texts else None)
            if kind == "<" or other is None:
                continue
            files.setdefault(str(path), set()).add(str(other))
            if other.parent != path.parent:
                folders.setdefault(str(path.parent), set()).add(str(other.parent))
    return files, folders


class Includes(unittest.TestCase):
    def test_cycles_are_found(self):
        path = tree.pathlib.PurePosixPath
        self.assertEqual(cycle_in({"a": {"b"}, "b": {"c"}, "c": set()}), [])
        self.assertEqual(cycle_in({"a": {"b"}, "b": {"c"}, "c": {"b"}}), ["b", "c", "b"])
        files, folders = include_graphs({
            path("src/data/store.h"): '#include "data/order/shard.h"', path("src/data/order/shard.h"): "#include <vector>",
            path("src/data/order/ledger.h"): '#include "data/store.h"'})
        self.assertEqual(cycle_in(files), [])
        self.assertEqual(cycle_in(folders), ["src/data", "src/data/order", "src/data"])

    def test_the_rooms_of_data_are_layered(self):
        may_include = {"hdf5": {""}, "order": {""}, "augment": {""}, "loader": {"", "order", "augment"}, "": set()}
        for path in tree.files("src/data/*", "src/data/*/*"):
            room = str(path.parent).removeprefix("src/data").strip("/")
            for _, name in INCLUDE.findall(tree.read(path)):
                if name.startswith("data/"):
                    other = "/".join(name.split("/")[1:-1])
                    self.assertTrue(other == room or other in may_include[room], f"{path} may not include {name}")
                elif TORCH.match(name):
                    self.assertTrue(room == "loader" or path.name == "batch.h", f"{path} must not need LibTorch")

    def test_no_two_files_or_folders_include_each_other(self):
        texts = {path: tree.read(path) for path in tree.files("*.h", "*.cuh", "*.cpp", "*.cu", "*.inc") if module_of(path)}
        for graph in include_graphs(texts):
            self.assertGreater(len(graph), 10)
            self.assertEqual(cycle_in(graph), [])

    def test_the_folders_of_tests_mirror_the_modules(self):
        row = next(line for line in tree.read("docs/design.md").splitlines() if line.startswith("| `tests/` |"))
        kinds = set(re.findall(r"`(\w+)`", row))
        self.assertGreater(len(kinds), 5)
        folders = {path.parts[1] for path in tree.files() if path.parts[0] == "tests" and len(path.parts) > 2}
        self.assertGreater(len(folders), 30)
        self.assertFalse(folders - set(MAY_INCLUDE) - kinds, "neither a module nor a kind of test that docs/design.md, section 2, names")

    def test_the_table_is_read(self):
        self.assertEqual(list(MAY_INCLUDE)[:3], list(FLOOR))
        self.assertEqual(MAY_INCLUDE["text"], set())
        self.assertEqual(MAY_INCLUDE["data"], {"text", "core", "os", "trace"})
        self.assertNotIn("synth", MAY_INCLUDE["data"])
        self.assertIn("synth", MAY_INCLUDE["cli"])
        self.assertIn("models", MAY_INCLUDE["tasks"])
        self.assertNotIn("tasks", MAY_INCLUDE["models"])
        self.assertEqual(list(MAY_INCLUDE)[-1], "cli")
        self.assertEqual(MAY_INCLUDE["cli"], set(MAY_INCLUDE) - {"cli"})

    def test_the_rules_can_fail(self):
        path = tree.pathlib.PurePosixPath
        for file, text in [
            ("src/core/log.h", '#include "config/config.h"'), ("monitoring/sink.h", '#include "train/trainer.h"'),
            ("dist/world.h", "#include <mpi.h>"), ("src/train/trainer.cpp", "#include <mpi.h>"),
            ("src/core/hash.cpp", "#include <torch/types.h>"), ("src/train/clip.cpp", "#include <torch/torch.h>"), ("src/data/store.h", "#include <hdf5.h>"),
            ("src/data/hdf5/layout.cpp", '#include "hdf5/hdf5.h"'), ("src/data/loader/loader.cpp", '#include "synth/synth.h"'), ("src/config/load.cpp", "#include <fmt/format.h>"),
        ]:
            self.assertTrue(problems_of(path(file), text), f"{file}: {text}")
        self.assertFalse(problems_of(path("src/train/trainer.cpp"), '#include <torch/types.h>\n#include "dist/world.h"'))

    def test_of_the_tree(self):
        sources = [path for path in tree.files("*.h", "*.cuh", "*.cpp", "*.cu") if module_of(path)]
        self.assertGreater(len(sources), 20)
        unknown = sorted({module_of(path) for path in sources} - set(MAY_INCLUDE))
        self.assertFalse(unknown, f"modules without a row in docs/design.md, section 2: {unknown}")
        includers = {}  # "data/hdf5/h5_handles.h": the files that include it
        for path in tree.files("*.h", "*.cuh", "*.cpp", "*.cu"):
            for _, name in INCLUDE.findall(tree.read(path)):
                includers.setdefault(name, []).append(path)

        def internal(path):
            name = str(path).removeprefix("src/")
            return all(p.suffix == ".cpp" and module_of(p) in (module_of(path), None) for p in includers.get(name, []))

        found = []
        for path in sources:
            found += problems_of(path, tree.read(path), lambda name: (tree.ROOT / name).exists(), internal)
        self.assertFalse(found, "\n" + "\n".join(found))


if __name__ == "__main__":
    unittest.main()
