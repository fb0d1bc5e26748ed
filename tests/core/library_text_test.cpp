#include "core/library_text.h"

#include <gtest/gtest.h>

#include <string>

namespace dtrain {
namespace {

TEST(LibraryText, SaysWhatIsWrongWithJson) {
  EXPECT_EQ(json_defect("[json.exception.parse_error.101] parse error at line 3, column 7: syntax error while parsing "
                        "value - unexpected end of input; last read: '{\n\x01'"),
            "not valid JSON at line 3, column 7");
  EXPECT_EQ(json_defect("[json.exception.out_of_range.403] key 'step' not found"), "there is no 'step'");
  EXPECT_EQ(json_defect("[json.exception.type_error.302] type must be number, but is string"),
            "a value has another type than it must have");
  EXPECT_EQ(json_defect("something else"), "not valid JSON");
}

TEST(LibraryText, LeavesOutThePlaceInLibTorch) {
  EXPECT_EQ(torch_message("[enforce fail at inline_container.cc:336] . PytorchStreamReader failed reading: x\nframe"),
            "PytorchStreamReader failed reading: x");
  EXPECT_EQ(torch_message("[enforce fail at a.cpp:1] err == 0. It failed. Twice."), "It failed. Twice.");
  EXPECT_EQ(torch_message("[enforce fail without an end"), "[enforce fail without an end");
  EXPECT_EQ(torch_message("Unknown builtin op: a.b."), "Unknown builtin op: a.b.");
}

TEST(LibraryText, FindsTheReasonBehindTheCodeOfAScript) {
  const std::string code =
      "The following operation failed in the TorchScript interpreter.\nTraceback of TorchScript (most recent call "
      "last):\n  File \"n.py\", line 3, in forward\n    return x @ x\n           ~~~~~ <--- HERE\n";
  EXPECT_EQ(torch_message(code + "RuntimeError: CUDA error: an illegal memory access\nSearch for `cudaError'\n"),
            "CUDA error: an illegal memory access");
  EXPECT_EQ(torch_message(code + "builtins.ValueError: no rows\n\n"), "builtins.ValueError: no rows");
}

TEST(LibraryText, FindsAFullHostMemory) {
  const std::string what =
      "[enforce fail at alloc_cpu.cpp:121] err == 0. DefaultCPUAllocator: can't allocate memory: you "
      "tried to allocate 4096 bytes. Error code 12 (Cannot allocate memory)";
  EXPECT_EQ(out_of_host_memory(what), 4096.0);
  EXPECT_EQ(out_of_host_memory("DefaultCPUAllocator: not enough memory"), 0.0);
  EXPECT_EQ(out_of_host_memory("CUDA out of memory"), std::nullopt);
}

TEST(LibraryText, FindsWhatAGpuHadNoMemoryFor) {
  EXPECT_EQ(bytes_out_of_device_memory(
                "CUDA out of memory. Tried to allocate 2.50 GiB. GPU 0 has a total capacity of 23.6 GiB"),
            2.5 * 1024 * 1024 * 1024);
  EXPECT_EQ(bytes_out_of_device_memory("CUDA out of memory. Tried to allocate 20.00 MiB. GPU 0"), 20.0 * 1024 * 1024);
  EXPECT_EQ(bytes_out_of_device_memory("CUDA out of memory. Tried to allocate 512.00 KiB. GPU 0"), 512.0 * 1024);
  EXPECT_EQ(bytes_out_of_device_memory("CUDA error: out of memory"), 0);
  EXPECT_EQ(bytes_out_of_device_memory("Tried to allocate iB"), 0);
}

}  // namespace
}  // namespace dtrain
