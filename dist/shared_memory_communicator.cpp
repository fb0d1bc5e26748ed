#include "dist/shared_memory_communicator.h"

#include <sched.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <deque>
#include <exception>
#include <mutex>
#include <vector>

#include "core/check.h"
#include "dist/comm_thread.h"
#include "dist/object_collectives.h"
#include "dist/shared_arena.h"
#include "dist/shared_board.h"

namespace dtrain::dist {
namespace {

constexpr int64_t kDirectBytes = 2 << 10;  // a larger tensor of the arena is reduced where it lies
// Beyond this, waking a thread costs little beside the operation
constexpr int64_t kCallersBytes = 256 << 10;
// Of all ranks, summed and then written to all while in the cache
constexpr int64_t kBlockBytes = 16 << 10;

// The cores that the ranks of `host` may use, all together.
int cores_of_ranks(Communicator& host) {
  cpu_set_t mine;
  CPU_ZERO(&mine);
  ::sched_getaffinity(0, sizeof mine, &mine);
  cpu_set_t all;
  CPU_ZERO(&all);
  for (const cpu_set_t& theirs : all_gather_object(host, mine)) CPU_OR(&all, &all, &theirs);
  return CPU_COUNT(&all);
}

struct Operation {
  SharedOperation what;
  at::Tensor out, in;  // `in` only where it is another one
  std::byte* to = nullptr;
  const std::byte* from = nullptr;
  SharedParts parts;      // where a tensor of the arena lies
  int64_t elements = 0;   // number of elements of the input
  int64_t per_piece = 1;  // elements
  int64_t width = 1;      // bytes of an element
  int64_t pieces() const {
    return elements <= per_piece ? 1 : (elements + per_piece - 1) / per_piece;
  }
  bool in_place() const { return what.place != 0; }
  int64_t bytes_out(int ranks) const {
    return what.kind == Collective::kAllGather ? what.bytes * ranks : what.bytes;
  }
};

struct HandedOver {
  Operation operation;
  TimeSpan ran;
  std::atomic<bool> done = false;
};

class SharedMemoryCommunicator final : public Communicator {
 public:
  SharedMemoryCommunicator(Communicator& host, const SharedMemoryOptions& options)
      : Communicator(host.rank(), host.size()),
        board_(host, options),
        arena_(options),
        by_rank_(static_cast<size_t>(host.size())),
        thread_("shared_memory", [this] { board_.attend(); }) {
    const int cores = cores_of_ranks(host);
    caller_ = options.beside_compute ? patience_of_thread(size(), cores)
                                     : patience_of_caller(size(), cores);
    of_thread_ = patience_of_thread(size(), cores);
    thread_.submit([] {}).wait();
    host.barrier();  // all ranks attend: a death is noticed from now on
  }

  ~SharedMemoryCommunicator() override {
    thread_.fail("it was destroyed");
    board_.leave();
  }

  at::Tensor allocate(at::IntArrayRef sizes, const at::TensorOptions& options) override {
    return arena_.allocate(*this, sizes, options);
  }

  Work all_reduce(at::Tensor inout, ReduceOp op) override {
    check_reducible(inout);
    Operation operation = describe(Collective::kAllReduce, std::move(inout));
    operation.what.op = op;
    find_in_arena(operation);
    return issue(std::move(operation));
  }

  Work all_gather(at::Tensor out, at::Tensor in) override {
    DTRAIN_CHECK(out.numel() == size() * in.numel() && in.dtype() == out.dtype(),
                 "all_gather: ", in.numel(), " to ", out.numel(), " elements on ", size(),
                 " ranks");
    return issue(describe(Collective::kAllGather, std::move(out), std::move(in)));
  }

  Work broadcast(at::Tensor inout, int root) override {
    DTRAIN_CHECK(root >= 0 && root < size(), "broadcast from rank ", root, " of ", size());
    Operation operation = describe(Collective::kBroadcast, std::move(inout));
    operation.what.root = root;
    find_in_arena(operation);
    return issue(std::move(operation));
  }

  void barrier() override { issue({}).wait(); }

  void abort(std::string_view reason) noexcept override {
    thread_.fail(reason);
    board_.fail(reason);
  }

  void check() override {
    thread_.throw_if_failed();
    if (!board_.failed()) return;
    fail(board_.failure());
    thread_.throw_if_failed();
  }

  std::string_view name() const override { return "shared_memory"; }

 private:
  static void check_reducible(const at::Tensor& tensor) {
    DTRAIN_CHECK(at::isFloatingType(tensor.scalar_type()) || tensor.scalar_type() == at::kLong,
                 "tensors of ", c10::toString(tensor.scalar_type()), " cannot be reduced");
  }

  static std::byte* bytes_of(const at::Tensor& tensor) {
    DTRAIN_CHECK(tensor.device().is_cpu() && tensor.is_contiguous(),
                 "shared memory transfers contiguous host tensors; this one is on ",
                 tensor.device().str());
    return static_cast<std::byte*>(tensor.data_ptr());
  }

