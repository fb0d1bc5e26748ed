#include "dist/comm_probe.h"

#include <c10/core/Event.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "core/check.h"
#include "dist/device_wait.h"

namespace dtrain::dist {
namespace {

constexpr int kFewestRepetitions = 3;
constexpr size_t kFewestSizes = 2;

// One operation of one size on this rank, with its tensors.
struct Case {
  Collective operation;
  int64_t elements;  // that this rank passes
  at::Tensor out, in;
};

// The memory of one operation, for its largest case; the smaller ones use its beginning.
class Cases {
 public:
  Cases(Communicator& comm, at::Device device, Collective operation, at::ScalarType dtype,
        int64_t largest)
      : operation_(operation),
        item_bytes_(static_cast<int64_t>(c10::elementSize(dtype))),
        ranks_(comm.size()) {
    const auto options = at::TensorOptions().device(device).dtype(dtype);
    const int64_t values = elements_of(largest);
    switch (operation) {
      case Collective::kAllReduce:
        out_ = comm.allocate({values}, options);  // like the buckets of gradients
        break;
      case Collective::kBroadcast:
        out_ = at::empty({values}, options);
        break;
      case Collective::kAllGather:
        in_ = at::empty({values}, options);
        out_ = at::empty({values * ranks_}, options);
        break;
      case Collective::kBarrier:
      case Collective::kCount:
        break;
    }
    if (out_.defined())
      out_.zero_();  // sums of zeros stay zeros, however often; and the pages are there
    if (in_.defined()) in_.zero_();
  }

  Case of(int64_t bytes) const {
    const int64_t values = elements_of(bytes);
    const auto first = [](const at::Tensor& tensor, int64_t count) {
      return tensor.defined() ? tensor.narrow(0, 0, count) : tensor;
    };
    return {operation_, values,
            first(out_, operation_ == Collective::kAllGather ? values * ranks_ : values),
            first(in_, values)};
  }

  int64_t bytes_of(int64_t elements) const {
    return elements * item_bytes_ * (is_shared() ? ranks_ : 1);
  }

 private:
  bool is_shared() const { return operation_ == Collective::kAllGather; }
  int64_t elements_of(int64_t bytes) const {
    if (operation_ == Collective::kBarrier) return 0;
    return std::max<int64_t>(1, bytes / item_bytes_ / (is_shared() ? ranks_ : 1));
  }

