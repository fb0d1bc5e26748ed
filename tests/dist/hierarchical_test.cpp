// Ranks of several hosts, as threads: hosts of equal and of different sizes, with ranks in
// any order.

#include "dist/hierarchical_communicator.h"

#include <gtest/gtest.h>

#include <chrono>
#include <mutex>
#include <set>
#include <string>
#include <thread>

#include "dist/lone_communicator.h"
#include "support/thread_world.h"
#include "tests/dist/communicator_contract.h"

namespace dtrain::dist {
namespace {

using Hosts = std::vector<int>;  // of each rank

const std::vector<Hosts>& placements() {
  static const std::vector<Hosts> all = {{0},
                                         {4, 4},
                                         {0, 1},
                                         {0, 0, 1},
                                         {1, 0, 0, 0},
                                         {0, 1, 1, 0},
                                         {0, 1, 2, 1, 0, 2},
                                         {0, 0, 0, 0, 1, 1, 1}};
  return all;
}

std::string text_of(const Hosts& hosts) {
  std::string text = "hosts";
  for (const int host : hosts) text += str(" ", host);
  return text;
}

void run_on_hosts(const Hosts& hosts, WithinHost within,
                  const std::function<void(Communicator&)>& body) {
  run_thread_world(static_cast<int>(hosts.size()), [&](Communicator& world) {
    body(*make_hierarchical_of_threads(world, hosts, within));
  });
}

TEST(PlacesOf, CountsHostsByTheirLowestRankAndRanksWithinEach) {
  const Hosts hosts = {9, 2, 9, 9, 2, 5};
  const std::vector<RankPlace> places = places_of(hosts);
  EXPECT_EQ(places, (std::vector<RankPlace>{{0, 0}, {1, 0}, {0, 1}, {0, 2}, {1, 1}, {2, 0}}));
  EXPECT_EQ(least_ranks_of_a_host(places), 1);
  EXPECT_EQ(least_ranks_of_a_host(places_of(Hosts{3, 4, 4, 3})), 2);
}

TEST(Hierarchical, HoldsTheContractWhereverTheRanksAre) {
  for (const WithinHost within : {WithinHost::kThreads, WithinHost::kSharedMemory}) {
    for (const Hosts& hosts : placements()) {
      for (const contract::Case& one : contract::cases()) {
        SCOPED_TRACE(str(one.name, " on ", text_of(hosts)));
        run_on_hosts(hosts, within, [&](Communicator& comm) { one.run(comm, at::kCPU); });
      }
    }
  }
}

// Within each host by rank, then over the hosts: for tensors of one chunk and of many, in shared
// memory or not.
TEST(Hierarchical, AddsInAnOrderThatFollowsFromThePlacementAlone) {
  const Hosts hosts = {0, 1, 1, 0, 0};
  for (const WithinHost within : {WithinHost::kThreads, WithinHost::kSharedMemory}) {
    run_on_hosts(hosts, within, [](Communicator& comm) {
      for (const int64_t n : {int64_t{3}, int64_t{700}, int64_t{40'003}}) {
        const auto of_rank = [n](int rank) { return contract::rough_numbers(rank, n, at::kFloat); };
        const at::Tensor wanted =
            (of_rank(0) + of_rank(3) + of_rank(4)) + (of_rank(1) + of_rank(2));
        for (const bool allocated : {false, true}) {
          const at::Tensor sum =
              allocated ? comm.allocate({n}, at::kFloat) : at::empty({n}, at::kFloat);
          for (int run = 0; run < 20; ++run) {
            sum.copy_(of_rank(comm.rank()));
            comm.all_reduce(sum, ReduceOp::kSum).wait();
            EXPECT_TRUE(at::equal(contract::bytes_of(sum), contract::bytes_of(wanted)))
                << n << " elements";
          }
        }
      }
    });
  }
}

// What `body` throws on each rank.
std::vector<std::string> errors(
    const Hosts& hosts, WithinHost within,
    const std::function<void(Communicator& world, Communicator&)>& body) {
  std::mutex mutex;
  std::vector<std::string> messages;
  run_thread_world(static_cast<int>(hosts.size()), [&](Communicator& world) {
    const auto comm = make_hierarchical_of_threads(world, hosts, within);
    try {
      body(world, *comm);
    } catch (const Error& error) {
      const std::lock_guard lock(mutex);
      messages.emplace_back(error.what());
    }
  });
  return messages;
}

TEST(Hierarchical, AnAbortEndsTheWaitsOfEveryRankOfEveryHost) {
  for (const WithinHost within : {WithinHost::kThreads, WithinHost::kSharedMemory}) {
    for (const int64_t n : {int64_t{10}, int64_t{100'000}}) {
      for (const int culprit : {0, 1, 4}) {
        const auto messages =
            errors({0, 0, 0, 1, 1}, within, [&](Communicator&, Communicator& comm) {
              const at::Tensor tensor = comm.allocate({n}, at::kFloat).fill_(1);
              comm.all_reduce(tensor, ReduceOp::kMax).wait();
              if (comm.rank() == culprit) {
                std::this_thread::sleep_for(std::chrono::milliseconds(20));
                comm.abort("the disk is full");
              }
              comm.all_reduce(tensor, ReduceOp::kMax).wait();
            });
        ASSERT_EQ(messages.size(), 5u);
        for (const std::string& message : messages) {
          EXPECT_NE(message.find("the disk is full"), std::string::npos) << message;
        }
      }
    }
  }
}

TEST(Hierarchical, ARankThatLeavesWhileOthersWaitIsAnErrorOnAllOthers) {
  for (const WithinHost within : {WithinHost::kThreads, WithinHost::kSharedMemory}) {
    for (const int culprit : {0, 2, 3}) {
      const auto messages = errors({0, 0, 0, 1}, within, [&](Communicator&, Communicator& comm) {
        comm.barrier();
        if (comm.rank() != culprit) comm.all_reduce(at::ones({50'000}), ReduceOp::kSum).wait();
      });
      EXPECT_EQ(messages.size(), 3u);
    }
  }
}

// allocate() of a host that fails.
class NoMemory final : public Communicator {
 public:
  explicit NoMemory(std::unique_ptr<Communicator> inner)
      : Communicator(inner->rank(), inner->size()), inner_(std::move(inner)) {}
  at::Tensor allocate(at::IntArrayRef, const at::TensorOptions&) override {
    throw DeviceError("no room");
  }
  Work all_reduce(at::Tensor inout, ReduceOp op) override { return inner_->all_reduce(inout, op); }
  Work all_gather(at::Tensor out, at::Tensor in) override { return inner_->all_gather(out, in); }
  Work broadcast(at::Tensor inout, int root) override { return inner_->broadcast(inout, root); }
  void barrier() override { inner_->barrier(); }
  void abort(std::string_view reason) noexcept override { inner_->abort(reason); }
  std::string_view name() const override { return "no memory"; }

 private:
  std::unique_ptr<Communicator> inner_;
};

TEST(Hierarchical, MemoryThatOneHostLacksIsADeviceErrorOnAllAndTheCommunicatorStillWorks) {
  run_thread_world(2, [](Communicator& world) {
    std::unique_ptr<Communicator> within = make_lone_communicator();
    if (world.rank() == 1) within = std::make_unique<NoMemory>(std::move(within));
    const auto comm = make_hierarchical_communicator(
        world.rank(), places_of(Hosts{0, 1}), std::move(within), split_thread_world(world, 0));
    try {
      comm->allocate({10}, at::kFloat);
      ADD_FAILURE() << "rank " << world.rank();
    } catch (const DeviceError& error) {
      EXPECT_STREQ(error.what(), "on the host of rank 1: no room");
    }
    const at::Tensor one = at::ones({1}, at::kFloat);
    comm->all_reduce(one, ReduceOp::kSum).wait();
    EXPECT_EQ(one.item<float>(), 2);
  });
}

TEST(Hierarchical, RefusesWhatItCannotReduceBeforeItIsIssued) {
  run_on_hosts({0, 0, 1, 1}, WithinHost::kThreads, [](Communicator& comm) {
    EXPECT_THROW(static_cast<void>(comm.all_reduce(at::ones({4, 6}).t(), ReduceOp::kSum)), Error);
    EXPECT_THROW(static_cast<void>(comm.all_reduce(at::ones({4}, at::kByte), ReduceOp::kSum)),
                 Error);
    EXPECT_THROW(static_cast<void>(comm.all_gather(at::ones({15}), at::ones({4}))), Error);
    EXPECT_THROW(static_cast<void>(comm.broadcast(at::ones({4}), 4)), Error);
    comm.barrier();
  });
}

}  // namespace
}  // namespace dtrain::dist
