// LibTorch's CUDA graphs on fake GPUs that compute: launches have the bits of runs without a graph,
// and what a GPU could not capture is an error. graphs_test.py runs it, in orders of streams.

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <ATen/cuda/CUDAEvent.h>
#include <ATen/cuda/CUDAGeneratorImpl.h>
#include <ATen/cuda/CUDAGraph.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/variable.h>

#include <cstdlib>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace fake_gpu {
namespace {

using at::Tensor;
using at::cuda::CUDAGraph;
using Step = std::function<void()>;

constexpr int kLaunches = 10;

const at::TensorOptions kOnGpu = at::TensorOptions(at::kCUDA).dtype(at::kFloat);

// The same numbers for the same `number`, whatever the order of streams.
Tensor drawn(at::IntArrayRef sizes, int64_t number) {
  int64_t count = 1;
  for (const int64_t size : sizes) count *= size;
  const Tensor on_host = at::sin(at::arange(count, at::kFloat) * 7 + number).reshape(sizes);
  return on_host.to(at::kCUDA);
}

bool same(const Tensor& a, const Tensor& b) { return at::equal(a.cpu(), b.cpu()); }

void wait(const c10::cuda::CUDAStream& waits, const c10::cuda::CUDAStream& for_this) {
  at::cuda::CUDAEvent event;
  event.record(for_this);
  event.block(waits);
}

// A graph with all that `step` does, which runs once before.
std::unique_ptr<CUDAGraph> captured(const Step& step, at::cuda::MempoolId_t pool = {0, 0}) {
  auto graph = std::make_unique<CUDAGraph>();
  const c10::cuda::CUDAStream outside = c10::cuda::getCurrentCUDAStream(),
                              inside = c10::cuda::getStreamFromPool();
  wait(inside, outside);
  {
    const c10::cuda::CUDAStreamGuard guard(inside);
    step();
    graph->capture_begin(pool);
    step();
    graph->capture_end();
  }
  wait(outside, inside);
  return graph;
}

// Runs `step` after each of ten changes, without a graph and with one; returns what it had made.
std::vector<std::vector<Tensor>> with_and_without_graph(
    const std::function<std::vector<Tensor>()>& made, const std::function<void(int64_t)>& change,
    const Step& step, const Step& begin = {}) {
  std::vector<std::vector<Tensor>> all(2);
  const auto run = [&](std::vector<Tensor>& results, const Step& once) {
    if (begin) begin();
    for (int64_t i = 0; i < kLaunches; ++i) {
      change(i);
      once();
      for (const Tensor& tensor : made()) results.push_back(tensor.detach().clone());
    }
  };
  run(all[0], step);
  change(-1);
  const auto graph = captured(step);
  run(all[1], [&] { graph->replay(); });
  return all;
}

void expect_same(const std::vector<std::vector<Tensor>>& all) {
  ASSERT_EQ(all[0].size(), all[1].size());
  for (size_t i = 0; i < all[0].size(); ++i) EXPECT_TRUE(same(all[0][i], all[1][i])) << i;
  EXPECT_FALSE(same(all[0].front(), all[0][all[0].size() - 1]));  // something has changed
}

TEST(Graphs, LaunchesHaveTheBitsOfRuns) {
  const Tensor x = drawn({8, 16}, 1), w = drawn({16, 4}, 2);
  Tensor y;
  expect_same(with_and_without_graph([&] { return std::vector{y}; },
                                     [&](int64_t i) {
                                       x.copy_(drawn({8, 16}, 10 + i));
                                     },
                                     [&] { y = at::matmul(x, w).relu().sum(0); }));
}

TEST(Graphs, AWeightIsUpdatedInPlace) {
  const Tensor w = at::empty({16, 4}, kOnGpu), gradient = at::empty({16, 4}, kOnGpu);
  expect_same(with_and_without_graph([&] { return std::vector{w}; },
                                     [&](int64_t i) {
                                       gradient.copy_(drawn({16, 4}, i));
                                     },
                                     [&] { w.sub_(gradient * 0.1); },
                                     [&] {
                                       w.copy_(drawn({16, 4}, 99));
                                     }));
}

// Autograd works in a thread of its own, which allocates too.
TEST(Graphs, HaveBackwardAndUpdate) {
  const Tensor x = drawn({8, 16}, 1);
  const Tensor a = drawn({16, 32}, 2).requires_grad_(), b = drawn({32, 4}, 3).requires_grad_();
  Tensor loss;
  const auto begin = [&] {
    const at::NoGradGuard no_grad;
    a.copy_(drawn({16, 32}, 2));
    b.copy_(drawn({32, 4}, 3));
  };
  const auto step = [&] {
    a.mutable_grad() = Tensor();
    b.mutable_grad() = Tensor();
    // No node of autograd lives on: one that was made on the default stream would wait for it.
    const Tensor mean = at::matmul(at::matmul(x, a).relu(), b).square().mean();
    mean.backward();
    loss = mean.detach();
    const at::NoGradGuard no_grad;
    for (const Tensor& weight : {a, b}) weight.add_(weight.grad(), -0.1);
  };
  expect_same(with_and_without_graph(
      [&] {
        return std::vector{loss, a, b};
      },
      [&](int64_t i) {
        x.copy_(drawn({8, 16}, 10 + i));
      },
      step, begin));
}

TEST(Graphs, HaveAnotherStream) {
  const c10::cuda::CUDAStream side = c10::cuda::getStreamFromPool();
  const Tensor x = drawn({8, 16}, 1);
  Tensor sum;
  const auto step = [&] {
    const c10::cuda::CUDAStream main = c10::cuda::getCurrentCUDAStream();
    const Tensor doubled = x * 2;
    wait(side, main);
    Tensor on_side;
    {
      const c10::cuda::CUDAStreamGuard guard(side);
      on_side = doubled + 1;
    }
    sum = x.sum(0);
    wait(main, side);
    on_side.record_stream(main);
    sum = sum + on_side.sum(0);
  };
  expect_same(with_and_without_graph([&] { return std::vector{sum}; },
                                     [&](int64_t i) {
                                       x.copy_(drawn({8, 16}, 10 + i));
                                     },
                                     step));
}

TEST(Graphs, KeepTheirMemory) {
  const Tensor x = drawn({1000}, 1);
  Tensor y;
  const auto graph = captured([&] { y = (x * 2 + 1) * 3; });
  std::vector<Tensor> others;
  for (int i = 0; i < 50; ++i) others.push_back(at::full({1000}, i, kOnGpu));
  graph->replay();
  EXPECT_TRUE(same(y, (x * 2 + 1) * 3));
  for (int i = 0; i < 50; ++i)
    EXPECT_TRUE(same(others[static_cast<size_t>(i)], at::full({1000}, i, kOnGpu)));
}

// The second graph uses memory that the first one has freed.
TEST(Graphs, ShareAPool) {
  const Tensor x = drawn({1000}, 1);
  Tensor y, z;
  const auto first = captured([&] { y = (x + 1) * 3; });
  const auto second = captured([&] { z = (y + 2) * 5; }, first->pool());
  for (int64_t i = 0; i < 3; ++i) {
    x.copy_(drawn({1000}, i));
    first->replay();
    second->replay();
    EXPECT_TRUE(same(z, ((x + 1) * 3 + 2) * 5));
  }
}

TEST(Graphs, AreLaunchedOnSeveralStreams) {
  const Tensor x = at::zeros({100}, kOnGpu);
  Tensor y;
  const auto graph = captured([&] {
    y = x + 1;
    x.copy_(y);
  });
  x.zero_();
  const c10::cuda::CUDAStream main = c10::cuda::getCurrentCUDAStream(),
                              side = c10::cuda::getStreamFromPool();
  wait(side, main);
  for (int i = 0; i < 5; ++i) {
    graph->replay();
    const c10::cuda::CUDAStreamGuard guard(side);
    graph->replay();
  }
  wait(main, side);
  EXPECT_TRUE(same(x, at::full({100}, 10, kOnGpu)));
}

TEST(Graphs, MemoryThatIsReadAfterItWasFreedIsNaN) {
  const Tensor x = drawn({1000}, 1), y = at::zeros({1000}, kOnGpu);
  const auto graph = captured([&] {
    Tensor freed = x * 2;
    const Tensor view = at::from_blob(freed.data_ptr(), {1000}, kOnGpu);
    freed = Tensor();
    y.copy_(view);
  });
  graph->replay();
  EXPECT_TRUE(y.isnan().all().item<bool>());
}

// What was allocated before a capture goes back to others, which launches must not overwrite.
TEST(Graphs, DoNotTouchMemoryThatWasFreedInTheCapture) {
  const Tensor x = drawn({1000}, 1);
  Tensor earlier, y;
  std::optional<c10::cuda::CUDAStream> stream;
  const void* freed = nullptr;
  const auto graph = captured([&] {
    if (stream.has_value()) {  // the second time, in the capture
      freed = earlier.data_ptr();
      earlier = Tensor();
    } else {
      stream = c10::cuda::getCurrentCUDAStream();
      earlier = x * 2;
    }
    y = x + 1;
  });
  std::vector<Tensor> others;
  bool reused = false;
  {
    const c10::cuda::CUDAStreamGuard guard(*stream);  // whose memory it was
    for (int i = 0; i < 50; ++i) {
      others.push_back(at::full({1000}, i, kOnGpu));
      reused = reused || others.back().data_ptr() == freed;
    }
  }
  EXPECT_TRUE(reused);
  c10::cuda::device_synchronize();
  graph->replay();
  for (int i = 0; i < 50; ++i)
    EXPECT_TRUE(same(others[static_cast<size_t>(i)], at::full({1000}, i, kOnGpu)));
}

TEST(Graphs, DrawNewNumbersInEachLaunch) {
  Tensor y;
  const auto graph = captured([&] { y = at::rand({100}, kOnGpu); });  // by the default generator
  graph->replay();
  const Tensor first = y.clone();
  graph->replay();
  EXPECT_FALSE(same(first, y));
}

TEST(Graphs, DrawByAGeneratorThatTheyKnow) {
  at::Generator generator = at::cuda::detail::createCUDAGenerator();
  const Tensor y = at::zeros({100}, kOnGpu);
  CUDAGraph graph;
  const c10::cuda::CUDAStream stream = c10::cuda::getStreamFromPool();
  wait(stream, c10::cuda::getCurrentCUDAStream());
  {
    const c10::cuda::CUDAStreamGuard guard(stream);
    y.uniform_(0, 1, generator);
    at::check_generator<at::CUDAGeneratorImpl>(generator)->register_graph(&graph);
    graph.capture_begin();
    y.uniform_(0, 1, generator);
    graph.capture_end();
  }
  wait(c10::cuda::getCurrentCUDAStream(), stream);
  y.zero_();
  graph.replay();
  EXPECT_GT(y.sum().item<float>(), 0);
}

// What a GPU cannot capture. Each is in a process of its own, because LibTorch's allocator does not
// leave a capture that failed.
void expect_error(const Step& step, const std::string& text) {
  try {
    captured(step);
    ADD_FAILURE() << "no error";
  } catch (const std::exception& error) {
    EXPECT_NE(std::string(error.what()).find(text), std::string::npos) << error.what();
  }
  std::_Exit(::testing::Test::HasFailure() ? 1 : 0);
}

constexpr const char* kNotPermitted = "operation not permitted when stream is capturing";

TEST(Uncapturable, ShapesThatDependOnNumbers) {
  const Tensor x = drawn({100}, 1);
  expect_error([&] { at::nonzero(x); }, kNotPermitted);
}

TEST(Uncapturable, NumbersThatTheHostReads) {
  const Tensor x = drawn({100}, 1);
  expect_error([&] { x.sum().item<float>(); }, kNotPermitted);
}

TEST(Uncapturable, CopiesToPageableMemory) {
  const Tensor x = drawn({100}, 1);
  expect_error([&] { x.cpu(); }, "captur");
}

TEST(Uncapturable, CopiesFromPageableMemory) {
  const Tensor host = at::ones({100}), x = drawn({100}, 1);
  expect_error([&] { x.copy_(host); }, "captur");
}

TEST(Uncapturable, AnUnknownGenerator) {
  at::Generator generator = at::cuda::detail::createCUDAGenerator();
  const Tensor x = drawn({100}, 1);
  expect_error([&] { x.uniform_(0, 1, generator); }, "generator");
}

TEST(Uncapturable, AStreamThatIsNotJoined) {
  const c10::cuda::CUDAStream side = c10::cuda::getStreamFromPool();
  const Tensor x = drawn({100}, 1);
  expect_error(
      [&] {
        wait(side, c10::cuda::getCurrentCUDAStream());
        const c10::cuda::CUDAStreamGuard guard(side);
        x.add_(1);
      },
      "capturing stream has unjoined work");
}

}  // namespace
}  // namespace fake_gpu
