#include "dist/gradient_reducer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <map>
#include <string>
#include <vector>

#include "core/error.h"
#include "support/add_loss.h"
#include "support/fake_clock.h"
#include "support/thread_world.h"
#include "text/strings.h"

namespace dtrain::dist {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using namespace std::chrono_literals;

const GradientReducer::Options kOneEach{.cap_bytes = 1,
                                        .first_bytes = 1};  // every parameter a bucket of its own

// Records what is reduced through it.
class Recorder : public Communicator {
 public:
  explicit Recorder(Communicator& world)
      : Communicator(world.rank(), world.size()), world_(world) {}
  Work all_reduce(at::Tensor inout, ReduceOp op) override {
    sent.push_back(inout.numel());
    return world_.all_reduce(inout, op);
  }
  Work all_gather(at::Tensor out, at::Tensor in) override { return world_.all_gather(out, in); }
  Work broadcast(at::Tensor inout, int root) override { return world_.broadcast(inout, root); }
  void barrier() override { world_.barrier(); }
  void abort(std::string_view reason) noexcept override { world_.abort(reason); }
  std::string_view name() const override { return "recorder"; }
  std::vector<int64_t> sent;

 private:
  Communicator& world_;
};

// Memory is full.
class Full final : public Recorder {
 public:
  using Recorder::Recorder;
  at::Tensor allocate(at::IntArrayRef, const at::TensorOptions&) override {
    throw DeviceError("no room");
  }
};

at::Tensor leaf(at::IntArrayRef sizes, double value = 1, at::ScalarType dtype = at::kDouble) {
  return at::full(sizes, value, dtype).requires_grad_(true);
}

at::Tensor one() { return at::ones({}, at::kDouble); }

std::string message_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const std::exception& error) {
    return error.what();
  }
  return "nothing was thrown";
}

// Three parameters. The gradient of each element is `factor` × 1, 2 or 3 for a, b and c, if the
// parameter is used.
struct Toy {
  at::Tensor a = leaf({3}), b = leaf({2, 2}), c = leaf({5});
  std::vector<NamedParameter> named() const { return {{"a", a}, {"b", b}, {"c", c}}; }
  void backward(double factor, bool use_a = true, bool use_b = true, bool use_c = true) const {
    at::Tensor loss = at::zeros({}, at::kDouble);
    if (use_a) loss = loss + 1 * a.sum();
    if (use_b) loss = loss + 2 * b.sum();
    if (use_c) loss = loss + 3 * c.sum();
    (factor * loss).backward();
  }
};

// Both ways in which gradients come into their buckets: as views of them, as on the CPU, and
// gathered, as on a GPU.
class GradientReducerTest : public ::testing::TestWithParam<bool> {
 protected:
  static GradientReducer::Options in_this_way(GradientReducer::Options options) {
    options.gather = GetParam();
    return options;
  }
};
INSTANTIATE_TEST_SUITE_P(Each, GradientReducerTest, ::testing::Bool(),
                         [](const auto& info) { return info.param ? "Gathered" : "Views"; });

TEST_P(GradientReducerTest, MemoryThatIsMissingIsNamedForAllBuckets) {
  run_thread_world(1, [](Communicator& comm) {
    Full full(comm);
    const Toy toy;
    const std::string message =
        message_of([&] { GradientReducer(toy.named(), full, comm, in_this_way(kOneEach)); });
    EXPECT_THAT(message, HasSubstr("no room. The buckets of all gradients take 96 B on each rank"));
  });
}

void step(GradientReducer& reducer, const std::function<void()>& backward) {
  reducer.arm(true);
  backward();
  reducer.finish();
}

