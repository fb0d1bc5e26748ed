#include "os/run_child.h"

#include <sys/wait.h>

#include <chrono>

#include "core/clock.h"
#include "os/child_process.h"

namespace dtrain {
namespace {

constexpr int kBetweenLooks = 10;  // ms
constexpr size_t kMostOutput = 1 << 20, kMostErrors = 16 << 10;

}  // namespace

ChildEnd run_child(const std::vector<std::string>& command,
                   const std::vector<std::string>& environment, const std::string& input,
                   const ChildLimits& limits, const std::function<bool()>& stop) {
  ChildEnd end;
  const auto take = [&](std::string_view bytes, bool is_error) {
    std::string& text = is_error ? end.errors : end.output;
    text.append(bytes);
    if (end.output.size() > kMostOutput) end.output.resize(kMostOutput);
    if (end.errors.size() > kMostErrors) end.errors.erase(0, end.errors.size() - kMostErrors);
  };
  ChildProcess child(command, environment, input);
  const auto began = std::chrono::steady_clock::now();
  while (!child.look(kBetweenLooks, take)) {
    if (stop && stop()) {
      end.why = ChildEnd::Why::kStopped;
    } else if (child.resident_bytes() > limits.resident_bytes) {
      end.why = ChildEnd::Why::kTooLarge;
    } else if (seconds_since(began) > limits.seconds) {
      end.why = ChildEnd::Why::kTooLong;
    } else {
      continue;
    }
    child.kill(take);
    return end;
  }
  const int status = child.status();
  end.why = WIFEXITED(status) ? ChildEnd::Why::kExited : ChildEnd::Why::kSignaled;
  end.code = WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status);
  return end;
}

}  // namespace dtrain
