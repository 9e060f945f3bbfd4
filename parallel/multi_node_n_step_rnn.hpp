// A recurrent network whose sequences go on from rank to rank (ChainerMN's
// create_multi_node_n_step_rnn): an encoder on one rank, and a decoder on another.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "communicator/communicator.hpp"
#include "nn/n_step_rnn.hpp"

namespace tasuki {

// Begins with the states that another rank's network ended with, and sends its own on. Gradients of
// the states travel back (functions/messages.hpp). Neighbours have the same kind, number of layers,
// hidden size and number of examples; lengths and input sizes may differ. Parameters are found
// under "actual_rnn", as in ChainerMN.
class MultiNodeNStepRNN : public Module {
 public:
  // `rank_in`: whose states it begins with; none: zeros. `rank_out`: which rank gets its own;
  // none: no rank. The communicator must outlive the graph and not be the one on which an optimizer
  // exchanges gradients.
  MultiNodeNStepRNN(std::unique_ptr<NStepRNN> rnn, Communicator& communicator,
                    std::optional<int> rank_in, std::optional<int> rank_out);

  struct Result {
    Variable y;                    // as NStepRNN::Result
    std::vector<Variable> states;  // as NStepRNN::Result
    // With `rank_out`: what stands for the states that were sent. If a loss is computed from y,
    // tie it to that: pseudo_connect(delegate, loss); else start the backward pass here.
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
