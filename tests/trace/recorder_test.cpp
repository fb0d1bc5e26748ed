#include "trace/recorder.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "support/count_allocations.h"

namespace dtrain::trace {
namespace {

Event event(int64_t number) {
  return {.name = "x", .begin = number, .end = number + 1, .kind = Kind::kPhase, .a = number};
}

TEST(Recorder, KeepsNothingUntilItStartsAndAfterItStops) {
  Recorder recorder;
  Track* track = recorder.track("t", 0);
  EXPECT_FALSE(track->on());
  track->add(event(1));
  recorder.start(0, 10);
  EXPECT_TRUE(track->on());
  track->add(event(2));
  recorder.stop();
  EXPECT_FALSE(track->on());
  track->add(event(3));
  const std::vector<TrackEvents> all = recorder.events();
  ASSERT_EQ(all.size(), 1u);
  ASSERT_EQ(all[0].events.size(), 1u);
  EXPECT_EQ(all[0].events[0].a, 2);
  EXPECT_LE(recorder.began(), recorder.ended());
}

TEST(Recorder, CountsFirstAndMakesRoomForIt) {
  Recorder recorder;
  Track* busy = recorder.track("busy", 0);
  Track* idle = recorder.track("idle", 1);
  recorder.start(0, 0);
  for (int i = 0; i < 100; ++i) busy->add(event(i));
  EXPECT_EQ(recorder.counted(), 100u);
  EXPECT_TRUE(recorder.events()[0].events.empty()) << "it only counts";
  recorder.start(2, 3);
  EXPECT_EQ(recorder.counted(), 0u);
  for (int i = 0; i < 250; ++i) busy->add(event(i));
  for (int i = 0; i < 5; ++i) idle->add(event(i));
  recorder.stop();
  const std::vector<TrackEvents> all = recorder.events();
  EXPECT_EQ(all[0].name, "busy");
  EXPECT_EQ(all[0].events.size(), 203u);
  EXPECT_EQ(all[0].left_out, 47u);
  EXPECT_EQ(all[0].events.back().a, 202) << "the first ones are kept";
  EXPECT_EQ(all[1].events.size(), 3u);
  EXPECT_EQ(all[1].left_out, 2u);
  EXPECT_EQ(recorder.counted(), 255u);
}

TEST(Recorder, AllocatesNothingWhileItRecords) {
  Recorder recorder;
  Track* track = recorder.track("t", 0);
  const auto allocated_by = [&](int count) {
    const int64_t before = testing::allocations();
    for (int i = 0; i < count; ++i) track->add(event(i));
    return testing::allocations() - before;
  };
  EXPECT_EQ(allocated_by(1000), 0) << "off";
  recorder.start(0, 500);
  EXPECT_EQ(allocated_by(1000), 0) << "on, and beyond its capacity";
  recorder.stop();
  EXPECT_EQ(allocated_by(1000), 0);
  EXPECT_EQ(recorder.counted(), 1000u);
  const int64_t before = testing::allocations();
  int* volatile number = new int;
  delete number;
  EXPECT_EQ(testing::allocations() - before, 1) << "the count counts";
}

// Threads add while the recorder starts again and stops: what is read is whole.
TEST(Recorder, StartsAndStopsWhileThreadsAdd) {
  Recorder recorder;
  std::vector<Track*> tracks;
  for (int i = 0; i < 4; ++i) tracks.push_back(recorder.track("t" + std::to_string(i), i));
  std::atomic<bool> done = false;
  std::vector<std::thread> threads;
  for (Track* track : tracks) {
    threads.emplace_back([&, track] {
      for (int64_t i = 0; !done; ++i) track->add(event(i));
    });
  }
  for (int round = 0; round < 50; ++round) {
    recorder.start(0, 1000);
    std::this_thread::sleep_for(std::chrono::microseconds(200));
    recorder.stop();
    for (const TrackEvents& track : recorder.events()) {
      for (size_t i = 0; i < track.events.size(); ++i) {
        ASSERT_EQ(track.events[i].end, track.events[i].a + 1);
        if (i > 0) {
          ASSERT_EQ(track.events[i].a, track.events[i - 1].a + 1);
        }
      }
    }
  }
  done = true;
  for (std::thread& thread : threads) thread.join();
}

TEST(Recorder, TheSameTextIsTheSamePointer) {
  Recorder recorder;
  const char* first = recorder.intern("aten::conv2d");
  for (int i = 0; i < 1000; ++i) recorder.intern(std::to_string(i));
  EXPECT_EQ(recorder.intern(std::string("aten::") + "conv2d"), first);
  EXPECT_STREQ(first, "aten::conv2d");
}

}  // namespace
}  // namespace dtrain::trace
