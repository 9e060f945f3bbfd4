#include "guarded_device.hpp"

#include <functional>
#include <utility>
#include <vector>

#include "guarded_memory.hpp"
#include "tensor/backend.hpp"

namespace tasuki::testing {
namespace {

GuardedDeviceCounts counts;
bool records = true;

using Operation = std::function<void()>;

class OperationList final : public Recording {
 public:
  explicit OperationList(std::vector<Operation> operations) : operations_(std::move(operations)) {}
  void replay() override {
    ++counts.replays;
    const GuardedMemory::Access access;
    for (const Operation& operation : operations_) operation();
  }

 private:
  std::vector<Operation> operations_;
};

Backend& cpu() {
  return backend(Device::cpu());
}

// The host's view of device memory, for use inside operations.
Tensor host(const Tensor& x) {
  if (!x || x.device().is_cpu()) return x;
  auto view =
      std::make_shared<Storage>(x.raw(), x.bytes(), Device::cpu(), [x](void*, std::size_t) {});
  return {view, 0, x.shape(), x.dtype()};
}
// The same as what the CPU computes in.
Tensor wide(const Tensor& x) {
  const Tensor values = host(x);
  return values && values.dtype() != DType::float32 ? values.to(DType::float32) : values;
}

Tensor fresh(const Shape& shape, DType dtype) {
  return Tensor::empty(shape, dtype, Device::cuda(0));
}

struct FakeWorkspace : Workspace {
  std::shared_ptr<Workspace> of_pool;
  BatchNormResult of_batch_norm;
};

class GuardedBackend final : public Backend {
 public:
  std::string describe() const override { return "guarded host memory"; }

  std::shared_ptr<Storage> allocate(std::size_t bytes, Device device) override {
    return std::make_shared<Storage>(
        GuardedMemory::instance().acquire(bytes), bytes, device,
        [](void* block, std::size_t size) { GuardedMemory::instance().release(block, size); });
  }
  DeviceMemory memory(Device) override { return {0, 0, std::size_t{1} << 29}; }
  void reset_peak_memory(Device) override {}
  void copy(const Tensor& destination, const Tensor& source) override {
    const bool from_host = source.device().is_cpu(), to_host = destination.device().is_cpu();
    if (recording_ != nullptr && (from_host || to_host))
      fail(ErrorKind::unavailable, "values are copied between host and device in each step");
    counts.waits += to_host ? 1 : 0;
    submit([=] { cpu().copy(host(destination), host(source)); });
  }
  void fill(const Tensor& destination, double value) override {
    submit([=] { cpu().fill(host(destination), value); });
  }
  void synchronize(Device) override { ++counts.waits; }
  void* queue(Device) override { return nullptr; }
  bool is_idle(Device) override { return true; }

  std::unique_ptr<Recording> record(Device, const std::function<void()>& work) override {
    if (!records) return nullptr;
    std::vector<Operation> operations;
    recording_ = &operations;
    try {
      work();
    } catch (...) {
      recording_ = nullptr;
      throw;
    }
    recording_ = nullptr;
    ++counts.recordings;
    return std::make_unique<OperationList>(std::move(operations));
  }
  std::shared_ptr<Storage> allocate_mailbox(std::size_t bytes, Device) override {
    return allocate_host(bytes);
  }
  void post(const Tensor& table, const Tensor& row, std::span<const Tensor> scalars,
            const Tensor& clock) override {
    submit([=, scalars = std::vector(scalars.begin(), scalars.end())] {
      std::vector<Tensor> values;
      for (const Tensor& scalar : scalars) values.push_back(host(scalar));
      cpu().post(table, host(row), values, clock ? host(clock) : Tensor());
    });
  }

  void stamp(const Tensor& clock, StepClock::Moment moment) override {
    submit([=] { cpu().stamp(host(clock), moment); });
  }

