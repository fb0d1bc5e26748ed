// All commands as one language: a thing has one name in every help, its other names are accepted
// wherever it is, and options that commands share stand in the same order.

#include <gmock/gmock.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <map>
#include <set>
#include <sstream>

#include "cli/commands.h"
#include "cli/options.h"
#include "config/config_builder.h"
#include "core/error.h"
#include "text/strings.h"

namespace dtrain::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

struct Page {
  std::string command;  // "bench data"
  int (*run)(const Arguments&);
  std::vector<std::string> flags;  // that its --help lists, from top to bottom, without dashes
};

// Of a help: an option begins its line, and what is wrapped stands further to the right.
std::vector<std::string> listed_flags(const std::string& help) {
  std::vector<std::string> flags;
  std::istringstream lines(help);
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with("  -")) continue;
    const size_t begin = line.find("--");
    if (begin == std::string::npos || begin > 5) continue;
    flags.push_back(line.substr(begin + 2, line.find_first_of(" ,=", begin) - begin - 2));
  }
  return flags;
}

Page page_of(const std::string& command, int (*run)(const Arguments&)) {
  ::testing::internal::CaptureStdout();
  EXPECT_EQ(run({"--help"}), 0);
  return {command, run, listed_flags(::testing::internal::GetCapturedStdout())};
}

std::vector<Page> pages() {
  std::vector<Page> all;
  for (const Command& command : commands()) {
    if (command.run != run_bench) all.push_back(page_of(command.name, command.run));
  }
  all.push_back(page_of("bench data", run_bench_data));
  all.push_back(page_of("bench comm", run_bench_comm));
  all.push_back(page_of("bench step", run_bench_step));
  return all;
}

TEST(Help, IsReadFromEveryCommand) {
  EXPECT_THAT(
      listed_flags(
          "Options:\n  --out TEXT=a        the file --x\n                      --seconds of it\n"
          "  -h,--help           print\n  plain text --y\n"),
      ElementsAre("out", "help"));
  for (const Page& page : pages()) {
    EXPECT_GE(page.flags.size(), 2u) << page.command;
    EXPECT_EQ(page.flags.back(), "help") << page.command;
    const std::set<std::string> once(page.flags.begin(), page.flags.end());
    EXPECT_EQ(once.size(), page.flags.size()) << page.command;
  }
}

TEST(Help, HasTheSharedOptionsInOneOrder) {
  // The order of all: what no other option has to stand before goes first, until none is left.
  std::map<std::string, std::map<std::string, std::string>>
      before;  // flag -> what stands before it -> in which help
  for (const Page& page : pages()) {
    for (size_t i = 0; i < page.flags.size(); ++i) {
      auto& earlier = before[page.flags[i]];
      if (i > 0) earlier.emplace(page.flags[i - 1], page.command);
    }
  }
  for (bool found = true; found;) {
    const auto first =
        std::ranges::find_if(before, [](const auto& flag) { return flag.second.empty(); });
    found = first != before.end();
    if (!found) break;
    const std::string name = first->first;
    before.erase(first);
    for (auto& [flag, earlier] : before) earlier.erase(name);
  }
  std::string circle;
  for (const auto& [flag, earlier] : before) {
    for (const auto& [other, command] : earlier)
      circle += str("\n--", other, " before --", flag, " in ", command);
  }
  EXPECT_EQ(circle, "") << "no order holds in all of these";
}

TEST(Help, ListsAKeyByItsOneName) {
  config::Config scratch;
  const std::vector<config::Option> keys = config::describe(scratch);
  for (const Page& page : pages()) {
    for (const std::string& flag : page.flags) {
      const config::Option* key = config::find_flag(keys, flag);
      EXPECT_TRUE(key == nullptr || flag == key->names().front()) << page.command << " --" << flag;
    }
  }
}