TEST_P(GradientReducerTest, GradientsAreSumsAndViewsWithTheParametersStrides) {
  run_thread_world(2, [](Communicator& world) {
    const at::Tensor weight = at::arange(54)
                                  .to(at::kDouble)
                                  .view({2, 3, 3, 3})
                                  .contiguous(at::MemoryFormat::ChannelsLast);
    weight.requires_grad_(true);
    const at::Tensor bias = leaf({2});
    GradientReducer reducer({{"weight", weight}, {"bias", bias}}, world, world, in_this_way({}));
    const at::Tensor factors = at::arange(54).to(at::kDouble).view({2, 3, 3, 3});
    for (int round = 0; round < 3; ++round) {
      step(reducer,
           [&] { ((weight * factors).sum() * (world.rank() + 1) + bias.sum()).backward(); });
      EXPECT_TRUE(weight.grad().equal(factors * 3));
      EXPECT_TRUE(bias.grad().equal(at::full({2}, 2.0, at::kDouble)));
      EXPECT_EQ(weight.grad().strides(), weight.strides());
      ASSERT_EQ(reducer.flat().size(), 1u);
      EXPECT_TRUE(weight.grad().is_alias_of(reducer.flat()[0]));
      EXPECT_EQ(reducer.flat()[0].sum().item<double>(), (factors * 3).sum().item<double>() + 4);
      reducer.zero();
      EXPECT_EQ(reducer.flat()[0].abs().sum().item<double>(), 0);
      if (GetParam()) {
        EXPECT_FALSE(weight.grad().defined());
      } else {
        EXPECT_TRUE(weight.grad().is_alias_of(reducer.flat()[0]));
      }
    }
  });
}

TEST_P(GradientReducerTest, OnlyTheLastMicroStepSendsInOneOrderWhileBackwardRuns) {
  run_thread_world(2, [](Communicator& world) {
    Recorder recorder(world);
    const Toy toy;
    GradientReducer reducer(toy.named(), recorder, world, in_this_way(kOneEach));
    step(reducer, [&] { toy.backward(1); });
    // From the last parameter to the first, and then the sums of loss and weight.
    EXPECT_THAT(recorder.sent, ElementsAre(5, 4, 3, 2));
    EXPECT_EQ(reducer.bytes_per_step(), (5 + 4 + 3 + 2) * 8);
    reducer.zero();
    recorder.sent.clear();

    reducer.arm(false);
    toy.backward(1);
    EXPECT_THAT(recorder.sent, ElementsAre());
    reducer.arm(true);
    add_loss(reducer, one() * 5, one() * 2);
    toy.backward(10);
    EXPECT_THAT(recorder.sent, ElementsAre(5, 4, 3, 2)) << "before finish()";
    reducer.finish();
    EXPECT_EQ(recorder.sent.size(), 4u);
    EXPECT_TRUE(toy.b.grad().equal(at::full({2, 2}, 2 * (1 + 10) * 2.0, at::kDouble)));
    EXPECT_EQ(reducer.loss_sum().item<double>(), 10);
    EXPECT_EQ(reducer.weight_sum().item<double>(), 4);
    reducer.zero();
    EXPECT_EQ(reducer.loss_sum().item<double>(), 10) << "readable until the next finish()";
  });
}

// A loss whose backward pass goes from c, which is used last, to a, with a minute of the clock
// after c and another after b.
at::Tensor slow_loss(const Toy& toy, const testing::FakeClock& clock) {
  at::Tensor loss = toy.a.sum();
  for (const at::Tensor& parameter : {toy.b, toy.c}) {
    loss.register_hook([&clock](const at::Tensor&) { clock.advance(1min); });
    const at::Tensor sum = parameter.sum();
    loss = loss * sum;
  }
  return loss;
}

TEST_P(GradientReducerTest, BucketsAreTimedIfAsked) {
  run_thread_world(2, [](Communicator& world) {
    const Toy toy;
    const testing::FakeClock clock;
    GradientReducer::Options options = in_this_way(kOneEach);
    options.clock = &clock;
    GradientReducer reducer(toy.named(), world, world, options);
    const auto backward = [&] {
      const at::Tensor loss = slow_loss(toy, clock);
      add_loss(reducer, one(), one());
      reducer.begin_backward();
      loss.backward();
    };
    step(reducer, backward);
    EXPECT_THAT(reducer.bucket_times(), ElementsAre()) << "time_buckets() was not called";
    reducer.time_buckets(true);
    step(reducer, [&] {
      backward();
      clock.advance(2min);
    });
    const std::vector<BucketTime> times = reducer.bucket_times();
    ASSERT_EQ(times.size(), 3u);
    EXPECT_EQ(times[0].bytes, 5 * 8);
    EXPECT_EQ(times[2].bytes, 3 * 8);
    EXPECT_EQ(times[0].ready, 0);
    EXPECT_EQ(times[1].ready, 0.25);
    EXPECT_EQ(times[2].ready, 0.5);

    reducer.arm(true, /*has_samples=*/false);
    reducer.finish();
    EXPECT_THAT(reducer.bucket_times(), ElementsAre()) << "no backward pass";
    reducer.time_buckets(false);
    step(reducer, backward);
    EXPECT_THAT(reducer.bucket_times(), ElementsAre());
  });
}

