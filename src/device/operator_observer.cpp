#include "device/operator_observer.h"

#include <ATen/record_function.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <mutex>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "core/check.h"
#include "text/strings.h"

namespace dtrain::device {
namespace {

// Around each node of backward
constexpr std::string_view kEngine = "autograd::engine::evaluate_function: ";
// An autograd function of C++: what it computes is of the forward pass
constexpr const char* kCustomNode = "CppNode<";

bool is_wrapper(std::string_view name) {
  return name.starts_with(kEngine) || name.find(kCustomNode) != name.npos;
}

std::string module_of(const std::string& parameter) {
  const size_t dot = parameter.rfind('.');
  return dot == std::string::npos ? "(root)" : parameter.substr(0, dot);
}

struct Running {
  const char* name;
  const char* module;
  trace::Time began;
  int64_t sequence;
  int32_t owner;
  bool backward;
};

// Of one thread.
struct ThreadState {
  uint64_t observer = 0;  // that the rest is of
  trace::Track* track = nullptr;
  std::vector<Running> running = {};
};

ThreadState& this_thread() {
  thread_local ThreadState state;
  return state;
}

}  // namespace

class OperatorObserver::State {
 public:
  State(trace::Recorder& recorder, const torch::nn::Module& model, Options options)
      : number_(++count_),
        recorder_(recorder),
        options_(options),
        training_thread_(at::RecordFunction::currentThreadId()) {
    for (const auto& parameter : model.named_parameters()) {
      modules_[parameter.value().unsafeGetTensorImpl()] =
          recorder.intern(module_of(parameter.key()));
    }
  }

  void begin(const at::RecordFunction& fn) {
    ThreadState& thread = own(this_thread());
    Running operation{.name = interned(fn.name()),
                      .module = nullptr,
                      .began = trace::now(),
                      .sequence = fn.seqNr(),
                      .owner = -1,
                      .backward = fn.scope() == at::RecordScope::BACKWARD_FUNCTION};
    if (operation.backward && fn.forwardThreadId() != training_thread_) operation.sequence = -1;
    const std::lock_guard lock(mutex_);
    operation.module = operation.backward ? module_of_forward(fn) : module_of_inputs(fn, thread);
    if (options_.owners) operation.owner = owner_of(operation, thread);
    thread.running.push_back(operation);
  }

  void end() {
    ThreadState& thread = own(this_thread());
    if (thread.running.empty()) return;  // it began before there was an observer
    const Running& operation = thread.running.back();
    if (thread.track &&
        !std::string_view(operation.name).starts_with(kEngine)) {  // the node in it is one, too
      thread.track->add(
          {.name = operation.name,
           .begin = operation.began,
           .end = trace::now(),
           .kind = operation.backward ? trace::Kind::kBackward : trace::Kind::kOperator,
           .a = operation.sequence,
           .detail = operation.module});
    }
    thread.running.pop_back();
  }

  int32_t current() const {
    const ThreadState& thread = this_thread();
    return thread.observer == number_ && !thread.running.empty() ? thread.running.back().owner : -1;
  }

  std::vector<Owner> owners() const {
    const std::lock_guard lock(mutex_);
    return owners_;
  }

 private:
  ThreadState& own(ThreadState& thread) {
    if (thread.observer == number_) return thread;
    thread = {.observer = number_};
    const std::lock_guard lock(mutex_);
    const bool trains = at::RecordFunction::currentThreadId() == training_thread_;
    if (options_.events) {
      thread.track =
          recorder_.track(trains ? trace::kTrainingThread : str("operators ", ++other_threads_),
                          trace::kOperatorPlace);
    }
    return thread;
  }

  const char* interned(const char* name) {
    const std::lock_guard lock(mutex_);
    const auto known = names_.find(std::string_view(name));
    if (known != names_.end()) return known->second;
    const char* kept = recorder_.intern(name);
    names_.emplace(kept, kept);
    return kept;
  }

  // All below require the lock.

