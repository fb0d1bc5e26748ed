// Runs a fuzz target without libFuzzer: on its examples, on the inputs that once failed, and on
// mutants of both.
//
// usage: fuzz_NAME [--seed S] [--mutants N] [--cases FOLDER] [--write-examples FOLDER]
// The input that ends the process, or takes longer than 20 s, is named on the error output; --seed
// makes it again.

#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>

#include "fuzz/mutate.h"
#include "fuzz/target.h"

namespace {

namespace fs = std::filesystem;

constexpr unsigned kSecondsOfAnInput = 20;

char current[300] = "";  // read by the signal handler

extern "C" void name_input(int signal) {
  for (const char* text : {"\nFAILED at ", static_cast<const char*>(current), "\n"}) {
    if (::write(STDERR_FILENO, text, std::char_traits<char>::length(text)) < 0) break;
  }
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

void run(const std::string& name, const std::string& input) {
  std::snprintf(current, sizeof current, "%s", name.c_str());
  ::alarm(kSecondsOfAnInput);
  LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t*>(input.data()), input.size());
  ::alarm(0);
}

std::vector<std::pair<std::string, std::string>> inputs_of(const fs::path& cases) {
  std::vector<std::pair<std::string, std::string>> inputs;
  for (const std::string& example : dtrain::testing::example_inputs()) {
    inputs.emplace_back("example " + std::to_string(inputs.size()), example);
  }
  if (!fs::is_directory(cases)) return inputs;
  for (const auto& entry : fs::directory_iterator(cases)) {
    std::ifstream in(entry.path(), std::ios::binary);
    inputs.emplace_back(entry.path().filename().string(),
                        std::string(std::istreambuf_iterator<char>(in), {}));
  }
  std::sort(inputs.begin(), inputs.end());
  return inputs;
}

}  // namespace

int main(int count, char** arguments) {
  uint64_t seed = 1, mutants = 2000;
  fs::path cases, examples;
  for (int i = 1; i + 1 < count; i += 2) {
    const std::string flag = arguments[i], value = arguments[i + 1];
    if (flag == "--seed") {
      seed = std::stoull(value);
    } else if (flag == "--mutants") {
      mutants = std::stoull(value);
    } else if (flag == "--cases") {
      cases = value;
    } else if (flag == "--write-examples") {
      examples = value;
    } else {
      std::fprintf(stderr, "unknown option %s\n", flag.c_str());
      return 64;
    }
  }
  for (const int signal : {SIGSEGV, SIGABRT, SIGBUS, SIGFPE, SIGILL, SIGALRM})
    std::signal(signal, name_input);
  const auto inputs = inputs_of(cases);
  if (!examples.empty()) {
    fs::create_directories(examples);
    for (size_t i = 0; i < inputs.size(); ++i) {
      std::ofstream(examples / std::to_string(i), std::ios::binary) << inputs[i].second;
    }
    return 0;
  }
  for (const auto& [name, input] : inputs) run(name, input);
  for (uint64_t i = 0; i < mutants; ++i) {
    const auto& [name, input] = inputs[i % inputs.size()];
    run("mutant " + std::to_string(i) + " of seed " + std::to_string(seed) + ", of " + name,
        dtrain::testing::mutate(input, seed, i));
  }
  std::printf("%zu inputs and %llu mutants\n", inputs.size(),
              static_cast<unsigned long long>(mutants));
}
