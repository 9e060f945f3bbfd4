// UpdatePlan: applies hooks, then the rule, to summed gradients. update_plan.cpp has an update as a
// whole, and how it applies the rule: by a backend's kernel or by the rule's own functions.
// update_plan_hooks.cpp has hooks, update_plan_norms.cpp norms of parameters and gradients, and
// update_plan_tables.cpp prepares the tables.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "optimizer/arena_slices.hpp"
#include "optimizer/built_in_rules.hpp"
#include "optimizer/hook.hpp"
#include "optimizer/parameter_group.hpp"
#include "tensor/backend.hpp"
#include "tensor/late_values.hpp"

namespace tasuki {

// All factors are in one table, with a row for each group of parameters or, if hooks distinguish
// parameters, for each parameter. Work on the device reads the table when it runs: a recorded step
// sends the table again in each replay, with its other numbers.
class UpdatePlan {
 public:
  // `values` and `t`, the number of updates done, belong to the optimizer and outlive this object.
  UpdatePlan(std::shared_ptr<const UpdateRule> rule, const Hyperparameters& values,
             const std::int64_t& t);

  void add_hook(std::shared_ptr<OptimizerHook> hook);
  // A usage error if the rule lacks one of the group's hyper-parameters or does not allow its
  // value.
  void add_group(ParameterGroup group);
  const std::vector<std::shared_ptr<OptimizerHook>>& hooks() const { return hooks_; }
  const std::vector<ParameterGroup>& groups() const { return groups_; }

  // The first hook that needs the whole arena; null: none does.
  const OptimizerHook* hook_of_arrays() const;
  // An error of kind unavailable if the rule has no kernel for the device.
  void check(Device device) const;
  // Whether an update of a slice needs only the states of this slice.
  bool can_update_slices(Device device) const;
  // Before the first update of an arena, and after changes of arena, hooks or groups.
  void arrange(const ParameterArena& arena);

  // Called before a step with its number of examples, on which all ranks have agreed. Late numbers
  // are computed from it.
  void expect(std::int64_t examples) { expected_ = static_cast<double>(examples); }

  // Updates the slice owners.own(). Gradients are sums over `examples`; `states` are the slice's
  // states; `spread` divides the slice, counting from its begin; `skip`: see UpdatePass. Collective
  // if there are several owners; a hook that needs the whole arena is then a usage error.
  void run(const ParameterArena& arena, const SliceOwners& owners, std::span<const Tensor> states,
           const float* skip, std::int64_t examples, const SpreadUpdate& spread);
  // Of the last run(), or of its recording: the scale that the rule applied to the gradients in
  // memory.
  double applied_scale() const { return applied_scale_; }

 private:
  // Consecutive FactorHooks, and the hook or rule after them.
  struct Stage {
    std::vector<const FactorHook*> factors;
    OptimizerHook* then = nullptr;  // null: the rule
    // The factors are written to the gradients before `then`.
    bool writes = false;
    // No earlier stage has taken the mean, so the scale begins with 1 / examples.
    bool takes_mean = true;
    bool has_table() const { return then == nullptr || writes; }
  };
  struct Row {
    ParameterInfo info;               // of its first parameter
    std::vector<std::size_t> groups;  // the matching ones, in the order in which they were added
  };
  // The factors of a stage, by value or on the device.
  struct Factors {
    UpdateFactors of_all;
    const UpdateFactors* table = nullptr;
    Tensor memory;
  };
  struct Update {
    const ParameterArena& arena;
    const SliceOwners& owners;  // of sums of gradients
    Range own;                  // the elements that this rank updates
    std::span<const Tensor> states;
    const float* skip;
    const SpreadUpdate& spread;
    double examples;
    bool is_late;  // numbers are read on the device when the work runs

    // Applies to elements [0, count) of the own slice.
    void for_all(std::int64_t count, const ApplyRange& apply) const {
      if (spread)
        spread(apply, count);
      else
        apply(0, count);
    }
  };

