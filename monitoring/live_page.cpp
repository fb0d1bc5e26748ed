#include "monitoring/live_page.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <deque>
#include <functional>
#include <mutex>
#include <nlohmann/json.hpp>

#include "core/check.h"
#include "monitoring/thinned_history.h"
#include "text/number_text.h"
#include "text/strings.h"

namespace dtrain::monitoring {
namespace {

using Json = nlohmann::ordered_json;
using measure::Quantity;

// A browser that asks again within this time receives the same text: many of them at once cost
// one conversion.
constexpr std::chrono::milliseconds kFresh{200};

// What is kept of a logging step, in the order of the page's columns; the phases follow.
constexpr std::array kColumns = {"step",          "time",       "epoch",      "loss",
                                 "learning_rate", "grad_norm",  "loss_scale", "samples_per_second",
                                 "step_seconds",  "memory_used"};
using Point = std::array<double, kColumns.size() + measure::kPhases>;

Point point_of(const StepStats& s, double time) {
  Point point = {static_cast<double>(s.step),
                 time,
                 static_cast<double>(s.epoch),
                 s.loss,
                 s.learning_rate,
                 s.grad_norm,
                 s.values[Quantity::kLossScale],
                 s.samples_per_second,
                 s.step_seconds,
                 s.values[Quantity::kMemory]};
  std::copy(s.phase_seconds.begin(), s.phase_seconds.end(), point.begin() + kColumns.size());
  return point;
}

struct Evaluation {
  EvalStats stats;
  double time = 0;
};

// Where the run is; changes at each step.
struct Position {
  int64_t step = 0, total_steps = 0, epoch = 0, epochs = 0, skipped = 0, bad_samples = 0;
  double eta_seconds = StepStats::kUnknown, memory_total = 0, time = 0;
};

struct Checkpoint {
  int64_t step = 0;
  double time = 0, seconds = 0;
};

struct LogLine {
  int64_t number = 0;
  double time = 0;
  std::string text;
};

// Seven digits are more than a curve shows, and short as text.
double rounded(double value) {
  std::array<char, 32> text{};
  const char* end =
      std::to_chars(text.data(), text.data() + text.size(), value, std::chars_format::general, 7)
          .ptr;
  return parse_number<double>(std::string_view(text.data(), static_cast<size_t>(end - text.data())))
      .value_or(value);
}

// JSON has no NaN and no infinity.
Json number(double value) {
  if (std::isfinite(value)) return rounded(value);
  if (std::isnan(value)) return nullptr;
  return value > 0 ? "inf" : "-inf";
}

Json numbers(const auto& values) {
  Json json = Json::array();
  for (const double value : values) json.push_back(number(value));
  return json;
}

Json points_json(const std::vector<Point>& points) {
  Json json = Json::array();
  for (const Point& point : points) {
    json.push_back(numbers(point));
    json.back()[1] = std::round(point[1] * 10) / 10;  // the date needs more than seven digits
  }
  return json;
}

Json evaluation_json(const Evaluation& e) {
  Json metrics = Json::array();
  for (const auto& [name, value] : e.stats.metrics) {
    const auto unit = e.stats.units.find(name);
    metrics.push_back({name, number(value), unit == e.stats.units.end() ? "" : unit->second});
  }
  return {{"step", e.stats.step},
          {"epoch", e.stats.epoch},
          {"split", e.stats.split},
          {"time", e.time},
          {"seconds", number(e.stats.seconds)},
          {"metrics", metrics}};
}

// The columns of the page, and their values for a rank.
Json quantities_json() {
  Json json = Json::array();
  for (const measure::QuantityRow& row : measure::quantity_rows()) {
    if (!row.title.empty()) json.push_back({row.title, row.unit});
  }
  return json;
}

Json rank_json(const measure::RankMeans& r) {
  Json values = Json::array();
  for (const Quantity quantity : measure::all_quantities()) {
    if (!measure::row_of(quantity).title.empty()) values.push_back(number(r.values[quantity]));
  }
  return {{"rank", r.rank},
          {"step_seconds", number(r.times.wall)},
          {"phase_seconds", numbers(r.times.phases)},
          {"values", values}};
}

// The beginning of a line, whole characters of UTF-8.
std::string shortened(std::string_view line) {
  if (line.size() <= LivePage::kLineBytes) return std::string(line);
  size_t end = LivePage::kLineBytes;
  while (end > 0 && (static_cast<unsigned char>(line[end]) & 0xc0) == 0x80) --end;
  return std::string(line.substr(0, end)) + " ...";
}

int64_t value_of(const Query& query, const char* name) {
  const auto found = query.find(name);
  return found == query.end() ? 0 : parse_number<int64_t>(found->second).value_or(0);
}

std::string file(std::string_view name) {
  const auto text = page_file(name);
  DTRAIN_CHECK(text, "no page file ", name);
  return std::string(*text);
}

}  // namespace

class LivePage::State {
 public:
  State(std::string run, Facts facts, const Clock& clock)
      : run_(std::move(run)), facts_(std::move(facts)), clock_(clock) {
    now_.started = time();
  }

