#pragma once

// The operators that the calling thread runs (but for what operators run themselves), each with its
// arguments as text, to compare what two steps do: numbers by their value; tensors by their shape
// and their address, unless an operator of this log made their memory. Equal logs mean that a CUDA
// graph of the first step could be launched for the second one: no argument has changed, only what
// lies at the addresses. A program that uses it is compiled with NDEBUG, as LibTorch is
// (see at::RecordFunction).

#include <ATen/record_function.h>

#include <memory>
#include <set>
#include <sstream>
#include <string>
#include <vector>

namespace dtrain::testing {

class OperatorLog {
 public:
  OperatorLog() {
    current() = this;
    handle_ = at::addThreadLocalCallback(at::RecordFunctionCallback(&enter, &leave)
                                             .needsInputs(true)
                                             .needsOutputs(true)
                                             .scopes({at::RecordScope::FUNCTION}));
  }
  ~OperatorLog() {
    at::removeCallback(handle_);
    current() = nullptr;
  }
  OperatorLog(const OperatorLog&) = delete;
  OperatorLog& operator=(const OperatorLog&) = delete;

  const std::vector<std::string>& lines() const { return lines_; }

 private:
  static const void* memory_of(const at::Tensor& tensor) {
    return tensor.has_storage() ? tensor.storage().data()
                                : static_cast<const void*>(tensor.unsafeGetTensorImpl());
  }

  void add(std::ostringstream& text, const at::Tensor& tensor) {
    if (!tensor.defined()) {
      text << " -";
      return;
    }
    const bool made_here = made_.contains(memory_of(tensor));
    if (!made_here) given_.insert(memory_of(tensor));
    text << ' ' << tensor.sizes();
    if (!made_here) text << "@" << tensor.const_data_ptr();
  }

  void add(std::ostringstream& text, const c10::IValue& value) {
    if (value.isTensor()) {
      add(text, value.toTensor());
    } else if (value.isTensorList()) {
      for (const at::Tensor& tensor : value.toTensorVector()) add(text, tensor);
    } else if (value.isDouble()) {
      text << ' ' << std::hexfloat << value.toDouble();
    } else if (value.isInt() || value.isBool() || value.isIntList() || value.isDoubleList() ||
               value.isString()) {
      text << ' ' << value;
    } else if (value.isList()) {
      for (const c10::IValue& each : value.toListRef()) add(text, each);
    }
  }

  void note_made(const c10::IValue& value) {
    if (value.isTensor()) {
      const at::Tensor& tensor = value.toTensor();
      if (tensor.defined() && !given_.contains(memory_of(tensor))) made_.insert(memory_of(tensor));
    } else if (value.isList()) {
      for (const c10::IValue& each : value.toListRef()) note_made(each);
    } else if (value.isTensorList()) {
      for (const at::Tensor& tensor : value.toTensorVector()) note_made(tensor);
    }
  }

  static std::unique_ptr<at::ObserverContext> enter(const at::RecordFunction& call) {
    if (current()->depth_++ > 0) return nullptr;
    std::ostringstream text;
    text << call.name();
    for (const c10::IValue& input : call.inputs()) current()->add(text, input);
    current()->lines_.push_back(text.str());
    return nullptr;
  }

  static void leave(const at::RecordFunction& call, at::ObserverContext*) {
    if (current()->depth_ > 0) --current()->depth_;  // one that began before the log is not counted
    for (const c10::IValue& output : call.outputs()) current()->note_made(output);
  }

  static OperatorLog*& current() {
    static thread_local OperatorLog* log = nullptr;
    return log;
  }

  at::CallbackHandle handle_;
  std::set<const void*> given_, made_;  // memory: seen as an argument first, seen as a result first
  std::vector<std::string> lines_;
  int depth_ = 0;  // operators that run now
};

}  // namespace dtrain::testing
