#include "dist/supervisor_lines.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <random>

#include "core/error.h"
#include "text/strings.h"

namespace dtrain::dist {
namespace {

const FailureRecord kRecord = {.rank = 3,
                               .host = "node7",
                               .culprit = 1,
                               .kind = FailureKind::kComm,
                               .exit_code = 76,
                               .text = "[rank 3 on node7] error: rank 1 has died"};

TEST(SupervisorLines, GiveBackWhatWasWritten) {
  for (const std::optional<int> culprit : {std::optional(3), std::optional(1), {}}) {
    FailureRecord record = kRecord;
    record.culprit = culprit;
    EXPECT_EQ(record.is_own(), culprit == 3);
    const std::string line = line_of(record);
    const std::optional<SupervisorLine> read = parse_supervisor_line(line);
    ASSERT_TRUE(read) << line;
    EXPECT_EQ(std::get<FailureRecord>(read->record), record);
    EXPECT_EQ(read->before, "");
  }
  const std::string line = line_of(HeldRun{"my runs/r \"1\"\n"});
  EXPECT_EQ(std::get<HeldRun>(parse_supervisor_line(line).value().record).folder,
            "my runs/r \"1\"\n");
}

TEST(SupervisorLines, HaveTheDocumentedForm) {
  EXPECT_EQ(line_of(kRecord),
            R"(dtrain-failure {"rank":3,"host":"node7","culprit":1,"kind":"comm","exit_code":76,)"
            R"("text":"[rank 3 on node7] error: rank 1 has died"})");
  EXPECT_EQ(line_of(HeldRun{"runs/r"}), R"(dtrain-run {"folder":"runs/r"})");
}

TEST(SupervisorLines, AreOneLineOfAsciiWhateverTheTextIs) {
  FailureRecord record = kRecord;
  for (const std::string& text :
       {std::string("é\n\r\t\x1b[K"), std::string("\xff\xfe"), std::string("a\0b", 3),
        std::string(100000, 'x'), str(std::string(1999, 'x'), "é")}) {
    record.text = text;
    const std::string line = line_of(record);
    EXPECT_TRUE(std::ranges::all_of(line, [](char c) { return c >= ' ' && c <= '~'; })) << line;
    EXPECT_LT(line.size(), 15000U);
    const auto read = parse_supervisor_line(line);
    ASSERT_TRUE(read) << line;
    EXPECT_LE(std::get<FailureRecord>(read->record).text.size(), 2000U);
  }
}

TEST(SupervisorLines, SayWhatWasPrintedBefore) {
  const std::string line = "a warning of a library" + line_of(kRecord);
  EXPECT_EQ(parse_supervisor_line(line).value().before, "a warning of a library");
}

TEST(SupervisorLines, AnythingElseIsForPeople) {
  for (const std::string line :
       {"", "error: no such file", "dtrain-failure", "dtrain-failure ", "dtrain-failure {}",
        "dtrain-failure 7", "dtrain-failure {\"rank\":", "dtrain-run {}",
        "dtrain-run {\"folder\":[]}", "dtrain-launch {\"folder\":\"r\"}"}) {
    EXPECT_FALSE(parse_supervisor_line(line)) << line;
  }
}

TEST(SupervisorLines, EachFieldMustHaveItsType) {
  const std::string line = line_of(kRecord);
  const auto good = nlohmann::ordered_json::parse(line.substr(line.find('{')));
  for (const auto& [name, value] : good.items()) {
    for (const nlohmann::ordered_json& bad :
         {nlohmann::ordered_json(-1), nlohmann::ordered_json(1e300),
          nlohmann::ordered_json(uint64_t{1} << 40), nlohmann::ordered_json(1.5),
          nlohmann::ordered_json("odd"), nlohmann::ordered_json(true),
          nlohmann::ordered_json::array(), nlohmann::ordered_json::object()}) {
      if ((name == "host" || name == "text") && bad.is_string()) continue;
      auto json = good;
      json[name] = bad;
      EXPECT_FALSE(parse_supervisor_line("dtrain-failure " + json.dump())) << json.dump();
    }
    auto json = good;
    json.erase(name);
    EXPECT_FALSE(parse_supervisor_line("dtrain-failure " + json.dump())) << json.dump();
  }
}

TEST(SupervisorLines, DamagedOnesAreNeverMoreThanLines) {
  const std::string good = line_of(kRecord);
  for (size_t size = 0; size < good.size(); ++size)
    EXPECT_FALSE(parse_supervisor_line(good.substr(0, size))) << size;
  std::mt19937 random(1);
  int read = 0;
  for (int i = 0; i < 20000; ++i) {
    std::string line = good;
    for (int changes = 1 + static_cast<int>(random() % 4); changes > 0; --changes)
      line[random() % line.size()] = static_cast<char>(random() % 256);
    read += parse_supervisor_line(line).has_value() ? 1 : 0;
  }
  EXPECT_LT(read, 15000) << "most changes are in texts";
}

TEST(FailureKind, IsThatOfTheErrorType) {
  EXPECT_EQ(kind_of(UsageError("").exit_code()), FailureKind::kUsage);
  EXPECT_EQ(kind_of(DataError("").exit_code()), FailureKind::kData);
  EXPECT_EQ(kind_of(DeviceError("").exit_code()), FailureKind::kDevice);
  EXPECT_EQ(kind_of(OutputError("").exit_code()), FailureKind::kOutput);
  EXPECT_EQ(kind_of(CheckpointError("").exit_code()), FailureKind::kCheckpoint);
  EXPECT_EQ(kind_of(CommError("").exit_code()), FailureKind::kComm);
  EXPECT_EQ(kind_of(ConfigError("").exit_code()), FailureKind::kConfig);
  EXPECT_EQ(kind_of(NumericsError("").exit_code()), FailureKind::kNumerics);
  EXPECT_EQ(kind_of(Error("").exit_code()), FailureKind::kInternal);
}

}  // namespace
}  // namespace dtrain::dist
