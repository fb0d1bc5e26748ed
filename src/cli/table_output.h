#pragma once

// Where a command puts what it measured: a table for people on the standard output, and with --json
// all of it for programs, into a file or (`-`) on the standard output, alone. Rank 0 writes.

#include <filesystem>
#include <functional>
#include <memory>
#include <string>

#include "cli/row_output.h"
#include "dist/communicator.h"
#include "os/output_guard.h"

namespace CLI {
class App;
}

namespace dtrain::cli {

class TableOutput {
 public:
  // --json, of which `text` is the help, and --force.
  void add_to(CLI::App&, const char* text = kAllAsJson);
  bool force() const { return force_; }  // for other files that the command writes, as is file()

  // Before the work, which would be lost where the file cannot be written. OutputError. Collective.
  void open(dist::Communicator& host, const Inputs& inputs);

  // Both texts end with a line break; rank 0 makes the one that is needed. Collective.
  void write(dist::Communicator& host, const std::function<std::string()>& table,
             const std::function<std::string()>& json);

  const std::string& file() const { return json_; }  // --json

 private:
  static constexpr const char* kAllAsJson =
      "write all of it as JSON to this file; -: to the standard output, alone";
  std::string json_;
  bool force_ = false;
  std::unique_ptr<RowOutput> file_;
};

}  // namespace dtrain::cli
