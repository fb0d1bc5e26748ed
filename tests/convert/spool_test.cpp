#include "convert/spool.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <fstream>

#include "core/error.h"
#include "support/expect_error.h"
#include "support/temp_dir.h"

namespace dtrain::convert {
namespace {

using Kind = SampleOutcome::Kind;

std::vector<std::byte> bytes(char fill, size_t count = 16) {
  return std::vector<std::byte>(count, std::byte(fill));
}

void keep(Spool& spool, int64_t sample, const std::vector<std::byte>& input,
          const std::vector<std::byte>& target, int64_t version = 0) {
  const Finished one{.input = input, .target = target, .version = version};
  spool.keep(sample, std::span(&one, 1));
}

void keep(Spool& spool, int64_t sample, const Finished& finished) {
  spool.keep(sample, std::span(&finished, 1));
}

SampleOutcome outcome(const Spool& spool, int64_t sample) {
  return spool.outcomes(sample, 1).front();
}

std::vector<std::byte> read(const Spool& spool, int64_t sample) {
  return spool.read(spool.outcomes(sample, 1));
}

void fill(const std::filesystem::path& folder) {
  Spool spool(folder, 7, 4);
  keep(spool, 2, bytes('c', 5), bytes('t', 3));
  keep(spool, 0, {.kind = Kind::kBeyondRange});
  keep(spool, 3, bytes('d'), bytes('u', 1));
  keep(spool, 1, {.kind = Kind::kDamaged, .reason = "broken\nin two lines"});
  EXPECT_EQ(spool.reason(outcome(spool, 1)), "broken\nin two lines");
}

TEST(Spool, ResumesWithTheFinishedSamples) {
  const testing::TempDir folder;
  fill(folder / "s");
  const Spool spool(folder / "s", 7, 4);
  EXPECT_EQ(spool.resumed(), 3);
  EXPECT_EQ(outcome(spool, 0).kind, Kind::kBeyondRange);
  EXPECT_EQ(outcome(spool, 1).kind, Kind::kOpen);  // damaged samples are tried again
  EXPECT_EQ(outcome(spool, 2).kind, Kind::kKept);
  EXPECT_EQ(outcome(spool, 2).input_bytes, 5);
  EXPECT_EQ(outcome(spool, 2).target_bytes, 3);
  std::vector<std::byte> both = bytes('d');
  both.push_back(std::byte('u'));
  EXPECT_EQ(read(spool, 3), both);
}

TEST(Spool, WritesToNoOtherFile) {
  const testing::TempDir folder;
  std::ofstream(folder / "source") << "source";
  for (const char* name : {"lock", "journal", "samples"}) {
    for (const bool hard : {true, false}) {
      std::filesystem::create_directory(folder / "s");
      const auto link = folder / "s" / name;
      hard ? std::filesystem::create_hard_link(folder / "source", link)
           : std::filesystem::create_symlink(folder / "source", link);
      testing::expect_error<OutputError>([&] { Spool(folder / "s", 7, 4); },
                                         {name, "a file of its own"});
      EXPECT_EQ(std::filesystem::file_size(folder / "source"), 6U);
      EXPECT_EQ(std::filesystem::remove_all(folder / "s"), 2U)
          << "the link is kept, and nothing is made beside it";
    }
  }
}

TEST(Spool, KeepsARunOfSamplesOfEveryKind) {
  const testing::TempDir folder;
  const std::vector<std::byte> input = bytes('c', 5), target = bytes('t', 3);
  {
    Spool spool(folder / "s", 7, 6);
    const std::vector<Finished> run{{.input = input, .target = target},
                                    {.kind = Kind::kDamaged, .reason = "broken"},
                                    {.kind = Kind::kBeyondRange},
                                    {.input = target, .target = input}};
    spool.keep(1, run);
    EXPECT_EQ(spool.reason(outcome(spool, 2)), "broken");
  }
  const Spool spool(folder / "s", 7, 6);
  std::vector<Kind> kinds;
  spool.for_each([&](int64_t sample, const SampleOutcome& one) {
    EXPECT_EQ(sample, static_cast<int64_t>(kinds.size()));
    kinds.push_back(one.kind);
  });
  EXPECT_EQ(kinds, (std::vector{Kind::kOpen, Kind::kKept, Kind::kOpen, Kind::kBeyondRange,
                                Kind::kKept, Kind::kOpen}));
  std::vector<std::byte> both = input;
  both.insert(both.end(), target.begin(), target.end());
  EXPECT_EQ(read(spool, 1), both);
  EXPECT_EQ(read(spool, 4).size(), 8u);
}

TEST(Spool, IgnoresIncompleteRecords) {
  const testing::TempDir folder;
  fill(folder / "s");
  const auto size = std::filesystem::file_size(folder / "s/journal");
  int64_t before = 3;
  for (auto length = size; before > 0; length -= 5) {
    std::filesystem::resize_file(folder / "s/journal", length);
    const Spool spool(folder / "s", 7, 4);
    EXPECT_LE(spool.resumed(), before);
    EXPECT_GE(spool.resumed(), before - 1);
    before = spool.resumed();
    ASSERT_GT(length, 70u) << "only the header is left";
  }
}

TEST(Spool, IgnoresDamagedRecords) {
  const testing::TempDir folder;
  fill(folder / "s");
  std::fstream journal(folder / "s/journal", std::ios::in | std::ios::out | std::ios::binary);
  journal.seekg(-1, std::ios::end);
  const char last = static_cast<char>(journal.get() ^ 1);
  journal.seekp(-1, std::ios::end);
  journal.put(last).flush();
  const Spool spool(folder / "s", 7, 4);
  EXPECT_EQ(spool.resumed(), 2);
  EXPECT_EQ(outcome(spool, 3).kind, Kind::kOpen);
}

TEST(Spool, RepeatsSamplesWithMissingBytes) {
  const testing::TempDir folder;
  fill(folder / "s");
  // The last sample's bytes were not written
  std::filesystem::resize_file(folder / "s/samples", 20);
  const Spool spool(folder / "s", 7, 4);
  EXPECT_EQ(outcome(spool, 2).kind, Kind::kKept);
  EXPECT_EQ(outcome(spool, 3).kind, Kind::kOpen);
}

TEST(Spool, AppendsAfterTheKeptSamples) {
  const testing::TempDir folder;
  fill(folder / "s");
  {
    Spool spool(folder / "s", 7, 4);
    keep(spool, 1, bytes('e', 40), bytes('v', 2));
  }
  const Spool spool(folder / "s", 7, 4);
  EXPECT_EQ(spool.resumed(), 4);
  EXPECT_EQ(read(spool, 2).front(), std::byte('c'));
  EXPECT_EQ(read(spool, 3).front(), std::byte('d'));
  EXPECT_EQ(read(spool, 1).front(), std::byte('e'));
  EXPECT_EQ(read(spool, 1).size(), 42u);
}

TEST(Spool, StartsAgainForOtherSettings) {
  const testing::TempDir folder;
  fill(folder / "s");
  EXPECT_EQ(Spool(folder / "s", 8, 4).resumed(), 0);
  EXPECT_EQ(Spool(folder / "s", 7, 4).resumed(), 0);
}

TEST(Spool, RepeatsSamplesWhoseSourceChanged) {
  const testing::TempDir folder;
  {
    Spool spool(folder / "s", 7, 3);
    keep(spool, 0, bytes('c'), bytes('t'), 40);
    keep(spool, 1, bytes('d'), bytes('u'), 41);
    keep(spool, 2, {.kind = Kind::kBeyondRange, .version = 42});
  }
  const Spool spool(folder / "s", 7, 3,
                    [](int64_t sample) { return sample == 1 ? 99 : 40 + sample; });
  EXPECT_EQ(spool.resumed(), 2);
  EXPECT_EQ(outcome(spool, 1).kind, Kind::kOpen);
}

TEST(Spool, IsLockedByOneConversion) {
  const testing::TempDir folder;
  const Spool first(folder / "s", 7, 4);
  testing::expect_error<OutputError>([&] { Spool(folder / "s", 7, 4); },
                                     {"in use by another conversion"});
}

TEST(Spool, RemovesASpoolWithoutUsefulSamples) {
  const testing::TempDir folder;
  { const Spool spool(folder / "s", 7, 4); }
  EXPECT_FALSE(std::filesystem::exists(folder / "s"));
  {
    Spool spool(folder / "s", 7, 4);
    keep(spool, 1, {.kind = Kind::kDamaged, .reason = "broken"});
  }
  EXPECT_FALSE(std::filesystem::exists(folder / "s"));
  {
    Spool spool(folder / "s", 7, 4);
    keep(spool, 1, {.kind = Kind::kBeyondRange});
  }
  EXPECT_TRUE(std::filesystem::exists(folder / "s"));
}

TEST(Spool, RemovesAFolderThatCannotBeStarted) {
  const testing::TempDir folder;
  const pid_t child = ::fork();
  if (child == 0) {  // files are limited to 0 bytes, as on a full disk
    std::signal(SIGXFSZ, SIG_IGN);
    const rlimit none{.rlim_cur = 0, .rlim_max = RLIM_INFINITY};
    ::setrlimit(RLIMIT_FSIZE, &none);
    try {
      const Spool spool(folder / "s", 7, 4);
    } catch (const OutputError&) {
      ::_exit(73);
    }
    ::_exit(0);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 73);
  EXPECT_FALSE(std::filesystem::exists(folder / "s"));
}

TEST(Spool, RemoveLeavesNothing) {
  const testing::TempDir folder;
  Spool spool(folder / "s", 7, 4);
  spool.remove();
  EXPECT_FALSE(std::filesystem::exists(folder / "s"));
}

}  // namespace
}  // namespace dtrain::convert
