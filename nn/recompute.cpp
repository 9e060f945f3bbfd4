#include "nn/recompute.hpp"

#include <algorithm>
#include <limits>
#include <unordered_map>
#include <utility>

#include "core/error.hpp"
#include "core/stopwatch.hpp"
#include "core/trace.hpp"
#include "nn/backward.hpp"
#include "nn/node.hpp"
#include "nn/random.hpp"
#include "nn/several_results.hpp"
#include "tensor/backend.hpp"

namespace tasuki {
namespace {

// Watches a block being run again.
class Watcher {
 public:
  virtual ~Watcher() = default;
  virtual std::vector<Variable> watch(Device device,
                                      const std::function<std::vector<Variable>()>& run) = 0;
};

using Kept = std::vector<Tensor>;  // of computed_once(), in the order of calls

// A run of a block in this thread; runs may be nested.
class Run {
 public:
  Run(Kept& kept, bool is_again) : kept_(kept), is_again_(is_again), outer_(innermost) {
    innermost = this;
  }
  ~Run() { innermost = outer_; }
  Run(const Run&) = delete;
  Run& operator=(const Run&) = delete;

  static bool is_recomputing() {
    for (const Run* run = innermost; run != nullptr; run = run->outer_)
      if (run->is_again_) return true;
    return false;
  }
  static Tensor computed_once(const std::function<Tensor()>& compute) {
    Run* again = innermost;
    while (again != nullptr && !again->is_again_) again = again->outer_;
    Tensor value;
    if (again != nullptr) {
      TASUKI_CHECK(again->next_ < again->kept_.size(),
                   "a block calls other functions when it is run again");
      value = again->kept_[again->next_++];
    } else {
      value = compute();
    }
    // For the blocks that are run for the first time within.
    for (Run* first = innermost; first != again; first = first->outer_)
      first->kept_.push_back(value.clone());
    return value;
  }

  static thread_local Run* innermost;

 private:
  Kept& kept_;
  bool is_again_;
  std::size_t next_ = 0;
  Run* outer_;
};

thread_local Run* Run::innermost = nullptr;
thread_local RecomputeScope* scope = nullptr;

// Finds the parameters that a block uses.
class FindsParameters final : public FunctionHook {
 public:
  void called(const Function& function, const std::vector<Variable>& inputs,
              const Variable& /*result*/) override {
    for (const Variable& input : inputs) add(input, function.name());
  }
  // `user`: of the value.
  void add(const Variable& value, const char* user) {
    if (!value.node()) return;
    if (!value.node()->is_leaf() || value.node()->parameter == nullptr)
      fail(ErrorKind::usage,
           "a block that is recomputed passes a value with gradients to {} that is neither a "
           "parameter nor one of the block's inputs; pass it to recompute()",
           user);
    const auto is_same = [&](const Variable& other) { return other.node() == value.node(); };
    if (std::ranges::none_of(found, is_same)) found.push_back(value);
  }
  std::vector<Variable> found;
};

struct Block {
  BlockFunction run;
  std::vector<Tensor> inputs;
  std::vector<bool> have_gradients;  // of the inputs
  RandomPosition random;
  bool is_training;
  Device device;  // of the results
  Kept kept;
  std::shared_ptr<Watcher> watcher;  // may be null
};

class Recompute final : public Function {
 public:
  Recompute(Block block, ResultGradients gradients)
      : block_(std::move(block)), gradients_(std::move(gradients)) {}
  const char* name() const override { return "recompute"; }
  bool reads_parameters() const override { return false; }

  void backward(const Tensor& /*unused*/, Gradients& gradients) override {
    std::vector<Variable> inputs;
    for (std::size_t i = 0; i < block_.inputs.size(); ++i)
      inputs.emplace_back(block_.inputs[i], block_.have_gradients[i] && gradients.needed(i));
    // Empty places are left, because another pass may follow (BackwardPass::keeps_graph).
    const std::vector<Tensor> from_results =
        std::exchange(*gradients_, std::vector<Tensor>(gradients_->size()));
    const std::vector<Variable> results = run_again(inputs);
    TASUKI_CHECK(results.size() == from_results.size(), "a block has {} results, and {} before",
                 results.size(), from_results.size());

    // The parameters follow the block's inputs.
    std::unordered_map<const Parameter*, std::size_t> places;
    for (std::size_t i = inputs.size(); i < this->inputs().size(); ++i)
      if (const auto& node = this->inputs()[i]) places.emplace(node->parameter, i);
    run_backward(results, from_results,
                 {.ready = [&](Parameter& parameter) { gradients.written(places.at(&parameter)); },
                  .leaves_out =
                      [&](const Parameter& parameter) {
                        const auto place = places.find(&parameter);
                        return place == places.end() || !gradients.needed(place->second);
                      }});
    for (std::size_t i = 0; i < inputs.size(); ++i)
      if (inputs[i].grad()) gradients.add(i, inputs[i].grad());
  }