  Tensor unary(Unary op, const Tensor& x, float slope) override {
    return like(x, [=] { return cpu().unary(op, wide(x), slope); });
  }
  Tensor unary_backward(Unary op, const Tensor& y, const Tensor& dy, float slope) override {
    return like(y, [=] { return cpu().unary_backward(op, wide(y), wide(dy), slope); });
  }
  Tensor add(const Tensor& a, const Tensor& b) override {
    return like(a, [=] { return cpu().add(wide(a), wide(b)); });
  }
  void accumulate(const Tensor& destination, const Tensor& source, float scale) override {
    submit([=] { cpu().accumulate(host(destination), host(source), scale); });
  }
  void scale(const Tensor& x, float factor) override {
    submit([=] { cpu().scale(host(x), factor); });
  }
  void move_averages(std::span<const MovingAverage> averages) override {
    std::vector<MovingAverage> on_host(averages.begin(), averages.end());
    for (MovingAverage& each : on_host)
      each = {host(each.average), host(each.value), each.decay, each.weight};
    submit([=] { cpu().move_averages(on_host); });
  }
  void accumulate_scalar(const Tensor& sum, const Tensor& value, double factor) override {
    submit([=] { cpu().accumulate_scalar(host(sum), host(value), factor); });
  }
  Tensor dropout(const Tensor& x, float ratio, const Tensor& seed, const Tensor& ids) override {
    return like(x, [=] { return cpu().dropout(wide(x), ratio, host(seed), host(ids)); });
  }
  Tensor concat(std::span<const Tensor>, int) override { missing("concat"); }
  Tensor take(const Tensor& x, int axis, std::int64_t begin, std::int64_t end) override {
    Shape shape = x.shape();
    shape[axis] = end - begin;
    return result(shape, x.dtype(), [=] { return cpu().take(host(x), axis, begin, end); });
  }
  Tensor gather(const Tensor& source, const Tensor& indices, DType dtype) override {
    return result(source.shape().with_items(indices.count()), dtype,
                  [=] { return cpu().gather(host(source), host(indices), dtype); });
  }

  Tensor transform_images(const Tensor& source, const Tensor& indices, const Tensor& ids,
                          const Tensor& epoch, const SeededImageTransform& transform,
                          DType dtype) override {
    return result(source.shape().with_items(indices.count()), dtype, [=] {
      return cpu().transform_images(host(source), host(indices), host(ids), host(epoch), transform,
                                    dtype);
    });
  }

  Tensor linear(const Tensor& x, const Tensor& w, const Tensor& b, bool relu) override {
    return result({x.shape()[0], w.shape()[0]}, x.dtype(),
                  [=] { return cpu().linear(wide(x), wide(w), wide(b), relu); });
  }
  Tensor linear_backward_data(const Tensor& dy, const Tensor& w) override {
    return result({dy.shape()[0], w.shape()[1]}, dy.dtype(),
                  [=] { return cpu().linear_backward_data(wide(dy), wide(w)); });
  }
  void linear_backward_weights(const Tensor& x, const Tensor& dy, const Tensor& dw, bool accumulate,
                               const Tensor& db) override {
    submit(
        [=] { cpu().linear_backward_weights(wide(x), wide(dy), host(dw), accumulate, host(db)); });
  }
  void backward_bias(const Tensor& dy, const Tensor& db, bool accumulate) override {
    submit([=] { cpu().backward_bias(wide(dy), host(db), accumulate); });
  }

  Tensor conv2d(const Tensor&, const Tensor&, const Tensor&, const Conv2dOptions&, Tensor*,
                bool) override {
    missing("conv2d");
  }
  Tensor conv2d_backward_data(const Tensor&, const Tensor&, const Shape&,
                              const Conv2dOptions&) override {
    missing("conv2d_backward_data");
  }
  void conv2d_backward_weights(const Tensor&, const Tensor&, const Tensor&, const Conv2dOptions&,
                               bool) override {
    missing("conv2d_backward_weights");
  }
  Tensor pool2d(const Tensor&, const Pool2dOptions&, std::shared_ptr<Workspace>*) override {
    missing("pool2d");
  }
  Tensor pool2d_backward(const Tensor&, const Shape&, const Pool2dOptions&,
                         const Workspace*) override {
    missing("pool2d_backward");
  }

