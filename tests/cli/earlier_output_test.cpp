// What the commands write is recognized, with the bytes that they really write. Data files and
// lists of quarantined samples: tests/e2e/outputs_test.py.

#include "cli/earlier_output.h"

#include <gtest/gtest.h>

#include <fstream>

#include "cli/eval_report.h"
#include "cli/rows_text.h"
#include "support/temp_dir.h"

namespace dtrain::cli {
namespace {

class EarlierOutput : public ::testing::Test {
 protected:
  bool recognizes(const std::string& text) {
    const auto file = folder_ / "file";
    std::ofstream(file, std::ios::binary | std::ios::trunc) << text;
    return is_earlier_output(prober_, file);
  }

  testing::TempDir folder_;
  data::ProbeProcess prober_;
};

TEST_F(EarlierOutput, RowsAreRecognized) {
  const RowWriter csv(RowFormat::kCsv, {"class", "probability"}),
      json(RowFormat::kJsonLines, {"class"});
  EXPECT_TRUE(recognizes(csv.header()));
  EXPECT_TRUE(recognizes(csv.header() + csv.row("a.jpg", {std::string("cat"), 0.5})));
  EXPECT_TRUE(recognizes(json.row("a.jpg", {std::string("cat")})));
  EXPECT_TRUE(recognizes(json.error("a.jpg", "it is damaged")));
}

TEST_F(EarlierOutput, AReportIsRecognized) {
  EXPECT_TRUE(recognizes(to_json(EvalReport{.checkpoint = "runs/r/checkpoints/step_00000001",
                                            .chosen = "newest",
                                            .data = "d.h5",
                                            .task = "classify",
                                            .network = "simple_cnn",
                                            .precision = "fp32"})));
}

TEST_F(EarlierOutput, OtherFilesAreNot) {
  for (const char* text :
       {"", "input,label\na.jpg,1\n", "{\"input\":1}", "[{\"file\": \"a\"}]", "a,b,error\n"}) {
    EXPECT_FALSE(recognizes(text)) << text;
  }
  EXPECT_FALSE(is_earlier_output(prober_, folder_.path()));
  EXPECT_FALSE(is_earlier_output(prober_, folder_ / "absent"));
}

}  // namespace
}  // namespace dtrain::cli
