// UpdateRule: how a gradient changes a parameter.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tensor/device.hpp"
#include "tensor/operations.hpp"
#include "tensor/shape.hpp"

namespace tasuki {

class KernelRule;

// Chainer's name, its default, and the values allowed: low <= value < high.
struct Hyperparameter {
  std::string name;
  double initial = 0;
  double low = 0, high = 0;
};

// The values of an optimizer, or of a parameter group, by name.
class Hyperparameters {
 public:
  // The initial values of a rule's; errors name the rule.
  Hyperparameters(std::string rule, std::vector<Hyperparameter> known);

  // An unknown name is a usage error that lists the known ones; a value out of range is a usage
  // error that states the range.
  double operator[](std::string_view name) const { return values_[index_of(name)]; }
  void set(std::string_view name, double value);
  bool has(std::string_view name) const;
  std::vector<std::string> names() const;

 private:
  std::size_t index_of(std::string_view name) const;

  std::string rule_;
  std::shared_ptr<const std::vector<Hyperparameter>> known_;
  std::vector<double> values_;
};

struct ParameterInfo {
  std::string path;  // "predictor/l1/W"
  Shape shape;
  // The weight decay of the parameter's group (Optimizer::add_group), which replaces the rate of a
  // hook; empty: the group sets none.
  std::optional<double> weight_decay;
};

// A range of one parameter, on a CPU. All pointers are to the first element of the range.
struct RuleRange {
  const ParameterInfo& info;
  float* parameter;
  const float* gradient;           // as it was summed; g() is what the rule works with
  std::span<float* const> states;  // in the order of UpdateRule::states()
  std::int64_t count;
  std::span<const float> factors;  // UpdateRule::factors(), rounded
  double w_norm, g_norm;           // of the whole parameter and of its g(); 0 without needs_norms()
  float scale, decay;              // of hooks and groups, 1 / examples included
  float g(std::int64_t i) const { return scale * gradient[i] + decay * parameter[i]; }
};

// The whole arena, on a GPU. All pointers are to device memory.
struct RuleArena {
  Device device;
  void* stream;  // cudaStream_t on which to launch
  float* parameters;
  const float* gradients;
  std::span<float* const> states;  // the span itself is on the host
  std::int64_t count;              // elements with their padding, a multiple of 16
  // Scale, decay and UpdateRule::factors() of each row (tensor/operations.hpp), and the row of each
  // 16 elements; null: row 0 for all.
  const UpdateFactors* factors;
  const FactorRow* rows;
  // Both are null unless needs_norms(). norms[2 k] and norms[2 k + 1] are |w| and |g| of parameter
  // k; parameter_of[i] is the parameter of elements 16 i to 16 i + 15.
  const double* norms;
  const std::int32_t* parameter_of;
  const float* skip;  // null, or: the kernel changes nothing where it is not 0 (loss scaling)
};

// The built-in rules are Chainer's and LAMB (built_in_rules.cpp). A rule object is shared and never
// changes: values that change during training are hyper-parameters or states, which the optimizer
// stores. To be registered with RuleRegistration, a rule needs a default constructor.
class UpdateRule {
 public:
  virtual ~UpdateRule() = default;
  virtual std::string name() const = 0;  // Chainer's class name, "MomentumSGD"; snapshots have it
  virtual std::vector<Hyperparameter> hyperparameters() const = 0;
  // One array of the parameter's shape each, zeros at first.
  virtual std::vector<std::string> states() const { return {}; }
  // The hyper-parameter that schedules change: "alpha" for Adam, AdamW and LAMB, "lr" for most
  // others. Empty: none (AdaDelta).
  virtual std::string rate_name() const { return "lr"; }
  // The hyper-parameter by which the rule takes weights towards 0 without help of the gradient:
  // what --weight-decay sets, and what groups replace ("weight_decay_rate" for AdamW and LAMB).
  // Empty: hooks do that.
  virtual std::string decay_name() const { return ""; }
  // The learning rate of update `t` as it is reported; the hyper-parameter rate_name() by default.
  virtual std::optional<double> learning_rate(const Hyperparameters& h, std::int64_t t) const;
  // The numbers that apply() needs for update `t` (1, 2, ...), at most 8; called once for each
  // group. They are rounded to float, so instead of a decay rate near 1 return 1 - rate, which
  // rounding changes less.
  virtual std::vector<double> factors(const Hyperparameters& h, std::int64_t t) const = 0;
  // Whether apply() reads norms. They cost a pass over parameters and gradients. A rule that needs
  // the norm of its update cannot be written this way (LAMB is built in).
  virtual bool needs_norms() const { return false; }

  // Updates a range on a CPU. Called by several threads at once for ranges that do not overlap;
  // together they cover every trainable parameter once. Results must not depend on how parameters
  // are cut into ranges.
  virtual void apply(const RuleRange& range) const = 0;
  // Updates the arena on a GPU by launching kernels; must not wait for them. They may write to
  // padding, but only zeros. Override has_gpu_kernel() to return true as well; otherwise setup() of
  // a model on a GPU is an error of kind unavailable.
  virtual bool has_gpu_kernel() const { return false; }
  virtual void apply_on_gpu(const RuleArena& arena) const;

 private:
  friend class KernelRule;  // of Tasuki itself
  friend class UpdatePlan;
  virtual const KernelRule* as_kernel_rule() const { return nullptr; }
};

// Makes a rule known to create_optimizer() and --optimizer, before main() or in it:
//   const RuleRegistration<Lion> registration{"lion"};
// A key or a name that is taken is an error.
void register_rule(const std::string& key, std::shared_ptr<const UpdateRule> rule);
template <class Rule>
struct RuleRegistration {
  explicit RuleRegistration(const std::string& key) {
    register_rule(key, std::make_shared<const Rule>());
  }
};

// The built-in ones first, then the others in order of registration.
struct NamedRule {
  std::string key;  // as in --optimizer: "momentum_sgd"
  std::shared_ptr<const UpdateRule> rule;
};
const std::vector<NamedRule>& update_rules();

}  // namespace tasuki
