#include "trace/timeline.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "core/random.h"
#include "trace/made_events.h"

namespace dtrain::trace {
namespace {

using ::testing::ElementsAre;

// Those of one thread are apart or one inside the other, outer ones first.
void expect_nested(const std::vector<Slice>& slices) {
  std::vector<const Slice*> open;
  for (size_t i = 0; i < slices.size(); ++i) {
    const Slice& slice = slices[i];
    EXPECT_LE(slice.begin, slice.end) << slice.name;
    if (i > 0) {
      EXPECT_LE(slices[i - 1].begin, slice.begin) << slice.name;
    }
    while (!open.empty() && open.back()->end <= slice.begin) open.pop_back();
    if (!open.empty()) {
      EXPECT_LE(slice.end, open.back()->end) << slice.name << " in " << open.back()->name;
    }
    open.push_back(&slice);
  }
}

std::vector<Slice> of_category(const std::vector<Slice>& slices, const std::string& category) {
  std::vector<Slice> some;
  std::copy_if(slices.begin(), slices.end(), std::back_inserter(some),
               [&](const Slice& slice) { return slice.category == category; });
  return some;
}

std::vector<std::string> names(const std::vector<Slice>& slices) {
  std::vector<std::string> names;
  for (const Slice& slice : slices) names.push_back(slice.name);
  return names;
}

// The sums of batch norm are waited for in the middle of forward and backward.
TEST(TrainingSlices, AMicroStepEndsWithItsLastBackward) {
  const std::vector<Event> events = {step(1, 0),
                                     phase("data_wait", 0, 1),
                                     phase("h2d", 1, 2),
                                     phase("forward", 2, 5),
                                     phase("allreduce_wait", 5, 6),
                                     phase("forward", 6, 9),
                                     phase("backward", 9, 12),
                                     phase("allreduce_wait", 12, 13),
                                     phase("backward", 13, 15),
                                     phase("data_wait", 15, 16),
                                     phase("forward", 16, 20),
                                     phase("allreduce_wait", 20, 21),
                                     phase("backward", 21, 25),
                                     phase("allreduce_wait", 25, 27),
                                     phase("optimizer", 27, 30)};
  const std::vector<Slice> micro = of_category(training_slices(events), "micro-step");
  ASSERT_EQ(micro.size(), 2u);
  EXPECT_EQ(micro[0].end, us(15));
  EXPECT_EQ(micro[1].begin, us(15));
  EXPECT_EQ(micro[1].end, us(25)) << "where the wait for the buckets begins";
}

TEST(TrainingSlices, StepsMicroStepsAndPhasesFollowFromThePhases) {
  const std::vector<Slice> slices = training_slices(two_steps());
  expect_nested(slices);
  const std::vector<Slice> steps = of_category(slices, "step"),
                           micro = of_category(slices, "micro-step");
  EXPECT_THAT(names(steps), ElementsAre("step 7", "step 8"));
  EXPECT_EQ(steps[0].begin, us(100));
  EXPECT_EQ(steps[0].end, us(180));
  EXPECT_EQ(steps[1].end, us(260)) << "the last one ends with its last phase";
  EXPECT_THAT(names(micro),
              ElementsAre("micro-step 0", "micro-step 1", "micro-step 0", "micro-step 1"));
  EXPECT_EQ(micro[1].begin, us(130));
  EXPECT_EQ(micro[1].end, us(160)) << "where the wait for the buckets begins";
  for (const Slice& step : steps) {
    Time sum = 0;
    for (const Slice& phase : of_category(slices, "phase")) {
      EXPECT_EQ(phase.event.a, phase.begin < us(180) ? 7 : 8);
      if (phase.begin >= step.begin && phase.begin < step.end) sum += phase.end - phase.begin;
    }
    EXPECT_EQ(sum, step.end - step.begin);
  }
}

TEST(TrainingSlices, WithoutABeginningThereIsNothing) {
  EXPECT_TRUE(training_slices({}).empty());
  const std::vector<Event> phases = {phase("forward", 1, 2), phase("backward", 2, 3)};
  EXPECT_TRUE(training_slices(phases).empty()) << "no step began";
}

TEST(TrainingSlices, OperatorsLieInTheirPhases) {
  std::vector<Event> events = two_steps();
  events.push_back(operator_event("aten::conv2d", 106, 110, 3));
  events.push_back(operator_event("aten::convolution", 107, 109, 3));
  events.push_back(operator_event("aten::zeros", 95, 96, -1));  // before the first step
  const std::vector<Slice> slices = training_slices(events);
  expect_nested(slices);
  EXPECT_THAT(names(of_category(slices, "operator")),
              ElementsAre("aten::conv2d", "aten::convolution"));
}

TEST(Nest, EndsWhatOutlastsItsParent) {
  std::vector<Slice> slices = {{"c", "child", 20, 60},
                               {"c", "parent", 10, 50},
                               {"c", "grandchild", 30, 70},
                               {"c", "next", 50, 80}};
  nest(slices);
  expect_nested(slices);
  EXPECT_THAT(names(slices), ElementsAre("parent", "child", "grandchild", "next"));
  EXPECT_EQ(slices[1].end, 50);
  EXPECT_EQ(slices[2].end, 50);
  EXPECT_EQ(slices[3].end, 80);
}

TEST(Nest, MakesAnySlicesFitForAViewer) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    std::vector<Slice> slices;
    for (uint64_t i = 0; i < 30; ++i) {
      const auto begin = static_cast<Time>(keyed(seed, i, 0) % 100);
      slices.push_back(
          {"c", std::to_string(i), begin, begin + static_cast<Time>(keyed(seed, i, 1) % 40)});
    }
    nest(slices);
    expect_nested(slices);
    EXPECT_EQ(slices.size(), 30u);
  }
}

