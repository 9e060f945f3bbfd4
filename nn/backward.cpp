// The backward pass: functions run in the reverse of the order in which they were made.
#include "nn/backward.hpp"

#include <algorithm>
#include <map>
#include <unordered_map>
#include <unordered_set>

#include "core/activity.hpp"
#include "nn/gradient_memory.hpp"
#include "nn/node.hpp"
#include "tensor/backend.hpp"

namespace tasuki {
namespace {

using detail::Node;
using NodePointer = std::shared_ptr<Node>;

struct Graph {
  std::vector<NodePointer> results;              // last made first
  std::unordered_map<const Node*, int> pending;  // functions still to run, per parameter
  std::unordered_set<const Node*> left_out;      // get no gradients
};

// Results that reach only left-out parameters are left out, too.
void leave_out(Graph& graph, const std::function<bool(const Parameter&)>& is_left_out) {
  for (const auto& [leaf, functions] : graph.pending)
    if (leaf->parameter != nullptr && is_left_out(*leaf->parameter)) graph.left_out.insert(leaf);
  if (graph.left_out.empty()) return;
  // Inputs were made before their results.
  for (auto node = graph.results.rbegin(); node != graph.results.rend(); ++node)
    if (std::ranges::all_of((*node)->function->inputs(), [&](const NodePointer& input) {
          return !input || graph.left_out.contains(input.get());
        }))
      graph.left_out.insert(node->get());
  std::erase_if(graph.results,
                [&](const NodePointer& node) { return graph.left_out.contains(node.get()); });
  graph.pending.clear();
  for (const NodePointer& node : graph.results)
    for (const NodePointer& input : node->function->inputs())
      if (input && input->is_leaf() && !graph.left_out.contains(input.get()))
        ++graph.pending[input.get()];
}

Graph collect(std::vector<NodePointer> roots) {
  Graph graph;
  std::unordered_set<const Node*> seen;
  for (NodePointer& root : roots)
    if (seen.insert(root.get()).second) graph.results.push_back(std::move(root));
  for (std::size_t next = 0; next < graph.results.size(); ++next) {
    const Node& node = *graph.results[next];
    TASUKI_CHECK(node.function != nullptr,
                 "backward() met a result whose graph an earlier backward() has released; run the "
                 "forward pass again");
    for (const NodePointer& input : node.function->inputs()) {
      if (!input) continue;
      if (input->is_leaf())
        ++graph.pending[input.get()];
      else if (seen.insert(input.get()).second)
        graph.results.push_back(input);
    }
  }
  std::ranges::sort(graph.results, std::greater{}, &Node::sequence);
  return graph;
}

// Counts, for each parameter, the functions that still have to write to its gradient.
class Readiness {
 public:
  Readiness(Graph& graph, const Variable::GradientReady& ready)
      : pending_(graph.pending), ready_(ready) {}

  // One more function has written to the leaf's gradient, or will not write to it.
  void written(Node& leaf) {
    if (--pending_[&leaf] > 0) return;
    if (ready_ && leaf.parameter != nullptr) ready_(*leaf.parameter);
  }

 private:
  std::unordered_map<const Node*, int>& pending_;
  const Variable::GradientReady& ready_;
};

void add_to_parameter(Node& node, const Tensor& gradient) {
  node.write_late_grad();
  if (std::exchange(node.has_grad, true))
    backend(node.grad.device()).accumulate(node.grad, gradient, 1);
  else
    node.grad.copy_from(gradient);
}

// Writes one function's input gradients to their memory.
class InputGradients final : public Gradients {
 public:
  InputGradients(const Function& function, const Graph& graph, Device device, Readiness& readiness,
                 LateProducts* late)
      : function_(function),
        graph_(graph),
        device_(device),
        readiness_(readiness),
        late_(late),
        is_written_(function.inputs().size(), false) {}

  bool needed(std::size_t i) const override {
    const Node* const node = function_.inputs()[i].get();
    return node != nullptr && !graph_.left_out.contains(node);
  }

  void add(std::size_t i, Tensor gradient) override {
    Node& node = input(i);
    if (node.parameter != nullptr) {
      provide_memory();
      add_to_parameter(node, gradient);
    } else {
      node.add_gradient(node.is_leaf() ? gradient.plain() : std::move(gradient));
    }
  }