TEST_P(GradientReducerTest, TimesItsBucketsFromTheStartOfTheLastBackward) {
  run_thread_world(2, [](Communicator& world) {
    const std::array<double, 3> none{};
    const Toy toy;
    const testing::FakeClock clock;
    GradientReducer::Options options = in_this_way(kOneEach);
    options.clock = &clock;
    GradientReducer reducer(toy.named(), world, world, options);
    step(reducer, [&] {
      reducer.begin_backward();
      clock.advance(1s);
      toy.backward(1);
    });
    EXPECT_EQ(reducer.backward_times().seconds(), none)
        << "the buckets of the first step are sent by finish()";
    reducer.arm(false);
    reducer.begin_backward();
    clock.advance(1s);
    toy.backward(1);
    EXPECT_EQ(reducer.backward_times().seconds(), none) << "nothing is sent";
    step(reducer, [&] {
      reducer.begin_backward();
      clock.advance(1s);
      slow_loss(toy, clock).backward();
    });
    EXPECT_EQ(reducer.backward_times().seconds(), (std::array<double, 3>{1, 61, 121}));
    step(reducer, [&] { toy.backward(1); });
    EXPECT_EQ(reducer.backward_times().seconds(), none) << "begin_backward() was not called";
    reducer.arm(true, /*has_samples=*/false);
    EXPECT_EQ(reducer.backward_times().seconds(), none) << "there is no backward";
    reducer.finish();
  });
}

TEST_P(GradientReducerTest, KnowsTheBucketsOfOtherSizes) {
  run_thread_world(1, [](Communicator& world) {
    const Toy toy;
    const GradientReducer reducer(toy.named(), world, world, in_this_way(kOneEach));
    EXPECT_THAT(reducer.bucket_bytes(), ElementsAre(5 * 8, 4 * 8, 3 * 8));
    EXPECT_THAT(reducer.bucket_bytes_with(1 << 20), ElementsAre(5 * 8, (8 + 3) * 8))
        << "aligned to 64 bytes";
  });
}

// The elements of 0.1 × (i + 1), in a network of one parameter: gradients that bfloat16 and float16
// have to round.
at::Tensor uneven_gradients(int rank) {
  return (at::arange(1000).to(at::kFloat) + 1) * (rank % 2 == 0 ? 0.1 : -0.07);
}

TEST_P(GradientReducerTest, ANarrowWireRoundsWithinItsBound) {
  for (const auto& [wire, unit] :
       {std::pair{at::kBFloat16, 0x1p-8}, std::pair{at::kHalf, 0x1p-11}}) {
    for (const int ranks : {2, 3, 4}) {
      SCOPED_TRACE(str(c10::toString(wire), " on ", ranks, " ranks"));
      at::Tensor exact = at::zeros({1000}, at::kDouble), sizes = at::zeros({1000}, at::kDouble);
      for (int rank = 0; rank < ranks; ++rank) {
        exact += uneven_gradients(rank).to(at::kDouble);
        sizes += uneven_gradients(rank).to(at::kDouble).abs();
      }
      run_thread_world(ranks, [&, wire = wire, unit = unit](Communicator& world) {
        const at::Tensor weight = leaf({1000}, 1, at::kFloat);
        GradientReducer reducer({{"weight", weight}}, world, world, in_this_way({.wire = wire}));
        for (int round = 0; round < 3; ++round) {
          reducer.arm(true);
          add_loss(reducer, one() * 301, one() * 301);  // more than bfloat16 could count
          (weight * uneven_gradients(world.rank())).sum().backward();
          reducer.finish();
          const at::Tensor error = (weight.grad().to(at::kDouble) - exact).abs();
          EXPECT_TRUE(error.le(sizes * unit * (2 + unit)).all().item<bool>());
          EXPECT_GT(error.max().item<double>(), 0) << "nothing was rounded";
          EXPECT_EQ(reducer.loss_sum().item<double>(), 301 * ranks);
          EXPECT_EQ(reducer.weight_sum().item<double>(), 301 * ranks);
          reducer.zero();
        }
        EXPECT_THAT(reducer.bucket_bytes(), ElementsAre(1000 * 2));
        EXPECT_EQ(reducer.bytes_per_step(), 1000 * 2 + 16);
        EXPECT_EQ(reducer.memory_bytes(), 1000 * (4 + 2) + 16);
      });
    }
  }
}

