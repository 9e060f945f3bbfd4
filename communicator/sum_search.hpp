// SumSearch: looks for numbers that are not finite in sums of gradients while they are computed,
// which costs no pass over memory. A communicator whose ranks compute all sums in their own code
// may derive from it.
#pragma once

namespace tasuki {

class SumSearch {
 public:
  virtual ~SumSearch() = default;
  SumSearch(const SumSearch&) = delete;
  SumSearch& operator=(const SumSearch&) = delete;

  // Whether each sum of gradients in host memory is computed in this way, by one of the ranks or
  // more. The same on all ranks.
  virtual bool can_search_sums() const = 0;
  // Gradients that are summed from now on are searched. Forgets what was found before.
  virtual void begin_search() = 0;
  // Ends that; all exchanges must have ended. Returns whether a sum that this rank has computed is
  // not finite: other ranks may have found others.
  virtual bool end_search() = 0;

 protected:
  SumSearch() = default;
};

}  // namespace tasuki