  static Operation describe(Collective kind, at::Tensor out, at::Tensor in = {}) {
    const at::Tensor& source = in.defined() ? in : out;
    Operation operation;
    operation.to = bytes_of(out);
    operation.from = bytes_of(source);
    operation.width = source.element_size();
    operation.elements = source.numel();
    operation.per_piece = SharedBoard::kSlotBytes / operation.width;
    operation.what.kind = kind;
    operation.what.dtype = source.scalar_type();
    operation.what.bytes = operation.elements * operation.width;
    operation.out = std::move(out);
    operation.in = std::move(in);
    return operation;
  }

  // A tensor of the arena is reduced and sent from where it lies.
  void find_in_arena(Operation& operation) const {
    if (operation.what.bytes <= kDirectBytes) return;
    operation.parts = arena_.find(operation.from, operation.what.bytes);
    operation.what.place = operation.parts.place;
    if (operation.in_place()) operation.per_piece = operation.elements;
  }

  // What is short is posted at once, if nothing is before it.
  Work issue(Operation operation) {
    const bool is_short = operation.pieces() == 1 && operation.what.bytes <= kCallersBytes;
    if (!is_short || handed_over_.load(std::memory_order_acquire) > 0)
      return hand_over(std::move(operation));
    try {
      check();
      while (must_wait(operation)) finish_oldest();
      post_piece(operation, 0, caller_);
    } catch (const CommError& error) {
      fail(error);
      return Work([error = std::current_exception()]() -> std::optional<TimeSpan> {
        std::rethrow_exception(error);
      });
    }
    const uint64_t number = posted_.load(std::memory_order_relaxed) + 1;
    begun_[number % SharedBoard::kSlots] = std::move(operation);
    posted_.store(number, std::memory_order_release);
    return Work([this, number] {
      finish_through(number);
      return std::optional(ran_[number % kRemembered]);
    });
  }

  // Whether posting has to wait for short operations: for room, or because they change what the
  // operation reads.
  bool must_wait(const Operation& next) const {
    const uint64_t posted = posted_.load(std::memory_order_relaxed),
                   done = done_.load(std::memory_order_relaxed);
    if (posted - done == SharedBoard::kSlots) return true;
    for (uint64_t number = done + 1; number <= posted; ++number) {
      const Operation& before = begun_[number % SharedBoard::kSlots];
      if (next.from < before.to + before.bytes_out(size()) &&
          before.to < next.from + next.what.bytes)
        return true;
    }
    return false;
  }

  // Through the short operation `number`.
  void finish_through(uint64_t number) {
    if (done_.load(std::memory_order_acquire) >= number) return;
    std::unique_lock lock(mutex_, std::defer_lock);
    if (handed_over_.load(std::memory_order_acquire) > 0) lock.lock();
    try {
      while (done_.load(std::memory_order_relaxed) < number) {
        thread_.throw_if_failed();
        finish_oldest();
      }
    } catch (const CommError& error) {
      fail(error);
      throw;
    }
  }

  // To the thread, or to the caller if it waits before the thread has begun: it has nothing better
  // to do.
  Work hand_over(Operation operation) {
    const auto item = std::make_shared<HandedOver>();
    item->operation = std::move(operation);
    handed_over_.fetch_add(1, std::memory_order_relaxed);
    {
      const std::lock_guard lock(queue_mutex_);
      queue_.push_back(item);
    }
    static_cast<void>(thread_.submit([this, item] { run_through(*item, of_thread_); }));
    return Work([this, item] {
      run_through(*item, caller_);
      return std::optional(item->ran);
    });
  }

  void run_through(HandedOver& item, const Patience& patience) {
    if (item.done.load(std::memory_order_acquire)) return;
    const std::lock_guard lock(mutex_);
    if (item.done.load(std::memory_order_acquire)) return;
    try {
      while (done_.load() < posted_.load()) finish_oldest();
      while (!item.done.load(std::memory_order_relaxed)) {
        check();
        run_next(patience);
      }
    } catch (const std::exception& error) {
      fail(error);
      throw;
    }
  }

  void run_next(const Patience& patience) {
    std::shared_ptr<HandedOver> item;
    {
      const std::lock_guard lock(queue_mutex_);
      item = std::move(queue_.front());
      queue_.pop_front();
    }
    const Operation& operation = item->operation;
    const trace::Time began = trace::now();
    const int64_t pieces = operation.pieces();
    post_piece(operation, 0, patience);
    for (int64_t piece = 0; piece < pieces; ++piece) {
      if (piece + 1 < pieces) post_piece(operation, piece + 1, patience);
      finish_piece(operation, piece, patience);
    }
    item->ran = {began, trace::now()};
    item->operation = {};  // releases the tensors before the waiter continues
    item->done.store(true, std::memory_order_release);
    handed_over_.fetch_sub(1, std::memory_order_release);
  }

  void finish_oldest() {
    const uint64_t number = done_.load(std::memory_order_relaxed) + 1;
    Operation& operation = begun_[number % SharedBoard::kSlots];
    const trace::Time began = trace::now();
    finish_piece(operation, 0, caller_);
    ran_[number % kRemembered] = {began, trace::now()};
    operation = {};
    done_.store(number, std::memory_order_release);
  }

