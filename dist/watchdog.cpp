#include "dist/watchdog.h"

#include <mpi.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

#include "core/check.h"
#include "core/log.h"
#include "dist/stall.h"

namespace dtrain::dist {
namespace {

constexpr int kTag = 1;

struct Beat {
  double standing = 0;  // seconds without progress of the sender's training thread
  int64_t step = 0;
  char phase[32] = "";
  int64_t leaving = 0;  // 1: the last beat of this rank
};

// Time that passes only while this process runs: a step longer than `longest` counts as that, so being suspended is not
// standing still.
class LivedTime {
 public:
  explicit LivedTime(double longest) : longest_(longest) {}
  double advance() {
    const auto now = std::chrono::steady_clock::now();
    lived_ += std::min(std::chrono::duration<double>(now - last_).count(), longest_);
    last_ = now;
    return lived_;
  }

 private:
  double longest_, lived_ = 0;
  std::chrono::steady_clock::time_point last_ = std::chrono::steady_clock::now();
};

// One small message to and from each other rank. Never blocks: to a rank that does not take its beats none are added.
class Channel {
 public:
  explicit Channel(int size) : out_(static_cast<size_t>(size)) {
    check_mpi(MPI_Comm_dup(MPI_COMM_WORLD, &comm_), "MPI_Comm_dup");
    check_mpi(MPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
    expect();
  }
  Channel(const Channel&) = delete;

  // False if the last beat to that rank is still on its way.
  bool send(int to, const Beat& beat) {
    Outgoing& out = out_[static_cast<size_t>(to)];
    if (!sent(out)) return false;
    out.beat = beat;
    check_mpi(MPI_Isend(&out.beat, sizeof out.beat, MPI_BYTE, to, kTag, comm_, &out.request), "MPI_Isend");
    return true;
  }

  template <typename Take>
  void receive(Take take) {
    while (true) {
      int arrived = 0;
      MPI_Status status;
      check_mpi(MPI_Test(&incoming_request_, &arrived, &status), "MPI_Test");
      if (!arrived) return;
      take(status.MPI_SOURCE, incoming_);
      expect();
    }
  }

  bool all_sent() {
    return std::all_of(out_.begin(), out_.end(), [this](Outgoing& out) { return sent(out); });
  }

  // After the last beats have come and gone.
  void close() {
    check_mpi(MPI_Cancel(&incoming_request_), "MPI_Cancel");
    check_mpi(MPI_Wait(&incoming_request_, MPI_STATUS_IGNORE), "MPI_Wait");
    check_mpi(MPI_Comm_free(&comm_), "MPI_Comm_free");
  }

 private:
  struct Outgoing {
    Beat beat;
    MPI_Request request = MPI_REQUEST_NULL;
  };

  bool sent(Outgoing& out) {
    int done = 1;
    check_mpi(MPI_Test(&out.request, &done, MPI_STATUS_IGNORE), "MPI_Test");
    return done != 0;
  }

  void expect() {
    check_mpi(MPI_Irecv(&incoming_, sizeof incoming_, MPI_BYTE, MPI_ANY_SOURCE, kTag, comm_, &incoming_request_),
              "MPI_Irecv");
  }

  MPI_Comm comm_ = MPI_COMM_NULL;
  std::vector<Outgoing> out_;
  Beat incoming_;
  MPI_Request incoming_request_ = MPI_REQUEST_NULL;
};

}  // namespace

class Watchdog::Impl {
 public:
  Impl(const World& world, double timeout, std::function<void(const std::string&)> on_stall)
      : rank_(world.rank),
        size_(world.size),
        timeout_(timeout),
        period_(std::min(timeout / 10, 30.0)),
        on_stall_(std::move(on_stall)),
        time_(period_),
        channel_(std::make_unique<Channel>(world.size)),
        heard_(static_cast<size_t>(world.size)) {
    thread_ = std::thread([this] { run(); });
  }

  ~Impl() {
    stop(Order::kQuit);
    if (!closed_) static_cast<void>(channel_.release());  // messages under way may still use its memory
  }

  void progress(const char* phase, int64_t step) noexcept {
    phase_.store(phase, std::memory_order_relaxed);
    step_.store(step, std::memory_order_relaxed);
    alive();
  }

  void alive() noexcept { progress_.fetch_add(1, std::memory_order_release); }

  void close() {
    alive();  // waiting for the others begins now
    stop(Order::kLeave);
    if (error_) std::rethrow_exception(error_);
    if (closed_) return;
    channel_->close();
    closed_ = true;
  }

 private:
  enum class Order { kWatch, kLeave, kQuit };
  struct Heard {
    Beat beat;
    double when = 0;  // on this rank's clock
  };

  void stop(Order order) {
    {
      const std::lock_guard lock(mutex_);
      order_ = order;
    }
    ordered_.notify_one();
    if (thread_.joinable()) thread_.join();
  }

