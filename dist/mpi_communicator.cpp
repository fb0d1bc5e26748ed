#include "dist/mpi_communicator.h"

#include <mpi.h>

#include <algorithm>
#include <string>
#include <vector>

#include "core/check.h"
#include "dist/backoff.h"
#include "dist/comm_thread.h"
#include "dist/world.h"

namespace dtrain::dist {
namespace {

constexpr int kTag = 1;  // one is enough: MPI keeps the order of messages between two ranks
constexpr int64_t kLargestMessage = int64_t{1} << 30;

int rank_in(MPI_Comm comm) {
  int rank = 0;
  check_mpi(MPI_Comm_rank(comm, &rank), "MPI_Comm_rank");
  return rank;
}

int size_of(MPI_Comm comm) {
  int size = 1;
  check_mpi(MPI_Comm_size(comm, &size), "MPI_Comm_size");
  return size;
}

MPI_Comm group_of_world(int group, int order) {
  MPI_Comm comm = MPI_COMM_NULL;
  check_mpi(MPI_Comm_split(MPI_COMM_WORLD, group, order, &comm), "MPI_Comm_split");
  check_mpi(MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
  return comm;
}

// The number in MPI_COMM_WORLD of each rank of `comm`.
std::vector<int> world_ranks_of(MPI_Comm comm) {
  const int mine = rank_in(MPI_COMM_WORLD);
  std::vector<int> ranks(static_cast<size_t>(size_of(comm)));
  check_mpi(MPI_Allgather(&mine, 1, MPI_INT, ranks.data(), 1, MPI_INT, comm), "MPI_Allgather");
  return ranks;
}

char* bytes_of(const at::Tensor& tensor) { return static_cast<char*>(tensor.data_ptr()); }
int64_t size_of(const at::Tensor& tensor) { return static_cast<int64_t>(tensor.nbytes()); }

void check_tensor(const at::Tensor& tensor) {
  DTRAIN_CHECK(tensor.device().is_cpu() && tensor.is_contiguous(),
               "MPI transfers contiguous host tensors; this one is on ", tensor.device().str());
}

// The part of `total` elements that rank `rank` reduces.
struct Slice {
  int64_t begin, count;
};
Slice slice_of(int64_t total, int rank, int size) {
  const int64_t begin = total / size * rank + std::min<int64_t>(rank, total % size);
  return {begin, total / size + (rank < total % size ? 1 : 0)};
}

// `count` bytes as one element of an array whose elements lie `stride` bytes apart.
class StridedBytes {
 public:
  StridedBytes(int count, int64_t stride) {
    MPI_Datatype packed = MPI_DATATYPE_NULL;
    check_mpi(MPI_Type_contiguous(count, MPI_BYTE, &packed), "MPI_Type_contiguous");
    const int code = MPI_Type_create_resized(packed, 0, static_cast<MPI_Aint>(stride), &type_);
    MPI_Type_free(&packed);
    check_mpi(code, "MPI_Type_create_resized");
    check_mpi(MPI_Type_commit(&type_), "MPI_Type_commit");
  }
  // MPI keeps it until the operations that use it are done
  ~StridedBytes() { MPI_Type_free(&type_); }
  StridedBytes(const StridedBytes&) = delete;
  StridedBytes& operator=(const StridedBytes&) = delete;
  MPI_Datatype get() const { return type_; }

 private:
  MPI_Datatype type_ = MPI_DATATYPE_NULL;
};

// The MPI requests of one operation, all in flight together. Each transfer is cut into
// messages (message_size).
class Exchange {
 public:
  Exchange(MPI_Comm comm, const std::vector<int>& world_ranks, const CommThread& thread,
           int64_t smallest_message)
      : comm_(comm),
        world_ranks_(world_ranks),
        thread_(thread),
        smallest_message_(smallest_message) {}
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;

  void send(const void* data, int64_t bytes, int to) {
    for_messages(bytes, [&](int64_t begin, int count) {
      check_mpi(MPI_Isend(static_cast<const char*>(data) + begin, count, MPI_BYTE, to, kTag, comm_,
                          add({"sending to rank", in_world(to)})),
                "MPI_Isend");
    });
  }

  void receive(void* data, int64_t bytes, int from) {
    for_messages(bytes, [&](int64_t begin, int count) {
      check_mpi(MPI_Irecv(static_cast<char*>(data) + begin, count, MPI_BYTE, from, kTag, comm_,
                          add({"receiving from rank", in_world(from), count})),
                "MPI_Irecv");
    });
  }

  void broadcast(void* data, int64_t bytes, int root) {
    for_messages(bytes, [&](int64_t begin, int count) {
      check_mpi(MPI_Ibcast(static_cast<char*>(data) + begin, count, MPI_BYTE, root, comm_,
                           add({"a broadcast from rank", in_world(root)})),
                "MPI_Ibcast");
    });
  }

  // `bytes` of each rank, by rank, into `out`.
  void all_gather(void* out, const void* in, int64_t bytes) {
    for_messages(bytes, [&](int64_t begin, int count) {
      const StridedBytes by_rank(count, bytes);
      check_mpi(MPI_Iallgather(static_cast<const char*>(in) + begin, count, MPI_BYTE,
                               static_cast<char*>(out) + begin, 1, by_rank.get(), comm_,
                               add({"an all_gather"})),
                "MPI_Iallgather");
    });
  }

  void barrier() { check_mpi(MPI_Ibarrier(comm_, add({"a barrier"})), "MPI_Ibarrier"); }

  void finish() {
    std::vector<int> done(requests_.size());
    std::vector<MPI_Status> statuses(requests_.size());
    Backoff backoff;
    while (true) {
      thread_.throw_if_failed();
      int count = 0;
      const int code = MPI_Testsome(static_cast<int>(requests_.size()), requests_.data(), &count,
                                    done.data(), statuses.data());
      if (count == MPI_UNDEFINED) return;  // nothing is in flight any longer
      const auto finished = static_cast<size_t>(count);
      if (code == MPI_ERR_IN_STATUS) {
        for (size_t i = 0; i < finished; ++i)
          check_mpi(statuses[i].MPI_ERROR, transfer(done[i]).text());
      }
      check_mpi(code, "MPI_Testsome");
      for (size_t i = 0; i < finished; ++i) check_length(transfer(done[i]), statuses[i]);
      if (finished == 0) {
        backoff.wait();
      } else {
        backoff.progressed();
      }
    }
  }

 private:
  struct Transfer {
    const char* what;
    int rank = -1;            // the other rank, in MPI_COMM_WORLD; -1: all of them
    int expected_bytes = -1;  // size of the message to receive; -1: not known
    std::string text() const { return rank < 0 ? what : str(what, " ", rank); }
  };

  // The request of a transfer that is about to be issued.
  MPI_Request* add(const Transfer& transfer) {
    transfers_.push_back(transfer);
    return &requests_.emplace_back(MPI_REQUEST_NULL);
  }

  const Transfer& transfer(int index) const { return transfers_[static_cast<size_t>(index)]; }

  template <typename Body>
  void for_messages(int64_t bytes, Body body) {
    const int64_t size = message_size(bytes, smallest_message_);
    int64_t begin = 0;
    do {  // an empty tensor is a message too: the peer waits for it
      const int64_t count = std::min(size, bytes - begin);
      body(begin, static_cast<int>(count));
      begin += count;
    } while (begin < bytes);
  }

  static void check_length(const Transfer& transfer, const MPI_Status& status) {
    if (transfer.expected_bytes < 0) return;
    int received = 0;
    check_mpi(MPI_Get_count(&status, MPI_BYTE, &received), "MPI_Get_count");
    if (received == transfer.expected_bytes) return;
    throw CommError(str("rank ", transfer.rank, " sent ", received, " bytes where ",
                        transfer.expected_bytes,
                        " were expected: the ranks are not at the same operation"));
  }

  int in_world(int rank) const { return world_ranks_[static_cast<size_t>(rank)]; }

  MPI_Comm comm_;
  const std::vector<int>& world_ranks_;
  const CommThread& thread_;
  int64_t smallest_message_;
  std::vector<MPI_Request> requests_;
  std::vector<Transfer> transfers_;
};

class MpiCommunicator final : public Communicator {
 public:
  MpiCommunicator(const MpiOptions& options, MPI_Comm comm)
      : Communicator(rank_in(comm), size_of(comm)),
        options_(options),
        comm_(comm),
        world_ranks_(world_ranks_of(comm)),
        thread_(std::make_unique<CommThread>("mpi")) {}

  ~MpiCommunicator() override {
    thread_.reset();
    int finalized = 0;
    MPI_Finalized(&finalized);
    if (!broken_ && !finalized) MPI_Comm_free(&comm_);
  }

  Work all_reduce(at::Tensor inout, ReduceOp op) override {
    return run({inout}, [=, this] {
      if (size() == 1) return;
      if (size_of(inout) <= options_.direct_bytes) {
        const auto whole = [&](int) { return Slice{0, inout.numel()}; };
        reduce_slice(inout, op, whole, inout.data_ptr());
      } else {
        reduce_by_slices(inout, op);
      }
    });
  }

  Work all_gather(at::Tensor out, at::Tensor in) override {
    DTRAIN_CHECK(out.numel() == size() * in.numel() && in.dtype() == out.dtype(),
                 "all_gather: ", in.numel(), " to ", out.numel(), " elements on ", size(),
                 " ranks");
    return run({out, in}, [=, this] {
      exchange([&](Exchange& e) { e.all_gather(out.data_ptr(), in.data_ptr(), size_of(in)); });
    });
  }

  Work broadcast(at::Tensor inout, int root) override {
    DTRAIN_CHECK(root >= 0 && root < size(), "broadcast from rank ", root, " of ", size());
    return run({inout}, [=, this] {
      exchange([&](Exchange& e) { e.broadcast(inout.data_ptr(), size_of(inout), root); });
    });
  }

  void barrier() override {
    run({}, [this] { exchange([](Exchange& e) { e.barrier(); }); }).wait();
  }
  void abort(std::string_view reason) noexcept override { thread_->fail(reason); }
  std::string_view name() const override { return "mpi"; }
  void check() override { thread_->throw_if_failed(); }

 private:
  // Tensors of an operation that failed are never freed: its messages may still read or write them,
  // and MPI cannot cancel a message that was sent. The process is about to end.
  Work run(std::vector<at::Tensor> tensors, std::function<void()> operation) {
    for (const at::Tensor& tensor : tensors) check_tensor(tensor);
    return thread_->submit(
        [=, this, tensors = std::move(tensors), operation = std::move(operation)] {
          try {
            operation();
          } catch (...) {
            broken_ = true;
            static_cast<void>(new std::vector<at::Tensor>(tensors));
            static_cast<void>(scratch_.release());
            throw;
          }
        });
  }

  // Runs what `issue` adds to an exchange, to its end.
  template <typename Issue>
  void exchange(Issue issue) const {
    Exchange messages(comm_, world_ranks_, *thread_, options_.message_bytes);
    issue(messages);
    messages.finish();
  }

  // Each rank begins with the next rank, so that no rank receives from all others at once.
  template <typename Body>
  void for_peers(Body body) const {
    for (int step = 1; step < size(); ++step) body((rank() + step) % size());
  }

  char* scratch(int64_t bytes) {
    if (static_cast<int64_t>(scratch_->size()) < bytes)
      scratch_->resize(static_cast<size_t>(bytes));
    return scratch_->data();
  }

  // Reduces this rank's slice of `in` over all ranks into `out`, which may be where the slice lies.
  template <typename SliceOf>
  void reduce_slice(const at::Tensor& in, ReduceOp op, SliceOf slice, void* out) {
    const int64_t width = in.element_size();
    const Slice mine = slice(rank());
    char* received = scratch(mine.count * width * size());
    std::vector<const void*> by_rank;
    for (int peer = 0; peer < size(); ++peer) {
      by_rank.push_back(peer == rank() ? bytes_of(in) + mine.begin * width
                                       : received + peer * mine.count * width);
    }
    exchange([&](Exchange& e) {
      for_peers([&](int peer) {
        e.receive(received + peer * mine.count * width, mine.count * width, peer);
      });
      for_peers([&](int peer) {
        e.send(bytes_of(in) + slice(peer).begin * width, slice(peer).count * width, peer);
      });
    });
    reduce_in_rank_order(in.scalar_type(), op, by_rank, out, mine.count);
  }

  void reduce_by_slices(const at::Tensor& inout, ReduceOp op) {
    const int64_t width = inout.element_size();
    const auto slice = [&](int peer) { return slice_of(inout.numel(), peer, size()); };
    char* mine = bytes_of(inout) + slice(rank()).begin * width;
    reduce_slice(inout, op, slice, mine);
    exchange([&](Exchange& e) {
      for_peers([&](int peer) {
        e.receive(bytes_of(inout) + slice(peer).begin * width, slice(peer).count * width, peer);
      });
      for_peers([&](int peer) { e.send(mine, slice(rank()).count * width, peer); });
    });
  }

  const MpiOptions options_;
  MPI_Comm comm_;
  const std::vector<int> world_ranks_;  // one per rank, in rank order, for error messages
  // An operation failed, and its messages may still be in flight; used by the thread
  bool broken_ = false;
  std::unique_ptr<std::vector<char>> scratch_ = std::make_unique<std::vector<char>>();
  std::unique_ptr<CommThread> thread_;
};

}  // namespace

int64_t message_size(int64_t bytes, int64_t smallest) {
  return std::clamp(bytes / 64, smallest, kLargestMessage);
}

std::unique_ptr<Communicator> make_mpi_communicator(const MpiOptions& options) {
  return std::make_unique<MpiCommunicator>(options, group_of_world(options.group, options.order));
}

}  // namespace dtrain::dist
