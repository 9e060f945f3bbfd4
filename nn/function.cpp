// Records the functions of a forward pass as a graph of nodes, unless a NoGrad exists.
#include "nn/function.hpp"

#include <atomic>
#include <utility>

#include "core/activity.hpp"
#include "nn/node.hpp"
#include "nn/parameter.hpp"
#include "nn/value_memory.hpp"
#include "tensor/backend.hpp"

namespace tasuki {
namespace {

thread_local bool recording = true;
thread_local FunctionHook* hook = nullptr;      // the innermost one
std::atomic<std::uint64_t> functions_made = 0;  // by all threads: a graph may span several

}  // namespace

bool Function::wanted(const std::vector<Variable>& inputs) {
  report_progress();  // in the forward pass
  if (!recording) return false;
  for (const Variable& input : inputs)
    if (input.requires_grad()) return true;
  return false;
}

Tensor Function::lasting(Tensor result, const std::vector<Variable>& inputs) {
  for (const Variable& input : inputs)
    if (input.node() && input.node()->value_memory != nullptr &&
        result.storage() == input.node()->value.storage())
      return result.clone();
  return result;
}

void Function::check_values(const std::vector<Variable>& inputs) {
  for (const Variable& input : inputs)
    if (input.node()) input.node()->check_value();
}

bool Function::is_watched() {
  return hook != nullptr;
}

Variable Function::attach(Tensor result, const std::vector<Variable>& inputs,
                          std::unique_ptr<Function> function, bool is_recorded) {
  const auto shown = [&inputs](const Function& called, Variable made) {
    for (FunctionHook* each = hook; each != nullptr; each = each->outer_)
      each->called(called, inputs, made);
    return made;
  };
  if (function->reads_parameters()) check_values(inputs);
  if (!is_recorded) return shown(*function, Variable(std::move(result)));
  function->inputs_.reserve(inputs.size());
  for (const Variable& input : inputs)
    function->inputs_.push_back(input.requires_grad() ? input.node() : nullptr);
  auto node = std::make_shared<detail::Node>();
  node->type = result.dtype();
  node->function = std::move(function);
  node->sequence = functions_made.fetch_add(1, std::memory_order_relaxed) + 1;
  const Function& called = *node->function;
  return shown(called, Variable(std::move(result), std::move(node)));
}

FunctionHook::FunctionHook() : outer_(std::exchange(hook, this)) {}
FunctionHook::~FunctionHook() {
  hook = outer_;
}

bool is_recording() {
  return recording;
}

NoGrad::NoGrad() : previous_(std::exchange(recording, false)) {}
NoGrad::~NoGrad() {
  recording = previous_;
}

detail::Node::~Node() {
  // Taken apart in a loop: releasing a long chain of functions would recurse as deeply as the chain
  // is long.
  std::vector<std::unique_ptr<Function>> chain;
  if (function) chain.push_back(std::move(function));
  while (!chain.empty()) {
    const std::unique_ptr<Function> last = std::move(chain.back());
    chain.pop_back();
    for (const auto& input : last->inputs_)
      if (input && input.use_count() == 1 && input->function)
        chain.push_back(std::move(input->function));
  }
}

void detail::Node::provide_value() {
  if (value_memory == nullptr || parameter == nullptr) return;
  // The memory may forget the parameter meanwhile.
  const std::shared_ptr<ValueMemory> memory = value_memory;
  memory->provide(*parameter);
}

void detail::Node::check_value() const {
  if (value_memory == nullptr || parameter == nullptr || value_memory->has(*parameter)) return;
  fail(
      ErrorKind::usage,
      "--shard weights: a function uses {} {} together with weights of another unit, which are not "
      "there at the same time; make one unit of them (--shard-unit)",
      parameter->layer(), parameter->name());
}

void detail::Node::write_late_grad() {
  if (late == nullptr) return;
  late->write(*this);
  late = nullptr;
}

void detail::Node::clear_grad() {
  if (late != nullptr) std::exchange(late, nullptr)->drop(*this);
  has_grad = false;
}

void detail::Node::add_gradient(Tensor gradient) {
  gradient = gradient.to(is_leaf() ? value.dtype() : type);
  if (!grad) {
    grad = std::move(gradient);
    grad_is_own = false;
  } else if (grad_is_own) {
    backend(grad.device()).accumulate(grad, gradient, 1);
  } else {
    grad = backend(grad.device()).add(grad, gradient);
    grad_is_own = true;
  }
}

}  // namespace tasuki
