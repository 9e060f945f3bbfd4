// MultiNodeChainList: this rank's part of a model whose components are on several ranks.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "communicator/communicator.hpp"
#include "communicator/send_queue.hpp"
#include "nn/layer.hpp"
#include "parallel/chain_plan.hpp"

namespace tasuki {

// The components of this rank run in the order in which they were added. Each receives its inputs,
// computes, and sends its results; in a backward pass, gradients travel back, as zeros for values
// that a component ignored. Every rank of the communicator has such a list and calls it in every
// step, in training and in evaluation. Components are added before the first pass.
//
//   MultiNodeChainList model(comm);
//   if (comm.rank() == 0) {
//     model.add_link("l1", std::make_unique<Linear>(784, 100), {.out = {1}});
//     model.add_link("l3", std::make_unique<Linear>(100, 10), {.in = {1}});
//   } else {
//     model.add_link("l2", std::make_unique<Linear>(100, 100), {.in = {0}, .out = {0}});
//   }
// If a component has its own rank in `out`, its results wait on this rank for the next component
// that has this rank in `in`. On each rank, at most one component may have no `out`; its results
// are the model's results on this rank. On ranks without such a component, the model returns a
// delegate variable, a scalar 0 at which the backward pass starts (functions/messages.hpp).
//
// The first call compares the plans of all ranks (collective). Plans with which ranks would wait
// for each other forever are a usage error on all ranks.
//
// Ranks whose components form a line compute one after another. A Pipeline (pipeline.hpp) divides
// batches so that they compute at the same time.
//
// The communicator must outlive the graph and must not be the one on which an optimizer exchanges
// gradients. Give layers their input sizes: without them a layer makes this rank repeat the first
// forward pass, which the other ranks would not repeat.
class MultiNodeChainList : public Layer {
 public:
  explicit MultiNodeChainList(Communicator& communicator) : communicator_(communicator) {}

  // Computes a component's results from its inputs.
  using Values = std::vector<Variable>;
  using Component = std::function<Values(const Values& inputs)>;

  // Adds a component of one input and one result. The layer's parameters get paths under `name`.
  MultiNodeChainList& add_link(const std::string& name, std::unique_ptr<Layer> layer,
                               const LinkRanks& ranks = {});
  // Adds a component of several inputs or results, and the module that has its parameters. All
  // values from one rank to another travel in one message.
  MultiNodeChainList& add_link(const std::string& name, std::unique_ptr<Module> module,
                               Component component, const LinkRanks& ranks = {});
  // Adds a component without parameters.
  MultiNodeChainList& add_link(Component component, const LinkRanks& ranks = {});

  // Returns the results, or one delegate variable, or nothing on a rank without components.
  // `inputs` go to the components without `in`.
  Values forward(const Values& inputs);
  // forward() with one input and one result. An undefined `x` stands for no input.
  Variable forward(const Variable& x) override;
  using Layer::operator();
  Variable operator()() { return forward(Variable()); }

 private:
  friend class Pipeline;

  bool communicates_itself() const override { return communicator_.size() > 1; }
  // Of each rank. Collective.
  std::vector<ChainPlan> plans_of_all() const;
  void check_plans();

  Communicator& communicator_;
  std::vector<std::unique_ptr<Module>> modules_;
  std::vector<Component> components_;
  ChainPlan plan_;
  bool is_checked_ = false;
  SendQueue* sends_ = nullptr;  // of the step of a pipeline; null: sends wait for their receivers
};

}  // namespace tasuki
