#include "nn/functions/arrays.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "nn/call_recorder.hpp"
#include "nn/functions/building_blocks.hpp"

namespace tasuki::functions {
namespace {

ArrayOperations& arrays_of(const Tensor& x) {
  return backend(x.device()).arrays();
}

// Writes `part` to its place in an array that is `value` elsewhere.
Tensor surrounded(const Tensor& part, const Shape& whole, const View& place, float value) {
  Tensor result = Tensor::full(whole, static_cast<double>(value), part.dtype(), part.device());
  arrays_of(part).put_view(result, place, part);
  return result;
}

// Where a part, whose steps are those of the array that it is in, begins along each axis.
std::vector<std::int64_t> begin_of(const View& part) {
  std::vector<std::int64_t> begin;
  std::int64_t left = part.offset;
  for (int axis = 0; axis < part.shape.rank(); ++axis) {
    const std::int64_t stride = part.strides[static_cast<std::size_t>(axis)];
    begin.push_back(stride == 0 ? 0 : left / stride);
    left -= begin.back() * stride;
  }
  return begin;
}

class BroadcastTo final : public Function {
 public:
  explicit BroadcastTo(const Shape& from) : from_(from) {}
  const char* name() const override { return "broadcast_to"; }
  void backward(const Tensor& dy, Gradients& gradients) override {
    gradients.add(0, sum_to(dy, from_, dy.dtype()));
  }

 private:
  Shape from_;
};

class Transpose final : public Function {
 public:
  Transpose(std::vector<std::int64_t> axes, View back) : axes_(std::move(axes)), back_(back) {}
  const char* name() const override { return "transpose"; }
  void describe(CallSettings& settings) const override { settings.set("axes", axes_); }
  void backward(const Tensor& dy, Gradients& gradients) override {
    gradients.add(0, arrays_of(dy).take_view(dy, back_));
  }

 private:
  std::vector<std::int64_t> axes_;
  View back_;
};

class Slice final : public Function {
 public:
  Slice(const Shape& from, View place) : from_(from), place_(place) {}
  const char* name() const override { return "slice"; }
  void describe(CallSettings& settings) const override { settings.set("begin", begin_of(place_)); }
  void backward(const Tensor& dy, Gradients& gradients) override {
    gradients.add(0, surrounded(dy, from_, place_, 0));
  }

 private:
  Shape from_;
  View place_;
};

class Pad final : public Function {
 public:
  Pad(View place, float value) : place_(place), value_(value) {}
  const char* name() const override { return "pad"; }
  void describe(CallSettings& settings) const override {
    settings.set("before", begin_of(place_));
    settings.set("value", static_cast<double>(value_));
  }
  void backward(const Tensor& dy, Gradients& gradients) override {
    gradients.add(0, arrays_of(dy).take_view(dy, place_));
  }

 private:
  View place_;
  float value_;
};

// A split array in the graph. Its parts write their gradients into one array; this function runs
// after all of them and passes it on. A later pass through the same graph begins without an array.
class SplitArray final : public Function {
 public:
  explicit SplitArray(std::shared_ptr<Tensor> whole) : whole_(std::move(whole)) {}
  const char* name() const override { return "split"; }
  void backward(const Tensor& dy, Gradients& gradients) override {
    drop_gradients();
    gradients.add(0, dy);
  }
  void drop_gradients() noexcept override { *whole_ = {}; }

 private:
  std::shared_ptr<Tensor> whole_;
};

class SplitPart final : public Function {
 public:
  SplitPart(std::shared_ptr<Tensor> whole, const Shape& from, View place)
      : whole_(std::move(whole)), from_(from), place_(place) {}
  const char* name() const override { return "split"; }
  void describe(CallSettings& settings) const override { settings.set("begin", begin_of(place_)); }

  void backward(const Tensor& dy, Gradients& gradients) override {
    if (*whole_) {
      arrays_of(dy).put_view(*whole_, place_, dy);
    } else {
      *whole_ = surrounded(dy, from_, place_, 0);
      gradients.add(0, *whole_);
    }
  }

