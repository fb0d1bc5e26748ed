#pragma once

// The config that `dtrain tune` writes: the keys that the run was given, with the tuned values in
// place of the given ones, as a config that `dtrain train` takes by itself. Pure.

#include <string>

#include "config/load.h"
#include "tune/tune_result.h"

namespace dtrain::tune {

// `command`: how tune was called, for the heading. `loaded`: what it was called with. Keys that
// were tuned say in a comment what they were.
std::string patch_text(const TuneResult&, const config::Loaded& loaded, const std::string& command);

// The configuration of the found settings.
config::Config tuned_config(const TuneResult&);

// Where it goes unless another file is named: my.yaml -> my.tuned.yaml in the current folder.
std::string patch_file(const std::string& config_file);

}  // namespace dtrain::tune
