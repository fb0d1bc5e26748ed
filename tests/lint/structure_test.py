"""structure.py counts what it says it counts, and the names of public types are unique."""
import json
import pathlib
import subprocess
import sys
import unittest

import cpp_text
import structure
import tree

def files(**texts):
    """{path: text}; __ in a name stands for a slash."""
    return {pathlib.PurePosixPath("src/" + name.replace("__", "/").replace("_dot_", ".")): text for name, text in texts.items()}


class CppText(unittest.TestCase):
    def test_types_and_their_members(self):
        text = """
namespace a { struct B; }
namespace a::b {
enum class Kind : uint8_t { kOne, kTwo };
template <typename T = std::vector<int>>
class [[nodiscard]] Wide final : public Base<T> {
 public:
  explicit Wide(int x = {}) : x_{x}, names_{} { y_ = "struct No { int z; };"; }
  Wide& operator=(const Wide&) = delete;
  int get() const { return x_; }
  using Map = std::map<int, int>;
  struct Inner { int a, b = f(1, 2); bool c : 1; };
  static constexpr int kFixed = 3;

 private:
  int x_{3}, y_ = 0;
  std::function<void(int, int)> call_ = [](int, int) { return; };
  std::array<int, 3> numbers_{1, 2, 3};
  const char* names_[2] = {"a", "b"};  // int no;
  mutable std::mutex mutex_;
};
struct Wide::Impl { int one; };
template <> struct hash<Wide> { int no; };
void run() { struct Local { int no; }; }
}
"""
        self.assertEqual(cpp_text.types(text), [("enum", "Kind", 4, 0), ("class", "Wide", 5, 6), ("struct", "Wide::Inner", 12, 3),
                                                ("struct", "Wide::Impl", 22, 1)])

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
        self.assertEqual(cpp_text.functions(text), [("B", 4, 3), ("operator==", 7, 1), ("run", 10, 7)])


class Structure(unittest.TestCase):
    def test_wide_types_are_those_above_15_members(self):
        def type_with(members):
            return f"struct S{members} {{ " + " ".join(f"int m{i};" for i in range(members)) + " };\n"

        found = structure.wide_types(files(m__a_dot_h=type_with(15) + type_with(16), m__b_dot_cpp=type_with(20)))
        self.assertEqual(found, [(20, "S20", "src/m/b.cpp"), (16, "S16", "src/m/a.h")])

    def test_a_source_that_includes_the_header_above_it_is_a_backward_arrow(self):
        texts = files(m__top_dot_h='#include "m/low.h"', m__low_dot_h="", m__other_dot_h="", m__top_dot_cpp='#include "m/top.h"\n#include "m/other.h"')
        self.assertEqual(structure.circles(structure.unit_graph(texts)), [])
        texts[pathlib.PurePosixPath("src/m/low.cpp")] = '#include "m/low.h"\n#include "m/top.h"\n#include "n/top.h"\n'
        graph = structure.unit_graph(texts)
        self.assertEqual(structure.circles(graph), [["src/m/low", "src/m/top"]])
        self.assertEqual(len(structure.backward_arrows(graph, ["src/m/low", "src/m/top"])), 1)

    def test_the_least_number_of_arrows_goes_backward(self):
        graph = {"a": {"b"}, "b": {"c"}, "c": {"d"}, "d": {"a"}, "e": {"a"}}
        self.assertEqual(structure.circles(graph), [["a", "b", "c", "d"]])
        self.assertEqual(len(structure.backward_arrows(graph, ["a", "b", "c", "d"])), 1)
        two = {"a": {"b", "c"}, "b": {"a", "c"}, "c": {"a"}}
        self.assertEqual(structure.backward_arrows(two, ["a", "b", "c"]), [("b", "a"), ("c", "a")])
        ring = {f"{i:02}": {f"{(i + 1) % 20:02}"} for i in range(20)}  # too many for all orders
        self.assertEqual(len(structure.backward_arrows(ring, sorted(ring))), 1)

    def test_duplicates_are_runs_of_six_lines(self):
        run = [f"call_{i}(x, {i}, \"{i}\");" for i in range(7)]
        one, other = "\n".join(run), "\n\n".join("  " + line.replace("5", "8") + "  // why" for line in run)
        same = structure.duplicate_pairs(files(m__a_dot_cpp="int a;\n" + one, m__b_dot_cpp=other.replace("call_8", "call_5")))
        self.assertEqual(same, [(7, "src/m/a.cpp", 2, "src/m/b.cpp", 1, 1)])
        self.assertEqual(structure.duplicate_pairs(files(m__a_dot_cpp=one, m__b_dot_cpp="\n".join(run[:5]))), [])
        everywhere = files(**{f"m__{i}_dot_cpp": one for i in range(structure.TOO_COMMON + 1)})
        self.assertEqual(structure.duplicate_pairs(everywhere), [])

    def test_names_are_public_where_a_header_defines_them(self):
        texts = files(m__a_dot_h="namespace m { struct A {}; struct B {}; struct C { struct A {}; }; }", n__a_dot_h="enum class A { kOne }; struct B;",
                      n__a_dot_cpp="namespace { struct B {}; }")
        public, everywhere = structure.public_types(texts)
        self.assertEqual({name for name, paths in public.items() if len(paths) > 1}, {"A"})
        self.assertEqual({name for name, paths in everywhere.items() if len(paths) > 1}, {"A", "B"})

    def test_it_measures_this_checkout(self):
        result = subprocess.run([sys.executable, tree.ROOT / "tests/lint/structure.py", tree.ROOT, "--json"], capture_output=True, text=True, check=True)
        numbers = json.loads(result.stdout)["numbers"]
        self.assertGreater(numbers["product files"], 500)
        self.assertGreater(numbers["median header, lines"], 20)


class Names(unittest.TestCase):
    def test_public_types_have_names_of_their_own(self):
        texts = {path: tree.read(path) for path in tree.files() if structure.PRODUCT.search(str(path))}
        public, _ = structure.public_types(texts)
        self.assertGreater(len(public), 500)
        twice = {name: sorted(paths) for name, paths in public.items() if len(paths) > 1}
        found = [f"{name} is defined in {' and in '.join(paths)}: one name, one meaning" for name, paths in sorted(twice.items())]
        self.assertFalse(found, "\n" + "\n".join(found))


if __name__ == "__main__":
    unittest.main()
