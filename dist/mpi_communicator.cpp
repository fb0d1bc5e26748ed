#include "dist/mpi_communicator.h"

#include <mpi.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "core/check.h"
#include "dist/backoff.h"
#include "dist/comm_thread.h"
#include "dist/mpi_check.h"

namespace dtrain::dist {
namespace {

constexpr int kTag = 1;  // one is enough: MPI keeps the order of messages between two ranks
constexpr int64_t kLargestPiece = int64_t{1} << 30;

int world_rank() {
  int rank = 0;
  check_mpi(MPI_Comm_rank(MPI_COMM_WORLD, &rank), "MPI_Comm_rank");
  return rank;
}

int world_size() {
  int size = 1;
  check_mpi(MPI_Comm_size(MPI_COMM_WORLD, &size), "MPI_Comm_size");
  return size;
}

char* bytes_of(const at::Tensor& tensor) { return static_cast<char*>(tensor.data_ptr()); }
int64_t size_of(const at::Tensor& tensor) { return static_cast<int64_t>(tensor.nbytes()); }

void check_tensor(const at::Tensor& tensor) {
  DTRAIN_CHECK(tensor.device().is_cpu() && tensor.is_contiguous(), "MPI moves contiguous host tensors, this one is on ",
               tensor.device().str());
}

// The part of `total` elements that rank `rank` reduces.
struct Slice {
  int64_t begin, count;
};
Slice slice_of(int64_t total, int rank, int size) {
  const int64_t begin = total / size * rank + std::min<int64_t>(rank, total % size);
  return {begin, total / size + (rank < total % size ? 1 : 0)};
}

// The messages of one exchange, all under way together.
class Exchange {
 public:
  Exchange(MPI_Comm comm, const CommThread& thread, int64_t piece_bytes)
      : comm_(comm), thread_(thread), piece_bytes_(piece_bytes) {}
  Exchange(const Exchange&) = delete;

  void send(const void* data, int64_t bytes, int to) {
    for_pieces(bytes, [&](int64_t begin, int count) {
      MPI_Request& request = requests_.emplace_back(MPI_REQUEST_NULL);
      expected_.push_back({to, -1});
      check_mpi(MPI_Isend(static_cast<const char*>(data) + begin, count, MPI_BYTE, to, kTag, comm_, &request),
                "MPI_Isend");
    });
  }

  void receive(void* data, int64_t bytes, int from) {
    for_pieces(bytes, [&](int64_t begin, int count) {
      MPI_Request& request = requests_.emplace_back(MPI_REQUEST_NULL);
      expected_.push_back({from, count});
      check_mpi(MPI_Irecv(static_cast<char*>(data) + begin, count, MPI_BYTE, from, kTag, comm_, &request), "MPI_Irecv");
    });
  }

  void finish() {
    std::vector<int> done(requests_.size());
    std::vector<MPI_Status> statuses(requests_.size());
    Backoff backoff;
    for (size_t left = requests_.size(); left > 0;) {
      thread_.throw_if_failed();
      int count = 0;
      const int code =
          MPI_Testsome(static_cast<int>(requests_.size()), requests_.data(), &count, done.data(), statuses.data());
      if (code == MPI_ERR_IN_STATUS) {
        for (int i = 0; i < count; ++i) check_mpi(statuses[i].MPI_ERROR, what(expected_[done[i]]));
      }
      check_mpi(code, "MPI_Testsome");
      if (count == 0) {
        backoff.wait();
        continue;
      }
      for (int i = 0; i < count; ++i) check_length(expected_[done[i]], statuses[i]);
      left -= static_cast<size_t>(count);
      backoff.progressed();
    }
  }

 private:
  struct Message {
    int peer, bytes;  // bytes -1: we send
  };

  template <typename Body>
  void for_pieces(int64_t bytes, Body body) {
    const int64_t piece = std::clamp(bytes / 64, piece_bytes_, kLargestPiece);
    int64_t begin = 0;
    do {  // an empty tensor is a message too: the peer waits for it
      const int64_t count = std::min(piece, bytes - begin);
      body(begin, static_cast<int>(count));
      begin += count;
    } while (begin < bytes);
  }

