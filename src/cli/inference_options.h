#pragma once

// The flags that eval and predict share: how a checkpoint is run, not what it is run on.

#include <cstdint>
#include <string>
#include <vector>

#include "data/order/splits.h"
#include "data/store.h"

namespace CLI {
class App;
}

namespace dtrain::cli {

int default_reader_threads(int cores);  // of a rank with so many cores

// The samples of "train", "val" or "test".
const std::vector<int64_t>& split_ids(const data::Splits&, const std::string& split);

struct InferenceOptions {
  std::string amp = "fp32", device = "auto";
  int64_t batch_size = 64, workers = 0;
  std::string module_file;  // where the TorchScript file is now; "": where it was while training

  void add_to(CLI::App&);
  int threads(int cores) const;  // that read, of a rank with so many cores
};

}  // namespace dtrain::cli
