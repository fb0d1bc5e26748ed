#pragma once

// The classes that a data set is converted for: those of a network or of other data, in
// their order.

#include <string>
#include <vector>

#include "data/hdf5/probe_process.h"

namespace dtrain::job {

// The class names of `source`: the folder of a run or of a checkpoint, a .safetensors file, a
// dtrain data file, or a text file with a name on each line. Throws CheckpointError or DataError if
// it cannot be read, names fewer than two classes or one of them twice.
std::vector<std::string> classes_of(data::ProbeProcess&, const std::string& source);

}  // namespace dtrain::job
