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
#include "tensor/shape.hpp"
#include "tensor/update_operations.hpp"

namespace tasuki {

class KernelRule;

// A setting of a rule: Chainer's name, the default, and the allowed values, low <= value < high.
struct Hyperparameter {
  std::string name;
  double initial = 0;
  double low = 0, high = 0;
};

// The values of an optimizer, or of a parameter group, by name.
class Hyperparameters {
 public:
  // Starts with the default values. Errors name the rule.
  Hyperparameters(std::string rule, std::vector<Hyperparameter> known);

  // An unknown name is a usage error that lists the known names; a value out of range is a usage
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
  // The weight decay of the parameter's group (Optimizer::add_group), which replaces a hook's rate;
  // empty: no group sets one.
  std::optional<double> weight_decay;
};

// A range of one parameter, on a CPU. All pointers are to the first element of the range.
struct RuleRange {
  const ParameterInfo& info;
  float* parameter;
  const float* gradient;           // the sum; g() is the gradient that the rule works with
  std::span<float* const> states;  // in the order of UpdateRule::states()
  std::int64_t count;
  std::span<const float> factors;  // UpdateRule::factors(), rounded
  double w_norm, g_norm;           // of the whole parameter and of its g(); 0 without needs_norms()
  float scale, decay;              // from hooks and groups; `scale` includes 1 / examples
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
  // Scale, decay and UpdateRule::factors() of each row (tensor/update_operations.hpp), and the row
  // of each 16 elements; null: row 0 for all.
  const UpdateFactors* factors;
  const FactorRow* rows;
  // Both are null unless needs_norms(). norms[2 k] and norms[2 k + 1] are |w| and |g| of parameter
  // k; parameter_of[i] is the parameter of elements 16 i to 16 i + 15.
  const double* norms;
  const std::int32_t* parameter_of;
  const float* skip;  // null, or: the kernel changes nothing if it points to a number other than 0
};

// A rule object is shared and never changes: values that change during training are
// hyper-parameters or states, which the optimizer stores. To be registered with RuleRegistration, a
// rule needs a default constructor. The built-in rules are Chainer's and LAMB (built_in_rules.hpp).
class UpdateRule {
 public:
  virtual ~UpdateRule() = default;
  virtual std::string name() const = 0;  // Chainer's class name, "MomentumSGD"; saved in snapshots
  virtual std::vector<Hyperparameter> hyperparameters() const = 0;
  // The names of its states: for each, an array of the parameter's shape, initially zeros.
  virtual std::vector<std::string> states() const { return {}; }
  // The hyper-parameter that schedules change: "alpha" for Adam, AdamW and LAMB, "lr" for most
  // others. Empty: none (AdaDelta).
  virtual std::string rate_name() const { return "lr"; }
  // The hyper-parameter by which the rule decays weights independently of the gradient:
  // "weight_decay_rate" for AdamW and LAMB. --weight-decay sets it, and groups replace it. Empty:
  // hooks decay weights.
  virtual std::string decay_name() const { return ""; }
  // The learning rate of update `t` for reports. Default: the hyper-parameter rate_name().
  virtual std::optional<double> learning_rate(const Hyperparameters& h, std::int64_t t) const;
  // The numbers that apply() needs for update `t` (1, 2, ...), at most 8. Called once for each
  // group. The numbers are rounded to float, so for a decay rate near 1 return 1 - rate, which
  // rounding changes less.
  virtual std::vector<double> factors(const Hyperparameters& h, std::int64_t t) const = 0;
  // Whether apply() reads norms, which cost a pass over parameters and gradients. A rule that needs
  // the norm of its own update cannot be written this way (LAMB is built in).
  virtual bool needs_norms() const { return false; }

  // Updates a range on a CPU. Several threads call it at once for ranges that do not overlap, and
  // that together cover every trainable parameter once. Results must not depend on how parameters
  // are divided into ranges.
  virtual void apply(const RuleRange& range) const = 0;
  // Updates the arena on a GPU by launching kernels; must not wait for them. Padding must stay 0. A
  // rule that overrides this must also override has_gpu_kernel() to return true; without it,
  // setup() of a model on a GPU is an error of kind unavailable.
  virtual bool has_gpu_kernel() const { return false; }
  virtual void apply_on_gpu(const RuleArena& arena) const;

 private:
  friend class KernelRule;
  friend class UpdatePlan;
  virtual const KernelRule* as_kernel_rule() const { return nullptr; }
};

// Registers a rule for create_optimizer() and --optimizer, before or in main():
//   const RuleRegistration<Lion> registration{"lion"};
// A key or a name that is taken is an error.
void register_rule(const std::string& key, std::shared_ptr<const UpdateRule> rule);
template <class Rule>
struct RuleRegistration {
  explicit RuleRegistration(const std::string& key) {
    register_rule(key, std::make_shared<const Rule>());
  }
};

// All rules: the built-in ones first, then the others in order of registration.
struct NamedRule {
  std::string key;  // as in --optimizer: "momentum_sgd"
  std::shared_ptr<const UpdateRule> rule;
};
const std::vector<NamedRule>& update_rules();

}  // namespace tasuki