TEST(LoaderSlices, SamplesOfABatchAreOneGroup) {
  const std::vector<Event> events = {
      stage("read", 0, 2, 1, 0, 11),    stage("decode", 2, 5, 1, 0, 11),
      stage("augment", 5, 6, 1, 0, 11), stage("read", 6, 7, 1, 0, 4),
      stage("decode", 7, 8, 1, 0, 4),   stage("read", 20, 21, 1, 1, 9),
      stage("read", 21, 22, 1, 1, 9),
  };
  const std::vector<Slice> slices = loader_slices(events);
  expect_nested(slices);
  const std::vector<Slice> batches = of_category(slices, "batch");
  EXPECT_THAT(names(batches), ElementsAre("batch 1.0", "batch 1.1"));
  EXPECT_EQ(batches[0].begin, us(0));
  EXPECT_EQ(batches[0].end, us(8));
  EXPECT_EQ(batches[0].event.c, 2) << "samples";
  EXPECT_EQ(batches[1].event.c, 1);
  EXPECT_EQ(of_category(slices, "loader").size(), events.size());
}

TEST(Buckets, TheirOperationsAreThoseOfTheCommunicatorInOrder) {
  const std::vector<Event> reducer = {ready(1, 120),     ready(0, 125), sent(0, 125, 800),
                                      sent(1, 126, 400), ready(0, 200), sent(0, 200, 800),
                                      sent(1, 230, 400)};
  const std::vector<Event> carried = {operation(127, 140, 800), operation(140, 150, 400),
                                      operation(201, 220, 800), operation(231, 240, 400)};
  const std::vector<BucketTimes> buckets = buckets_of(reducer, carried, two_steps());
  ASSERT_EQ(buckets.size(), 4u);
  EXPECT_EQ(buckets[1].bucket, 1);
  EXPECT_EQ(buckets[1].step, 7);
  EXPECT_EQ(buckets[1].ready, us(120)) << "it waited for bucket 0";
  EXPECT_EQ(buckets[1].sent, us(126));
  EXPECT_EQ(buckets[1].began, us(140));
  EXPECT_EQ(buckets[1].ended, us(150));
  EXPECT_EQ(buckets[3].step, 8);
  EXPECT_EQ(buckets[3].ready, 0) << "sent by a rank without samples";
}

TEST(Buckets, TheSumsBehindTheLastOneAreNoBucket) {
  const std::vector<Event> reducer = {sent(0, 125, 800), sent(1, 126, 16), sent(0, 200, 800),
                                      sent(1, 230, 16)};
  const std::vector<Event> carried = {operation(127, 140, 800), operation(140, 150, 16),
                                      operation(150, 151, 16),  operation(201, 220, 800),
                                      operation(231, 240, 16),  operation(240, 241, 16)};
  const std::vector<BucketTimes> buckets = buckets_of(reducer, carried, two_steps());
  ASSERT_EQ(buckets.size(), 4u);
  EXPECT_EQ(buckets[1].ended, us(150));
  EXPECT_EQ(buckets[2].began, us(201));
  EXPECT_EQ(buckets[3].ended, us(240));
}

TEST(Buckets, OperationsOfOthersAreNotTaken) {
  const std::vector<Event> reducer = {ready(0, 125), sent(0, 125, 800)};
  for (const std::vector<Event>& carried : {std::vector<Event>{},
                                            {operation(127, 140, 8)},
                                            {operation(127, 140, 800), operation(141, 142, 800)}}) {
    const std::vector<BucketTimes> buckets = buckets_of(reducer, carried, two_steps());
    ASSERT_EQ(buckets.size(), 1u);
    EXPECT_EQ(buckets[0].ended, 0);
    EXPECT_EQ(buckets[0].sent, us(125));
  }
}

TEST(OperatorFlows, LeadFromTheInnermostForwardOperatorToItsBackward) {
  const std::vector<Event> training = {
      operator_event("aten::convolution", 107, 109, 3), operator_event("aten::conv2d", 106, 110, 3),
      operator_event("aten::relu", 111, 112, 4), operator_event("aten::empty", 112, 113, -1),
      backward_event("ReluBackward0", 130, 131, 4)};
  const std::vector<Event> other = {backward_event("ConvolutionBackward0", 132, 135, 3),
                                    backward_event("AccumulateGrad", 136, 137, -1)};
  const std::vector<std::span<const Event>> all = {training, other};
  const std::vector<FlowEnds> flows = operator_flows(training, all);
  ASSERT_EQ(flows.size(), 2u);
  EXPECT_STREQ(flows[0].forward.name, "aten::relu");
  EXPECT_EQ(flows[0].track, 0u);
  EXPECT_STREQ(flows[1].forward.name, "aten::convolution");
  EXPECT_STREQ(flows[1].backward.name, "ConvolutionBackward0");
  EXPECT_EQ(flows[1].track, 1u);
}

}  // namespace
}  // namespace dtrain::trace