TEST_P(GradientReducerTest, ANarrowWireChangesNothingOnOneRank) {
  run_thread_world(1, [](Communicator& world) {
    const at::Tensor weight = leaf({1000}, 1, at::kFloat);
    GradientReducer reducer({{"weight", weight}}, world, world, in_this_way({.wire = at::kHalf}));
    step(reducer, [&] { (weight * uneven_gradients(0)).sum().backward(); });
    EXPECT_TRUE(weight.grad().equal(uneven_gradients(0)));
    EXPECT_EQ(reducer.memory_bytes(), 1000 * 4 + 16);
  });
}

TEST_P(GradientReducerTest, WhatOverflowsOnTheWireIsInfinite) {
  run_thread_world(2, [](Communicator& world) {
    const at::Tensor weight = leaf({3}, 1, at::kFloat);
    GradientReducer reducer({{"weight", weight}}, world, world, in_this_way({.wire = at::kHalf}));
    step(reducer, [&] { (weight * 40000).sum().backward(); });
    EXPECT_TRUE(at::isinf(weight.grad()).all().item<bool>())
        << "80000 is more than 65504: the scaler must see it";
  });
}

TEST_P(GradientReducerTest, RanksMustAgreeOnTheWire) {
  const std::string message = message_of([] {
    run_thread_world(2, [](Communicator& world) {
      GradientReducer::Options options = in_this_way({});
      if (world.rank() == 1) options.wire = at::kHalf;
      GradientReducer reducer({{"a", leaf({3})}}, world, world, options);
    });
  });
  EXPECT_THAT(message, HasSubstr("rank 1 has another network, bucket size or wire than rank 0"));
}

TEST_P(GradientReducerTest, BucketsDoNotOvertakeWhenBackwardEndsInAnotherOrder) {
  run_thread_world(2, [](Communicator& world) {
    Recorder recorder(world);
    const Toy toy;
    GradientReducer reducer(toy.named(), recorder, world, in_this_way(kOneEach));
    const auto ends_in = [&](const at::Tensor& first, const at::Tensor& second,
                             const at::Tensor& third) {
      // The order of the chain makes autograd finish `first` first.
      at::Tensor chain = third.sum();
      chain = chain * second.sum();
      (chain * first.sum()).backward();
    };
    for (int round = 0; round < 3; ++round) {
      recorder.sent.clear();
      const bool swapped = world.rank() == 1;
      step(reducer, [&] { swapped ? ends_in(toy.a, toy.b, toy.c) : ends_in(toy.c, toy.b, toy.a); });
      EXPECT_THAT(recorder.sent, ElementsAre(5, 4, 3, 2));
      EXPECT_TRUE(toy.a.grad().equal(at::full({3}, 2.0 * 4 * 5, at::kDouble)));
      reducer.zero();
    }
  });
}

TEST_P(GradientReducerTest, LeavesOutParametersThatNoRankUsesAndKeepsTheGradientsOfTheFirstStep) {
  run_thread_world(2, [](Communicator& world) {
    const Toy toy;
    GradientReducer reducer(toy.named(), world, world, in_this_way({}));
    const int64_t all_bytes = reducer.bytes_per_step();
    for (int round = 0; round < 3; ++round) {
      reducer.arm(false);
      toy.backward(world.rank() + 1, true, false, true);
      reducer.end_backward();
      reducer.arm(true);
      add_loss(reducer, one() * 4, one());
      toy.backward(world.rank() + 1, true, false, true);
      reducer.finish();
      EXPECT_TRUE(toy.a.grad().equal(at::full({3}, 6.0, at::kDouble))) << "round " << round;
      EXPECT_TRUE(toy.c.grad().equal(at::full({5}, 18.0, at::kDouble)));
      EXPECT_FALSE(toy.b.grad().defined());
      EXPECT_EQ(reducer.loss_sum().item<double>(), 8);
      EXPECT_EQ(reducer.weight_sum().item<double>(), 2);
      reducer.zero();
    }
    EXPECT_LT(reducer.bytes_per_step(), all_bytes);
  });
}