  static std::string what(const Message& message) {
    return str(message.bytes < 0 ? "sending to rank " : "receiving from rank ", message.peer);
  }

  static void check_length(const Message& message, const MPI_Status& status) {
    if (message.bytes < 0) return;
    int received = 0;
    check_mpi(MPI_Get_count(&status, MPI_BYTE, &received), "MPI_Get_count");
    if (received == message.bytes) return;
    throw CommError(str("rank ", message.peer, " sent ", received, " bytes where ", message.bytes,
                        " were expected: the ranks are not at the same operation"));
  }

  MPI_Comm comm_;
  const CommThread& thread_;
  int64_t piece_bytes_;
  std::vector<MPI_Request> requests_;
  std::vector<Message> expected_;
};

class MpiCommunicator final : public Communicator {
 public:
  explicit MpiCommunicator(const MpiOptions& options) : Communicator(world_rank(), world_size()), options_(options) {
    check_mpi(MPI_Comm_dup(MPI_COMM_WORLD, &comm_), "MPI_Comm_dup");
    check_mpi(MPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
    thread_ = std::make_unique<CommThread>("mpi");
  }

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
        reduce_directly(inout, op);
      } else {
        reduce_by_slices(inout, op);
      }
    });
  }

  Work reduce_scatter(at::Tensor out, at::Tensor in) override {
    DTRAIN_CHECK(in.numel() == size() * out.numel() && in.dtype() == out.dtype(), "reduce_scatter: ", in.numel(),
                 " to ", out.numel(), " elements on ", size(), " ranks");
    return run({out, in}, [=, this] {
      reduce_slice(
          in, ReduceOp::kSum,
          [&](int peer) {
            return Slice{out.numel() * peer, out.numel()};
          },
          out.data_ptr());
    });
  }

  Work all_gather(at::Tensor out, at::Tensor in) override {
    DTRAIN_CHECK(out.numel() == size() * in.numel() && in.dtype() == out.dtype(), "all_gather: ", in.numel(), " to ",
                 out.numel(), " elements on ", size(), " ranks");
    return run({out, in}, [=, this] {
      Exchange exchange = begin();
      const int64_t bytes = size_of(in);
      for_peers([&](int peer) { exchange.receive(bytes_of(out) + peer * bytes, bytes, peer); });
      for_peers([&](int peer) { exchange.send(in.data_ptr(), bytes, peer); });
      if (bytes > 0) std::memcpy(bytes_of(out) + rank() * bytes, in.data_ptr(), static_cast<size_t>(bytes));
      exchange.finish();
    });
  }

  Work broadcast(at::Tensor inout, int root) override {
    DTRAIN_CHECK(root >= 0 && root < size(), "broadcast from rank ", root, " of ", size());
    return run({inout}, [=, this] { broadcast_by_tree(inout, root); });
  }

  void barrier() override {
    run({}, [this] { meet(); }).wait();
  }
  void abort(std::string_view reason) noexcept override { thread_->fail(reason); }
  std::string_view name() const override { return "mpi"; }

 private:
  // Tensors of an operation that failed are never freed: messages of it may still read or write them, and MPI cannot
  // take a sent message back. The process is about to end.
  Work run(std::vector<at::Tensor> tensors, std::function<void()> operation) {
    for (const at::Tensor& tensor : tensors) check_tensor(tensor);
    return thread_->submit([this, tensors = std::move(tensors), operation = std::move(operation)] {
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

  Exchange begin() const { return Exchange(comm_, *thread_, options_.piece_bytes); }

  // Each rank begins with its right neighbour, so that no rank is flooded.
  template <typename Body>
  void for_peers(Body body) const {
    for (int step = 1; step < size(); ++step) body((rank() + step) % size());
  }

  char* scratch(int64_t bytes) {
    if (static_cast<int64_t>(scratch_->size()) < bytes) scratch_->resize(static_cast<size_t>(bytes));
    return scratch_->data();
  }

  void reduce_directly(const at::Tensor& inout, ReduceOp op) {
    const int64_t bytes = size_of(inout);
    char* received = scratch(bytes * size());
    std::vector<const void*> by_rank;
    for (int peer = 0; peer < size(); ++peer) {
      by_rank.push_back(peer == rank() ? bytes_of(inout) : received + peer * bytes);
    }
    Exchange exchange = begin();
    for_peers([&](int peer) { exchange.receive(received + peer * bytes, bytes, peer); });
    for_peers([&](int peer) { exchange.send(inout.data_ptr(), bytes, peer); });
    exchange.finish();
    reduce_in_rank_order(inout.scalar_type(), op, by_rank, inout.data_ptr(), inout.numel());
  }

  // Reduces this rank's slice of `in` over all ranks into `out`, which may be where the slice lies.
  template <typename SliceOf>
  void reduce_slice(const at::Tensor& in, ReduceOp op, SliceOf slice, void* out) {
    const int64_t width = in.element_size();
    const Slice mine = slice(rank());
    char* received = scratch(mine.count * width * size());
    std::vector<const void*> by_rank;
    for (int peer = 0; peer < size(); ++peer) {
      by_rank.push_back(peer == rank() ? bytes_of(in) + mine.begin * width : received + peer * mine.count * width);
    }
    Exchange exchange = begin();
    for_peers([&](int peer) { exchange.receive(received + peer * mine.count * width, mine.count * width, peer); });
    for_peers(
        [&](int peer) { exchange.send(bytes_of(in) + slice(peer).begin * width, slice(peer).count * width, peer); });
    exchange.finish();
    reduce_in_rank_order(in.scalar_type(), op, by_rank, out, mine.count);
  }

  void reduce_by_slices(const at::Tensor& inout, ReduceOp op) {
    const int64_t width = inout.element_size();
    const auto slice = [&](int peer) { return slice_of(inout.numel(), peer, size()); };
    char* mine = bytes_of(inout) + slice(rank()).begin * width;
    reduce_slice(inout, op, slice, mine);
    Exchange exchange = begin();
    for_peers([&](int peer) {
      exchange.receive(bytes_of(inout) + slice(peer).begin * width, slice(peer).count * width, peer);
    });
    for_peers([&](int peer) { exchange.send(mine, slice(rank()).count * width, peer); });
    exchange.finish();
  }

  // Binomial tree: in round k the ranks (counted from the root) below 2^k send to those 2^k further on.
  void broadcast_by_tree(const at::Tensor& inout, int root) const {
    const int self = (rank() - root + size()) % size();
    for (int reach = 1; reach < size(); reach *= 2) {
      Exchange exchange = begin();
      if (self < reach && self + reach < size()) {
        exchange.send(inout.data_ptr(), size_of(inout), (self + reach + root) % size());
      } else if (self >= reach && self < 2 * reach) {
        exchange.receive(inout.data_ptr(), size_of(inout), (self - reach + root) % size());
      }
      exchange.finish();
    }
  }

  // Dissemination: after round k every rank has heard, directly or not, of the 2^k ranks before it.
  void meet() const {
    for (int reach = 1; reach < size(); reach *= 2) {
      Exchange exchange = begin();
      exchange.receive(nullptr, 0, (rank() - reach + size()) % size());
      exchange.send(nullptr, 0, (rank() + reach) % size());
      exchange.finish();
    }
  }

  const MpiOptions options_;
  MPI_Comm comm_ = MPI_COMM_NULL;
  bool broken_ = false;  // of the thread: messages may still be under way
  std::unique_ptr<std::vector<char>> scratch_ = std::make_unique<std::vector<char>>();
  std::unique_ptr<CommThread> thread_;
};

}  // namespace

std::unique_ptr<Communicator> make_mpi_communicator(const MpiOptions& options) {
  return std::make_unique<MpiCommunicator>(options);
}

}  // namespace dtrain::dist