  void fail(const std::exception& error) noexcept {
    board_.fail(error.what(), peer_of(error));
    thread_.fail(error.what(), peer_of(error));
  }

  // Copies this rank's part of a piece to where the others find it.
  void post_piece(const Operation& o, int64_t piece, const Patience& patience) {
    std::byte* to = board_.begin(patience);
    if (!o.in_place() && o.what.bytes > 0) {
      const int64_t begin = piece * o.per_piece, count = std::min(o.per_piece, o.elements - begin);
      const auto bytes = static_cast<size_t>(count * o.width);
      const std::byte* from = o.from + begin * o.width;
      if (o.what.kind != Collective::kBroadcast || o.what.root == rank())
        std::memcpy(to, from, bytes);
    }
    board_.post(o.what);
  }

  void finish_piece(const Operation& o, int64_t piece, const Patience& patience) {
    const uint64_t number = ++finished_;
    board_.wait_for_posts(number, patience);
    if (o.in_place()) {
      if (o.what.kind == Collective::kBroadcast) {
        if (o.what.root != rank())
          std::memcpy(o.to, o.parts.of(o.what.root), static_cast<size_t>(o.what.bytes));
      } else {
        reduce_slice(o);
      }
      board_.finish(number);
      board_.wait_for_finish(number, patience);
      return;
    }
    take(o, number, piece);
    board_.finish(number);
  }

  // Makes this rank's result of a piece that all ranks have posted.
  void take(const Operation& o, uint64_t number, int64_t piece) {
    const int64_t begin = piece * o.per_piece, count = std::min(o.per_piece, o.elements - begin);
    if (count == 0) return;  // an empty tensor may have no memory
    const auto bytes = static_cast<size_t>(count * o.width);
    std::byte* to = o.to + begin * o.width;
    switch (o.what.kind) {
      case Collective::kAllReduce:
        for (int r = 0; r < size(); ++r) by_rank_[static_cast<size_t>(r)] = board_.data(r, number);
        return reduce_in_rank_order(o.what.dtype, o.what.op, by_rank_, to, count);
      case Collective::kAllGather:
        for (int r = 0; r < size(); ++r) {
          std::memcpy(to + r * o.elements * o.width, board_.data(r, number), bytes);
        }
        return;
      case Collective::kBroadcast:
        if (o.what.root != rank()) std::memcpy(to, board_.data(o.what.root, number), bytes);
        return;
      case Collective::kBarrier:
      case Collective::kCount:
        return;
    }
  }

  // Sums this rank's slice of a tensor of the arena and writes the sum to all ranks, block
  // by block.
  void reduce_slice(const Operation& o) {
    constexpr int64_t kLine = 64;  // bytes of a cache line: no two ranks write to the same line
    const int64_t lines = (o.what.bytes + kLine - 1) / kLine;
    const int64_t begin = std::min(lines * rank() / size() * kLine, o.what.bytes);
    const int64_t end = std::min(lines * (rank() + 1) / size() * kLine, o.what.bytes);
    const int64_t block = std::max<int64_t>(kBlockBytes / size() / kLine, 16) * kLine;
    for (int64_t at = begin; at < end; at += block) {
      const int64_t bytes = std::min(block, end - at);
      for (int r = 0; r < size(); ++r) by_rank_[static_cast<size_t>(r)] = o.parts.of(r) + at;
      std::byte* mine = o.parts.of(rank()) + at;
      reduce_in_rank_order(o.what.dtype, o.what.op, by_rank_, mine, bytes / o.width);
      for (int r = 0; r < size(); ++r) {
        if (r != rank()) std::memcpy(o.parts.of(r) + at, mine, static_cast<size_t>(bytes));
      }
    }
  }

  SharedBoard board_;
  SharedArena arena_;
  Patience caller_, of_thread_;

  // Held by whoever works on the board, the caller or the thread. While nothing is handed over, the
  // thread does not, and the caller needs no lock.
  std::mutex mutex_;
  // Short operations. None is posted while others are in the hands of the thread, so all of them
  // come before those.
  std::array<Operation, SharedBoard::kSlots> begun_;
  std::atomic<uint64_t> posted_ = 0, done_ = 0;
  // When the last short operations ran; of one that is waited for even later, a later one's.
  static constexpr uint64_t kRemembered = 256;
  std::array<TimeSpan, kRemembered> ran_;
  // The others.
  std::mutex queue_mutex_;
  std::deque<std::shared_ptr<HandedOver>> queue_;
  std::atomic<int64_t> handed_over_ = 0;  // and not done
  uint64_t finished_ = 0;                 // pieces: their number on the board
  std::vector<const void*> by_rank_;
  CommThread thread_;  // last, because it uses the others
};

}  // namespace

std::unique_ptr<Communicator> make_shared_memory_communicator(Communicator& host,
                                                              const SharedMemoryOptions& options) {
  return std::make_unique<SharedMemoryCommunicator>(host, options);
}

}  // namespace dtrain::dist
