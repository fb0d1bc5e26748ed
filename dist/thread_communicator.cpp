#include "dist/thread_communicator.h"

#include <condition_variable>
#include <exception>
#include <mutex>
#include <string>
#include <thread>

#include "core/check.h"

namespace dtrain::dist {

namespace {

enum class Kind { kAllReduce, kReduceScatter, kAllGather, kBroadcast, kBarrier };

// What one rank asks for. All ranks of a round must ask for the same.
struct Request {
  Kind kind = Kind::kBarrier;
  ReduceOp op = ReduceOp::kSum;
  int root = 0;
  at::Tensor out, in;  // the same tensor where the operation works in place
};

std::string describe(const Request& request) {
  static constexpr const char* kKinds[] = {"all_reduce", "reduce_scatter", "all_gather", "broadcast", "barrier"};
  static constexpr const char* kOps[] = {"sum", "max", "min"};
  const char* kind = kKinds[static_cast<int>(request.kind)];
  if (request.kind == Kind::kBarrier) return kind;
  return str(kind, "(", kOps[static_cast<int>(request.op)], ", root ", request.root, ", ", request.in.numel(), " to ",
             request.out.numel(), " elements of ", c10::toString(request.in.scalar_type()), ")");
}

// As strict as the communicators between processes (host_reduce.cpp), so that tests notice.
void check_reducible(const at::Tensor& tensor) {
  const at::ScalarType dtype = tensor.scalar_type();
  DTRAIN_CHECK(at::isFloatingType(dtype) || dtype == at::kLong, "no reduction for tensors of ", c10::toString(dtype));
}

// In rank order, so that a result depends on nothing but the inputs; half precision is summed in float32.
at::Tensor reduce(const std::vector<Request>& requests) {
  const at::ScalarType dtype = requests[0].in.scalar_type();
  const at::ScalarType wide = at::isReducedFloatingType(dtype) ? at::kFloat : dtype;
  at::Tensor total = requests[0].in.to(wide, /*non_blocking=*/false, /*copy=*/true);
  for (size_t rank = 1; rank < requests.size(); ++rank) {
    const at::Tensor next = requests[rank].in.to(wide);
    switch (requests[0].op) {
      case ReduceOp::kSum:
        total.add_(next);
        break;
      case ReduceOp::kMax:
        total = at::maximum(total, next);
        break;
      case ReduceOp::kMin:
        total = at::minimum(total, next);
        break;
    }
  }
  return total.reshape({-1});
}

void perform(const std::vector<Request>& requests) {
  const at::NoGradGuard no_grad;
  const auto ranks = static_cast<int64_t>(requests.size());
  switch (requests[0].kind) {
    case Kind::kBarrier:
      return;
    case Kind::kAllReduce: {
      const at::Tensor total = reduce(requests);
      for (const Request& r : requests) r.out.view({-1}).copy_(total);
      return;
    }
    case Kind::kReduceScatter: {
      const at::Tensor total = reduce(requests);
      for (int64_t rank = 0; rank < ranks; ++rank) {
        const at::Tensor& out = requests[rank].out;
        out.view({-1}).copy_(total.narrow(0, rank * out.numel(), out.numel()));
      }
      return;
    }
    case Kind::kAllGather:
      for (const Request& r : requests) {
        for (int64_t rank = 0; rank < ranks; ++rank) {
          const at::Tensor& in = requests[rank].in;
          r.out.view({-1}).narrow(0, rank * in.numel(), in.numel()).copy_(in.view({-1}));
        }
      }
      return;
    case Kind::kBroadcast:
      for (const Request& r : requests) {
        if (!r.out.is_same(requests[requests[0].root].in)) r.out.copy_(requests[requests[0].root].in);
      }
      return;
  }
}

// Where the ranks of one world meet: the last to arrive does the work of the round for all.
class Meeting {
 public:
  explicit Meeting(int size) : requests_(size) {}

  void meet(int rank, Request request) {
    std::unique_lock lock(mutex_);
    if (broken_.empty() && !departed_.empty()) broken_ = str(departed_, " has left, rank ", rank, " waits");
    throw_if_broken(rank, request);
    requests_[rank] = std::move(request);
    if (++arrived_ == requests_.size()) {
      arrived_ = 0;
      run_round();
      throw_if_broken(rank, requests_[rank]);
      return;
    }
    const uint64_t round = round_;
    changed_.wait(lock, [&] { return round_ != round || !broken_.empty(); });
    if (round_ == round) throw_if_broken(rank, requests_[rank]);
  }

