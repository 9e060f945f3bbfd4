#include "parallel/multi_node_n_step_rnn.hpp"

#include <utility>

#include "parallel/functions/messages.hpp"

namespace tasuki {

MultiNodeNStepRNN::MultiNodeNStepRNN(std::unique_ptr<NStepRNN> rnn, Communicator& communicator,
                                     std::optional<int> rank_in, std::optional<int> rank_out)
    : rnn_(std::move(rnn)), communicator_(communicator), rank_in_(rank_in), rank_out_(rank_out) {
  TASUKI_CHECK(rnn_ != nullptr, "no recurrent network was given");
  add("actual_rnn", *rnn_);
}

MultiNodeNStepRNN::Result MultiNodeNStepRNN::forward(const Variable& x, const Tensor& lengths) {
  std::vector<Variable> begin;
  if (rank_in_) begin = functions::recv_many(communicator_, *rank_in_);
  NStepRNN::Result found = rnn_->forward(x, lengths, begin);
  Result result{std::move(found.y), std::move(found.states), {}};
  if (rank_out_) result.delegate = functions::send(result.states, communicator_, *rank_out_);
  return result;
}

std::unique_ptr<MultiNodeNStepRNN> create_multi_node_n_step_rnn(std::unique_ptr<NStepRNN> rnn,
                                                                Communicator& communicator,
                                                                std::optional<int> rank_in,
                                                                std::optional<int> rank_out) {
  return std::make_unique<MultiNodeNStepRNN>(std::move(rnn), communicator, rank_in, rank_out);
}

}  // namespace tasuki
