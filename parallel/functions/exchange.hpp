// Records an exchange of messages in the graph, for functions between ranks.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "communicator/communicator.hpp"
#include "nn/variable.hpp"

namespace tasuki::functions {

// Exchanges the gradients of all results, and returns the gradients of the inputs, in their order.
// An input whose element is undefined or missing gets no gradient.
using ExchangeBack = std::function<std::vector<Tensor>(std::vector<Tensor> gradients)>;

// An exchange as variables.
struct Exchanged {
  std::vector<Variable> results;
  // A scalar 0 through which a backward pass reaches the exchange even if the results are unused.
  Variable delegate;
};

// The results of an exchange as variables, with `back` as its backward pass. It runs when the
// gradients of all results are complete, even if no input requires a gradient, because other ranks
// wait for it. Unused results have gradients of zeros.
Exchanged record_exchange(const char* name, const Communicator& communicator,
                          std::vector<Tensor> results, const std::vector<Variable>& inputs,
                          ExchangeBack back);
// record_exchange() for an exchange with one result on this rank.
Variable record_exchange(const char* name, const Communicator& communicator, const Tensor& result,
                         const std::vector<Variable>& inputs, ExchangeBack back);

// The value to send; a usage error if it is undefined or of a type without gradients.
const Tensor& checked_value(const char* function, const Variable& x);
std::vector<Tensor> checked_values(const char* function, const std::vector<Variable>& xs);
// A usage error in a block that is recomputed. Refuses to record a step on a GPU, too: values pass
// through the host here.
void refuse_repetition_of(const char* function, const Communicator& communicator);

}  // namespace tasuki::functions
