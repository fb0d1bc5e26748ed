#include "text/library_text.h"

#include <gtest/gtest.h>

#include <string>

namespace dtrain {
namespace {

TEST(LibraryText, SaysWhatIsWrongWithJson) {
  EXPECT_EQ(json_defect("[json.exception.parse_error.101] parse error at line 3, column 7: syntax "
                        "error while parsing "
                        "value - unexpected end of input; last read: '{\n\x01'"),
            "not valid JSON at line 3, column 7");
  EXPECT_EQ(json_defect("[json.exception.out_of_range.403] key 'step' not found"),
            "there is no 'step'");
  EXPECT_EQ(json_defect("[json.exception.type_error.302] type must be number, but is string"),
            "a value has another type than it must have");
  EXPECT_EQ(json_defect("something else"), "not valid JSON");
}

TEST(LibraryText, LeavesOutThePlaceInLibTorch) {
  EXPECT_EQ(torch_message("[enforce fail at inline_container.cc:336] . PytorchStreamReader failed "
                          "reading: x\nframe"),
            "PytorchStreamReader failed reading: x");
  EXPECT_EQ(torch_message("[enforce fail at a.cpp:1] err == 0. It failed. Twice."),
            "It failed. Twice.");
  EXPECT_EQ(torch_message("[enforce fail without an end"), "[enforce fail without an end");
  EXPECT_EQ(torch_message("Unknown builtin op: a.b."), "Unknown builtin op: a.b.");
}

// As LibTorch 2.11 writes them.
const std::string kFailed = "The following operation failed in the TorchScript interpreter.\n";
const std::string kSerialized =
    "Traceback of TorchScript, serialized code (most recent call last):\n"
    "  File \"code/__torch__.py\", line 11, in forward\n    emb = self.emb\n    x0 = "
    "(emb).forward(torch.to(x, 4), )\n"
    "          ~~~~~~~~~~~~ <--- HERE\n    head = self.head\n\n";
const std::string kOriginal = "Traceback of TorchScript, original code (most recent call last):\n";
const std::string kOfTorch = "/usr/lib/python3.11/site-packages/torch/nn/modules/";

TEST(LibraryText, SaysAFailureOfAScriptInOneSentence) {
  const std::string code =
      kFailed + kSerialized + kOriginal +
      "  File \"/src/net.py\", line 10, in forward\n    def forward(self, x: torch.Tensor):\n"
      "        x = self.emb(x.long())\n            ~~~~~~~~ <--- HERE\n        return x\n"
      "  File \"" +
      kOfTorch +
      "sparse.py\", line 189, in forward\n        return F.embedding(\n               ~~~~~~ <--- "
      "HERE\n            input,\n";
  EXPECT_EQ(torch_message(code + "RuntimeError: index out of range in self\n"),
            "an index is outside of the table of an embedding, in /src/net.py, line 10: x = "
            "self.emb(x.long())");
  EXPECT_EQ(
      torch_message(code +
                    "RuntimeError: CUDA error: an illegal memory access\nSearch for `cudaError'\n" +
                    "forward() got float32 [3, 5] with values from 0 to 12\n"),
      "CUDA error: an illegal memory access, in /src/net.py, line 10: x = self.emb(x.long()); "
      "forward() got "
      "float32 [3, 5] with values from 0 to 12");
  EXPECT_EQ(
      torch_message(
          kFailed + kSerialized + kOriginal +
          "  File \"n.py\", line 3, in forward\n        if x.size(1) != 10:\n"
          "            raise ValueError(\n            ~~~~~~~~~~~~~~~~~\n"
          "                \"ten please\"\n                ~~~~~~~~~~~~ <--- HERE\n            )\n"
          "builtins.ValueError: ten please, not 3.\n\n"),
      "ValueError: ten please, not 3, in n.py, line 3: raise ValueError(");
}

TEST(LibraryText, TakesNoReasonForALine) {
  const std::string code =
      kFailed + kOriginal +
      "  File \"net.py\", line 3, in forward\n    raise E(x)\n    ~~~ <--- HERE\n";
  EXPECT_EQ(torch_message(code + "RuntimeError: shape(3): bad\n"),
            "shape(3): bad, in net.py, line 3: raise E(x)");
  EXPECT_EQ(torch_message(code + "builtins.E: 7 columns, got 20\nhint: see the manual\n"),
            "E: 7 columns, got 20, in net.py, line 3: raise E(x)");
  EXPECT_EQ(torch_message(code + "builtins.E: shape(3): bad\n"),
            "E: shape(3): bad, in net.py, line 3: raise E(x)");
}

TEST(LibraryText, FindsTheLineOfATracedModule) {
  EXPECT_EQ(
      torch_message(kFailed + kSerialized + kOriginal + kOfTorch + "sparse.py(189): forward\n" +
                    kOfTorch + "module.py(1769): _slow_forward\n/src/net.py(11): forward\n" +
                    kOfTorch + "module.py(1790): _call_impl\n/src/net.py(53): <module>\n" +
                    "RuntimeError: Class values must be non-negative.\n"),
      "one_hot() got a negative number, in /src/net.py, line 11");
}

TEST(LibraryText, NamesNoLineOfTorchItself) {
  const std::string only_torch = "  File \"" + kOfTorch +
                                 "batchnorm.py\", line 3, in forward\n    raise ValueError(x)\n" +
                                 "    ~~~~ <--- HERE\n";
  EXPECT_EQ(torch_message(kFailed + kOriginal + only_torch +
                          "builtins.ValueError: Expected more than 1 value\n"),
            "ValueError: Expected more than 1 value");
  EXPECT_EQ(torch_message(kFailed + kSerialized + "RuntimeError: no\n"),
            "no, in code/__torch__.py, line 11: x0 = (emb).forward(torch.to(x, 4), )");
  EXPECT_EQ(torch_message(kFailed),
            "The following operation failed in the TorchScript interpreter");
  EXPECT_EQ(script_failure("mat1 and mat2 shapes cannot be multiplied"), std::nullopt);
}

TEST(LibraryText, FindsAFullHostMemory) {
  const std::string what =
      "[enforce fail at alloc_cpu.cpp:121] err == 0. DefaultCPUAllocator: can't allocate memory: "
      "you "
      "tried to allocate 4096 bytes. Error code 12 (Cannot allocate memory)";
  EXPECT_EQ(out_of_host_memory(what), 4096.0);
  EXPECT_EQ(out_of_host_memory("DefaultCPUAllocator: not enough memory"), 0.0);
  EXPECT_EQ(out_of_host_memory("CUDA out of memory"), std::nullopt);
}

TEST(LibraryText, FindsWhatAGpuHadNoMemoryFor) {
  EXPECT_EQ(
      bytes_out_of_device_memory(
          "CUDA out of memory. Tried to allocate 2.50 GiB. GPU 0 has a total capacity of 23.6 GiB"),
      2.5 * 1024 * 1024 * 1024);
  EXPECT_EQ(bytes_out_of_device_memory("CUDA out of memory. Tried to allocate 20.00 MiB. GPU 0"),
            20.0 * 1024 * 1024);
  EXPECT_EQ(bytes_out_of_device_memory("CUDA out of memory. Tried to allocate 512.00 KiB. GPU 0"),
            512.0 * 1024);
  EXPECT_EQ(bytes_out_of_device_memory("CUDA error: out of memory"), 0);
  EXPECT_EQ(bytes_out_of_device_memory("Tried to allocate iB"), 0);
}

}  // namespace
}  // namespace dtrain
