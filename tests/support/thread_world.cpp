#include "support/thread_world.h"

#include <algorithm>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "core/check.h"
#include "dist/hierarchical_communicator.h"
#include "dist/object_collectives.h"
#include "dist/shared_memory_communicator.h"

namespace dtrain::dist {

namespace {

using Kind = Collective;

// What one rank asks for. All ranks of a round must ask for the same.
struct Request {
  Kind kind = Kind::kBarrier;
  ReduceOp op = ReduceOp::kSum;
  int root = 0;
  at::Tensor out, in;  // the same tensor where the operation works in place
};

std::string describe(const Request& request) {
  static constexpr const char* kOps[] = {"sum", "max"};
  const char* kind = kCollectiveNames[static_cast<size_t>(request.kind)];
  if (request.kind == Kind::kBarrier) return kind;
  return str(kind, "(", kOps[static_cast<int>(request.op)], ", root ", request.root, ", ",
             request.in.numel(), " to ", request.out.numel(), " elements of ",
             c10::toString(request.in.scalar_type()), ")");
}

// As strict as the communicators between processes, so that tests detect an operation that would
// fail there.
void check_reducible(const at::Tensor& tensor) {
  const at::ScalarType dtype = tensor.scalar_type();
  DTRAIN_CHECK(at::isFloatingType(dtype) || dtype == at::kLong, "tensors of ", c10::toString(dtype),
               " cannot be reduced");
}

at::Tensor reduce(const std::vector<Request>& requests) {
  const at::Tensor& first = requests[0].in;
  const at::Tensor total = at::empty({first.numel()}, first.options());
  std::vector<const void*> by_rank;
  for (const Request& request : requests) by_rank.push_back(request.in.const_data_ptr());
  reduce_in_rank_order(first.scalar_type(), requests[0].op, by_rank, total.data_ptr(),
                       total.numel());
  return total;
}

void perform(const std::vector<Request>& requests) {
  const at::NoGradGuard no_grad;
  switch (requests[0].kind) {
    case Kind::kBarrier:
    case Kind::kCount:
      return;
    case Kind::kAllReduce: {
      const at::Tensor total = reduce(requests);
      for (const Request& r : requests) r.out.view({-1}).copy_(total);
      return;
    }
    case Kind::kAllGather:
      for (const Request& r : requests) {
        int64_t begin = 0;
        for (const Request& from : requests) {
          r.out.view({-1}).narrow(0, begin, from.in.numel()).copy_(from.in.view({-1}));
          begin += from.in.numel();
        }
      }
      return;
    case Kind::kBroadcast: {
      const at::Tensor& sent = requests[static_cast<size_t>(requests[0].root)].in;
      for (const Request& r : requests) {
        if (!r.out.is_same(sent)) r.out.copy_(sent);
      }
      return;
    }
  }
}

// Where the ranks of one world meet. The last one to arrive performs the operation of the round
// for all.
class Meeting {
 public:
  explicit Meeting(int size) : requests_(static_cast<size_t>(size)) {}

  void meet(int rank, Request request) {
    std::unique_lock lock(mutex_);
    if (broken_.empty() && !departed_.empty())
      broken_ = str(departed_, " has left, rank ", rank, " waits");
    throw_if_broken(rank, request);
    Request& mine = requests_[static_cast<size_t>(rank)];
    mine = std::move(request);
    if (++arrived_ == requests_.size()) {
      arrived_ = 0;
      run_round();
      throw_if_broken(rank, mine);
      return;
    }
    const uint64_t round = round_;
    changed_.wait(lock, [&] { return round_ != round || !broken_.empty(); });
    if (round_ == round) throw_if_broken(rank, mine);
  }

  void abort(std::string_view reason) noexcept {
    const std::lock_guard lock(mutex_);
    break_up(std::string(reason));
  }

  // `rank` has issued its last operation: a rank that waits for it would wait forever.
  void leave(int rank) noexcept {
    const std::lock_guard lock(mutex_);
    departed_ = str("rank ", rank);
    if (arrived_ > 0) break_up(departed_ + " has left while others wait");
  }

