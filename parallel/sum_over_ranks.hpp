// SumOverRanks: the sums over ranks that a layer exchanges in its passes.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "communicator/communicator.hpp"

namespace tasuki {

// Of arrays of one kind, such as one layer's in the forward pass. Ranks compare what they bring
// only when its shape has changed, which it does on all of them alike, so that otherwise one
// message follows: it is waited for.
class SumOverRanks {
 public:
  // `layer`: for messages, "batch normalisation".
  SumOverRanks(std::shared_ptr<Communicator> communicator, std::string layer)
      : communicator_(std::move(communicator)), layer_(std::move(layer)) {}

  Communicator& communicator() const { return *communicator_; }
  // The result is valid until the next call; `own` keeps its values. Collective.
  Tensor of(const Tensor& own);

 private:
  std::shared_ptr<Communicator> communicator_;
  std::string layer_;
  Tensor sums_;
  bool is_agreed_ = false;
};

}  // namespace tasuki