  Tensor sum(std::size_t i) const override {
    if (!needed(i)) return {};
    const Node& node = *function_.inputs()[i];
    return node.parameter == nullptr ? node.grad : Tensor();
  }

  void replace(std::size_t i, Tensor gradient) override {
    if (!sum(i)) return add(i, std::move(gradient));
    Node& node = input(i);
    node.grad = (node.is_leaf() ? gradient.plain() : std::move(gradient)).to(node.grad.dtype());
    node.grad_is_own = true;  // it was given up
  }

  bool take_product(std::size_t i, const Tensor& dy, const Tensor& x) override {
    Node& node = input(i);
    if (late_ == nullptr || node.parameter == nullptr || node.has_grad ||
        !late_->take(function_.inputs()[i], dy, x))
      return false;
    node.has_grad = true;
    return true;
  }

  Destination into(std::size_t i, const Shape& shape) override {
    Node& node = input(i);
    node.write_late_grad();
    if (node.parameter != nullptr) {
      provide_memory();
      return {node.grad, std::exchange(node.has_grad, true)};
    }
    fresh_.emplace_back(i, Tensor::empty(shape, DType::float32, device_));
    return {fresh_.back().second, false};
  }

  void written(std::size_t i) override {
    Node& node = input(i);
    if (node.parameter == nullptr || is_written_[i]) return;
    is_written_[i] = true;
    readiness_.written(node);
  }

  // Called after the function has run: passes on the new tensors that it wrote.
  void finish() {
    for (auto& [i, gradient] : fresh_) add(i, std::move(gradient));
    // Parameters were registered in the order W, b; arenas have the reverse order.
    for (std::size_t i = is_written_.size(); i-- > 0;) {
      if (!needed(i)) continue;
      Node& leaf = *function_.inputs()[i];
      if (leaf.is_leaf() && !is_written_[i]) readiness_.written(leaf);
    }
  }

 private:
  Node& input(std::size_t i) {
    TASUKI_CHECK(needed(i),
                 "{}: the gradient of input {} is not needed; check Gradients::needed() first",
                 function_.name(), i);
    return *function_.inputs()[i];
  }

  // Before the function's first write to a parameter's gradient.
  void provide_memory() {
    if (std::exchange(is_provided_, true)) return;
    std::map<std::shared_ptr<GradientMemory>, std::vector<Parameter*>> parameters;
    for (std::size_t i = 0; i < function_.inputs().size(); ++i) {
      if (!needed(i)) continue;
      const Node& node = *function_.inputs()[i];
      if (auto memory = node.grad_memory.lock(); memory && node.parameter != nullptr)
        parameters[std::move(memory)].push_back(node.parameter);
    }
    for (const auto& [memory, of_function] : parameters) memory->provide(of_function);
  }

  const Function& function_;
  const Graph& graph_;
  Device device_;
  Readiness& readiness_;
  LateProducts* late_;
  bool is_provided_ = false;
  std::vector<bool> is_written_;  // reported by the function, per input
  std::vector<std::pair<std::size_t, Tensor>> fresh_;
};

// Clears what an exception left in the graph: a later pass would add to it.
class DropsUnlessDone {
 public:
  explicit DropsUnlessDone(const Graph& graph) : graph_(graph) {}
  ~DropsUnlessDone() {
    if (is_done) return;
    for (const NodePointer& node : graph_.results) {
      node->grad = {};
      if (node->function) node->function->drop_gradients();
    }
  }
  DropsUnlessDone(const DropsUnlessDone&) = delete;
  DropsUnlessDone& operator=(const DropsUnlessDone&) = delete;

  bool is_done = false;

 private:
  const Graph& graph_;
};

// Gives all parameters of a function their values, or fails if they cannot be there at the same
// time.
void provide_parameters(const Function& function) {
  for (const NodePointer& input : function.inputs())
    if (input) input->provide_value();
  for (const NodePointer& input : function.inputs())
    if (input) input->check_value();
}

// What the thread's backward pass uses; passes within it use the same.
class UnderWay {
 public:
  explicit UnderWay(const BackwardPass& pass) : outer_(innermost) {
    if (pass.between) innermost.between = &pass.between;
    if (pass.late != nullptr) innermost.late = pass.late;
  }
  ~UnderWay() { innermost = outer_; }
  UnderWay(const UnderWay&) = delete;
  UnderWay& operator=(const UnderWay&) = delete;

