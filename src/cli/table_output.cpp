#include "cli/table_output.h"

#include <CLI/CLI.hpp>

#include "cli/options.h"
#include "dist/agree.h"
#include "os/file_system.h"

namespace dtrain::cli {

void TableOutput::add_to(CLI::App& app, const char* text) {
  app.add_option("--json", json_, text)->check(not_empty());
  app.add_flag("--force", force_, "replace an existing file");
}

void TableOutput::open(dist::Communicator& host, const Inputs& inputs) {
  dist::agree_on_rank0(host, [&] {
    if (json_.empty()) return;
    const std::filesystem::path file = is_standard_output(json_) ? "" : json_;
    protect(file, inputs);
    check_output(file, force_);
    file_ = std::make_unique<RowOutput>(json_, force_);
  });
}

void TableOutput::write(dist::Communicator& host, const std::function<std::string()>& table,
                        const std::function<std::string()>& json) {
  dist::agree_on_rank0(host, [&] {
    if (json_ != "-") {
      RowOutput out("-");
      out.write(table());
      out.close();
    }
    if (!file_) return;
    file_->write(json());
    file_->close();
    file_.reset();
  });
}

}  // namespace dtrain::cli