TEST_P(GradientReducerTest, AUsedParameterWithoutGradientNamesParameterAndRank) {
  const std::string message = message_of([] {
    run_thread_world(2, [](Communicator& world) {
      const Toy toy;
      GradientReducer reducer(toy.named(), world, world, in_this_way({}));
      step(reducer, [&] { toy.backward(1); });
      reducer.zero();
      step(reducer, [&] { toy.backward(1, true, world.rank() == 0, true); });
    });
  });
  EXPECT_THAT(message,
              HasSubstr("parameter b on rank 1 received no gradient in the last micro-step"));
}

TEST_P(GradientReducerTest, AnUnusedParameterThatGetsAGradientLaterIsNamed) {
  const std::string message = message_of([] {
    run_thread_world(2, [](Communicator& world) {
      const Toy toy;
      GradientReducer reducer(toy.named(), world, world, in_this_way({}));
      step(reducer, [&] { toy.backward(1, true, true, false); });
      reducer.zero();
      reducer.arm(false);
      toy.backward(1, true, true, world.rank() == 1);
      reducer.end_backward();
      reducer.arm(true);
      toy.backward(1, true, true, false);
      reducer.finish();
    });
  });
  EXPECT_THAT(message,
              HasSubstr("parameter c on rank 1 received a gradient, though no rank used it"));
}

TEST_P(GradientReducerTest, ARankWithoutSamplesSendsZerosAndIsNoDeviation) {
  run_thread_world(3, [](Communicator& world) {
    const Toy toy;
    GradientReducer reducer(toy.named(), world, world, in_this_way(kOneEach));
    for (int round = 0; round < 4; ++round) {
      // One rank has samples, on both micro-steps or on the first one only.
      const bool mine = (world.rank() + round) % 3 == 0;
      const bool both = round % 2 == 0;
      reducer.arm(false, mine);
      if (mine) add_loss(reducer, one(), one());
      if (mine) toy.backward(1);
      reducer.arm(true, mine && both);
      if (mine && both) add_loss(reducer, one(), one());
      if (mine && both) toy.backward(1);
      reducer.finish();
      EXPECT_TRUE(toy.c.grad().equal(at::full({5}, both ? 6.0 : 3.0, at::kDouble)));
      EXPECT_EQ(reducer.weight_sum().item<double>(), both ? 2 : 1);
      reducer.zero();
    }
    EXPECT_EQ(reducer.flat().size(), 3u) << "no parameter was left out";
  });
}

TEST_P(GradientReducerTest, AgreesAtTheNextStepIfNoRankHadASample) {
  run_thread_world(2, [](Communicator& world) {
    const Toy toy;
    GradientReducer reducer(toy.named(), world, world, in_this_way({}));
    reducer.arm(true, false);
    reducer.finish();
    EXPECT_EQ(reducer.weight_sum().item<double>(), 0);
    EXPECT_TRUE(toy.b.grad().defined());
    step(reducer, [&] { toy.backward(1, true, false, true); });
    EXPECT_FALSE(toy.b.grad().defined());
    EXPECT_TRUE(toy.a.grad().defined() && toy.c.grad().defined());
  });
}

TEST_P(GradientReducerTest, ReplacedGradientsAreFound) {
  run_thread_world(1, [](Communicator& world) {
    const Toy toy;
    GradientReducer reducer(toy.named(), world, world, in_this_way({}));
    step(reducer, [&] { toy.backward(1); });
    toy.b.mutable_grad() = at::Tensor();  // what zero_grad() does by default
    const std::string message = message_of([&] { step(reducer, [&] { toy.backward(1); }); });
    if (GetParam()) {
      EXPECT_EQ(message, "nothing was thrown") << "a gradient that is gathered may be anywhere";
      EXPECT_TRUE(toy.b.grad().equal(at::full({2, 2}, 2 * 2.0, at::kDouble)));
    } else {
      EXPECT_THAT(message,
                  AllOf(HasSubstr("The gradient of b was replaced"), HasSubstr("zero_grad")));
    }
  });
}

