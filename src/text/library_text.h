#pragma once

// The messages of libraries in the words of dtrain. What a library says of a user's file is for its
// own developers: it names the library's files, its exceptions, and pieces of the input. Pure
// functions of the text.

#include <optional>
#include <string>
#include <string_view>

namespace dtrain {

// What nlohmann::json's exception says: "not valid JSON at line 3, column 7", "there is no 'step'",
// or "a value has another type than it must have".
std::string json_defect(std::string_view what);

// LibTorch's message: its first line, without "[enforce fail at FILE:LINE] CONDITION. ". Where the
// code of a TorchScript file failed, the sentence of script_failure().
std::string torch_message(std::string_view what);

// What a failure of TorchScript's interpreter says in pages of code, as one sentence: the reason,
// and the line of the user's own code that was running, not that of a module of torch which it
// calls: "mat1 and mat2 shapes cannot be multiplied (2x3 and 4x2), in net.py, line 41: return
// x.matmul(self.w)". A line of `what` that begins with kScriptGot follows. nullopt: `what` is not
// of this kind.
std::optional<std::string> script_failure(std::string_view what);
inline constexpr std::string_view kScriptGot = "forward() got ";

// The size of the tensor that LibTorch's CPU allocator had no memory for, in bytes (0 if the
// message does not say it); nullopt if `what` says something else.
std::optional<double> out_of_host_memory(std::string_view what);

// Whether the message of an allocator, of CUDA or of one of its libraries says that memory of the
// device was missing.
bool says_out_of_memory(std::string_view what);

// The size of what the allocator of a GPU had no memory for, in bytes; 0 if the message does not
// say it.
double bytes_out_of_device_memory(std::string_view what);

}  // namespace dtrain
