// A recurrent network that continues on another rank (ChainerMN's create_multi_node_n_step_rnn),
// such as an encoder on one rank and its decoder on another.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "communicator/communicator.hpp"
#include "nn/n_step_rnn.hpp"

namespace tasuki {

// Starts from the final states of another rank's network, and sends its own final states on.
// Gradients of the states travel back (functions/messages.hpp). Neighbours must have the same kind,
// number of layers, hidden size and number of examples; lengths and input sizes may differ.
// Parameters have paths under "actual_rnn", as in ChainerMN.
class MultiNodeNStepRNN : public Module {
 public:
  // `rank_in`: the rank that sends the initial states; none: zeros. `rank_out`: the rank that gets
  // the final states; none: no rank. The communicator must outlive the graph and must not be the
  // one on which an optimizer exchanges gradients.
  MultiNodeNStepRNN(std::unique_ptr<NStepRNN> rnn, Communicator& communicator,
                    std::optional<int> rank_in, std::optional<int> rank_out);

  struct Result {
    Variable y;                    // as NStepRNN::Result
    std::vector<Variable> states;  // as NStepRNN::Result
    // With `rank_out`: stands for the states that were sent. If a loss is computed from y, connect
    // it: pseudo_connect(delegate, loss). Otherwise start the backward pass here.
    Variable delegate;
  };
  Result forward(const Variable& x, const Tensor& lengths);
  Result operator()(const Variable& x, const Tensor& lengths) { return forward(x, lengths); }

 private:
  bool communicates_itself() const override { return rank_in_ || rank_out_; }

  std::unique_ptr<NStepRNN> rnn_;
  Communicator& communicator_;
  std::optional<int> rank_in_, rank_out_;
};

std::unique_ptr<MultiNodeNStepRNN> create_multi_node_n_step_rnn(std::unique_ptr<NStepRNN> rnn,
                                                                Communicator& communicator,
                                                                std::optional<int> rank_in = {},
                                                                std::optional<int> rank_out = {});

}  // namespace tasuki