  double time() const { return unix_seconds(clock_); }

  // The training thread. A step is handed over when the server is not reading, else together with
  // the next one.
  void add(const StepStats& s) {
    Position& position = mine_.position;
    position.step = s.step;
    position.total_steps = s.total_steps;
    position.epoch = s.epoch;
    position.epochs = s.epochs;
    position.time = time();
    if (s.logging) {
      position.skipped = static_cast<int64_t>(s.values.or_zero(Quantity::kSkippedSteps));
      position.memory_total = s.values[Quantity::kDeviceMemory];
      position.bad_samples = s.bad_samples;
      position.eta_seconds = s.eta_seconds;
      mine_.points.push_back(point_of(s, position.time));
      if (!s.ranks.empty()) mine_.ranks = s.ranks;
    }
    const std::unique_lock lock(mutex_, std::try_to_lock);
    if (lock.owns_lock()) hand_over();
  }

  // The training thread, for what is rare: it may wait until the server has read.
  void change(const std::function<void(State&)>& set) {
    const std::lock_guard lock(mutex_);
    hand_over();
    set(*this);
  }

  void add_point(const StepStats& s, double time) { points_.add(++number_, point_of(s, time)); }
  void add_evaluation(const EvalStats& e, double time) {
    Evaluation evaluation{e, time};
    evaluation.stats.tables.clear();  // may be large, and the page shows none
    now_.evaluation = evaluation;
    evaluations_.add(++number_, std::move(evaluation));
  }
  void set_checkpoint(int64_t step, double seconds) {
    now_.checkpoint = Checkpoint{step, time(), seconds};
  }
  void set_state(LiveState state) { now_.state = state; }
  void set_places(std::vector<LivePage::Place> places) {
    now_.places = std::move(places);
    placed_at_ = ++number_;
  }
  void set_verdict(std::string text) { now_.verdict = std::move(text); }

  void add_line(std::string_view line) {
    std::string text = shortened(line);
    const std::lock_guard lock(log_mutex_);
    log_.push_back({++lines_, time(), std::move(text)});
    if (log_.size() > kLogLines) log_.pop_front();
  }

  // The server's thread.
  std::string json(const Query& query) {
    const std::pair wanted(value_of(query, "since"), value_of(query, "line"));
    const auto now = clock_.now();
    if (made_at_ && wanted == made_for_ && now - *made_at_ < kFresh) return made_;
    made_ = make_json(wanted.first, wanted.second);
    made_for_ = wanted;
    made_at_ = now;
    return made_;
  }

 private:
  // What changes, as it is now; copied as a whole for the server.
  struct Now {
    double started = 0;  // tells one process of a run from the next
    LiveState state = LiveState::kStarting;
    Position position;
    std::optional<Point> newest;  // also if the history leaves it out
    std::optional<Evaluation> evaluation;
    std::optional<Checkpoint> checkpoint;
    std::vector<LivePage::Place> places;
    std::vector<measure::RankMeans> ranks;
    std::string verdict;
  };
  struct Waiting {
    Position position;
    std::vector<Point> points;
    std::optional<std::vector<measure::RankMeans>> ranks;
  };

  // Under mutex_.
  void hand_over() {
    now_.position = mine_.position;
    if (mine_.ranks) now_.ranks = std::move(*mine_.ranks);
    mine_.ranks.reset();
    for (const Point& point : mine_.points) {
      now_.newest = point;
      points_.add(++number_, point);
    }
    mine_.points.clear();
  }

  std::string make_json(int64_t since, int64_t line) {
    Now now;
    std::vector<Point> points;
    std::vector<Evaluation> evaluations;
    int64_t number = 0;
    bool whole = false;
    {
      const std::lock_guard lock(mutex_);
      now = now_;
      number = number_;
      whole = since <= 0 || since > number_ || !points_.continues(since) ||
              !evaluations_.continues(since);
      points = points_.since(whole ? 0 : since);
      evaluations = evaluations_.since(whole ? 0 : since);
      if (!whole && since >= placed_at_) now.places.clear();  // the client already has them
    }
    Json json = summary(now);
    json["number"] = number;
    json["whole"] = whole;
    json["points"] = points_json(points);
    json["newest"] = now.newest ? points_json({*now.newest})[0] : Json();
    json["evaluations"] = Json::array();
    for (const Evaluation& e : evaluations) json["evaluations"].push_back(evaluation_json(e));
    json["log"] = log_json(whole ? 0 : line);
    // A name that is not UTF-8 must not cost the page: its invalid bytes are replaced.
    return json.dump(-1, ' ', false, Json::error_handler_t::replace);
  }

