#include "dist/metered_communicator.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "core/error.h"
#include "dist/lone_communicator.h"
#include "dist/shared_memory_communicator.h"
#include "support/thread_world.h"

namespace dtrain::dist {
namespace {

// Runs `body` on two ranks with a communicator of each kind for host tensors.
void run_metered(const std::function<void(MeteredCommunicator&)>& body) {
  run_thread_world(2, [&](MeteredCommunicator& threads) {
    body(threads);
    body(*make_metered_communicator(make_shared_memory_communicator(threads)));
    for (const WithinHost within : {WithinHost::kThreads, WithinHost::kSharedMemory}) {
      for (const std::vector<int>& hosts : {std::vector<int>{0, 0}, std::vector<int>{0, 1}}) {
        threads.barrier();
        body(*make_metered_communicator(make_hierarchical_of_threads(threads, hosts, within)));
      }
    }
  });
}

Carried carried(MeteredCommunicator& comm, Collective kind) {
  return comm.traffic()[static_cast<size_t>(kind)];
}

TEST(MeteredCommunicator, CountsTheBytesAndTheTimeOfEachOperation) {
  run_metered([](MeteredCommunicator& comm) {
    for (const int64_t n : {int64_t{10}, int64_t{200'000}}) {
      const Traffic before = comm.traffic();
      const at::Tensor one = at::ones({n}, at::kFloat), two = at::empty({2 * n}, at::kFloat);
      const trace::Time began = trace::now();
      comm.all_reduce(one, ReduceOp::kSum).wait();
      comm.all_gather(two, one).wait();
      comm.broadcast(one, 1).wait();
      comm.barrier();
      const double most = 1e-9 * static_cast<double>(trace::now() - began);
      double seconds = 0;
      for (const Collective kind :
           {Collective::kAllReduce, Collective::kAllGather, Collective::kBroadcast}) {
        const Carried earlier = before[static_cast<size_t>(kind)];
        EXPECT_EQ(carried(comm, kind).bytes - earlier.bytes, 4 * n) << comm.name();
        EXPECT_GT(carried(comm, kind).seconds, earlier.seconds) << comm.name();
        seconds += carried(comm, kind).seconds - earlier.seconds;
      }
      EXPECT_LE(seconds, most) << comm.name();
      EXPECT_EQ(carried(comm, Collective::kBarrier).bytes, 0);
      EXPECT_GT(carried(comm, Collective::kBarrier).seconds, 0);
    }
  });
}

// More than a communicator remembers.
TEST(MeteredCommunicator, CountsOperationsThatAreWaitedForLate) {
  run_metered([](MeteredCommunicator& comm) {
    const int64_t before = carried(comm, Collective::kAllReduce).bytes;
    std::vector<Work> works;
    std::vector<at::Tensor> tensors;
    for (int i = 0; i < 300; ++i) {
      tensors.push_back(at::ones({2}, at::kDouble));
      works.push_back(comm.all_reduce(tensors.back(), ReduceOp::kSum));
    }
    for (Work& work : works) work.wait();
    for (Work& work : works) work.wait();  // is counted once
    EXPECT_EQ(carried(comm, Collective::kAllReduce).bytes - before, 300 * 16) << comm.name();
  });
}

TEST(MeteredCommunicator, WhatACommunicatorExchangesForItselfIsNotCounted) {
  run_metered([](MeteredCommunicator& comm) {
    const Traffic before = comm.traffic();
    const at::Tensor tensor = comm.allocate({1000}, at::kFloat);
    for (size_t i = 0; i < kCollectives; ++i)
      EXPECT_EQ(comm.traffic()[i].bytes, before[i].bytes) << comm.name();
    comm.all_reduce(tensor.zero_(), ReduceOp::kSum).wait();
    EXPECT_EQ(carried(comm, Collective::kAllReduce).bytes -
                  before[static_cast<size_t>(Collective::kAllReduce)].bytes,
              4000)
        << comm.name();
  });
}

TEST(MeteredCommunicator, ARecordHasTheOperationsWhileItLasts) {
  run_metered([](MeteredCommunicator& comm) {
    trace::Recorder recorder;
    comm.record(recorder.track("comm", 0));
    recorder.start(0, 100);
    const at::Tensor tensor = at::ones({6}, at::kLong);
    const trace::Time began = trace::now();
    comm.all_reduce(tensor, ReduceOp::kMax).wait();
    comm.barrier();
    const trace::Time ended = trace::now();
    recorder.stop();
    comm.record(nullptr);
    comm.broadcast(tensor, 0).wait();
    const std::vector<trace::Event> events = recorder.events().at(0).events;
    ASSERT_EQ(events.size(), 2U) << comm.name();
    EXPECT_STREQ(events[0].name, "all_reduce");
    EXPECT_EQ(events[0].a, 48);
    EXPECT_STREQ(events[1].name, "barrier");
    for (const trace::Event& event : events) {
      EXPECT_LE(began, event.begin);
      EXPECT_LE(event.begin, event.end);
      EXPECT_LE(event.end, ended);
    }
  });
}

TEST(MeteredCommunicator, AnOperationThatFailsIsNotCounted) {
  run_metered([](MeteredCommunicator& comm) {
    if (comm.name() == "thread") return;  // the others are made over it
    comm.barrier();
    comm.abort("enough");
    const int64_t before = carried(comm, Collective::kAllReduce).bytes;
    EXPECT_THROW(comm.all_reduce(at::ones({2}), ReduceOp::kSum).wait(), CommError);
    EXPECT_THROW(comm.check(), CommError);
    EXPECT_EQ(carried(comm, Collective::kAllReduce).bytes, before);
    EXPECT_NO_THROW(comm.record(nullptr)) << "what ends a recording may be a destructor";
  });
}

TEST(MeteredCommunicator, ALoneRankCarriesNothing) {
  const auto comm = make_lone_communicator();
  comm->all_reduce(at::ones({2}), ReduceOp::kSum).wait();
  comm->barrier();
  for (const Carried& one : comm->traffic()) {
    EXPECT_EQ(one.bytes, 0);
    EXPECT_EQ(one.seconds, 0);
  }
}

}  // namespace
}  // namespace dtrain::dist