  const Collective operation_;
  const int64_t item_bytes_, ranks_;
  at::Tensor out_, in_;
};

void run(Communicator& comm, const Case& one) {
  switch (one.operation) {
    case Collective::kAllReduce:
      comm.all_reduce(one.out, ReduceOp::kSum).wait();
      return;
    case Collective::kAllGather:
      comm.all_gather(one.out, one.in).wait();
      return;
    case Collective::kBroadcast:
      comm.broadcast(one.out, 0).wait();
      return;
    case Collective::kBarrier:
      return comm.barrier();
    case Collective::kCount:
      break;
  }
}

// Seconds of one operation: from the moment at which the device is free for it until its result
// is there.
double timed(Communicator& comm, at::Device device, const Clock& clock, const Case& one) {
  if (device.is_cpu() || one.operation == Collective::kBarrier) {
    const auto began = clock.now();
    run(comm, one);
    return seconds_between(began, clock.now());
  }
  const c10::impl::VirtualGuardImpl guard(device.type());
  c10::Event begin(device.type(), c10::EventFlag::BACKEND_DEFAULT),
      end(device.type(), c10::EventFlag::BACKEND_DEFAULT);
  begin.record(guard.getStream(device));
  run(comm, one);
  end.record(guard.getStream(device));
  wait_until([&] { return end.query(); }, {&comm});
  return begin.elapsedTime(end) * 1e-3;
}

// Runs the operation on known values and counts those that are wrong on this rank. Leaves zeros,
// which further sums do not change.
int64_t count_wrong(Communicator& comm, const Case& one) {
  if (!one.out.defined()) {
    run(comm, one);
    return 0;
  }
  // Whole numbers whose sum a narrow dtype has room for, up to 170 ranks.
  const auto value_of = [&](int rank) {
    return one.out.element_size() < 4 ? 1 + rank % 2 : 1 + rank;
  };
  std::vector<double> values(static_cast<size_t>(comm.size()));
  for (int rank = 0; rank < comm.size(); ++rank) values[static_cast<size_t>(rank)] = value_of(rank);
  const double own = value_of(comm.rank());
  const bool is_root = comm.rank() == 0;
  at::Tensor expected;
  if (one.operation == Collective::kAllGather) {
    one.in.fill_(own);
    one.out.zero_();
    expected =
        at::tensor(values, at::kDouble).to(one.out.options()).repeat_interleave(one.elements);
  } else if (one.operation == Collective::kBroadcast) {
    one.out.fill_(is_root ? 3 : 0);
    expected = at::full({}, 3, one.out.options());
  } else {
    (one.in.defined() ? one.in : one.out).fill_(own);
    expected = at::full({}, std::accumulate(values.begin(), values.end(), 0.0), one.out.options());
  }
  run(comm, one);
  const int64_t wrong = (one.out != expected).sum().item<int64_t>();
  one.out.zero_();
  if (one.in.defined()) one.in.zero_();
  return wrong;
}

// The largest value of any rank, for each of them.
std::vector<double> largest_of_ranks(Communicator& comm, at::Device device,
                                     const std::vector<double>& mine) {
  at::Tensor values = at::tensor(mine, at::kDouble).to(device);
  comm.all_reduce(values, ReduceOp::kMax).wait();
  const at::Tensor read = values.to(at::kCPU);
  const double* begin = read.const_data_ptr<double>();
  return {begin, begin + read.numel()};
}

void report(const ProbeOptions& options) {
  if (options.progress) options.progress();
}

struct Measured {
  Case what;
  ProbedSize result;
  double estimate = 0;  // seconds of the first operation of this size that was timed
  std::vector<double> seconds = {};
};

// The sizes of one operation for which there is time, each run twice: once to prepare, once to know
// about how long it takes. All ranks decide alike, by the slowest of them.
std::vector<Measured> prepare(Communicator& comm, at::Device device, Collective operation,
                              const ProbeOptions& options, double budget) {
  std::vector<int64_t> sizes = options.sizes;
  if (operation == Collective::kBarrier) sizes = {0};
  DTRAIN_CHECK(!sizes.empty() && std::is_sorted(sizes.begin(), sizes.end()),
               "sizes of a probe, ascending");
  std::vector<Measured> all;
  const auto began = options.clock->now();
  double elapsed = 0;
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (all.size() >= kFewestSizes) {
      // Below this size latency decides, and a message that is four times as large takes
      // hardly longer.
      constexpr int64_t kMostlyLatency = 64 << 10;
      const double growth = static_cast<double>(sizes[i]) / static_cast<double>(sizes[i - 1]);
      const double next = all.back().estimate * (sizes[i] <= kMostlyLatency ? 1 : growth);
      if (elapsed + (kFewestRepetitions + 2) * next > budget) break;
    }
    const Cases memory(comm, device, operation, options.dtype, sizes[i]);
    Measured one{.what = memory.of(sizes[i]),
                 .result = {.operation = operation, .dtype = options.dtype}};
    if (!all.empty() && all.back().result.elements == one.what.elements)
      continue;  // rounded to the one before
    one.result.elements = one.what.elements;
    one.result.bytes = memory.bytes_of(one.what.elements);
    if (options.check_values) {
      one.result.wrong = count_wrong(comm, one.what);
    } else {
      run(comm, one.what);
    }
    report(options);
    const std::vector<double> agreed = largest_of_ranks(
        comm, device,
        {timed(comm, device, *options.clock, one.what),
         seconds_between(began, options.clock->now()), static_cast<double>(one.result.wrong)});
    report(options);
    one.estimate = agreed[0];
    elapsed = agreed[1];
    one.result.wrong = static_cast<int64_t>(agreed[2]);
    one.what.out.reset();
    one.what.in.reset();
    all.push_back(std::move(one));
  }
  const Cases memory(comm, device, operation, options.dtype, all.back().result.bytes);
  for (Measured& one : all) one.what = memory.of(one.result.bytes);
  return all;
}

}  // namespace