 private:
  std::vector<Variable> run_again(const std::vector<Variable>& inputs) {
    if (!is_recording())
      fail(
          ErrorKind::usage,
          "a backward pass through a block that is recomputed runs within NoGrad; leave it before");
    const RandomScope random(block_.random);
    const TrainingMode mode(block_.is_training);
    const Run run(block_.kept, /*is_again=*/true);
    if (!block_.watcher) return block_.run(inputs);
    return block_.watcher->watch(block_.device, [&] { return block_.run(inputs); });
  }

  Block block_;
  ResultGradients gradients_;
};

std::vector<Variable> record(const BlockFunction& run, const std::vector<Variable>& inputs,
                             std::shared_ptr<Watcher> watcher) {
  if (!is_recording()) return run(inputs);
  Block block{.run = run,
              .inputs = {},
              .have_gradients = {},
              .random = random_position(),
              .is_training = TrainingMode::is_training(),
              .device = {},
              .kept = {},
              .watcher = std::move(watcher)};
  std::vector<Variable> constants, all = inputs;
  for (const Variable& input : inputs) {
    block.inputs.push_back(input.value());
    block.have_gradients.push_back(input.requires_grad());
    constants.emplace_back(input.value());
  }
  std::vector<Tensor> results;
  {
    const NoGrad no_grad;
    const Run first(block.kept, /*is_again=*/false);
    FindsParameters parameters;
    for (const Variable& result : run(constants)) {
      parameters.add(result, "its results");
      results.push_back(result.value());
    }
    all.insert(all.end(), parameters.found.begin(), parameters.found.end());
  }
  TASUKI_CHECK(!results.empty(), "a block that is recomputed has no results");
  block.device = results.front().device();
  return record_results("recompute", std::move(results), all, [&](ResultGradients gradients) {
    return std::make_unique<Recompute>(std::move(block), std::move(gradients));
  });
}

}  // namespace

std::vector<Variable> recompute(const BlockFunction& block, const std::vector<Variable>& inputs) {
  return record(block, inputs, nullptr);
}

namespace {

BlockFunction of_one(const std::function<Variable(const Variable&)>& block) {
  return [block](const std::vector<Variable>& inputs) { return std::vector{block(inputs[0])}; };
}

}  // namespace

Variable recompute(const std::function<Variable(const Variable&)>& block, const Variable& input) {
  return record(of_one(block), {input}, nullptr).front();
}

bool is_recomputing() {
  return Run::is_recomputing();
}

Tensor computed_once(const std::function<Tensor()>& compute) {
  return Run::computed_once(compute);
}

void refuse_recomputing(const char* function) {
  if (Run::innermost != nullptr)
    fail(ErrorKind::usage,
         "a block that is recomputed calls {}, which exchanges messages with other ranks; leave it "
         "out of the block (--recompute none)",
         function);
}

// --- plans ---

std::vector<std::optional<RecomputePlan::Cost>> RecomputePlan::costs() const {
  const std::lock_guard lock(mutex_);
  return costs_;
}

void RecomputePlan::note(std::size_t block, const Cost& cost) {
  const std::lock_guard lock(mutex_);
  if (costs_.size() <= block) costs_.resize(block + 1);
  costs_[block] = cost;
}

std::vector<bool> RecomputePlan::blocks_within(std::span<const std::optional<Cost>> costs,
                                               std::size_t room) {
  std::vector<bool> kept(costs.size(), false);
  std::vector<std::size_t> order;
  for (std::size_t block = 0; block < costs.size(); ++block)
    if (costs[block]) order.push_back(block);
  // Seconds per byte; blocks that keep nothing come first.
  const auto worth = [costs](std::size_t block) {
    const auto [bytes, seconds] = *costs[block];
    return bytes == 0 ? std::numeric_limits<double>::infinity()
                      : seconds / static_cast<double>(bytes);
  };
  std::ranges::stable_sort(order, std::greater{}, worth);
  for (const std::size_t block : order) {
    const std::size_t bytes = costs[block]->bytes;
    if (bytes > room) continue;
    kept[block] = true;
    room -= bytes;
  }
  return kept;
}

std::size_t RecomputePlan::keep_within(std::size_t room) {
  TASUKI_CHECK(mode_ == Mode::measured, "a plan that measures nothing");
  mode_ = Mode::all;
  kept_ = blocks_within(costs_, room);
  std::size_t bytes = 0;
  for (std::size_t block = 0; block < costs_.size(); ++block)
    if (kept_[block]) bytes += costs_[block]->bytes;
  return bytes;
}

bool RecomputePlan::recomputes(std::size_t block) const {
  return mode_ != Mode::none && (block >= kept_.size() || !kept_[block]);
}

std::size_t RecomputePlan::recomputed() const {
  std::size_t count = 0;
  for (std::size_t block = 0; block < blocks(); ++block) count += recomputes(block) ? 1 : 0;
  return count;
}

namespace {

// While a trace is recorded: an event of a block that `run` computes with its graph on a CPU, and
// the bytes that it keeps beside its results.
std::vector<Variable> traced(const char* name, std::size_t number, Device device,
                             const std::function<std::vector<Variable>()>& run) {
  if (!is_tracing() || !device.is_cpu()) return run();
  Backend& memory = backend(device);
  const std::size_t before = memory.memory(device).in_use;
  const double begin = trace_clock();
  std::vector<Variable> results = run();
  const double end = trace_clock();
  std::size_t others = before;
  for (const Variable& result : results) others += result.value().bytes();
  const std::size_t after = memory.memory(device).in_use;
  trace({.name = name,
         .row = TraceRow::blocks,
         .begin = begin,
         .end = end,
         .number = static_cast<std::int64_t>(number),
         .bytes = static_cast<std::int64_t>(after - std::min(others, after)),
         .lane = trace_lane_of_thread()});
  return results;
}

// Traces a block when it is run again.
class TracedBlock final : public Watcher {
 public:
  explicit TracedBlock(std::size_t number) : number_(number) {}
  std::vector<Variable> watch(Device device,
                              const std::function<std::vector<Variable>()>& run) override {
    return traced("block again", number_, device, run);
  }

