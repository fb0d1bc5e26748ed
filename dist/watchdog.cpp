#include "dist/watchdog.h"

#include <mpi.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "core/check.h"
#include "core/log.h"
#include "dist/peer_packets.h"
#include "dist/stall_detector.h"
#include "os/process_info.h"
#include "text/strings.h"

namespace dtrain::dist {
namespace {

constexpr int kTag = 1;

// One heartbeat to and from each other rank. Never blocks: a rank that does not take a heartbeat is
// sent no further one.
class Channel {
 public:
  explicit Channel(int size) : out_(static_cast<size_t>(size)) {
    check_mpi(MPI_Comm_dup(MPI_COMM_WORLD, &comm_), "MPI_Comm_dup");
    check_mpi(MPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
    expect();
  }
  Channel(const Channel&) = delete;
  Channel& operator=(const Channel&) = delete;

  // False if the previous heartbeat to that rank has not left yet.
  bool send(int to, const Heartbeat& heartbeat) {
    Outgoing& out = out_[static_cast<size_t>(to)];
    if (!sent(out)) return false;
    out.heartbeat = heartbeat;
    check_mpi(
        MPI_Isend(&out.heartbeat, sizeof out.heartbeat, MPI_BYTE, to, kTag, comm_, &out.request),
        "MPI_Isend");
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

  // After the last heartbeats have been sent and received.
  void close() {
    check_mpi(MPI_Cancel(&incoming_request_), "MPI_Cancel");
    check_mpi(MPI_Wait(&incoming_request_, MPI_STATUS_IGNORE), "MPI_Wait");
    check_mpi(MPI_Comm_free(&comm_), "MPI_Comm_free");
  }

 private:
  struct Outgoing {
    Heartbeat heartbeat;
    MPI_Request request = MPI_REQUEST_NULL;
  };

  bool sent(Outgoing& out) {
    int done = 1;
    check_mpi(MPI_Test(&out.request, &done, MPI_STATUS_IGNORE), "MPI_Test");
    return done != 0;
  }

  void expect() {
    check_mpi(MPI_Irecv(&incoming_, sizeof incoming_, MPI_BYTE, MPI_ANY_SOURCE, kTag, comm_,
                        &incoming_request_),
              "MPI_Irecv");
  }

  MPI_Comm comm_ = MPI_COMM_NULL;
  std::vector<Outgoing> out_;
  Heartbeat incoming_;
  MPI_Request incoming_request_ = MPI_REQUEST_NULL;
};

// A World that was not made by an MpiSession may have no names.
std::vector<std::string> nodes_of(const World& world) {
  std::vector<std::string> nodes = world.nodes;
  nodes.resize(static_cast<size_t>(world.size), world.node);
  return nodes;
}

}  // namespace

class Watchdog::Impl {
 public:
  Impl(const World& world, double timeout, OnStall on_stall, const Clock& clock)
      : rank_(world.rank),
        size_(world.size),
        period_(std::min(timeout / 10, 30.0)),
        on_stall_(std::move(on_stall)),
        addresses_(world.addresses),
        detector_(world.rank, nodes_of(world), timeout, period_, clock),
        channel_(std::make_unique<Channel>(world.size)),
        goodbye_sent_(static_cast<size_t>(world.size)) {
    thread_ = std::thread([this] {
      name_this_thread(kServiceThread);
      run();
    });
  }

  ~Impl() {
    stop(Order::kQuit);
    if (!closed_) static_cast<void>(channel_.release());  // MPI may still use its memory
  }

  void ask(std::function<void()> check) {
    const std::lock_guard lock(mutex_);
    check_ = std::move(check);
  }

  void progress(const char* phase, int64_t step) noexcept {
    phase_.store(phase, std::memory_order_relaxed);
    step_.store(step, std::memory_order_relaxed);
    alive();
  }

  void alive() noexcept { progress_.fetch_add(1, std::memory_order_release); }

  void close() {
    alive();  // the wait for the other ranks begins now
    stop(Order::kLeave);
    if (error_) std::rethrow_exception(error_);
    if (closed_) return;
    channel_->close();
    closed_ = true;
  }

 private:
  enum class Order { kWatch, kLeave, kQuit };

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
      // Training goes on without a watchdog; close() throws the error on the training thread.
      error_ = std::current_exception();
      log::warning(str("the watchdog stopped: ", error.what()));
    }
  }