  void make_stages();
  void make_rows(const ParameterArena& arena);
  void make_norm_pieces(const ParameterArena& arena);
  // The NormHook that does the work of this hook on this device; null: there is none.
  static const NormHook* norm_hook_of(const OptimizerHook& hook, Device device);
  std::int64_t tables() const;
  std::vector<std::size_t> find_groups(const std::string& path, const Shape& shape) const;
  // Why these parameters cannot be updated; empty if they can.
  std::string find_unmet(const ParameterArena& arena);
  Hyperparameters values_of(const Row& row) const;
  UpdateFactors factors_of(const Stage& stage, const Row& row, double scale) const;
  void fill_table(const Stage& stage, double scale, std::span<UpdateFactors> table) const;
  // Has late numbers computed for an update with so many examples; false if that is impossible.
  bool follow(double examples);
  enum class Place : std::uint8_t { anywhere, on_device };
  Factors factors_on(const Update& update, std::size_t stage, double scale, Place place) const;

  void write(const Update& update, std::size_t stage, double scale) const;
  double apply_kernel_hook(const Update& update, const Stage& stage, double scale) const;
  double apply_norm_hook(const Update& update, const NormHook& hook, double scale) const;
  void apply_array_hook(const Update& update, ArrayHook& hook) const;
  void apply_rule(const Update& update, std::size_t stage, double scale) const;
  void apply_kernel(const Update& update, const Factors& factors) const;
  // Runs the first pass of LAMB; `own` is the second pass, over this owner's slice.
  Tensor trust_ratios(const Update& update, const UpdatePass& own) const;
  void apply_on_cpu(const Update& update, const Factors& factors) const;
  void apply_on_gpu(const Update& update, const Factors& factors) const;
  // |w| and |g| of each parameter, as NormPass::norms.
  Tensor norms(const Update& update, const Factors& factors) const;
  Tensor norms_on_cpu(const Update& update, NormPass pass) const;
  // Two sums for each parameter. `of_pieces` writes the sums for the pieces of this owner's slice,
  // which are given as NormPass::segments.
  using SumPieces = std::function<void(std::span<const std::int64_t> pieces, double* sums)>;
  std::vector<double> sums_of_pieces(const Update& update, const SumPieces& of_pieces) const;
  const FactorRow* rows_on_device() const;

  std::shared_ptr<const UpdateRule> rule_;
  const KernelRule* kernel_rule_;  // null: not a built-in one
  const Hyperparameters& values_;
  const std::int64_t& t_;
  std::vector<std::shared_ptr<OptimizerHook>> hooks_;
  std::vector<ParameterGroup> groups_;
  double applied_scale_ = 0;
  std::vector<bool> has_matched_;  // for each group: a parameter, at some time

  // Prepared by arrange().
  std::vector<Stage> stages_;
  bool has_norm_hooks_ = false;
  std::string unmet_;                 // why there can be no update
  std::vector<ParameterInfo> infos_;  // of its entries
  std::vector<std::size_t> row_of_;
  std::vector<Row> rows_;
  Tensor row_numbers_;   // FactorRows, on the device; undefined: there is one row
  Tensor segments_;      // NormPass::segments, where norms are needed
  Tensor parameter_of_;  // of RuleArena or UpdatePass, where it is needed
  // If norms are needed on a CPU: the pieces into which norm blocks divide the parameters, as
  // NormPass::segments; the first element of each piece, and its parameter.
  std::vector<std::int64_t> norm_pieces_, piece_begins_;
  std::vector<std::size_t> parameter_of_piece_;

  double expected_ = 0;
  // Ratio of the examples that the last update divided by to those announced by expect(): more than
  // 1 if several losses of a batch are added up.
  double examples_for_each_ = 1;
  struct Drawn {
    std::uint64_t step = 0;
    double examples = 0;
  };
  mutable Drawn drawn_;           // the step for which late numbers were computed
  LateValues<float> late_table_;  // tables of all stages that have one
  LateValues<double> late_mean_;  // 1 / examples
};

}  // namespace tasuki
