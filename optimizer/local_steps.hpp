// LocalSteps: machines that train by themselves and bring their weights together every few steps,
// for links that are too slow for gradients in each step.
//
// Ranks of a machine exchange gradients as usual; machines exchange the differences of their
// weights. With a plain mean this is local SGD (Lin et al. 2020, "Don't use large mini-batches, use
// local SGD"); with an outer Nesterov step it is DiLoCo (Douillard et al. 2023).
//
//   LocalSteps local(*communicator, {.every = 16});
//   const auto optimizer = create_multi_node_optimizer(create_optimizer("adam"), local.group());
//   optimizer->setup(model);
//   local.follow({optimizer.get()});
//   for (...) {
//     ... a step of this rank's examples ...
//     local.end_step(examples of this rank in this step);
//   }
//   local.synchronise();  // before the weights are used, saved or compared
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "communicator/communicator.hpp"
#include "optimizer/local_step_settings.hpp"
#include "optimizer/optimizer.hpp"

namespace tasuki {

// On CPUs. How values travel is the communicator's matter, between groups as inside them: its kind,
// wire type and algorithm. A group's difference counts by the number of examples that it has
// trained on since the last synchronisation. Running statistics are averaged in the same way, rank
// by rank; counters become the greatest one. Optimizer states, also the number of updates t, stay
// with the group.
class LocalSteps {
 public:
  // Collective over `all`, which outlives this object. `group`: ranks with the same number train
  // together; default: the ranks of a machine. A usage error if settings are out of range, or if
  // they differ between ranks.
  LocalSteps(Communicator& all, const LocalStepSettings& settings,
             std::optional<int> group = std::nullopt);
  ~LocalSteps();
  LocalSteps(const LocalSteps&) = delete;
  LocalSteps& operator=(const LocalSteps&) = delete;

  const LocalStepSettings& settings() const { return settings_; }
  Communicator& all() const { return all_; }
  // The ranks that exchange gradients in each step.
  Communicator& group() const { return *group_; }
  int groups() const { return groups_; }
  int own_group() const { return own_group_; }  // from 0; rank 0 of all() is in group 0

  // Once, after setup() of the optimizers, which train with group() and are destroyed before this
  // object. All ranks take the weights and running statistics of rank 0 of all(). A usage error
  // where models are on GPUs, have parameters without a shape, buffers that are neither float32 nor
  // int64, or layers that communicate, or where optimizers use gradients a step late, compress
  // them, scale losses or leave out steps that are not finite; ErrorKind::disagreement if models,
  // optimizers or what they do with gradients differ between groups. Collective over all().
  void follow(std::vector<Optimizer*> optimizers);
  // At a synchronisation, after parameters have been added, removed, frozen or unfrozen in the same
  // way on all ranks: adapts the arrays. The outer momentum becomes zeros if anything has changed.
  // Collective over all().
  void follow_changes();

  // Call it after each update, on all ranks. `examples`: this rank's number for the step, as passed
  // to the optimizer. Synchronises if it is time.
  void end_step(std::int64_t examples);
  std::int64_t steps() const { return steps_; }  // so far

  // Ends what is under way; then all groups have the same weights and running statistics, and
  // rounding errors of 16-bit exchanges are dropped. With `nesterov` this is an outer step, too,
  // unless nothing has changed since the last one. Steps until the next synchronisation are counted
  // from this one. Collective over all().
  void synchronise();
  bool is_synchronised() const { return !is_changed_ && under_way_ == nullptr; }
  // Whether any rank had been asked to stop (core/stop_request.hpp), if the last step ended with a
  // synchronisation; otherwise false.
  bool asked_to_stop() const { return asked_to_stop_ && last_ == steps_; }

  // The outer optimizer's momentum for the weights of an optimizer, with its arena's offsets;
  // undefined with `mean`. To be saved and loaded at a synchronisation.
  Tensor momentum_of(const Optimizer& optimizer) const;
  // A run goes on from what was saved at a synchronisation after so many steps: weights, running
  // statistics and momentum have been loaded, and are the same on all ranks.
  void continue_from(std::int64_t steps);

  // Seconds that this rank has spent in synchronisations, without what travelled during steps.
  double seconds() const { return seconds_; }
  // Memory of this rank's arrays.
  std::size_t bytes() const;

 private:
  void bring_together();
  // Throws on all ranks if follow() cannot follow these optimizers.
  void agree_to_follow() const;
  // Makes the arrays for layout(), and reads the present values.
  void make_arrays();
  // Why local steps cannot follow this optimizer; empty: they can.
  std::string why_not(const Optimizer& optimizer) const;
  // What must be the same in all groups, and at all times.
  std::vector<std::string> layout() const;
  // What must be the same in all groups when they begin.
  std::vector<std::string> rules() const;
  void check() const;
  bool is_due() const;
  // Adds up what ranks report: examples since the last exchange, and requests to stop. Returns
  // whether there were examples. Sets the weights of differences.
  bool agree();
  void send(bool in_background);
  // Changes the outer weights; after an exchange in the background, also the group's own ones.
  void receive();
  void read(const Tensor& to) const;
  void write(const std::function<void(const Tensor& values, Range part)>& change) const;
  void merge_counters() const;

  Communicator& all_;
  LocalStepSettings settings_;
  std::unique_ptr<Communicator> group_;
  std::unique_ptr<Communicator> travel_;  // of all ranks, for exchanges in the background
  int groups_ = 1, own_group_ = 0;
  std::vector<Optimizer*> optimizers_;
  std::vector<Tensor> statistics_, counters_;
  // Arrays of `count_` elements: the weights of all optimizers, then the running statistics.
  std::int64_t weights_ = 0, count_ = 0;
  std::vector<GradientView::Segment> segments_;
  Tensor outer_;  // the values of the last synchronisation
  Tensor sums_;   // what travels, then the mean difference
  Tensor sent_;   // with overlap: this group's difference
  Tensor momentum_;
  Tensor residual_;  // rounding errors of what travelled in 16 bits
  std::vector<std::string> layout_;
  std::unique_ptr<PendingExchange> under_way_;
  bool is_in_background_ = false, takes_mean_ = false;  // the exchange under way
  Tensor numbers_;                                      // for agree()
  std::int64_t steps_ = 0;
  std::int64_t last_ = 0;      // step of the last synchronisation, or of its beginning
  std::int64_t examples_ = 0;  // since then
  int agreements_ = 0, exchanges_ = 0;
  double group_weight_ = 0, own_weight_ = 0;  // of this group's difference, and of this rank's
  double seconds_ = 0;
  bool is_changed_ = false, asked_to_stop_ = false;
};

}  // namespace tasuki