  void abort(std::string_view reason) noexcept {
    const std::lock_guard lock(mutex_);
    break_up(std::string(reason));
  }

  // `rank` issues nothing more: who waits for it now or later would wait forever.
  void leave(int rank) noexcept {
    const std::lock_guard lock(mutex_);
    departed_ = str("rank ", rank);
    if (arrived_ > 0) break_up(departed_ + " has left while others wait");
  }

 private:
  void run_round() {
    for (size_t rank = 1; rank < requests_.size(); ++rank) {
      const std::string first = describe(requests_[0]), other = describe(requests_[rank]);
      if (first != other) return break_up(str("rank 0 asks for ", first, ", rank ", rank, " for ", other));
    }
    try {
      perform(requests_);
    } catch (const std::exception& error) {
      return break_up(str(describe(requests_[0]), " failed: ", error.what()));
    }
    ++round_;
    changed_.notify_all();
  }

  void break_up(std::string reason) {
    if (broken_.empty()) broken_ = reason.empty() ? "aborted" : std::move(reason);
    changed_.notify_all();
  }

  void throw_if_broken(int rank, const Request& request) const {
    if (!broken_.empty()) {
      throw CommError(str("rank ", rank, " cannot finish ", describe(request), ": ", broken_));
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Request> requests_;  // by rank
  size_t arrived_ = 0;
  uint64_t round_ = 0;
  std::string broken_, departed_;  // why nothing more can be done; who has left
};

// Every operation is done when it returns: a rank blocks until all have issued it. Its error waits for Work::wait().
class ThreadCommunicator : public Communicator {
 public:
  ThreadCommunicator(int rank, int size, Meeting& meeting) : Communicator(rank, size), meeting_(meeting) {}

  Work all_reduce(at::Tensor inout, ReduceOp op) override {
    check_reducible(inout);
    return issue({Kind::kAllReduce, op, 0, inout, inout});
  }
  Work reduce_scatter(at::Tensor out, at::Tensor in) override {
    DTRAIN_CHECK(in.numel() == size() * out.numel(), in.numel(), " elements for ", size(), " × ", out.numel());
    check_reducible(in);
    return issue({Kind::kReduceScatter, ReduceOp::kSum, 0, out, in});
  }
  Work all_gather(at::Tensor out, at::Tensor in) override {
    DTRAIN_CHECK(out.numel() == size() * in.numel(), out.numel(), " elements for ", size(), " × ", in.numel());
    return issue({Kind::kAllGather, ReduceOp::kSum, 0, out, in});
  }
  Work broadcast(at::Tensor inout, int root) override {
    DTRAIN_CHECK(root >= 0 && root < size(), "root ", root, " of ", size(), " ranks.");
    return issue({Kind::kBroadcast, ReduceOp::kSum, root, inout, inout});
  }
  void barrier() override { meeting_.meet(rank(), {}); }
  void abort(std::string_view reason) noexcept override { meeting_.abort(reason); }
  std::string_view name() const override { return "thread"; }

 private:
  Work issue(Request request) {
    for (const at::Tensor& tensor : {request.out, request.in}) {
      DTRAIN_CHECK(tensor.is_cpu() && tensor.is_contiguous(), "rank ", rank(), ": ", tensor.toString(), " in ",
                   describe(request));
    }
    DTRAIN_CHECK(request.out.scalar_type() == request.in.scalar_type(), describe(request));
    try {
      meeting_.meet(rank(), std::move(request));
    } catch (const CommError&) {
      return Work([error = std::current_exception()] { std::rethrow_exception(error); });
    }
    return Work();
  }

  Meeting& meeting_;
};

}  // namespace

void run_thread_world(int size, const std::function<void(Communicator&)>& body) {
  DTRAIN_CHECK(size > 0, size, " ranks.");
  Meeting meeting(size);
  std::mutex mutex;
  std::exception_ptr first;
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] {
      ThreadCommunicator communicator(rank, size, meeting);
      const auto fail = [&](const std::string& reason) {
        {
          const std::lock_guard lock(mutex);
          if (!first) first = std::current_exception();
        }
        communicator.abort(str("rank ", rank, " failed: ", reason));
      };
      try {
        body(communicator);
      } catch (const std::exception& error) {
        fail(error.what());
      } catch (...) {
        fail("an exception that is no std::exception");
      }
      meeting.leave(rank);
    });
  }
  for (std::thread& thread : threads) thread.join();
  if (first) std::rethrow_exception(first);
}

}  // namespace dtrain::dist