TEST(Flags, OfOtherNamesAreTheAppsOwn) {
  CLI::App app("", "dtrain some");
  std::string text;
  for (const char* name :
       {"--dataset", "--device", "--threads", "--batch-size", "--amp", "--module", "--out"}) {
    app.add_option(name, text);
  }
  const auto own = [&](const std::vector<std::string>& words) { return in_own_words(app, words); };
  EXPECT_THAT(own({"run", "--data", "a.h5", "--data.file=--data", "--device.type", "cpu",
                   "--device.threads=2"}),
              ElementsAre("run", "--dataset", "a.h5", "--dataset=--data", "--device", "cpu",
                          "--threads=2"));
  EXPECT_THAT(
      own({"--data.file", "images", "--data", "images", "--data.file=images", "--data.file"}),
      ElementsAre("--dataset", "./images", "--dataset", "images", "--dataset=./images",
                  "--dataset"))
      << "only --dataset and --data take names of data sets";
  EXPECT_THAT(own({"--train.batch_size", "8", "--train.amp", "fp32", "--model.file", "n.pt"}),
              ElementsAre("--batch-size", "8", "--amp", "fp32", "--module", "n.pt"));
  EXPECT_THAT(own({"--out", "x", "--train.seed", "1", "--workers", "2", "--", "--data"}),
              ElementsAre("--out", "x", "--train.seed", "1", "--workers", "2", "--", "--data"));
}

// The commands without a configuration; tests/config/table_test.cpp has those of keys.
TEST(Flags, OfAKeyAreAcceptedByAllTheirNames) {
  config::Config scratch;
  const std::vector<config::Option> keys = config::describe(scratch);
  int checked = 0;
  for (const Page& page : pages()) {
    for (const std::string& flag : page.flags) {
      const config::Option* key = config::find_flag(keys, flag);
      if (key == nullptr || page.run == run_train || config::value_kind(*key) == "text") continue;
      for (const std::string& name : key->names()) {
        try {
          page.run({"--" + name, "?"});
          ADD_FAILURE() << page.command << " --" << name << " takes ?";
        } catch (const UsageError& error) {
          EXPECT_THAT(error.what(), HasSubstr("--" + flag)) << page.command << " --" << name;
        }
        ++checked;
      }
    }
  }
  EXPECT_GT(checked, 40);
}

TEST(Flags, OfTrueAndFalseMayStandAlone) {
  const auto parsed = [](std::vector<std::string> words) {
    CLI::App app("", "dtrain some");
    std::string run, verify;
    app.add_option("RUN", run);
    app.add_option("--data.verify", verify)->check(CLI::IsMember({"true", "false"}));
    parse(app, words);
    return run + " " + verify;
  };
  EXPECT_EQ(parsed({"--data.verify", "runs/r"}), "runs/r true");
  EXPECT_EQ(parsed({"runs/r", "--data.verify"}), "runs/r true");
  EXPECT_EQ(parsed({"--data.verify", "false", "runs/r"}), "runs/r false");
  EXPECT_EQ(parsed({"runs/r", "--data.verify=false"}), "runs/r false");
  for (const char* wrong : {"yes", "1", "first_epoch", "r"}) {
    EXPECT_THROW(parsed({"--data.verify", wrong, "runs/r"}), UsageError) << wrong;
  }
}

TEST(Flags, WithoutTheirListLackAValue) {
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"--ranks"}, {"--ranks="}, {"--ranks", ""}}) {
    CLI::App app("", "dtrain some");
    std::vector<int> ranks;
    app.add_option("--ranks", ranks)->delimiter(',');
    try {
      parse(app, words);
      ADD_FAILURE() << words.size();
    } catch (const UsageError& error) {
      EXPECT_THAT(error.what(), HasSubstr("dtrain some: --ranks: a value is missing"));
    }
  }
}

// What CLI11 itself makes of these: 0, 255, the largest number, 8 and 9.
TEST(Flags, OfNumbersRefuseWhatIsNone) {
  int checked = 0;
  for (const Page& page : pages()) {
    if (page.run == run_train) continue;  // its flags are keys: tests/config/table_test.cpp
    std::vector<ManualFlag> flags;
    try {
      page.run({kListFlags});
    } catch (const ListedFlags& listed) {
      flags = listed.flags;
    }
    for (const ManualFlag& flag : flags) {
      if (flag.kind != "number") continue;
      for (const char* value : {"", "-1", "-0.5", "1x", "nan", "inf", "0xff",
                                "99999999999999999999999", "8,,9", "8,", ",8", ","}) {
        try {
          page.run({flag.names[0] + "=" + value});
          ADD_FAILURE() << page.command << " " << flag.names[0] << " takes '" << value << "'";
        } catch (const UsageError& error) {
          EXPECT_THAT(error.what(), HasSubstr(flag.names[0] + ": "))
              << page.command << " '" << value << "'";
          EXPECT_LT(std::string_view(error.what()).size(), 300u) << error.what();
        }
        ++checked;
      }
    }
  }
  EXPECT_GT(checked, 400);
}

}  // namespace
}  // namespace dtrain::cli
