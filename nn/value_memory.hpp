// ValueMemory: gives the values of parameters their contents only while they are read.
#pragma once

#include <cstdint>

#include "tensor/tensor.hpp"

namespace tasuki {

class Parameter;

// A parameter knows one by Parameter::keep_values_by(). Without one, its values are in memory all
// the time. The memory itself stays in one place, so that tensors of it stay valid: it has the
// values from provide() on, for as long as the class says.
class ValueMemory {
 public:
  virtual ~ValueMemory() = default;
  // Called before a forward or backward pass uses the parameter's values: by Variable::value(), and
  // before the backward pass of a function that has the parameter as an input.
  virtual void provide(Parameter& parameter) = 0;
  // Whether the memory has the values now.
  virtual bool has(const Parameter& parameter) const = 0;
  // All values, in the parameter's shape: its own memory, or a copy. Collective if ranks keep parts
  // of them.
  virtual Tensor read(const Parameter& parameter) = 0;
  // Sets the values, of which a rank keeps its own part. Not collective: all ranks pass the same.
  virtual void write(Parameter& parameter, const Tensor& values) = 0;
  // The elements that this rank keeps, flat, from the parameter's element `begin` on; undefined
  // values: none.
  struct Part {
    std::int64_t begin = 0;
    Tensor values{};
  };
  virtual Part own_part(const Parameter& parameter) const = 0;
  // Whether ranks keep parts of the values.
  virtual bool is_divided() const = 0;
};

// While one exists, passes of its thread find any values, and none are gathered: they measure how
// much memory a step takes.
class UnreadValues {
 public:
  UnreadValues();
  ~UnreadValues();
  UnreadValues(const UnreadValues&) = delete;
  UnreadValues& operator=(const UnreadValues&) = delete;
  static bool any();

 private:
  bool previous_;
};

}  // namespace tasuki