  static void between_functions() {
    if (innermost.between != nullptr) (*innermost.between)();
  }
  static LateProducts* late() { return innermost.late; }

 private:
  struct Used {
    const Variable::BetweenFunctions* between = nullptr;
    LateProducts* late = nullptr;
  };
  static thread_local Used innermost;
  Used outer_;
};

thread_local UnderWay::Used UnderWay::innermost;

}  // namespace

std::vector<Parameter*> parameters_below(const Variable& result) {
  std::vector<Parameter*> found;
  if (!result.node() || result.node()->is_leaf()) return found;
  for (const NodePointer& node : collect({result.node()}).results)
    for (const NodePointer& input : node->function->inputs())
      if (input && input->parameter != nullptr && !std::ranges::count(found, input->parameter))
        found.push_back(input->parameter);
  return found;
}

void Variable::backward(float seed, const GradientReady& ready,
                        const BetweenFunctions& between) const {
  backward(Tensor::full(value_.shape(), seed, value_.dtype(), value_.device()), ready, between);
}

void Variable::backward(const Tensor& seed, const GradientReady& ready,
                        const BetweenFunctions& between) const {
  run_backward(*this, {.seed = seed, .ready = ready, .between = between});
}

void run_backward(const Variable& result, const BackwardPass& pass) {
  const NodePointer& root = result.node();
  TASUKI_CHECK(root && !root->is_leaf(),
               "backward() was called on a value that no recorded function computed; are "
               "gradients switched off?");
  const Tensor &value = result.value(), &seed = pass.seed;
  TASUKI_CHECK(value.count() == 1, "backward() starts at a scalar, found shape {}",
               value.shape().text());
  TASUKI_CHECK(seed.shape() == value.shape() && seed.dtype() == value.dtype(),
               "backward() of a {} scalar needs such a seed, found {} {}", name_of(value.dtype()),
               seed.shape().text(), name_of(seed.dtype()));
  run_backward({&result, 1}, {&seed, 1}, pass);
}

void run_backward(std::span<const Variable> results, std::span<const Tensor> gradients,
                  const BackwardPass& pass) {
  TASUKI_CHECK(results.size() == gradients.size(), "{} gradients of {} results", gradients.size(),
               results.size());
  std::vector<NodePointer> roots;
  for (std::size_t i = 0; i < results.size(); ++i)
    if (const NodePointer& node = results[i].node(); gradients[i] && node && !node->is_leaf())
      roots.push_back(node);
  Graph graph = collect(std::move(roots));
  if (pass.leaves_out) leave_out(graph, pass.leaves_out);
  Readiness readiness(graph, pass.ready);
  DropsUnlessDone drops(graph);
  for (std::size_t i = 0; i < results.size(); ++i) {
    const NodePointer& node = results[i].node();
    if (!gradients[i] || !node || node->is_frozen) continue;
    if (node->parameter != nullptr) {
      if (pass.leaves_out && pass.leaves_out(*node->parameter)) continue;
      if (const auto memory = node->grad_memory.lock()) memory->provide({&node->parameter, 1});
      add_to_parameter(*node, gradients[i]);
    } else if (!graph.left_out.contains(node.get())) {
      node->add_gradient(node->is_leaf() ? gradients[i].plain() : gradients[i]);
    }
  }
  const UnderWay under_way(pass);
  for (const NodePointer& node : graph.results) {
    report_progress();
    // Removed from the graph, so that what it saved is freed as soon as it has run.
    std::unique_ptr<Function> released;
    if (!pass.keeps_graph) released = std::move(node->function);
    Function& function = released ? *released : *node->function;
    const Tensor gradient = std::exchange(node->grad, {});
    InputGradients inputs(function, graph, gradient ? gradient.device() : Device::cpu(), readiness,
                          UnderWay::late());
    if (gradient) {
      if (function.reads_parameters()) provide_parameters(function);
      function.backward(gradient, inputs);
    }
    inputs.finish();
    UnderWay::between_functions();
  }
  drops.is_done = true;
}

}  // namespace tasuki
