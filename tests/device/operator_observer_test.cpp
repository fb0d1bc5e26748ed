#include "device/operator_observer.h"

#include <ATen/SequenceNumber.h>
#include <ATen/ThreadLocalState.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>

#include <algorithm>
#include <map>
#include <thread>

#include "device/tensor_memory.h"

namespace dtrain::device {
namespace {

using ::testing::HasSubstr;

struct Net : torch::nn::Module {
  Net() {
    conv = register_module("conv", torch::nn::Conv2d(torch::nn::Conv2dOptions(3, 4, 3)));
    fc = register_module("fc", torch::nn::Linear(4, 2));
  }
  at::Tensor forward(const at::Tensor& x) {
    return fc->forward(at::relu(conv->forward(x)).mean({2, 3}));
  }
  torch::nn::Conv2d conv{nullptr};
  torch::nn::Linear fc{nullptr};
};

std::vector<trace::Event> all_events(const trace::Recorder& recorder) {
  std::vector<trace::Event> all;
  for (const trace::TrackEvents& track : recorder.events())
    all.insert(all.end(), track.events.begin(), track.events.end());
  return all;
}

TEST(OperatorObserver, SeesForwardAndBackwardWithTheirModules) {
  Net net;
  trace::Recorder recorder;
  {
    const OperatorObserver observer(recorder, net, {.events = true});
    net.forward(at::ones({2, 3, 8, 8})).sum().backward();  // makes the track of this thread
    recorder.start(0, 10'000);
    net.forward(at::ones({2, 3, 8, 8})).sum().backward();
    recorder.stop();
  }
  std::map<std::string, const trace::Event*> by_name;
  const std::vector<trace::Event> events = all_events(recorder);
  for (const trace::Event& event : events) {
    by_name.emplace(event.name, &event);
    EXPECT_LE(event.begin, event.end);
    EXPECT_GE(event.begin, recorder.began());
  }
  ASSERT_TRUE(by_name.contains("aten::conv2d") && by_name.contains("aten::relu") &&
              by_name.contains("aten::addmm"));
  EXPECT_STREQ(by_name["aten::conv2d"]->detail, "conv");
  EXPECT_STREQ(by_name["aten::addmm"]->detail, "fc");
  EXPECT_STREQ(by_name["aten::relu"]->detail, "after conv");
  EXPECT_EQ(by_name["aten::conv2d"]->kind, trace::Kind::kOperator);
  const trace::Event* backward = by_name["ConvolutionBackward0"];
  ASSERT_NE(backward, nullptr);
  EXPECT_EQ(backward->kind, trace::Kind::kBackward);
  EXPECT_STREQ(backward->detail, "conv");
  const bool linked = std::any_of(events.begin(), events.end(), [&](const trace::Event& event) {
    return event.kind == trace::Kind::kOperator && event.a == backward->a &&
           std::string_view(event.name).find("conv") != std::string_view::npos;
  });
  EXPECT_TRUE(linked) << "forward and backward have one sequence number";
}

TEST(OperatorObserver, SeesOnlyWhatItsThreadDoesWhileItLives) {
  Net net;
  trace::Recorder recorder;
  {
    const OperatorObserver observer(recorder, net, {.events = true});
    net.forward(at::ones({2, 3, 8, 8}));
    recorder.start(0, 1000);
    std::thread([&] { net.forward(at::ones({2, 3, 8, 8})); }).join();
    EXPECT_EQ(recorder.counted(), 0u) << "another thread";
  }
  net.forward(at::ones({2, 3, 8, 8}));
  EXPECT_EQ(recorder.counted(), 0u) << "after it";
  recorder.stop();
}

// Sequence numbers are of a thread: that of another one does not lead to an operator of
// this thread.
TEST(OperatorObserver, KeepsSequenceNumbersOfThreadsApart) {
  Net net;
  trace::Recorder recorder;
  std::vector<trace::Event> events;
  {
    const OperatorObserver observer(recorder, net, {.events = true});
    at::relu(at::ones({1}).requires_grad_()).backward();  // makes the track of this thread
    recorder.start(0, 10'000);
    const uint64_t number = at::sequence_number::peek();
    const at::Tensor here = net.conv->forward(at::ones({2, 3, 8, 8}));
    at::Tensor there;
    const at::ThreadLocalState state;  // with the observer
    std::thread([&] {
      const at::ThreadLocalStateGuard guard(state);
      while (at::sequence_number::peek() < number) at::sequence_number::get_and_increment();
      there = net.fc->forward(at::ones({2, 4}));
    }).join();
    here.sum().backward();
    there.sum().backward();
    recorder.stop();
    events = all_events(recorder);
  }
  const auto backward = [&](const std::string& name) {
    return *std::find_if(events.begin(), events.end(), [&](const trace::Event& event) {
      return event.kind == trace::Kind::kBackward && event.name == name;
    });
  };
  const trace::Event own = backward("ConvolutionBackward0"), other = backward("AddmmBackward0");
  EXPECT_STREQ(own.detail, "conv");
  EXPECT_GE(own.a, 0);
  EXPECT_STREQ(other.detail, "fc");
  EXPECT_EQ(other.a, -1) << "no arrow leads to it from this thread";
}

// What an operator allocates through others is its own.
TEST(OperatorObserver, KnowsWhoAllocates) {
  Net net;
  trace::Recorder recorder;
  const OperatorObserver observer(recorder, net, {.owners = true});
  std::map<int32_t, int64_t> allocated;
  EXPECT_EQ(observer.current(), -1);
  {
    const TensorMemory memory([&](const void*, int64_t bytes, int64_t) {
      if (bytes > 0) allocated[observer.current()] += bytes;
    });
    const at::Tensor images = at::ones({2, 3, 8, 8});
    net.forward(images).sum().backward();
  }
  EXPECT_EQ(observer.current(), -1);
  const std::vector<OperatorObserver::Owner> owners = observer.owners();
  std::map<std::string, int64_t> bytes;
  for (const auto& [owner, count] : allocated) {
    ASSERT_LT(owner, static_cast<int32_t>(owners.size()));
    if (owner < 0) continue;
    const OperatorObserver::Owner& o = owners[static_cast<size_t>(owner)];
    bytes[o.name + (o.backward ? " backward" : "")] += count;
    EXPECT_EQ(o.name.find("autograd::engine"), std::string::npos) << o.name;
    if (o.name == "ConvolutionBackward0") {
      EXPECT_EQ(o.module, "conv");
    }
  }
  EXPECT_GE(bytes["aten::ones"], 4 * 2 * 3 * 8 * 8);
  EXPECT_GE(bytes["aten::conv2d"], 4 * 2 * 4 * 6 * 6);
  EXPECT_GE(bytes["aten::relu"], 4 * 2 * 4 * 6 * 6);
  EXPECT_GE(bytes["ConvolutionBackward0 backward"], 4 * 4 * 3 * 9) << "the gradient of its weight";
  EXPECT_EQ(bytes.count("aten::empty"), 0u);
}

}  // namespace
}  // namespace dtrain::device
