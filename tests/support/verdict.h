#pragma once

#include <gtest/gtest.h>

#include <cstdio>

namespace dtrain::testing {

// The exit code of a test binary: 1 if a test failed or nothing ran, 77 (ctest: Skipped) if all were skipped. Some
// passed and some skipped is a failure too: the skipped ones would show as passed, so they belong in a binary of their
// own.
inline int verdict(int failed, int skipped, int passed) {
  if (failed > 0) return 1;
  if (skipped > 0 && passed > 0) {
    std::printf("%d tests skipped beside %d that passed: move them to a test binary of their own\n", skipped, passed);
    return 1;
  }
  if (skipped > 0) return 77;
  return passed > 0 ? 0 : 1;
}

}  // namespace dtrain::testing
