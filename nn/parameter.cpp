#include "nn/parameter.hpp"

#include <algorithm>
#include <utility>

#include "core/printable.hpp"
#include "nn/gradient_memory.hpp"
#include "nn/node.hpp"
#include "nn/value_memory.hpp"
#include "tensor/storage.hpp"

namespace tasuki {
namespace {

// Zeros, of which large ones take memory when they are written.
Tensor untouched_zeros(const Shape& shape) {
  constexpr std::int64_t large = std::int64_t{1} << 16;  // elements
  if (shape.count() < large) return Tensor::zeros(shape);
  const std::size_t bytes = static_cast<std::size_t>(shape.count()) * sizeof(float);
  return {allocate_sparse_host(bytes, 0), 0, shape, DType::float32};
}

// Draws, or reads, the first values of a parameter when they are needed.
class FirstValues final : public ValueMemory {
 public:
  explicit FirstValues(std::function<void(const Tensor& value)> fill) : fill_(std::move(fill)) {}

  void provide(Parameter& parameter) override {
    detail::Node& node = *parameter.node();
    node.value_memory.reset();
    fill_(node.value);
  }
  bool has(const Parameter& /*parameter*/) const override { return true; }
  Tensor read(const Parameter& parameter) override { return parameter.value(); }
  void write(Parameter& parameter, const Tensor& values) override {
    parameter.node()->value_memory.reset();
    parameter.write_value(values);
  }
  Part own_part(const Parameter& parameter) const override {
    return {0, parameter.value().reshape({parameter.shape().count()})};
  }
  bool is_divided() const override { return false; }

