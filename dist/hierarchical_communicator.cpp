#include "dist/hierarchical_communicator.h"

#include <algorithm>
#include <functional>
#include <map>
#include <string>
#include <utility>

#include "core/check.h"
#include "dist/agree.h"
#include "dist/comm_thread.h"
#include "dist/peer_error.h"

namespace dtrain::dist {
namespace {

int64_t bytes_of(const at::Tensor& tensor) { return static_cast<int64_t>(tensor.nbytes()); }

void check_tensor(const at::Tensor& tensor) {
  DTRAIN_CHECK(tensor.device().is_cpu() && tensor.is_contiguous(),
               "ranks of several hosts exchange contiguous host tensors; this one is on ",
               tensor.device().str());
}

void check_reducible(const at::Tensor& tensor) {
  check_tensor(tensor);
  DTRAIN_CHECK(at::isFloatingType(tensor.scalar_type()) || tensor.scalar_type() == at::kLong,
               "tensors of ", c10::toString(tensor.scalar_type()), " cannot be reduced");
}

// Slice `index` of `count` of a 1-D tensor. It may be empty.
at::Tensor slice_of(const at::Tensor& flat, int64_t index, int64_t count) {
  const int64_t begin = flat.numel() * index / count, end = flat.numel() * (index + 1) / count;
  return flat.narrow(0, begin, end - begin);
}

class HierarchicalCommunicator final : public Communicator {
 public:
  HierarchicalCommunicator(int rank, std::vector<RankPlace> places,
                           std::unique_ptr<Communicator> within_host,
                           std::unique_ptr<Communicator> between_hosts,
                           const HierarchicalOptions& options)
      : Communicator(rank, static_cast<int>(places.size())),
        options_(options),
        places_(std::move(places)),
        mine_(places_.at(static_cast<size_t>(rank))),
        exchangers_(least_ranks_of_a_host(places_)),
        within_(std::move(within_host)),
        between_(std::move(between_hosts)),
        thread_("hierarchical") {
    for (const RankPlace& place : places_) {
      hosts_ = std::max(hosts_, place.host + 1);
      most_ranks_ = std::max(most_ranks_, place.local + 1);
    }
    const auto on_this_host = std::ranges::count(places_, mine_.host, &RankPlace::host);
    DTRAIN_CHECK(within_->rank() == mine_.local && within_->size() == on_this_host,
                 "within the host: rank ", within_->rank(), " of ", within_->size());
    DTRAIN_CHECK((between_ != nullptr) == (mine_.local < exchangers_), "rank ", rank, " is ",
                 mine_.local, " of host ", mine_.host);
    DTRAIN_CHECK(!between_ || (between_->rank() == mine_.host && between_->size() == hosts_),
                 "between hosts");
  }

  ~HierarchicalCommunicator() override {
    if (!thread_.idle()) abort("it was destroyed");
  }

  at::Tensor allocate(at::IntArrayRef sizes, const at::TensorOptions& options) override {
    at::Tensor tensor;
    std::string failure;
    thread_
        .submit([&] {
          try {
            tensor = within_->allocate(sizes, options);
          } catch (const DeviceError& error) {
            failure = error.what();
          }
        })
        .wait();
    agree_on_devices(*this, failure);  // what fails on one host is an error on all
    return tensor;
  }

  Work all_reduce(at::Tensor inout, ReduceOp op) override {
    check_reducible(inout);
    return run([=, this] { reduce(inout.view({-1}), op); });
  }

  Work all_gather(at::Tensor out, at::Tensor in) override {
    check_tensor(in);
    check_tensor(out);
    DTRAIN_CHECK(out.numel() == size() * in.numel() && in.dtype() == out.dtype(),
                 "all_gather: ", in.numel(), " to ", out.numel(), " elements on ", size(),
                 " ranks");
    return run([=, this] { gather(out.view({size(), in.numel()}), in.view({-1})); });
  }

  Work broadcast(at::Tensor inout, int root) override {
    check_tensor(inout);
    DTRAIN_CHECK(root >= 0 && root < size(), "broadcast from rank ", root, " of ", size());
    return run([=, this] { send_to_all(inout, places_[static_cast<size_t>(root)]); });
  }

  void barrier() override {
    run([this] {
      within_->barrier();
      if (mine_.local == 0) between_->barrier();
      within_->barrier();
    }).wait();
  }

  void abort(std::string_view reason) noexcept override {
    thread_.fail(reason);
    within_->abort(reason);
    if (between_) between_->abort(reason);
  }

  void check() override {
    thread_.throw_if_failed();
    within_->check();
    if (between_) between_->check();
  }

  std::string_view name() const override { return "hierarchical"; }

