// Any text of a config file gives a Config or a ConfigError, never a crash or another exception.

#include <gtest/gtest.h>

#include "config/load.h"
#include "config/print.h"
#include "core/error.h"
#include "core/random.h"

namespace dtrain::config {
namespace {

void survives(const std::string& text) {
  try {
    from_yaml(text, "fuzz");
  } catch (const ConfigError& error) {
    EXPECT_FALSE(std::string(error.what()).empty());
  }
}

TEST(Fuzz, RandomBytes) {
  for (uint64_t round = 0; round < 2000; ++round) {
    std::string text(keyed(1, round) % 64, '\0');
    for (size_t i = 0; i < text.size(); ++i) text[i] = static_cast<char>(keyed(2, round, i));
    survives(text);
  }
}

TEST(Fuzz, RandomYamlMarks) {
  static constexpr char kMarks[] = "{}[]:,-?&*!|>'\"%@`# \n\t~.0123456789aetrin_\\";
  for (uint64_t round = 0; round < 4000; ++round) {
    std::string text(keyed(3, round) % 80, '\0');
    for (size_t i = 0; i < text.size(); ++i)
      text[i] = kMarks[keyed(4, round, i) % (sizeof kMarks - 1)];
    survives(text);
  }
}

TEST(Fuzz, DamagedConfigs) {
  const std::string whole(to_yaml(Config{}));
  for (uint64_t round = 0; round < 400; ++round) {
    std::string text = whole;
    for (uint64_t k = 0; k < 1 + keyed(5, round) % 4; ++k) {
      const size_t at = keyed(6, round, k) % text.size();
      switch (keyed(7, round, k) % 3) {
        case 0:
          text[at] = static_cast<char>(keyed(8, round, k));
          break;
        case 1:
          text.erase(at, 1 + keyed(9, round, k) % 40);
          break;
        default:
          text.resize(at + 1);
          break;
      }
    }
    survives(text);
  }
}

TEST(Fuzz, DeepAndCyclicDocuments) {
  survives(std::string(100000, '['));
  survives(std::string(100000, '{'));
  survives(std::string(5000, '-') + " a");
  std::string nested;
  for (int i = 0; i < 5000; ++i) nested += "- ";
  survives(nested);
  survives("&a {task: *a}");
  survives("&a {train: *a}");
  survives("train: &a {epochs: *a}");
  survives("blorg: &a {x: *a}");
  std::string laughs = "a0: &a0 {x: 1}\n";
  for (int i = 1; i < 40; ++i) {
    const std::string n = std::to_string(i), m = std::to_string(i - 1);
    laughs += "a" + n + ": &a" + n + " {x: *a" + m + ", y: *a" + m + "}\n";
  }
  survives(laughs);
  survives(std::string(300000, 'a') + ": 1");
}

}  // namespace
}  // namespace dtrain::config
