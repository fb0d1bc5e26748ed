#pragma once

// The page of a run for a browser: rank 0 serves it at `/`, beside `/metrics`. As a sink it
// collects the numbers of the run; the server's thread makes JSON of them when a browser asks,
// which receives the history once and after that only what is new. The page itself is three static
// files (monitoring/page/) that load nothing from elsewhere. The history is bounded by thinning,
// however long the run is.
//
// Thread-safety: as a Sink, plus places(): all calls come from one thread, which at a step never
// waits for the server. log_line() may be called from any thread, and the pages at any time.

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/clock.h"
#include "monitoring/http_pages.h"
#include "monitoring/sink.h"

namespace dtrain::monitoring {

class LivePage : public Sink {
 public:
  // Kept at most
  static constexpr size_t kPoints = 600, kEvaluations = 300, kLogLines = 200, kLineBytes = 500;

  // Name and value, as the page shows them
  using Facts = std::vector<std::pair<std::string, std::string>>;

  // Where a rank runs.
  struct Place {
    std::string node, device;
    int cores = 0, loader_threads = 0;
  };

  // `run` is the name of the run. `clock` must outlive the page.
  LivePage(std::string run, Facts facts, const Clock& clock = real_clock());
  ~LivePage() override;

  // For the server: "/", its style and its script, and "/state.json". They stay valid after the
  // LivePage is destroyed. `?since=NUMBER&line=LINE`, from an earlier answer, leaves out what that
  // answer had.
  std::vector<Page> pages() const;

  void record(const StepStats&) override;
  void record(const EvalStats&) override;
  void checkpoint_saved(int64_t step, double seconds) override;
  void state(LiveState) override;
  void verdict(const VerdictRecord&) override;

  // What an earlier process of the same run recorded at `time` (seconds since 1970), the oldest
  // first: for the curves of a resumed run. To be called before the first record().
  void earlier(const StepStats&, double time);
  void earlier(const EvalStats&, double time);

  void places(std::vector<Place>);  // one per rank, in rank order; call once, when they are known
  void log_line(std::string_view line);

 private:
  class State;
  std::shared_ptr<State> state_;
};

// The text of monitoring/page/NAME.*.
std::optional<std::string_view> page_file(std::string_view name);

}  // namespace dtrain::monitoring
