// FieldMemory: device memory for the values of batches.
#pragma once

#include <map>
#include <string>

#include "dataset/batch.hpp"

namespace tasuki {

// A field uses the memory of earlier fields of the same name, as long as that is large enough. This
// is safe because the device works in the order of the calls. Recordings keep the memory that they
// read.
class FieldMemory {
 public:
  explicit FieldMemory(Device device) : device_(device) {}

  // Returns the batch with its values and lengths copied into that memory. Sources stay.
  Batch place_all(const Batch& batch) { return place(batch, true); }
  // place_all() for the fields that are not on the device; the others stay as they are.
  Batch place_those_of_host(const Batch& batch) { return place(batch, false); }

 private:
  Batch place(const Batch& batch, bool all);
  Tensor memory_for(const std::string& name, const Tensor& values);

  Device device_;
  std::map<std::string, Tensor> memory_;
};

// Copies values and lengths, unless they are there already. Sources have none.
void copy_field(const BatchField& from, const BatchField& to);

}  // namespace tasuki
