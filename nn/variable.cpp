#include "nn/variable.hpp"

#include <utility>

#include "nn/node.hpp"
#include "nn/parameter.hpp"

namespace tasuki {
namespace {

thread_local bool training = true;

}  // namespace

Variable::Variable(Tensor value, bool requires_grad) : value_(std::move(value)) {
  if (!requires_grad) return;
  node_ = std::make_shared<detail::Node>();
  node_->value = std::exchange(value_, {});
}

bool Variable::requires_grad() const {
  return node_ != nullptr && !node_->is_frozen;
}

const Tensor& Variable::value() const {
  if (!node_ || !node_->is_leaf()) return value_;
  if (node_->parameter != nullptr) {
    node_->provide_value();
    node_->parameter->place_.use();
  }
  return node_->value;
}

const Shape& Variable::shape() const {
  return node_ && node_->is_leaf() ? node_->value.shape() : value_.shape();
}

bool Variable::defined() const {
  return node_ && node_->is_leaf() ? node_->value.defined() : value_.defined();
}

Tensor Variable::value_as(DType type) const {
  if (node_ && node_->is_leaf())
    if (const auto rounded = node_->rounded.lock(); rounded && rounded->values.dtype() == type) {
      node_->provide_value();
      rounded->place.use();
      return rounded->values;
    }
  return value();
}

const Tensor& Variable::grad() const {
  static const Tensor none;
  if (!node_ || !node_->is_leaf()) return none;
  node_->write_late_grad();
  return node_->parameter == nullptr || node_->has_grad ? node_->grad : none;
}

void Variable::clear_grad() const {
  if (!node_) return;
  node_->clear_grad();
  if (node_->parameter == nullptr) node_->grad = {};
}

TrainingMode::TrainingMode(bool on) : previous_(std::exchange(training, on)) {}
TrainingMode::~TrainingMode() {
  training = previous_;
}
bool TrainingMode::is_training() {
  return training;
}

}  // namespace tasuki