 private:
  Work run(std::function<void()> operation) {
    return thread_.submit([this, operation = std::move(operation)] {
      const at::NoGradGuard no_grad;
      try {
        operation();
      } catch (const std::exception& error) {
        thread_.fail(error.what(), peer_of(error));
        abort(error.what());
        throw;
      }
    });
  }

  void reduce(const at::Tensor& flat, ReduceOp op) {
    const int exchangers = bytes_of(flat) <= options_.small_bytes ? 1 : exchangers_;
    const int64_t per_chunk =
        std::max<int64_t>(options_.chunk_bytes / flat.element_size(), exchangers);
    const int64_t chunks = std::max<int64_t>((flat.numel() + per_chunk - 1) / per_chunk, 1);
    const auto chunk = [&](int64_t index) {
      return flat.narrow(0, index * per_chunk,
                         std::min(per_chunk, flat.numel() - index * per_chunk));
    };
    Work exchanged = begin_exchange(chunk(0), op, exchangers);
    for (int64_t index = 0; index < chunks; ++index) {
      Work next = index + 1 < chunks ? begin_exchange(chunk(index + 1), op, exchangers) : Work();
      exchanged.wait();
      collect_slices(chunk(index), exchangers);
      exchanged = std::move(next);
    }
  }

  // Adds up within the host, and begins to add this rank's slice to those of the other hosts.
  Work begin_exchange(const at::Tensor& part, ReduceOp op, int exchangers) {
    within_->all_reduce(part, op).wait();
    if (mine_.local >= exchangers) return {};
    return between_->all_reduce(slice_of(part, mine_.local, exchangers), op);
  }

  // The slices that the ranks of this host have received, to all of them.
  void collect_slices(const at::Tensor& part, int exchangers) {
    std::vector<Work> works;
    for (int from = 0; from < exchangers; ++from) {
      works.push_back(within_->broadcast(slice_of(part, from, exchangers), from));
    }
    for (Work& work : works) work.wait();
  }

  // The first rank of each host exchanges what its host has, and passes on what the others have.
  // Hosts with fewer ranks send zeros in the place of those that they lack.
  void gather(const at::Tensor& out, const at::Tensor& in) {
    const at::Tensor of_all = at::zeros({hosts_, most_ranks_, in.numel()}, in.options());
    const at::Tensor of_host = at::zeros({most_ranks_, in.numel()}, in.options());
    within_->all_gather(of_host.narrow(0, 0, within_->size()), in).wait();
    if (mine_.local == 0) between_->all_gather(of_all, of_host).wait();
    within_->broadcast(of_all, 0).wait();
    for (int rank = 0; rank < size(); ++rank) {
      const RankPlace& place = places_[static_cast<size_t>(rank)];
      out[rank].copy_(of_all[place.host][place.local]);
    }
  }

  void send_to_all(const at::Tensor& tensor, const RankPlace& root) {
    const int exchanger = root.local < exchangers_ ? root.local : 0;
    if (mine_.host == root.host) within_->broadcast(tensor, root.local).wait();
    if (mine_.local == exchanger) between_->broadcast(tensor, root.host).wait();
    if (mine_.host != root.host) within_->broadcast(tensor, exchanger).wait();
  }

  const HierarchicalOptions options_;
  const std::vector<RankPlace> places_;
  const RankPlace mine_;
  // Ranks of each host that exchange slices with other hosts: the first ones
  const int exchangers_;
  int hosts_ = 0, most_ranks_ = 0;
  std::unique_ptr<Communicator> within_, between_;
  CommThread thread_;  // last, because it uses the others
};

}  // namespace

std::vector<RankPlace> places_of(std::span<const int> host_by_rank) {
  std::map<int, int> index_of_host, ranks_of_host;
  std::vector<RankPlace> places;
  for (const int host : host_by_rank) {
    const int index =
        index_of_host.emplace(host, static_cast<int>(index_of_host.size())).first->second;
    places.push_back({index, ranks_of_host[host]++});
  }
  return places;
}

int least_ranks_of_a_host(std::span<const RankPlace> places) {
  std::map<int, int> ranks_of_host;
  for (const RankPlace& place : places) ++ranks_of_host[place.host];
  int least = static_cast<int>(places.size());
  for (const auto& [host, ranks] : ranks_of_host) least = std::min(least, ranks);
  return least;
}

std::unique_ptr<Communicator> make_hierarchical_communicator(
    int rank, std::vector<RankPlace> places, std::unique_ptr<Communicator> within_host,
    std::unique_ptr<Communicator> between_hosts, const HierarchicalOptions& options) {
  return std::make_unique<HierarchicalCommunicator>(rank, std::move(places), std::move(within_host),
                                                    std::move(between_hosts), options);
}

}  // namespace dtrain::dist