  void run() {
    try {
      watch();
    } catch (const std::exception& error) {
      // Without it training goes on, only unwatched. close() tells the training thread.
      error_ = std::current_exception();
      log::warning(str("the watchdog ended: ", error.what()));
    }
  }

  void watch() {
    double next_beat = 0;
    bool said_goodbye = false;
    for (Order order = Order::kWatch; order != Order::kQuit; order = wait(order)) {
      const double now = time_.advance();
      note_own_progress(now);
      channel_->receive([&](int from, const Beat& beat) { heard_[static_cast<size_t>(from)] = {beat, now}; });
      if (order == Order::kLeave && !said_goodbye) {
        said_goodbye = say_goodbye();
      } else if (now >= next_beat && !said_goodbye) {
        beat_to_all();
        next_beat = now + period_;
      }
      if (said_goodbye && all_left() && channel_->all_sent()) return;
      if (judge(now)) return;
    }
  }

  // Until the next turn or a new order. Beats have time, leaving has not.
  Order wait(Order last) {
    std::unique_lock lock(mutex_);
    const double pause = last == Order::kWatch ? period_ / 4 : std::min(period_ / 4, 0.002);
    ordered_.wait_for(lock, std::chrono::duration<double>(pause), [&] { return order_ != last; });
    return order_;
  }

  void note_own_progress(double now) {
    const uint64_t count = progress_.load(std::memory_order_acquire);
    if (count != seen_) moved_ = now;
    seen_ = count;
    Heard& self = heard_[static_cast<size_t>(rank_)];
    self.when = now;
    self.beat.standing = now - moved_;
    self.beat.step = step_.load(std::memory_order_relaxed);
    std::strncpy(self.beat.phase, phase_.load(std::memory_order_relaxed), sizeof self.beat.phase - 1);
  }

  void beat_to_all() {
    for (int to = 0; to < size_; ++to) {
      if (to != rank_) channel_->send(to, heard_[static_cast<size_t>(rank_)].beat);
    }
  }

  // True when every other rank has been sent the last beat.
  bool say_goodbye() {
    Beat& own = heard_[static_cast<size_t>(rank_)].beat;
    own.leaving = 1;
    goodbyes_.resize(static_cast<size_t>(size_));
    bool all = true;
    for (int to = 0; to < size_; ++to) {
      if (to == rank_ || goodbyes_[static_cast<size_t>(to)]) continue;
      goodbyes_[static_cast<size_t>(to)] = channel_->send(to, own);
      all = all && goodbyes_[static_cast<size_t>(to)];
    }
    return all;
  }

  bool all_left() const {
    return std::all_of(heard_.begin(), heard_.end(), [](const Heard& heard) { return heard.beat.leaving != 0; });
  }

  bool judge(double now) {
    const double silence = timeout_ / 2;
    std::vector<RankState> states;
    for (int rank = 0; rank < size_; ++rank) {
      const auto& [beat, when] = heard_[static_cast<size_t>(rank)];
      const double unheard = now - when;
      // One that beats may have moved since: only its next beat can tell. One that leaves sends no more.
      const double standing = beat.standing + (unheard >= silence || beat.leaving ? unheard : 0);
      states.push_back({rank, unheard, standing, beat.phase[0] ? beat.phase : "start", beat.step, beat.leaving != 0});
    }
    // One rank speaks: the lowest that lives. Should it not, the others do.
    const bool first = std::all_of(states.begin(), states.begin() + rank_,
                                   [&](const RankState& s) { return s.unheard >= silence || s.leaving; });
    const std::optional<std::string> message =
        describe_stall(states, timeout_ + (first ? 0 : 2 + 2 * period_), silence);
    if (!message) return false;
    error_ = std::make_exception_ptr(CommError(*message));
    on_stall_(*message);
    return true;
  }

  const int rank_, size_;
  const double timeout_, period_;
  const std::function<void(const std::string&)> on_stall_;

  std::atomic<const char*> phase_ = "start";
  std::atomic<int64_t> step_ = 0;
  std::atomic<uint64_t> progress_ = 0;

  std::mutex mutex_;
  std::condition_variable ordered_;
  Order order_ = Order::kWatch;

  // The watchdog's thread alone, until it has ended.
  LivedTime time_;
  std::unique_ptr<Channel> channel_;
  std::vector<Heard> heard_;
  std::vector<char> goodbyes_;
  uint64_t seen_ = 0;
  double moved_ = 0;
  std::exception_ptr error_;
  bool closed_ = false;
  std::thread thread_;
};

Watchdog::Watchdog(const World& world, double timeout_seconds, std::function<void(const std::string&)> on_stall) {
  DTRAIN_CHECK(timeout_seconds > 0, "timeout ", timeout_seconds);
  impl_ = std::make_unique<Impl>(world, timeout_seconds, std::move(on_stall));
}

Watchdog::~Watchdog() = default;
void Watchdog::progress(const char* phase, int64_t step) noexcept { impl_->progress(phase, step); }
void Watchdog::alive() noexcept { impl_->alive(); }
void Watchdog::close() { impl_->close(); }

}  // namespace dtrain::dist
