// SlicedWork: work that a thread does between other things, a slice at a time.
#pragma once

namespace tasuki {

class SlicedWork {
 public:
  virtual ~SlicedWork() = default;
  virtual bool is_done() const = 0;
  // Does what can be done without waiting for another rank. False: nothing could be done.
  virtual bool advance() = 0;
};

}  // namespace tasuki
