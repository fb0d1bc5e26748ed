#!/usr/bin/env python3
"""Measures the structure of a checkout, to compare it before and after a change: `tests/lint/structure.py [CHECKOUT] [--json]`.

It reads the files that git lists in CHECKOUT (by default the one that holds this script), builds nothing, and needs Python 3.11 alone.
Product code is C++ in src/, dist/ and monitoring/. What is counted:

- files, lines: by kind. Lines are all lines, comments and blank ones too.
- median header, short files, longest function: of product code. A short file has at most 40 lines.
- structs above 15 members: structs and classes of product code with more than 15 data members of their own, static ones not counted.
- most includes in a header: how many headers of the project the header with the most of them includes.
- backward arrows inside modules: a unit is a header with the sources of its folder that have its name (batch_norm.h, batch_norm.cpp,
  batch_norm.cu). A unit points at the units of its module whose headers it includes. Where units point at each other in a circle, no
  order is without an arrow from a lower unit to an upper one: counted is the least number of such arrows, summed over all circles.
  Files that include each other are an error of lint.includes and do not come up here; a .cpp file that includes the header of
  a unit above it does.
- duplicate pairs: pairs of files (or a file and itself) with a run of six or more equal lines. Comments, blank lines, includes and lines
  without a name are left out, white space is folded, and all numbers and all strings count as equal. Six lines that stand in more than
  eight places do not count.
- names defined twice: public types (a struct, class, union or enum in a namespace of a header) whose name another header of product code
  defines too, in any namespace. Beside it: public types whose name any other file defines, types local to a .cpp file included.
"""
import argparse
import collections
import json
import pathlib
import re
import statistics
import subprocess
import sys

import cpp_text

PRODUCT = re.compile(r"^(src|dist|monitoring)/.*\.(h|cuh|cpp|cu|inc|def)$")
TESTS = re.compile(r"^tests/.*\.(h|cuh|cpp|cu|py|sh)$|^tests/[^.]*$")
BENCH = re.compile(r"^bench/.*\.(h|cpp|c|py)$")
DOCUMENTS = re.compile(r"\.md$")
HEADER = re.compile(r"\.(h|cuh)$")
SHORT_FILE = 40
MANY_MEMBERS = 15
RUN = 6
TOO_COMMON = 8
EXACT = 14  # units of a circle up to which the least number of backward arrows is found by trying all orders


def lines_of_code(text):
    """Without empty lines and those of comments alone."""
    return sum(bool(line) and not line.startswith("//") for line in map(str.strip, text.splitlines()))


