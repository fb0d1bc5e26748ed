#pragma once

// How far a long piece of work is, as its caller is told.

#include <cstdint>
#include <functional>

namespace dtrain::data {

struct Progress {
  const char* stage = "";       // what is being done: "reading", "writing"; one follows the other
  int64_t done = 0, total = 0;  // samples
  int64_t resumed = 0;          // of `done`, from an earlier, interrupted conversion
};
using ReportProgress = std::function<void(const Progress&)>;

}  // namespace dtrain::data