 private:
  std::function<void(const Tensor& value)> fill_;
};

thread_local bool leaves_values_unread = false;

}  // namespace

UnreadValues::UnreadValues() : previous_(std::exchange(leaves_values_unread, true)) {}
UnreadValues::~UnreadValues() {
  leaves_values_unread = previous_;
}
bool UnreadValues::any() {
  return leaves_values_unread;
}

Parameter::Parameter(std::string name, const Shape& shape, Untouched)
    : Parameter(std::move(name), untouched_zeros(shape)) {}

Parameter::Parameter(std::string name, Tensor value)
    : Variable(std::move(value), true), name_(std::move(name)) {
  TASUKI_CHECK(node_->value.dtype() == DType::float32 && node_->value.is_plain(),
               "parameter {} must be a plain float32 tensor", name_);
  node_->parameter = this;
  node_->grad = Tensor::empty(node_->value.shape(), DType::float32, node_->value.device());
}

Parameter::Parameter(std::string name, const Shape& open_shape)
    : Parameter(std::move(name), Tensor::empty(open_shape)) {
  TASUKI_CHECK(open_shape.count() == 0, "parameter {} of shape {} has no open axis", name_,
               open_shape.text());
  has_shape_ = false;
}

Parameter::~Parameter() {
  // A graph may outlive the parameter, which becomes an ordinary leaf there.
  if (node_->late != nullptr) node_->clear_grad();
  node_->parameter = nullptr;
  if (!node_->has_grad) node_->grad = {};
}

std::string Parameter::layer() const {
  if (layer_ == nullptr) return "";
  const std::string name = type_name(*layer_);
  const std::size_t scope = name.rfind("::", name.find('<'));
  return scope == std::string::npos ? name : name.substr(scope + 2);
}

std::string Parameter::shape_text() const {
  if (has_shape_) return shape().text();
  std::vector<std::string> axes;
  for (const std::int64_t size : shape()) axes.push_back(size == 0 ? "?" : std::to_string(size));
  return join(axes, "x");
}

bool Parameter::accepts(const Shape& shape) const {
  const Shape& open = node_->value.shape();
  return !has_shape_ && shape.count() > 0 &&
         std::equal(
             open.begin(), open.end(), shape.begin(), shape.end(),
             [](std::int64_t known, std::int64_t size) { return known == 0 || known == size; });
}

void Parameter::set_shape(const Shape& shape) {
  TASUKI_CHECK(accepts(shape), "parameter {} of shape {} cannot take the shape {}", name_,
               shape_text(), shape.text());
  const Device device = node_->value.device();
  node_->value = Tensor::zeros(shape, DType::float32, device);
  node_->grad = Tensor::empty(shape, DType::float32, device);
  place_.advance();
  has_shape_ = true;
  if (fill_) fill_(node_->value);
  node_->has_values = fill_ != nullptr;
}

void Parameter::initialize_later(std::function<void(const Tensor& value)> fill) {
  if (!has_shape_) {
    fill_ = std::move(fill);
    return;
  }
  const Device device = node_->value.device();
  if (device.is_cpu()) node_->value = untouched_zeros(node_->value.shape());
  place_.advance();
  node_->value_memory = std::make_shared<FirstValues>(std::move(fill));
  node_->has_values = true;
}

const Tensor& Parameter::value_storage() const {
  return node_->value;
}

Tensor Parameter::read_value() const {
  return node_->value_memory ? node_->value_memory->read(*this) : value();
}

void Parameter::write_value(const Tensor& values) {
  if (const std::shared_ptr<ValueMemory> memory = node_->value_memory) {
    memory->write(*this, values);
    node_->has_values = true;
    return;
  }
  node_->value.copy_from(values);
  value_changed();
}

bool Parameter::has_values() const {
  if (node_->has_values) return true;
  const Tensor host = node_->value.to(Device::cpu());
  return std::ranges::any_of(host.span<float>(), [](float value) { return value != 0; });
}

const Tensor& Parameter::grad_storage() const {
  return node_->grad;
}

bool Parameter::has_grad() const {
  return node_->has_grad;
}

void Parameter::clear_grad() {
  node_->clear_grad();
}

void Parameter::fill_missing_grad() {
  if (is_frozen()) return;
  if (!node_->has_grad) {
    Parameter* const self = this;
    if (const auto memory = node_->grad_memory.lock()) memory->provide({&self, 1});
    node_->grad.fill(0);
  }
  node_->has_grad = true;
}

void Parameter::move_to(const Tensor& value, const Tensor& grad) {
  const Shape& shape = node_->value.shape();
  TASUKI_CHECK(value.shape() == shape && grad.shape() == shape && value.is_plain() &&
                   grad.is_plain() && value.dtype() == DType::float32 &&
                   grad.dtype() == DType::float32 && value.device() == grad.device(),
               "parameter {} of shape {} cannot live in memory of shapes {} and {}", name_,
               shape.text(), value.shape().text(), grad.shape().text());
  node_->write_late_grad();
  if (node_->has_grad) grad.copy_from(node_->grad);
  move_value(value);
  node_->grad = grad;
  node_->grad_memory.reset();
  node_->is_frozen = false;
}

void Parameter::place_at(const Tensor& value, const Tensor& grad) {
  const Shape& shape = node_->value.shape();
  TASUKI_CHECK(value.shape() == shape && value.is_plain() && value.dtype() == DType::float32 &&
                   (!grad || (grad.shape() == shape && grad.is_plain())),
               "parameter {} of shape {} cannot be placed in memory of shape {}", name_,
               shape.text(), value.shape().text());
  node_->write_late_grad();
  if (!grad)
    clear_grad();
  else if (node_->has_grad)
    grad.copy_from(node_->grad);
  node_->value = value;
  node_->value_memory.reset();
  node_->rounded.reset();
  node_->grad = grad;
  node_->grad_memory.reset();
  node_->is_frozen = !grad;
  place_.advance();
}

void Parameter::keep_values_by(std::shared_ptr<ValueMemory> memory) {
  node_->value_memory = std::move(memory);
  node_->has_values = true;
}

ValueMemory* Parameter::value_memory() const {
  return node_->value_memory.get();
}

void Parameter::move_grad(const Tensor& grad) {
  TASUKI_CHECK(!node_->is_frozen && grad.shape() == node_->value.shape() && grad.is_plain() &&
                   grad.dtype() == DType::float32,
               "the gradient of parameter {} cannot live in memory of shape {}", name_,
               grad.shape().text());
  node_->grad = grad;
  place_.advance();
}

void Parameter::place_grad_by(const std::weak_ptr<GradientMemory>& memory) {
  node_->grad_memory = memory;
}

void Parameter::freeze_at(const Tensor& value) {
  const Shape& shape = node_->value.shape();
  TASUKI_CHECK(value.shape() == shape && value.is_plain() && value.dtype() == DType::float32,
               "parameter {} of shape {} cannot live in memory of shape {}", name_, shape.text(),
               value.shape().text());
  move_value(value);
  clear_grad();
  node_->grad = {};
  node_->is_frozen = true;
}

bool Parameter::is_frozen() const {
  return node_->is_frozen;
}

void Parameter::move_value(const Tensor& value) {
  value.copy_from(read_value());
  node_->value = value;
  node_->value_memory.reset();
  node_->rounded.reset();
  place_.advance();
}

void Parameter::keep_rounded(const std::weak_ptr<const RoundedValue>& rounded) {
  node_->rounded = rounded;
  place_.advance();
  value_changed();
}

void Parameter::value_changed() const {
  node_->has_values = true;
  if (node_->value_memory) return;  // which rounds what it provides
  if (const auto rounded = node_->rounded.lock()) rounded->values.copy_from(node_->value);
}

}  // namespace tasuki
