// SumSearch: looks for numbers that are not finite in sums of gradients while they are computed.
// This costs neither a pass over memory nor a message: what one rank finds, all ranks know when the
// exchange ends. A communicator whose ranks compute all sums in their own code may derive from it.
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
  // Collective, without waiting. Gradients that are summed from now on are searched. Forgets what
  // was found before.
  virtual void begin_search() = 0;
  // Collective, without waiting. Ends that; all exchanges must have ended. Returns, on all ranks
  // the same, whether a sum is not finite.
  virtual bool end_search() = 0;

 protected:
  SumSearch() = default;
};

}  // namespace tasuki