 private:
  std::shared_ptr<Tensor> whole_;  // a pass's gradient, once a part has one
  Shape from_;
  View place_;
};

// Elements [begin, begin + size) of an axis of `view`.
void narrow(View& view, int axis, std::int64_t begin, std::int64_t size) {
  view.offset += begin * view.strides[static_cast<std::size_t>(axis)];
  view.shape[axis] = size;
}

View transposed(const Shape& shape, const std::vector<int>& axes) {
  const View from(shape);
  View view(shape);
  for (int i = 0; i < shape.rank(); ++i) {
    const int axis = axes[static_cast<std::size_t>(i)];
    view.shape[i] = shape[axis];
    view.strides[static_cast<std::size_t>(i)] = from.strides[static_cast<std::size_t>(axis)];
  }
  return view;
}

Variable sliced(const Variable& x, const View& view) {
  return Function::record(arrays_of(x.value()).take_view(x.value(), view), {x},
                          [&] { return std::make_unique<Slice>(x.shape(), view); });
}

// A shape with one axis more, or one axis less.
Shape with_axis(const Shape& shape, int axis) {
  std::vector<std::int64_t> sizes(shape.begin(), shape.end());
  sizes.insert(sizes.begin() + axis, 1);
  return Shape(std::span<const std::int64_t>(sizes));
}
Shape without_axis(const Shape& shape, int axis) {
  std::vector<std::int64_t> sizes(shape.begin(), shape.end());
  sizes.erase(sizes.begin() + axis);
  return Shape(std::span<const std::int64_t>(sizes));
}

}  // namespace

Variable broadcast_to(const Variable& x, const Shape& shape) {
  const Shape both[] = {x.shape(), shape};
  TASUKI_CHECK(broadcast_shape(both, "broadcast_to") == shape,
               "broadcast_to: an array of {} cannot be repeated to {}", x.shape().text(),
               shape.text());
  View view(shape);
  view.strides = broadcast_strides(x.shape(), shape);
  return Function::record(arrays_of(x.value()).take_view(x.value(), view), {x},
                          [&] { return std::make_unique<BroadcastTo>(x.shape()); });
}

Variable transpose(const Variable& x, const std::vector<int>& axes) {
  const int rank = x.shape().rank();
  std::vector<int> order(axes.size());
  std::ranges::transform(axes, order.begin(),
                         [&](int axis) { return checked_axis(axis, x.shape(), "transpose"); });
  if (axes.empty())
    for (int axis = rank; axis-- > 0;) order.push_back(axis);
  std::vector<int> inverse(static_cast<std::size_t>(rank), -1);
  for (std::size_t i = 0; i < order.size() && i < inverse.size(); ++i)
    inverse[static_cast<std::size_t>(order[i])] = static_cast<int>(i);
  TASUKI_CHECK(std::ssize(order) == rank && !std::ranges::count(inverse, -1),
               "transpose: the axes {} are not a permutation of the axes of {}",
               fmt::join(axes, ", "), x.shape().text());
  const View view = transposed(x.shape(), order);
  return Function::record(arrays_of(x.value()).take_view(x.value(), view), {x}, [&] {
    return std::make_unique<Transpose>(std::vector<std::int64_t>(order.begin(), order.end()),
                                       transposed(view.shape, inverse));
  });
}

Variable slice(const Variable& x, const std::vector<AxisRange>& ranges) {
  TASUKI_CHECK(std::ssize(ranges) <= x.shape().rank(), "slice: {} ranges for an array of {}",
               ranges.size(), x.shape().text());
  View view(x.shape());
  for (int axis = 0; axis < static_cast<int>(ranges.size()); ++axis) {
    const std::int64_t size = x.shape()[axis];
    const auto place = [&](std::int64_t at) {
      return std::clamp<std::int64_t>(at < 0 ? at + size : at, 0, size);
    };
    const auto [from, to] = ranges[static_cast<std::size_t>(axis)];
    const std::int64_t begin = place(from);
    narrow(view, axis, begin, std::max<std::int64_t>(0, place(to) - begin));
  }
  return sliced(x, view);
}

Variable get_item(const Variable& x, std::int64_t index, int axis) {
  const int along = checked_axis(axis, x.shape(), "get_item");
  const std::int64_t size = x.shape()[along], at = index < 0 ? index + size : index;
  TASUKI_CHECK(at >= 0 && at < size, "get_item: axis {} of {} has no index {}", axis,
               x.shape().text(), index);
  View view(x.shape());
  narrow(view, along, at, 1);
  return reshape(sliced(x, view), without_axis(view.shape, along));
}

std::vector<Variable> split_at(const Variable& x, const std::vector<std::int64_t>& places,
                               int axis) {
  const int along = checked_axis(axis, x.shape(), "split");
  const std::int64_t size = x.shape()[along];
  const auto gradient = std::make_shared<Tensor>();
  const Variable source =
      Function::record(x.value(), {x}, [&] { return std::make_unique<SplitArray>(gradient); });
  std::vector<Variable> parts;
  for (std::size_t i = 0; i <= places.size(); ++i) {
    const std::int64_t begin = i == 0 ? 0 : places[i - 1];
    const std::int64_t end = i == places.size() ? size : places[i];
    TASUKI_CHECK(begin >= 0 && begin <= end && end <= size,
                 "split: the indices {} do not ascend within axis {} of {}",
                 fmt::join(places, ", "), axis, x.shape().text());
    View view(x.shape());
    narrow(view, along, begin, end - begin);
    parts.push_back(
        Function::record(arrays_of(x.value()).take_view(x.value(), view), {source},
                         [&] { return std::make_unique<SplitPart>(gradient, x.shape(), view); }));
  }
  return parts;
}

std::vector<Variable> split(const Variable& x, int parts, int axis) {
  const std::int64_t size = x.shape()[checked_axis(axis, x.shape(), "split")];
  TASUKI_CHECK(parts >= 1 && size % parts == 0,
               "split: axis {} of {} cannot be divided into {} "
               "equal parts",
               axis, x.shape().text(), parts);
  std::vector<std::int64_t> places;
  for (int i = 1; i < parts; ++i) places.push_back(size / parts * i);
  return split_at(x, places, axis);
}

std::vector<Variable> separate(const Variable& x, int axis) {
  const int along = checked_axis(axis, x.shape(), "separate");
  if (x.shape()[along] == 0) return {};
  std::vector<Variable> items = split(x, static_cast<int>(x.shape()[along]), along);
  for (Variable& item : items) item = squeeze(item, along);
  return items;
}

Variable stack(const std::vector<Variable>& parts, int axis) {
  TASUKI_CHECK(!parts.empty(), "stack: expected values, found none");
  const Shape expanded = expand_dims(parts[0], axis).shape();
  const int along = axis < 0 ? axis + expanded.rank() : axis;
  std::vector<Variable> rows;
  rows.reserve(parts.size());
  for (const Variable& part : parts) {
    TASUKI_CHECK(part.shape() == parts[0].shape(), "stack: shapes {} and {} differ",
                 parts[0].shape().text(), part.shape().text());
    rows.push_back(reshape(part, expanded));
  }
  return concat(rows, along);
}

Variable pad(const Variable& x, const std::vector<AxisPadding>& widths, float value) {
  TASUKI_CHECK(std::ssize(widths) <= x.shape().rank(), "pad: {} widths for an array of {}",
               widths.size(), x.shape().text());
  Shape whole = x.shape();
  for (std::size_t axis = 0; axis < widths.size(); ++axis) {
    const auto [before, after] = widths[axis];
    TASUKI_CHECK(before >= 0 && after >= 0, "pad: negative widths {} and {} of axis {}", before,
                 after, axis);
    whole[static_cast<int>(axis)] += before + after;
  }
  View place(whole);
  for (int axis = 0; axis < static_cast<int>(widths.size()); ++axis)
    narrow(place, axis, widths[static_cast<std::size_t>(axis)].before, x.shape()[axis]);
  return Function::record(surrounded(x.value().plain(), whole, place, value), {x},
                          [&] { return std::make_unique<Pad>(place, value); });
}

Variable expand_dims(const Variable& x, int axis) {
  const int rank = x.shape().rank(), along = axis < 0 ? axis + rank + 1 : axis;
  TASUKI_CHECK(along >= 0 && along <= rank && rank < Shape::max_rank,
               "expand_dims: an array of {} cannot get a new axis {}", x.shape().text(), axis);
  return reshape(x, with_axis(x.shape(), along));
}

Variable squeeze(const Variable& x, int axis) {
  const int along = checked_axis(axis, x.shape(), "squeeze");
  TASUKI_CHECK(x.shape()[along] == 1, "squeeze: axis {} of {} does not have size 1", axis,
               x.shape().text());
  return reshape(x, without_axis(x.shape(), along));
}

}  // namespace tasuki::functions