 private:
  void run_round() {
    for (size_t rank = 1; rank < requests_.size(); ++rank) {
      const std::string first = describe(requests_[0]), other = describe(requests_[rank]);
      if (first != other)
        return break_up(str("rank 0 asks for ", first, ", rank ", rank, " for ", other));
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
  std::string broken_;    // why no operation is possible any more; empty: all is well
  std::string departed_;  // the rank that left last
};

// An operation blocks until all ranks have issued it, and is done when it returns. Work::wait()
// throws its error.
class ThreadCommunicator : public Communicator {
 public:
  ThreadCommunicator(int rank, int size, Meeting& meeting)
      : Communicator(rank, size), meeting_(meeting) {}

  Work all_reduce(at::Tensor inout, ReduceOp op) override {
    check_reducible(inout);
    return issue({Kind::kAllReduce, op, 0, inout, inout});
  }
  Work all_gather(at::Tensor out, at::Tensor in) override {
    DTRAIN_CHECK(out.numel() == size() * in.numel(), out.numel(), " elements for ", size(), " × ",
                 in.numel());
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
      DTRAIN_CHECK(tensor.is_cpu() && tensor.is_contiguous(), "rank ", rank(), ": ",
                   tensor.toString(), " in ", describe(request));
    }
    DTRAIN_CHECK(request.out.scalar_type() == request.in.scalar_type(), describe(request));
    try {
      const trace::Time began = trace::now();
      meeting_.meet(rank(), std::move(request));
      return Work([ran = TimeSpan{began, trace::now()}] { return std::optional(ran); });
    } catch (const CommError&) {
      return Work([error = std::current_exception()]() -> std::optional<TimeSpan> {
        std::rethrow_exception(error);
      });
    }
  }

  Meeting& meeting_;
};

// Of a group of ranks, which share its Meeting.
class GroupCommunicator final : public ThreadCommunicator {
 public:
  GroupCommunicator(int rank, int size, std::shared_ptr<Meeting> meeting)
      : ThreadCommunicator(rank, size, *meeting), meeting_(std::move(meeting)) {}
  ~GroupCommunicator() override { meeting_->leave(rank()); }

 private:
  std::shared_ptr<Meeting> meeting_;
};

}  // namespace

void run_thread_world(int size, const std::function<void(MeteredCommunicator&)>& body) {
  DTRAIN_CHECK(size > 0, size, " ranks.");
  Meeting meeting(size);
  std::mutex mutex;
  std::exception_ptr first;
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] {
      const auto communicator =
          make_metered_communicator(std::make_unique<ThreadCommunicator>(rank, size, meeting));
      const auto fail = [&](const std::string& reason) {
        {
          const std::lock_guard lock(mutex);
          if (!first) first = std::current_exception();
        }
        communicator->abort(str("rank ", rank, " failed: ", reason));
      };
      try {
        body(*communicator);
      } catch (const std::exception& error) {
        fail(error.what());
      } catch (...) {
        fail("an exception that is not a std::exception");
      }
      meeting.leave(rank);
    });
  }
  for (std::thread& thread : threads) thread.join();
  if (first) std::rethrow_exception(first);
}

std::unique_ptr<Communicator> split_thread_world(Communicator& world, int group, int order) {
  // Threads of one process: the first rank of each group tells the others where its Meeting is.
  struct Member {
    int group, order, rank;
    uintptr_t meeting;
  };
  std::shared_ptr<Meeting> meeting;
  std::vector<Member> members;
  for (const Member& member : all_gather_object(
           world, Member{group, order, world.rank(), reinterpret_cast<uintptr_t>(&meeting)})) {
    if (member.group == group) members.push_back(member);
  }
  std::ranges::stable_sort(members, {}, &Member::order);
  const auto size = static_cast<int>(members.size());
  const auto rank =
      static_cast<int>(std::ranges::find(members, world.rank(), &Member::rank) - members.begin());
  if (rank == 0) meeting = std::make_shared<Meeting>(size);
  world.barrier();  // it is made
  if (rank != 0) meeting = *reinterpret_cast<const std::shared_ptr<Meeting>*>(members[0].meeting);
  world.barrier();  // all have copied it
  return std::make_unique<GroupCommunicator>(rank, size, std::move(meeting));
}

std::unique_ptr<Communicator> make_hierarchical_of_threads(Communicator& world,
                                                           const std::vector<int>& host_by_rank,
                                                           WithinHost within) {
  std::vector<RankPlace> places = places_of(host_by_rank);
  const RankPlace mine = places.at(static_cast<size_t>(world.rank()));
  std::unique_ptr<Communicator> host = split_thread_world(world, mine.host);
  std::unique_ptr<Communicator> between = split_thread_world(world, mine.local, mine.host);
  if (mine.local >= least_ranks_of_a_host(places)) between.reset();
  if (within == WithinHost::kSharedMemory)
    host = make_shared_memory_communicator(*host, {.beside_compute = true});
  return make_hierarchical_communicator(world.rank(), std::move(places), std::move(host),
                                        std::move(between),
                                        {.small_bytes = 1000, .chunk_bytes = 50'000});
}

}  // namespace dtrain::dist