std::vector<int> plan_repetitions(std::span<const double> seconds, double budget, int most) {
  std::vector<int> repetitions;
  const double share = budget / static_cast<double>(std::max<size_t>(1, seconds.size()));
  for (const double one : seconds) {
    const double fitting = one > 0 ? share / one : most;
    repetitions.push_back(static_cast<int>(
        std::clamp(fitting, static_cast<double>(kFewestRepetitions), static_cast<double>(most))));
  }
  return repetitions;
}

std::vector<ProbedSize> probe(Communicator& comm, at::Device device, const ProbeOptions& options) {
  const at::NoGradGuard no_grad;
  const auto began = options.clock->now();
  const double share =
      options.seconds / static_cast<double>(std::max<size_t>(1, options.operations.size()));
  std::vector<Measured> all;
  for (const Collective operation : options.operations) {
    for (Measured& one : prepare(comm, device, operation, options, share))
      all.push_back(std::move(one));
  }
  const double spent = seconds_between(began, options.clock->now());
  const double left = options.seconds - largest_of_ranks(comm, device, {spent})[0];
  std::vector<double> estimates;
  for (const Measured& one : all) estimates.push_back(one.estimate);
  const std::vector<int> planned = plan_repetitions(estimates, left, options.most_repetitions);

  // A size with fewer repetitions than others takes part in some rounds, evenly spread.
  const int64_t rounds = planned.empty() ? 0 : *std::ranges::max_element(planned);
  std::vector<size_t> order;
  for (int64_t round = 0; round < rounds; ++round) {
    for (size_t i = 0; i < all.size(); ++i) {
      if ((round + 1) * planned[i] / rounds > round * planned[i] / rounds) order.push_back(i);
    }
  }
  std::vector<double> times;
  for (const size_t i : order) {
    times.push_back(timed(comm, device, *options.clock, all[i].what));
    report(options);
  }
  if (!times.empty()) times = largest_of_ranks(comm, device, times);
  for (size_t i = 0; i < order.size(); ++i) all[order[i]].seconds.push_back(times[i]);
  std::vector<ProbedSize> results;
  for (Measured& one : all) {
    one.result.seconds = spread_of(std::move(one.seconds));
    results.push_back(std::move(one.result));
  }
  return results;
}

CostFit probe_all_reduce(Communicator& comm, at::Device device, double seconds,
                         const Clock& clock) {
  if (comm.size() == 1) return {};
  ProbeOptions options{.seconds = seconds, .most_repetitions = 50, .clock = &clock};
  for (int64_t bytes = 4; bytes <= 16 << 20; bytes *= 4) options.sizes.push_back(bytes);
  return fit_cost(probe(comm, device, options), Collective::kAllReduce);
}

CostFit fit_cost(std::span<const ProbedSize> sizes, Collective operation) {
  std::vector<CostSample> samples;
  for (const ProbedSize& one : sizes) {
    if (one.operation == operation)
      samples.push_back({static_cast<double>(one.bytes), one.seconds.median});
  }
  return fit_cost(samples);
}

double algorithm_bandwidth(const ProbedSize& one) {
  return static_cast<double>(one.bytes) / one.seconds.median;
}

double bus_bandwidth(const ProbedSize& one, int ranks) {
  const double others = static_cast<double>(ranks - 1) / static_cast<double>(ranks);
  double factor = 1;  // broadcast: all of it leaves the root
  if (one.operation == Collective::kAllReduce) factor = 2 * others;
  if (one.operation == Collective::kAllGather) factor = others;
  return factor * algorithm_bandwidth(one);
}

}  // namespace dtrain::dist
