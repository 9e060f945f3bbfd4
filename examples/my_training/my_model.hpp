// A model of your own: layers are members, registered under the names that files use.
#pragma once

#include <tasuki/tasuki.hpp>

// A perceptron with one shortcut: out(relu(in(x)) + relu(inner(relu(in(x))))).
class MyModel : public tasuki::Layer {
 public:
  MyModel(std::int64_t inputs, std::int64_t units, std::int64_t classes)
      : in_(inputs, units), inner_(units, units), out_(units, classes) {
    add("in", in_);
    add("inner", inner_);
    add("out", out_);
  }

  tasuki::Variable forward(const tasuki::Variable& x) override {
    namespace F = tasuki::functions;
    const tasuki::Variable h = F::relu(in_(x));
    return out_(F::add(h, F::relu(inner_(h))));
  }

 private:
  tasuki::Linear in_, inner_, out_;
};