  void watch() {
    double next_heartbeat = 0;
    bool said_goodbye = false;
    for (Order order = Order::kWatch; order != Order::kQuit; order = wait(order)) {
      // first: it publishes phase and step
      const uint64_t progress = progress_.load(std::memory_order_acquire);
      const double now = detector_.update(progress, phase_.load(std::memory_order_relaxed),
                                          step_.load(std::memory_order_relaxed));
      channel_->receive(
          [&](int from, const Heartbeat& heartbeat) { detector_.receive(from, heartbeat); });
      if (order == Order::kLeave && !said_goodbye) {
        detector_.leave();
        said_goodbye = say_goodbye();
      } else if (now >= next_heartbeat && !said_goodbye) {
        detector_.note_unheard(
            [this](int rank, double seconds) { return packets_since(rank, seconds); });
        for_others([this](int to) { channel_->send(to, detector_.own()); });
        next_heartbeat = now + period_;
      }
      if (said_goodbye && detector_.all_left() && channel_->all_sent()) return;
      std::optional<PeerError> alarm = detector_.judge();
      if (!alarm && detector_.own().stalled >= period_) alarm = failed_communicator();
      if (alarm) {
        error_ = std::make_exception_ptr(*alarm);
        on_stall_(*alarm);
        return;
      }
    }
  }

  bool packets_since(int rank, double seconds) const {
    const std::optional<double> last = seconds_since_packet(addresses_[static_cast<size_t>(rank)]);
    return last && *last < seconds;
  }

  std::optional<PeerError> failed_communicator() {
    const std::lock_guard lock(mutex_);
    if (!check_) return std::nullopt;
    try {
      check_();
      return std::nullopt;
    } catch (const std::exception& error) {
      const Heartbeat& own = detector_.own();
      return PeerError(str("rank ", rank_, " has made no progress for ", fixed(own.stalled, 1),
                           " s in phase ", own.phase, ", step ", own.step, ": ", error.what()),
                       peer_of(error));
    }
  }

  // Until the next turn or a new order. Heartbeats are not urgent, leaving is.
  Order wait(Order last) {
    std::unique_lock lock(mutex_);
    const double pause = last == Order::kWatch ? period_ / 4 : std::min(period_ / 4, 0.002);
    ordered_.wait_for(lock, std::chrono::duration<double>(pause), [&] { return order_ != last; });
    return order_;
  }

  template <typename Body>
  void for_others(Body body) const {
    for (int rank = 0; rank < size_; ++rank) {
      if (rank != rank_) body(rank);
    }
  }

  // True when every other rank has been sent the last heartbeat.
  bool say_goodbye() {
    bool all = true;
    for_others([&](int to) {
      const auto index = static_cast<size_t>(to);
      if (!goodbye_sent_[index]) goodbye_sent_[index] = channel_->send(to, detector_.own());
      all = all && goodbye_sent_[index];
    });
    return all;
  }

  const int rank_, size_;
  const double period_;
  const OnStall on_stall_;
  const std::vector<std::vector<std::string>> addresses_;  // one list per rank, in rank order

  std::atomic<const char*> phase_ = "start";
  std::atomic<int64_t> step_ = 0;
  std::atomic<uint64_t> progress_ = 0;

  std::mutex mutex_;  // guards order_ and check_
  std::function<void()> check_;
  std::condition_variable ordered_;
  Order order_ = Order::kWatch;

  // Used by the watchdog's thread alone until it has ended.
  StallDetector detector_;
  std::unique_ptr<Channel> channel_;
  std::vector<bool> goodbye_sent_;  // one per rank, in rank order
  std::exception_ptr error_;
  bool closed_ = false;
  std::thread thread_;
};

Watchdog::Watchdog(const World& world, double timeout_seconds, OnStall on_stall,
                   const Clock& clock) {
  DTRAIN_CHECK(timeout_seconds > 0, "timeout ", timeout_seconds);
  impl_ = std::make_unique<Impl>(world, timeout_seconds, std::move(on_stall), clock);
}

Watchdog::~Watchdog() = default;
void Watchdog::ask(std::function<void()> check) { impl_->ask(std::move(check)); }
void Watchdog::progress(const char* phase, int64_t step) noexcept { impl_->progress(phase, step); }
void Watchdog::alive() noexcept { impl_->alive(); }
void Watchdog::close() { impl_->close(); }

}  // namespace dtrain::dist