  BatchNormResult batch_norm(const Tensor& x, const Tensor& gamma, const Tensor& beta, float eps,
                             bool relu) override {
    const Shape channels{x.shape()[1]};
    auto workspace = std::make_shared<FakeWorkspace>();
    const BatchNormResult made{fresh(x.shape(), x.dtype()), fresh(channels, DType::float32),
                               fresh(channels, DType::float32), workspace};
    submit([=] {
      BatchNormResult& found = workspace->of_batch_norm;
      found = cpu().batch_norm(wide(x), host(gamma), host(beta), eps, relu);
      host(made.y).copy_from(found.y.plain());
      host(made.mean).copy_from(found.mean);
      host(made.variance).copy_from(found.variance);
    });
    return made;
  }
  Tensor batch_norm_inference(const Tensor& x, const Tensor& gamma, const Tensor& beta,
                              const Tensor& mean, const Tensor& variance, float eps,
                              bool relu) override {
    return like(x, [=] {
      return cpu().batch_norm_inference(wide(x), host(gamma), host(beta), host(mean),
                                        host(variance), eps, relu);
    });
  }
  Tensor batch_norm_backward(const Tensor& x, const BatchNormResult& forward, const Tensor& dy,
                             const Tensor& gamma, const Tensor& beta, float eps, bool relu,
                             const Tensor& dgamma, const Tensor& dbeta, bool accumulate,
                             const Tensor& added) override {
    const auto workspace = std::dynamic_pointer_cast<FakeWorkspace>(forward.workspace);
    return like(x, [=] {
      return cpu().batch_norm_backward(wide(x), workspace->of_batch_norm, wide(dy), host(gamma),
                                       host(beta), eps, relu, host(dgamma), host(dbeta), accumulate,
                                       wide(added));
    });
  }
  Tensor batch_norm_sums(const Tensor& x) override {
    return result({2 * x.shape()[1] + 1}, DType::float64,
                  [=] { return cpu().batch_norm_sums(wide(x)); });
  }
  BatchNormResult batch_norm_by_sums(const Tensor& x, const Tensor& gamma, const Tensor& beta,
                                     const Tensor& sums, float eps, bool relu,
                                     const BatchNormAverages& averages) override {
    const Shape channels{x.shape()[1]};
    auto workspace = std::make_shared<FakeWorkspace>();
    const BatchNormResult made{fresh(x.shape(), x.dtype()), fresh(channels, DType::float32),
                               fresh(channels, DType::float32), workspace};
    submit([=] {
      BatchNormResult& found = workspace->of_batch_norm;
      found =
          cpu().batch_norm_by_sums(wide(x), host(gamma), host(beta), host(sums), eps, relu,
                                   {host(averages.mean), host(averages.variance), averages.decay});
      host(made.y).copy_from(found.y.plain());
      host(made.mean).copy_from(found.mean);
      host(made.variance).copy_from(found.variance);
    });
    return made;
  }
  BatchNormGradientSums batch_norm_gradient_sums(const Tensor& x, const BatchNormResult& forward,
                                                 const Tensor& dy, const Tensor& gamma,
                                                 const Tensor& beta, float eps,
                                                 bool relu) override {
    const auto workspace = std::dynamic_pointer_cast<FakeWorkspace>(forward.workspace);
    const BatchNormGradientSums made{fresh({2 * x.shape()[1]}, DType::float32),
                                     fresh(x.shape(), DType::float32)};
    submit([=] {
      const BatchNormGradientSums found = cpu().batch_norm_gradient_sums(
          wide(x), workspace->of_batch_norm, wide(dy), host(gamma), host(beta), eps, relu);
      host(made.sums).copy_from(found.sums);
      host(made.rest).copy_from(found.rest.plain());
    });
    return made;
  }
  Tensor batch_norm_gradient(const Tensor& x, const BatchNormResult& forward, const Tensor& dy,
                             const Tensor& gamma, const Tensor& beta, float eps, bool relu,
                             const BatchNormGradientSums& own, const Tensor& all,
                             const Tensor& added) override {
    const auto workspace = std::dynamic_pointer_cast<FakeWorkspace>(forward.workspace);
    return like(x, [=] {
      return cpu().batch_norm_gradient(wide(x), workspace->of_batch_norm, wide(dy), host(gamma),
                                       host(beta), eps, relu, {host(own.sums), host(own.rest)},
                                       host(all), wide(added));
    });
  }

