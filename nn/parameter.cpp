#include "tasuki/nn/parameter.hpp"

#include "tasuki/nn/node.hpp"

namespace tasuki {

Parameter::Parameter(std::string name, Tensor value)
    : Variable(std::move(value), true), name_(std::move(name)) {
  TASUKI_CHECK(node_->value.dtype() == DType::float32 && node_->value.is_plain(),
               "parameter {} must be a plain float32 tensor", name_);
  node_->parameter = this;
  node_->grad = Tensor::empty(node_->value.shape(), DType::float32, node_->value.device());
}

Parameter::~Parameter() {
  // A graph may live on; for it this becomes a leaf like any other.
  node_->parameter = nullptr;
  if (!node_->has_grad) node_->grad = {};
}

const Tensor& Parameter::grad_storage() const {
  return node_->grad;
}

bool Parameter::has_grad() const {
  return node_->has_grad;
}

void Parameter::clear_grad() {
  node_->has_grad = false;
}

void Parameter::fill_missing_grad() {
  if (!node_->has_grad) node_->grad.fill(0);
  node_->has_grad = true;
}

void Parameter::move_to(const Tensor& value, const Tensor& grad) {
  const Shape& shape = node_->value.shape();
  TASUKI_CHECK(value.shape() == shape && grad.shape() == shape && value.is_plain() &&
                   grad.is_plain() && value.dtype() == DType::float32 &&
                   grad.dtype() == DType::float32 && value.device() == grad.device(),
               "parameter {} of shape {} cannot live in memory of shapes {} and {}", name_,
               shape.text(), value.shape().text(), grad.shape().text());
  value.copy_from(node_->value);
  if (node_->has_grad) grad.copy_from(node_->grad);
  node_->value = value;
  node_->grad = grad;
}

}  // namespace tasuki