// Autograd keeps the strides of a parameter but for dimensions of size 1.
TEST_P(GradientReducerTest, TakesGradientsOfOtherStridesOverOneElement) {
  run_thread_world(1, [](Communicator& world) {
    const at::Tensor weight = leaf({4, 3, 1, 1}), factors = at::arange(12).to(at::kDouble);
    GradientReducer reducer({{"weight", weight}}, world, world, in_this_way({}));
    const at::Tensor other = factors.view({4, 3, 1, 1}).as_strided({4, 3, 1, 1}, {3, 1, 3, 3});
    step(reducer, [&] { (weight * other).sum().backward(); });
    EXPECT_TRUE(weight.grad().equal(factors.view({4, 3, 1, 1})));
  });
}

TEST_P(GradientReducerTest, TwoBackwardsInOneMicroStepAreFound) {
  run_thread_world(1, [](Communicator& world) {
    const Toy toy;
    GradientReducer reducer(toy.named(), world, world, in_this_way({}));
    EXPECT_THAT(message_of([&] {
                  step(reducer, [&] {
                    toy.backward(1);
                    toy.backward(1);
                  });
                }),
                HasSubstr("received two gradients in one micro-step"));
  });
}

TEST_P(GradientReducerTest, BackwardOutsideOfAStepIsFound) {
  run_thread_world(1, [](Communicator& world) {
    const Toy toy;
    GradientReducer reducer(toy.named(), world, world, in_this_way({}));
    toy.backward(1);
    EXPECT_THAT(message_of([&] { step(reducer, [&] { toy.backward(1); }); }),
                HasSubstr("outside of a step"));
  });
}

TEST_P(GradientReducerTest, CallsOutOfOrderAreRefused) {
  run_thread_world(1, [](Communicator& world) {
    const Toy toy;
    GradientReducer reducer(toy.named(), world, world, in_this_way({}));
    EXPECT_THROW(reducer.finish(), Error);
    EXPECT_THROW(add_loss(reducer, one(), one()), Error);
    step(reducer, [&] { toy.backward(1); });
    reducer.arm(true);
    EXPECT_THROW(reducer.arm(false), Error);
    toy.backward(1);
    EXPECT_THROW(add_loss(reducer, one(), one()), Error) << "the bucket with the sums was sent";
    reducer.finish();
  });
}

TEST_P(GradientReducerTest, APassThatIsGivenUpLeavesNothing) {
  run_thread_world(1, [](Communicator& comm) {
    const Toy toy;
    GradientReducer reducer(toy.named(), comm, comm, in_this_way(kOneEach));
    step(reducer, [&] { toy.backward(1); });
    reducer.zero();
    reducer.arm(true);
    reducer.abandon();
    step(reducer, [&] { toy.backward(2); });
    EXPECT_TRUE(toy.c.grad().equal(at::full({5}, 6.0, at::kDouble)));
    reducer.zero();
    reducer.arm(true);
    toy.backward(1, true, false, false);
    reducer.abandon();
    for (const at::Tensor& tensor : reducer.tensors()) tensor.zero_();
    step(reducer, [&] { toy.backward(3); });
    EXPECT_TRUE(toy.a.grad().equal(at::full({3}, 3.0, at::kDouble)));
    EXPECT_TRUE(toy.c.grad().equal(at::full({5}, 9.0, at::kDouble)));
  });
}

TEST_P(GradientReducerTest, ARankWithAnotherNetworkIsNamedAtTheStart) {
  const std::string message = message_of([] {
    run_thread_world(3, [](Communicator& world) {
      const at::Tensor a = leaf({world.rank() == 2 ? 4 : 3});
      GradientReducer reducer({{"a", a}}, world, world, in_this_way({}));
    });
  });
  EXPECT_THAT(message, HasSubstr("rank 2 has another network, bucket size or wire than rank 0"));
}

TEST_P(GradientReducerTest, RefusesParametersItCannotReduce) {
  run_thread_world(1, [](Communicator& world) {
    const auto refusal = [&](std::vector<NamedParameter> parameters) {
      return message_of(
          [&] { GradientReducer reducer(std::move(parameters), world, world, in_this_way({})); });
    };
    const at::Tensor a = leaf({3});
    EXPECT_THAT(refusal({}), HasSubstr("nothing to train"));
    EXPECT_THAT(refusal({{"frozen", at::zeros({3})}}), HasSubstr("frozen is not a leaf"));
    EXPECT_THAT(refusal({{"half", leaf({3}, 1, at::kHalf)}}), HasSubstr("half is Half"));
    EXPECT_THAT(refusal({{"a", a}, {"tied", a}}), HasSubstr("tied and a are one tensor"));
    EXPECT_THAT(refusal({{"gaps", at::zeros({4, 4}).slice(1, 0, 2).requires_grad_(true)}}),
                HasSubstr("gaps in memory"));
    const GradientReducer owner({{"a", a}}, world, world, {});
    EXPECT_THAT(refusal({{"a", a}}), HasSubstr("another owner"));
  });
}

