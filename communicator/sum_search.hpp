// SumSearch: searches sums of gradients for numbers that are not finite, while they are computed.
// This costs neither a pass over memory nor a message: when the exchange ends, all ranks know
// whether any has found one. A communicator whose ranks compute all sums in their own code may
// derive from it.
#pragma once

namespace tasuki {

class SumSearch {
 public:
  virtual ~SumSearch() = default;
  SumSearch(const SumSearch&) = delete;
  SumSearch& operator=(const SumSearch&) = delete;

  // Whether each sum of gradients in host memory is computed in this way, by at least one of the
  // ranks. The same on all ranks.
  virtual bool can_search_sums() const = 0;
  // From now on searches gradients that are summed; forgets earlier findings. All ranks call it,
  // before the first gradient of a step is summed; it does not wait.
  virtual void begin_search() = 0;
  // Ends the search, after the last exchange. Returns whether a sum is not finite, the same on all
  // ranks. All ranks call it; it does not wait.
  virtual bool end_search() = 0;

 protected:
  SumSearch() = default;
};

}  // namespace tasuki
