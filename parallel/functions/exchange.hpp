// For functions between ranks: an exchange of messages as a vertex of the graph.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "communicator/communicator.hpp"
#include "nn/variable.hpp"

namespace tasuki::functions {

// Exchanges the gradients of all results, and returns those of the inputs, in their order; inputs
// whose element is undefined or missing get none.
using ExchangeBack = std::function<std::vector<Tensor>(std::vector<Tensor> gradients)>;

// An exchange as variables.
struct Exchanged {
  std::vector<Variable> results;
  // A scalar 0 through which a backward pass reaches the exchange, whatever becomes of the results.
  Variable delegate;
};

// The results of an exchange as variables, and `back` as its backward pass. It runs when the
// gradients of all results are complete, also if no input requires a gradient, because other ranks
// wait for it. Results that nothing was computed from have gradients of zeros.
Exchanged record_exchange(const char* name, const Communicator& communicator,
                          std::vector<Tensor> results, const std::vector<Variable>& inputs,
                          ExchangeBack back);
// The same for an exchange that has one result here.
Variable record_exchange(const char* name, const Communicator& communicator, const Tensor& result,
                         const std::vector<Variable>& inputs, ExchangeBack back);

// The value to send, of which functions compute gradients; otherwise a usage error.
const Tensor& checked_value(const char* function, const Variable& x);
std::vector<Tensor> checked_values(const char* function, const std::vector<Variable>& xs);
// Refuses to record a step on a GPU: values pass through the host here.
void refuse_recording_of(const char* function, const Communicator& communicator);

}  // namespace tasuki::functions