TEST_P(GradientReducerTest, ALossThatReachesNothingIsAnError) {
  run_thread_world(1, [](Communicator& world) {
    const Toy toy;
    GradientReducer reducer(toy.named(), world, world, in_this_way({}));
    EXPECT_THAT(message_of([&] { step(reducer, [] {}); }),
                HasSubstr("does not depend on the network"));
  });
}

TEST_P(GradientReducerTest, ItsDestructorRemovesItsHooks) {
  run_thread_world(1, [](Communicator& world) {
    const Toy toy;
    { GradientReducer reducer(toy.named(), world, world, in_this_way({})); }
    toy.backward(1);  // a hook would call a reducer that no longer exists
    GradientReducer next(toy.named(), world, world, {});
    step(next, [&] { toy.backward(1); });
    EXPECT_TRUE(toy.a.grad().equal(at::ones({3}, at::kDouble)));
  });
}

TEST_P(GradientReducerTest, MixesFloatAndDouble) {
  run_thread_world(2, [](Communicator& world) {
    const at::Tensor a = leaf({3}, 1, at::kFloat), b = leaf({3}, 1, at::kDouble);
    GradientReducer reducer({{"a", a}, {"b", b}}, world, world, in_this_way({}));
    for (int round = 0; round < 2; ++round) {
      reducer.arm(true);
      add_loss(reducer, one() * 3, one());
      (a.sum() + b.sum()).backward();
      reducer.finish();
      EXPECT_EQ(reducer.flat().size(), 2u);
      EXPECT_TRUE(a.grad().equal(at::full({3}, 2.0f)));
      EXPECT_TRUE(b.grad().equal(at::full({3}, 2.0, at::kDouble)));
      EXPECT_EQ(reducer.loss_sum().item<double>(), 6);
      reducer.zero();
    }
  });
}

TEST_P(GradientReducerTest, TellsATraceWhenEachBucketIsReadyAndSent) {
  run_thread_world(2, [](MeteredCommunicator& world) {
    trace::Recorder recorder;
    GradientReducer::Options options = in_this_way(kOneEach);
    options.track = recorder.track(trace::kBuckets, 0);
    trace::Track* carried = recorder.track("gradients", 1);
    const Toy toy;
    GradientReducer reducer(toy.named(), world, world, options);
    step(reducer, [&] { toy.backward(1); });  // the ranks agree on the parameters here
    reducer.zero();
    world.record(carried);
    recorder.start(0, 100);
    step(reducer, [&] { toy.backward(1); });
    recorder.stop();
    world.record(nullptr);
    step(reducer, [&] { toy.backward(1); });
    std::vector<std::string> buckets;
    std::vector<int64_t> bytes;
    std::map<int64_t, trace::Time> ready;
    const std::vector<trace::TrackEvents> tracks = recorder.events();
    for (const trace::Event& event : tracks[0].events) {
      if (event.kind == trace::Kind::kReady) ready[event.a] = event.begin;
      if (event.kind != trace::Kind::kSent) continue;
      buckets.push_back(str(event.a));
      bytes.push_back(event.b);
      ASSERT_TRUE(ready.contains(event.a));
      EXPECT_LE(ready[event.a], event.begin);
    }
    EXPECT_THAT(buckets, ElementsAre("0", "1", "2")) << "sent in one order on all ranks";
    const std::vector<trace::Event>& operations = tracks[1].events;
    bytes.push_back(16);  // the sums of loss and weight
    ASSERT_EQ(operations.size(), bytes.size()) << "only while it was recorded";
    for (size_t i = 0; i < bytes.size(); ++i) {
      EXPECT_EQ(operations[i].a, bytes[i]);
      EXPECT_STREQ(operations[i].name, "all_reduce");
    }
  });
}

}  // namespace
}  // namespace dtrain::dist