  Json summary(const Now& now) const {
    Json columns = Json::array(), phases = Json::array();
    for (const char* name : kColumns) columns.push_back(name);
    for (const char* name : measure::kPhaseNames) phases.push_back(name);
    const Position& p = now.position;
    Json json = {{"run", run_},
                 {"facts", Json::array()},
                 {"started", now.started},
                 {"time", time()},
                 {"state", name_of(now.state)},
                 {"step", p.step},
                 {"total_steps", p.total_steps},
                 {"epoch", p.epoch},
                 {"epochs", p.epochs},
                 {"eta_seconds", number(p.eta_seconds)},
                 {"skipped", p.skipped},
                 {"bad_samples", p.bad_samples},
                 {"memory_total", number(p.memory_total)},
                 {"step_time", p.time},
                 {"verdict", now.verdict},
                 {"columns", columns},
                 {"phases", phases},
                 {"quantities", quantities_json()},
                 {"places", Json::array()},
                 {"ranks", Json::array()},
                 {"evaluation", now.evaluation ? evaluation_json(*now.evaluation) : Json()},
                 {"checkpoint", Json()}};
    for (const auto& [name, value] : facts_) json["facts"].push_back({name, value});
    for (const LivePage::Place& place : now.places) {
      json["places"].push_back({place.node, place.device, place.cores, place.loader_threads});
    }
    for (const measure::RankMeans& rank : now.ranks) json["ranks"].push_back(rank_json(rank));
    if (now.checkpoint) {
      json["checkpoint"] = {{"step", now.checkpoint->step},
                            {"time", now.checkpoint->time},
                            {"seconds", number(now.checkpoint->seconds)}};
    }
    return json;
  }

  // The lines after number `seen`, the oldest first.
  Json log_json(int64_t seen) {
    Json json = Json::array();
    const std::lock_guard lock(log_mutex_);
    for (const LogLine& line : log_) {
      if (line.number > seen) json.push_back({line.number, line.time, line.text});
    }
    return json;
  }

  const std::string run_;
  const Facts facts_;
  const Clock& clock_;

  Waiting mine_;  // the training thread's own

  std::mutex mutex_;  // guards the next five fields
  Now now_;
  int64_t number_ = 0;     // number of the newest change: an entry of either history, or the places
  int64_t placed_at_ = 0;  // number when the places became known
  ThinnedHistory<Point> points_{kPoints};
  ThinnedHistory<Evaluation> evaluations_{kEvaluations};

  std::mutex log_mutex_;
  std::deque<LogLine> log_;
  int64_t lines_ = 0;

  std::string made_;                      // the server's thread's own: the last answer
  std::pair<int64_t, int64_t> made_for_;  // since, line
  std::optional<Clock::Steady::time_point> made_at_;
};

LivePage::LivePage(std::string run, Facts facts, const Clock& clock)
    : state_(std::make_shared<State>(std::move(run), std::move(facts), clock)) {}

LivePage::~LivePage() = default;

std::vector<Page> LivePage::pages() const {
  return {
      {"/", "text/html; charset=utf-8", [](const Query&) { return file("live"); }},
      {"/live.css", "text/css; charset=utf-8", [](const Query&) { return file("style"); }},
      {"/live.js", "text/javascript; charset=utf-8", [](const Query&) { return file("script"); }},
      {"/state.json", "application/json",
       [state = state_](const Query& query) { return state->json(query); }}};
}

void LivePage::record(const StepStats& stats) { state_->add(stats); }

void LivePage::record(const EvalStats& stats) { earlier(stats, state_->time()); }

void LivePage::earlier(const StepStats& stats, double time) {
  state_->change([&](State& s) { s.add_point(stats, time); });
}

void LivePage::earlier(const EvalStats& stats, double time) {
  state_->change([&](State& s) { s.add_evaluation(stats, time); });
}

void LivePage::checkpoint_saved(int64_t step, double seconds) {
  state_->change([&](State& s) { s.set_checkpoint(step, seconds); });
}

void LivePage::state(LiveState state) {
  state_->change([&](State& s) { s.set_state(state); });
}

void LivePage::places(std::vector<LivePage::Place> places) {
  state_->change([&](State& s) { s.set_places(std::move(places)); });
}

void LivePage::verdict(const VerdictRecord& verdict) {
  std::string text = verdict.text;
  for (const std::string& also : verdict.also) text += "\n" + also;
  for (const std::string& more : {text_of(verdict.communication), text_of(verdict.probes)}) {
    if (!more.empty()) text += "\n" + more;
  }
  if (!verdict.not_measured.empty()) text += "\nnot measured: " + join(verdict.not_measured, "; ");
  state_->change([&](State& s) { s.set_verdict(std::move(text)); });
}

void LivePage::log_line(std::string_view line) { state_->add_line(line); }

}  // namespace dtrain::monitoring