 private:
  std::size_t number_;
};

}  // namespace

// Measures a block when it is run again.
class RecomputedBlock final : public Watcher {
 public:
  RecomputedBlock(RecomputePlan& plan, std::size_t number) : plan_(plan), number_(number) {}

  std::vector<Variable> watch(Device device,
                              const std::function<std::vector<Variable>()>& run) override {
    Backend& memory = backend(device);
    memory.synchronize(device);
    const std::size_t before = memory.memory(device).in_use;
    Stopwatch watch;
    std::vector<Variable> results = run();
    memory.synchronize(device);
    const double seconds = watch.lap();
    const std::size_t after = memory.memory(device).in_use;
    plan_.note(number_, {after - std::min(before, after), seconds});
    return results;
  }

 private:
  RecomputePlan& plan_;
  std::size_t number_;
};

RecomputeScope::RecomputeScope(RecomputePlan& plan)
    : plan_(plan), outer_(std::exchange(scope, this)) {}

RecomputeScope::~RecomputeScope() {
  scope = outer_;
  if (next_ > plan_.blocks_) plan_.blocks_ = next_;
}

std::vector<Variable> RecomputeScope::run_block(const BlockFunction& block,
                                                const std::vector<Variable>& inputs) {
  const std::size_t number = next_++;
  // Blocks inside of this one are parts of it.
  struct Inside {
    RecomputeScope* outside = std::exchange(scope, nullptr);
    ~Inside() { scope = outside; }
  } inside;
  if (plan_.mode_ == RecomputePlan::Mode::measured)
    return record(block, inputs, std::make_shared<RecomputedBlock>(plan_, number));
  if (plan_.recomputes(number)) return record(block, inputs, std::make_shared<TracedBlock>(number));
  if (inputs.empty()) return block(inputs);
  return traced("block", number, inputs.front().value().device(), [&] { return block(inputs); });
}

std::vector<Variable> may_recompute(const BlockFunction& block,
                                    const std::vector<Variable>& inputs) {
  return scope == nullptr || !is_recording() ? block(inputs) : scope->run_block(block, inputs);
}

Variable may_recompute(const std::function<Variable(const Variable&)>& block, const Variable& x) {
  if (scope == nullptr || !is_recording()) return block(x);
  return may_recompute(of_one(block), {x}).front();
}

}  // namespace tasuki