def read_checkout(folder):
    """{path: text} of the files that git lists and that are text."""
    listed = subprocess.run(["git", "-c", f"safe.directory={folder}", "-C", folder, "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
                            check=True, capture_output=True, text=True).stdout.split("\0")
    texts = {}
    for name in sorted(filter(None, listed)):
        path = folder / name
        if path.is_file() and any(kind.search(name) for kind in (PRODUCT, TESTS, BENCH, DOCUMENTS)):
            try:
                texts[pathlib.PurePosixPath(name)] = path.read_text(encoding="utf-8")
            except UnicodeDecodeError:
                pass  # not a text
    return texts


def module_of(path):
    """The module of a product file: a folder of src, dist or monitoring; src/main.cpp belongs to cli."""
    if path.parts[0] != "src":
        return path.parts[0]
    return "cli" if len(path.parts) == 2 else path.parts[1]


def wide_types(texts):
    """[(members, name, path)] of the types with more than MANY_MEMBERS data members, the largest first."""
    found = [(members, name, str(path)) for path, text in texts.items()
             for _, name, _, members in cpp_text.types(text) if members > MANY_MEMBERS]
    return sorted(found, key=lambda wide: (-wide[0], wide[1:]))


def public_types(texts):
    """({name: headers that define it}, {name: all files that define it}) of the types of namespaces, nested ones left out."""
    public, everywhere = collections.defaultdict(set), collections.defaultdict(set)
    for path, text in texts.items():
        for _, name, _, _ in cpp_text.types(text):
            if "::" not in name:
                everywhere[name].add(str(path))
                if HEADER.search(path.name):
                    public[name].add(str(path))
    return public, everywhere


def unit_graph(texts):
    """{unit: units of its module that it includes}. A unit is a path without its suffix."""
    by_name = {str(path).removeprefix("src/"): path for path in texts}
    graph = {}
    for path, text in texts.items():
        unit = str(path.with_suffix(""))
        graph.setdefault(unit, set())
        for kind, name in cpp_text.includes(text):
            other = by_name.get(name) or by_name.get(str(path.parent / name).removeprefix("src/"))
            if kind == '"' and other and module_of(other) == module_of(path) and str(other.with_suffix("")) != unit:
                graph[unit].add(str(other.with_suffix("")))
    return graph


def circles(graph):
    """The strongly connected components of {node: nodes} with more than one node, each sorted (Tarjan's algorithm, without recursion)."""
    number, lowest, stack, found = {}, {}, [], []
    for root in sorted(graph):
        if root in number:
            continue
        number[root] = lowest[root] = len(number)
        stack.append(root)
        work = [(root, iter(sorted(graph[root])))]
        while work:
            node, rest = work[-1]
            for other in rest:
                if other not in number:
                    number[other] = lowest[other] = len(number)
                    stack.append(other)
                    work.append((other, iter(sorted(graph.get(other, ())))))
                    break
                if other in stack:
                    lowest[node] = min(lowest[node], number[other])
            else:
                work.pop()
                if work:
                    lowest[work[-1][0]] = min(lowest[work[-1][0]], lowest[node])
                if lowest[node] == number[node]:
                    component = stack[stack.index(node):]
                    del stack[stack.index(node):]
                    if len(component) > 1:
                        found.append(sorted(component))
    return found


def backward_arrows(graph, circle):
    """The arrows [(from, to)] against the best order of the units of a circle: the fewest for EXACT units or fewer, else few."""
    arrows = {node: graph[node] & set(circle) for node in circle}
    if len(circle) > EXACT:  # Put the unit with the most arrows out over arrows in on top, again and again.
        order, left = [], set(circle)
        while left:
            top = max(sorted(left), key=lambda node: len(arrows[node] & left) - sum(node in arrows[other] for other in left))
            order.append(top)
            left.remove(top)
    else:  # best[s]: the fewest arrows against the order among the units of the set s, which stand at the bottom, and the topmost of them.
        index = {node: i for i, node in enumerate(circle)}
        out = [sum(1 << index[other] for other in arrows[node]) for node in circle]
        best = [(0, -1)] + [None] * ((1 << len(circle)) - 1)
        for s in range(1, 1 << len(circle)):
            best[s] = min((best[s ^ 1 << top][0] + sum(out[below] >> top & 1 for below in range(len(circle)) if s >> below & 1), top)
                          for top in range(len(circle)) if s >> top & 1)
        order, s = [], (1 << len(circle)) - 1
        while s:
            order.append(circle[best[s][1]])
            s ^= 1 << best[s][1]
    rank = {node: i for i, node in enumerate(order)}
    return sorted((node, other) for node in circle for other in arrows[node] if rank[other] < rank[node])


def normalized(text, cpp):
    """[(line number, line)] of the lines that count for duplicates."""
    if cpp:
        text = re.sub(r"//[^\n]*|/\*.*?\*/", lambda m: re.sub(r"[^\n]", "", m.group()), text, flags=re.DOTALL)
    lines = []
    for number, line in enumerate(text.splitlines(), 1):
        line = re.sub(r"\"(?:\\.|[^\"\\])*\"|'(?:\\.|[^'\\])*'", '""', line if cpp else re.sub(r"(^|\s)#.*", "", line))
        line = re.sub(r"(?<!\w)\d[\w.']*", "0", " ".join(line.split()))
        if re.search(r"[A-Za-z_]", line) and not re.match(r"#\s*include|#pragma|import |from \S+ import|(}\s*//\s*)?namespace", line):
            lines.append((number, line))
    return lines


def duplicate_pairs(texts):
    """[(lines, path, first line, path, first line, number of runs)]: the longest run of each pair of files, the longest first."""
    lines = {path: normalized(text, path.suffix != ".py" and "." in path.name) for path, text in sorted(texts.items())}
    places = collections.defaultdict(list)
    for path, of_file in lines.items():
        for i in range(len(of_file) - RUN + 1):
            places[tuple(line for _, line in of_file[i:i + RUN])].append((path, i))
    matches = set()
    for at in places.values():
        if 1 < len(at) <= TOO_COMMON:
            matches |= {(a, i, b, j) for n, (a, i) in enumerate(at) for b, j in at[n + 1:] if a != b or abs(i - j) >= RUN}
    runs = collections.defaultdict(list)
    for a, i, b, j in matches:
        if (a, i - 1, b, j - 1) in matches:
            continue  # inside of a run that begins earlier
        length = RUN
        while (a, i + length - RUN + 1, b, j + length - RUN + 1) in matches:
            length += 1
        runs[a, b].append((-length, lines[a][i][0], lines[b][j][0]))
    return sorted(((-min(of_pair)[0], str(a), min(of_pair)[1], str(b), min(of_pair)[2], len(of_pair)) for (a, b), of_pair in runs.items()),
                  key=lambda pair: (-pair[0], pair[1:]))


def measure(texts):
    """({what: number or text}, {what: details as lines of text})."""
    def part(pattern):
        return {path: text for path, text in texts.items() if pattern.search(str(path))}

    product, tests, bench, documents = part(PRODUCT), part(TESTS), part(BENCH), part(DOCUMENTS)
    size = {path: text.count("\n") for path, text in texts.items()}
    headers = sorted(path for path in product if HEADER.search(path.name))
    project = {path: sum(kind == '"' for kind, _ in cpp_text.includes(product[path])) for path in headers}
    widest = max(headers, key=lambda path: (project[path], str(path)))
    lengths = [(lines, f"{path}: {name}()") for path, text in product.items() for name, _, lines in cpp_text.functions(text)]
    wide = wide_types(product)
    graph = unit_graph(product)
    arrows = [arrow for circle in circles(graph) for arrow in backward_arrows(graph, circle)]
    in_product, in_all = duplicate_pairs(product), duplicate_pairs({**product, **tests, **bench})
    public, everywhere = public_types(product)
    twice = {name: paths for name, paths in public.items() if len(paths) > 1}
    local = {name: everywhere[name] for name in public if len(everywhere[name]) > 1}
    short = sum(size[path] <= SHORT_FILE for path in product)
    numbers = {
        "product files": len(product),
        "product lines": sum(size[path] for path in product),
        "product lines of code": sum(map(lines_of_code, product.values())),
        "test files": len(tests),
        "test lines": sum(size[path] for path in tests),
        "bench lines": sum(size[path] for path in bench),
        "document lines": sum(size[path] for path in documents),
        "document words": sum(len(text.split()) for text in documents.values()),
        "headers": len(headers),
        "median header, lines": statistics.median(size[path] for path in headers),
        "short files, share": f"{100 * short / len(product):.0f} %",
        "longest function, lines": max(lengths)[0],
        "structs above 15 members": len(wide),
        "members of the largest struct": wide[0][0] if wide else 0,
        "most includes in a header": project[widest],
        "backward arrows inside modules": len(arrows),
        "duplicate pairs, product": len(in_product),
        "duplicate pairs, all": len(in_all),
        "names defined twice": len(twice),
        "names defined twice, local types included": len(local),
    }
    details = {
        "longest function, lines": [max(lengths)[1]],
        "structs above 15 members": [f"{members} {name} ({path})" for members, name, path in wide],
        "most includes in a header": [str(widest)],
        "backward arrows inside modules": [f"{a} -> {b}" for a, b in arrows],
        "duplicate pairs, all": [f"{lines} lines: {a}:{i} ~ {b}:{j}" + (f" (+{runs - 1} runs)" if runs > 1 else "")
                                 for lines, a, i, b, j, runs in in_all],
        "names defined twice": [f"{name}: {', '.join(sorted(paths))}" for name, paths in sorted(twice.items())],
    }
    return numbers, details


def main():
    parser = argparse.ArgumentParser(description="Measures the structure of a checkout.")
    parser.add_argument("checkout", nargs="?", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parents[2], help="default: this one")
    parser.add_argument("--json", action="store_true", help="print JSON: the table, and what each number counts")
    parser.add_argument("--details", action="store_true", help="print what the numbers count under the table")
    options = parser.parse_args()
    numbers, details = measure(read_checkout(options.checkout.resolve()))
    if options.json:
        json.dump({"numbers": numbers, "details": details}, sys.stdout, indent=1)
        print()
        return
    width = max(map(len, numbers))
    print(f"| {'what':<{width}} | number |\n|{'-' * (width + 2)}|-------:|")
    for what, number in numbers.items():
        print(f"| {what:<{width}} | {number:>6} |")
    if options.details:
        for what, lines in details.items():
            print(f"\n{what}:\n" + "\n".join("  " + line for line in lines))


if __name__ == "__main__":
    main()
