#pragma once

#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>

namespace dtrain::testing {

// The exit code of a test binary: 1 if a test failed or none ran, 77 (ctest: Skipped) if all were
// skipped. If some tests passed and some were skipped, that is a failure too: ctest would show the
// skipped ones as passed, so they need a separate binary. With DTRAIN_TESTS_MAY_SKIP it is none: a
// CPU that is held to narrower vectors (tests/isa) runs some tests of a binary and not others.
inline int verdict(int failed, int skipped, int passed) {
  if (failed > 0) return 1;
  if (skipped > 0 && passed > 0 && std::getenv("DTRAIN_TESTS_MAY_SKIP") == nullptr) {
    std::printf("%d tests were skipped and %d passed: move the skipped tests to another binary\n",
                skipped, passed);
    return 1;
  }
  if (skipped > 0 && passed == 0) return 77;
  return passed > 0 ? 0 : 1;
}

}  // namespace dtrain::testing