  CrossEntropyResult softmax_cross_entropy(const Tensor& x, const Tensor& t,
                                           AccuracyResult* accuracy) override {
    if (accuracy != nullptr) *accuracy = count_correct(x, t);
    const CrossEntropyResult made{fresh({}, DType::float32), fresh(x.shape(), DType::float32),
                                  fresh({}, DType::int64), x.dtype()};
    submit([=] {
      const CrossEntropyResult found = cpu().softmax_cross_entropy(wide(x), host(t));
      host(made.loss).copy_from(found.loss);
      host(made.probabilities).copy_from(found.probabilities);
      host(made.counted).copy_from(found.counted);
    });
    return made;
  }
  Tensor softmax_cross_entropy_backward(const CrossEntropyResult& forward, const Tensor& t,
                                        const Tensor& dy) override {
    return result(forward.probabilities.shape(), forward.dtype, [=] {
      const CrossEntropyResult seen{host(forward.loss), host(forward.probabilities),
                                    host(forward.counted), DType::float32};
      return cpu().softmax_cross_entropy_backward(seen, host(t), host(dy));
    });
  }
  AccuracyResult count_correct(const Tensor& x, const Tensor& t) override {
    const AccuracyResult made{fresh({}, DType::int64), fresh({}, DType::int64)};
    submit([=] {
      const AccuracyResult found = cpu().count_correct(wide(x), host(t));
      host(made.correct).copy_from(found.correct);
      host(made.counted).copy_from(found.counted);
    });
    return made;
  }

  ElementwiseOperations& elementwise() override { missing("elementwise"); }
  ArrayOperations& arrays() override { missing("arrays"); }
  NormalizationOperations& normalization() override { missing("normalization"); }
  SequenceOperations& sequences() override { missing("sequences"); }
  AttentionOperations& attention() override { missing("attention"); }
  ImageOperations& images() override { missing("images"); }
  LossOperations& losses() override { missing("losses"); }

  void update(const UpdatePass& pass) override {
    submit([=] { cpu().update(pass); });
  }
  double squared_norm(const Tensor& x) override {
    if (recording_ != nullptr)
      fail(ErrorKind::unavailable, "a norm is read by the host in each step");
    ++counts.waits;
    const GuardedMemory::Access access;
    return cpu().squared_norm(host(x));
  }
  void norms(const NormPass& pass) override {
    submit([=] { cpu().norms(pass); });
  }
  void lamb(const LambPass& pass) override {
    submit([=] { cpu().lamb(pass); });
  }
  void clip(const Tensor& x, const LateScale& scale, double threshold) override {
    submit([=] { cpu().clip(host(x), scale, threshold); });
  }
  void lars(const Tensor& g, const Tensor& w, const LarsRule& rule) override {
    submit([=] { cpu().lars(host(g), host(w), rule); });
  }
  void unscale(const Tensor& x, const Tensor& state) override {
    submit([=] { cpu().unscale(host(x), host(state)); });
  }
  void find_non_finite(const Tensor& x, const Tensor& found) override {
    submit([=] { cpu().find_non_finite(host(x), host(found)); });
  }
  void adjust_loss_scale(const Tensor& state, const LossScaleRule& rule) override {
    submit([=] { cpu().adjust_loss_scale(host(state), rule); });
  }

  void submit(Operation operation) {
    if (recording_ != nullptr) {
      recording_->push_back(std::move(operation));
      return;
    }
    ++counts.operations;
    const GuardedMemory::Access access;
    operation();
  }

 private:
  [[noreturn]] static void missing(const char* what) {
    fail(ErrorKind::internal, "the guarded device has no {}", what);
  }

  Tensor result(const Shape& shape, DType dtype, std::function<Tensor()> compute) {
    const Tensor made = fresh(shape, dtype);
    submit([=] { host(made).copy_from(compute().plain()); });
    return made;
  }
  Tensor like(const Tensor& x, std::function<Tensor()> compute) {
    return result(x.shape(), x.dtype(), std::move(compute));
  }

  std::vector<Operation>* recording_ = nullptr;
};

}  // namespace

void register_guarded_device() {
  register_backend(DeviceKind::cuda, std::make_unique<GuardedBackend>());
}

void on_guarded_device(std::function<void()> work) {
  static_cast<GuardedBackend&>(backend(Device::cuda(0))).submit(std::move(work));
}

void set_guarded_device_records(bool on) {
  records = on;
}

GuardedDeviceCounts guarded_device_counts() {
  return counts;
}

}  // namespace tasuki::testing
