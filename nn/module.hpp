// Module: a named tree of parameters, persistent buffers and child modules.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "nn/initializer.hpp"
#include "nn/module_memory.hpp"
#include "nn/parameter.hpp"

namespace tasuki {

// Derived classes own their children as members and register them in their constructor:
//   struct Net : Module { Linear l1; Net() : l1(784, 100) { add("l1", l1); } };
// Paths are Chainer's: "l1/W". Modules cannot be copied or moved, because children are known by
// address. If a module must not be trained with the others, hold it by pointer and do not register
// it.
class Module : public ModuleMemory {
 public:
  Module() = default;
  virtual ~Module() = default;
  Module(const Module&) = delete;
  Module& operator=(const Module&) = delete;

  struct NamedParameter {
    std::string path;  // "predictor/l1/W"
    Parameter* parameter;
  };
  struct NamedBuffer {
    std::string path;
    Tensor* tensor;
  };
  // In order of registration, depth first; parameters without a shape are excluded.
  std::vector<NamedParameter> parameters() const;
  // Parameters that get their shape in the first forward pass (lazily shaped layers).
  std::vector<NamedParameter> unshaped_parameters() const;
  // Parameters with and without a shape, in order of registration.
  std::vector<NamedParameter> all_parameters() const;
  // The parameters of modules that are members of this module, or of its registered children, but
  // were not passed to add(). Modules held by pointer are not members. A member is known by its
  // address within its owner's memory, so if this module was not created by `new`, pass the size of
  // its class as `known_size`.
  std::vector<const Parameter*> unregistered_parameters(std::size_t known_size = 0) const;
  // Values that are saved but not trained (running statistics).
  std::vector<NamedBuffer> buffers() const;
  std::int64_t parameter_count() const;

  // This module and all below it, in order of registration, depth first.
  std::vector<Module*> modules();
  // Whether training passes of this module, or of one below it, exchange messages with other ranks.
  // If so, every rank must run the passes in each step in which any rank has examples; a rank
  // without examples runs them on an empty batch (Optimizer::forward).
  bool communicates() const;

  // Draws all parameters from `seed`; each depends only on the seed and its path. Parameters
  // without a shape are drawn in the same way when they get one.
  void initialize(std::uint64_t seed);
  // initialize() when a parameter is first read, for models whose values no rank has room for.
  void initialize_later(std::uint64_t seed);
  void clear_grads() const;
  // Moves parameters and buffers to `device`, with their values; gradients are lost. Call it before
  // an optimizer is set up.
  void to(Device device) const;
  // The device of the parameters; the CPU if there are none.
  Device device() const;

 protected:
  Parameter& add_parameter(const std::string& name, const Shape& shape, Initializer initializer);
  // A parameter whose shape is not fully known yet: axes of size 0 in `open_shape` are unknown. In
  // its first forward pass the layer must call Parameter::set_shape().
  Parameter& add_unshaped_parameter(const std::string& name, const Shape& open_shape,
                                    Initializer initializer);
  Tensor& add_buffer(const std::string& name, Tensor value);
  void add(const std::string& name, Module& child);
  // communicates() for this module alone.
  virtual bool communicates_itself() const { return false; }

 private:
  struct OwnedParameter {
    std::string name;
    std::unique_ptr<Parameter> parameter;
    Initializer initializer;
  };
  struct OwnedBuffer {
    std::string name;
    std::unique_ptr<Tensor> tensor;
  };
  struct Child {
    std::string name;
    Module* module;
  };
  void check_name(const std::string& name) const;
  Parameter& own(std::unique_ptr<Parameter> parameter, Initializer initializer);
  // Calls fn(parameter, draw) for each.
  void for_initializers(
      std::uint64_t seed,
      const std::function<void(Parameter&, std::function<void(const Tensor& value)>)>& fn) const;
  void visit(const std::string& prefix,
             const std::function<void(const std::string& prefix, const Module&)>& fn) const;

  std::vector<OwnedParameter> parameters_;
  std::vector<OwnedBuffer> buffers_;
  std::vector<Child> children_;
};

// A scope in which functions treat a module's parameters as constants.
//
// Results computed in the scope pass gradients through the module to its input, but none to its
// parameters, whose gradients are not computed at all. In this way a generator learns through a
// discriminator that has another loss in the same step:
//   Variable loss = loss_of(discriminator(real), discriminator(Variable(fake.value())));
//   const ConstantParameters constants(discriminator);
//   return loss + F::sigmoid_cross_entropy(discriminator(fake), ones);
// Use it in the thread that uses the module.
class ConstantParameters {
 public:
  explicit ConstantParameters(const Module& module);
  ~ConstantParameters();
  ConstantParameters(const ConstantParameters&) = delete;
  ConstantParameters& operator=(const ConstantParameters&) = delete;

 private:
  std::vector<Parameter*> learning_;  // before
};

}  // namespace tasuki
