#pragma once

// Which runs a key changes. The column `scope` of the table of keys says it for each key: for a
// task, a network, or what a `module` learns. A key outside of its scope is refused where it is
// given, and is neither printed nor saved. What a task or a network has is in the catalog, so that
// a new task needs no change here.

namespace dtrain::config {

struct Config;

struct Scope {
  const char* text = "";                    // "tasks with pictures"; "": every run
  bool (*covers)(const Config&) = nullptr;  // nullptr: every run
  bool holds(const Config& config) const { return covers == nullptr || covers(config); }
};

extern const Scope kPictures;        // the input is a picture
extern const Scope kMirrored;        // a picture whose mirror image has a known target
extern const Scope kRows;            // the input is rows, any number of them
extern const Scope kFourDimensions;  // parameters may have four dimensions
extern const Scope kTaskPointer;
extern const Scope kTaskSequence;
extern const Scope kTorchScript;   // the network comes from a file
extern const Scope kConvolutions;  // dtrain's own networks of pictures
extern const Scope kDropout;       // the network has dropout
extern const Scope kBatchNorm;     // the network has batch norm
extern const Scope kHiddenUnits;   // the number of units of its LSTM layers is free
extern const Scope kSmoothedLoss;  // the loss is a cross entropy
extern const Scope kClassWeights;  // the loss weights classes

}  // namespace dtrain::config