  // Of the first input that is a parameter, or a list with one.
  const char* module_of_inputs(const at::RecordFunction& fn, const ThreadState& thread) {
    const char* module = nullptr;
    const auto look = [&](const at::Tensor& tensor) {
      const auto known = modules_.find(tensor.unsafeGetTensorImpl());
      if (known != modules_.end() && !module) module = known->second;
    };
    for (const c10::IValue& input : fn.inputs()) {
      if (input.isTensor()) look(input.toTensor());
      if (input.isTensorList()) {
        for (const at::Tensor& tensor : input.toTensorVector()) look(tensor);
      }
    }
    if (module) {
      last_module_ = recorder_.intern(str("after ", module));
    } else {
      module = thread.running.empty() ? last_module_ : thread.running.back().module;
    }
    // Of operators that call each other the innermost one has the backward: it is asked last.
    if (fn.seqNr() >= 0 && module) forward_modules_[{fn.threadId(), fn.seqNr()}] = module;
    return module;
  }

  const char* module_of_forward(const at::RecordFunction& fn) const {
    const auto known = forward_modules_.find({fn.forwardThreadId(), fn.seqNr()});
    return known == forward_modules_.end() ? nullptr : known->second;
  }

  // An operator that is called by another one allocates for that.
  int32_t owner_of(const Running& operation, const ThreadState& thread) {
    if (!thread.running.empty() && thread.running.back().owner >= 0)
      return thread.running.back().owner;
    if (is_wrapper(operation.name)) return -1;
    const bool backward =
        operation.backward ||
        std::any_of(thread.running.begin(), thread.running.end(),
                    [](const Running& r) { return r.backward || is_wrapper(r.name); });
    const auto [known, is_new] =
        owner_numbers_.emplace(std::tuple(operation.name, operation.module, backward),
                               static_cast<int32_t>(owners_.size()));
    if (is_new)
      owners_.push_back({operation.name, operation.module ? operation.module : "", backward});
    return known->second;
  }

  static inline std::atomic<uint64_t> count_ = 0;

  const uint64_t number_;  // tells threads that this is another observer
  trace::Recorder& recorder_;
  const Options options_;
  const uint64_t training_thread_;
  mutable std::mutex mutex_;
  std::unordered_map<std::string_view, const char*> names_;
  std::unordered_map<const void*, const char*> modules_;  // module of each parameter
  // By thread and its sequence number: each thread counts for itself.
  std::map<std::pair<uint64_t, int64_t>, const char*> forward_modules_;
  const char* last_module_ = nullptr;  // for operators without parameters: "after MODULE"
  std::vector<Owner> owners_;
  std::map<std::tuple<const char*, const char*, bool>, int32_t> owner_numbers_;
  int other_threads_ = 0;
};

namespace {

// The State of the one that lives: LibTorch's callbacks are plain functions
std::atomic<void*> observer = nullptr;

}  // namespace

OperatorObserver::OperatorObserver(trace::Recorder& recorder, const torch::nn::Module& model,
                                   Options options)
    : state_(std::make_shared<State>(recorder, model, options)) {
  DTRAIN_CHECK(observer.exchange(state_.get()) == nullptr, "a second observer of operators");
  using Begin = at::RecordFunctionCallback::StartCallback;
  const Begin begin = [](const at::RecordFunction& fn) -> std::unique_ptr<at::ObserverContext> {
    if (void* state = observer.load()) static_cast<State*>(state)->begin(fn);
    return nullptr;
  };
  const auto end = [](const at::RecordFunction&, at::ObserverContext*) {
    if (void* state = observer.load()) static_cast<State*>(state)->end();
  };
  callback_ = at::addThreadLocalCallback(
      at::RecordFunctionCallback(begin, end)
          .needsInputs(true)
          .scopes({at::RecordScope::FUNCTION, at::RecordScope::BACKWARD_FUNCTION}));
}

OperatorObserver::~OperatorObserver() {
  at::removeCallback(callback_);
  observer.store(nullptr);
}

int32_t OperatorObserver::current() const { return state_->current(); }
std::vector<OperatorObserver::Owner> OperatorObserver::owners() const { return state_->owners(); }

}  // namespace dtrain::device
