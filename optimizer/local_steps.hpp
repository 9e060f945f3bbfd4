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
//     local.end_step(examples of all ranks of the group in this step);
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
#include "optimizer/optimizer.hpp"

namespace tasuki {

// What happens to the mean difference of the groups' weights. `mean`: the weights become their
// mean. `nesterov`: the difference is the negative gradient of a step of SGD with Nesterov's
// momentum (in PyTorch's form) from the weights of the last synchronisation.
enum class OuterOptimizer : std::uint8_t { mean, nesterov };

struct LocalStepSettings {
  std::int64_t every = 1;   // steps from one synchronisation to the next, at least 1
  std::int64_t warmup = 0;  // each of so many first steps is followed by one, with the plain mean
  OuterOptimizer outer = OuterOptimizer::mean;
  double lr = 0.7, momentum = 0.9;  // of nesterov; above 0, and from 0 to below 1
  // The differences travel during the next steps (by a thread, which needs MPI_THREAD_MULTIPLE;
  // otherwise at the next synchronisation), after which each group adds what the other ones
  // have brought: w += new outer weights - (old outer weights + what was sent).
  bool overlap = false;
};

// On CPUs. How values travel is the communicator's matter, between groups as inside them: its kind,
// wire type and algorithm. A group's difference counts by the number of examples that it has
// trained on since the last synchronisation. Running statistics are averaged in the same way,
// counters become the greatest one. Optimizer states, also the number of updates t, stay with the
// group.
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

  // Once, after setup() of the optimizers, which train with group() and are destroyed before this
  // object. All ranks take the weights and running statistics of rank 0 of all(). A usage error
  // where models are on GPUs, have parameters without a shape or buffers that are neither float32
  // nor int64, or use gradients a step late; ErrorKind::disagreement if models differ between
  // groups. Parameters must not be added, removed, frozen or unfrozen afterwards. Collective over
  // all().
  void follow(std::vector<Optimizer*> optimizers);

  // After each update, on all ranks. `examples`: those of all ranks of the group in the step.
  // Synchronises if it is time.
  void end_step(std::int64_t examples);
  // The number of steps so far. After a resume: those of the run before, with the weights of a
  // synchronisation.
  std::int64_t steps() const { return steps_; }
  void set_steps(std::int64_t steps) { steps_ = steps; }

  // Ends what is under way; then all groups have the same weights and running statistics. Does
  // nothing if they already have. With `nesterov` this is an outer step, too. The steps until the
  // next synchronisation are counted on. Collective over all().
  void synchronise();
  bool is_synchronised() const { return !is_changed_ && under_way_ == nullptr; }
  // Whether any rank had been asked to stop (core/stop_request.hpp) at the last synchronisation.
  bool asked_to_stop() const { return asked_to_stop_; }

  // The momentum of the outer optimizer, one array for all optimizers; undefined with `mean`. To be
  // saved and loaded at a synchronisation.
  const Tensor& momentum() const { return momentum_; }

 private:
  void bring_together();
  // Why local steps cannot follow this optimizer; empty: they can.
  std::string why_not(const Optimizer& optimizer) const;
  // What must be the same in all groups, and at all times.
  std::vector<std::string> layout() const;
  void check() const;
  bool is_due() const;
  // Adds up what ranks report: examples since the last exchange, and requests to stop. Returns
  // whether there were examples.
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
  int groups_ = 1;
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
  std::int64_t steps_ = 0, examples_ = 0;
  int agreements_ = 0, exchanges_ = 0;
  double weight_ = 0;  // of this group's difference in the mean
  bool is_changed_ = false, asked_to_stop_ = false;
};

}  // namespace tasuki
