// The exchange of gradients, blocking and in the background, and the broadcast of rank 0's values.
#include <algorithm>
#include <memory>
#include <optional>
#include <vector>

#include "communicator/algorithms/shard_tree.hpp"
#include "communicator/communicator.hpp"
#include "communicator/exchanges_under_way.hpp"
#include "communicator/gpu/gpu_exchange.hpp"
#include "communicator/host_values.hpp"
#include "communicator/mpi/operation_scopes.hpp"
#include "communicator/mpi/ranks.hpp"
#include "communicator/mpi/transfer.hpp"
#include "core/polite_wait.hpp"
#include "tensor/backend.hpp"

namespace tasuki {
namespace {

// The caller's span of segments may end before the exchange does.
struct KeptGradients {
  explicit KeptGradients(const GradientView& gradients)
      : view(gradients), segments_(gradients.segments.begin(), gradients.segments.end()) {
    view.segments = segments_;
  }
  KeptGradients(const KeptGradients&) = delete;
  KeptGradients& operator=(const KeptGradients&) = delete;

  GradientView view;

 private:
  std::vector<GradientView::Segment> segments_;
};

}  // namespace

void Communicator::sum_gradients(const GradientView& gradients) {
  TASUKI_CHECK(gradients.arena.defined(), "sum_gradients of an undefined tensor");
  TASUKI_CHECK(
      !gradients.residual.defined() || gradients.residual.count() == gradients.arena.count(),
      "a residual of {} elements for {} gradients", gradients.residual.count(),
      gradients.arena.count());
  const CollectiveScope scope(*this, Waiting::sum_gradients, gradients.arena.bytes(),
                              "sum_gradients of {} {}", gradients.arena.count(),
                              name_of(gradients.arena.dtype()));
  if (!exchanges_gradients()) return;
  check_free();
  if (size() == 1) return;
  if (is_on_gpu(gradients.arena)) return sum_gradients_on_gpu(gradients);
  const ExchangesUnderWay::Timer timer(*exchanges_, gradients.first,
                                       static_cast<std::int64_t>(gradients.arena.bytes()));
  const HostValues values(gradients.arena);
  GradientView on_host = gradients;
  on_host.arena = values.tensor();
  sum(on_host);
  values.write_back();
}

void Communicator::agree_on(const GradientView& gradients) {
  const Tensor& arena = gradients.arena;
  if (!checks_agreement() && !gradients.is_agreed)
    require_agreement("sum_gradients",
                      fmt::format("{} of {}", arena.count(), name_of(arena.dtype())));
}

void Communicator::sum(const GradientView& gradients) {
  agree_on(gradients);
  if (gradients.shards)
    fail(ErrorKind::usage, "communicator {} does not add sums of shards in their order", name());
  combine(gradients.arena, ReduceOp::sum);
}

Wire Communicator::wire_of(const GradientView& gradients) const {
  return {.format = wire_format(options().wire_dtype, size(), gradients.wire_scale_hint),
          .exact_from = gradients.arena.count() - gradients.exact_at_end,
          .residual = gradients.residual.defined() ? gradients.residual.data<float>() : nullptr};
}

void Communicator::mean_gradients(const GradientView& gradients, double divisor) {
  sum_gradients(gradients);
  const double count = divisor == 0 ? size() : divisor;
  if (count != 1)
    backend(gradients.arena.device()).scale(gradients.arena, static_cast<float>(1 / count));
}

std::unique_ptr<SlicedWork> Communicator::start_sum(const GradientView& /*gradients*/) {
  return nullptr;
}

bool Communicator::supports(Background background) const {
  return background == Background::thread ? ExchangesUnderWay::can_use_thread() : sums_in_slices();
}

double Communicator::exchange_seconds() const {
  return exchanges_->seconds();
}

std::unique_ptr<PendingExchange> Communicator::start_sum_gradients(const GradientView& gradients,
                                                                   Background background) {
  handles_->departures.refuse_if_over();
  CollectiveScope::compare_calls(*this, "start_sum_gradients of {} {}", gradients.arena.count(),
                                 name_of(gradients.arena.dtype()));
  if (!exchanges_gradients()) return exchanges_->start_queued([] {}, [] {});
  const auto kept = std::make_shared<const KeptGradients>(gradients);
  const auto work = [this, kept] {
    std::optional<UnhurriedWaits> waits;
    if (kept->view.is_unhurried) waits.emplace();
    sum_gradients(kept->view);
  };
  if (is_on_gpu(gradients.arena)) {
    const auto place = std::make_shared<GpuExchange::Background>(gpu().background_start());
    const auto work_on_gpu = [this, place, work] { gpu().in_background(*place, work); };
    const auto join = [this, place, kept] {  // keeps the arena's memory until then
      if (place->end) gpu().channel().let_backend_follow(*place->end);
    };
    return queues_on_gpu() ? exchanges_->start_queued(work_on_gpu, join)
                           : exchanges_->start_in_thread(gradients, work_on_gpu, join);
  }
  if (background == Background::thread) return exchanges_->start_in_thread(gradients, work, [] {});
  const bool may_be_sliced = gradients.is_agreed && gradients.arena.device().is_cpu() &&
                             gradients.arena.count() > 0 && size() > 1;
  const auto start = [this, kept, may_be_sliced] {
    return may_be_sliced ? start_sum(kept->view) : nullptr;
  };
  return exchanges_->start_in_slices(gradients, start, work);
}

std::size_t Communicator::arrays_for(const ShardSources& shards) const {
  const auto node_of = [this](int rank) {
    return topology_.node_of[static_cast<std::size_t>(rank)];
  };
  return std::max(shards.most(),
                  shards.added_up(static_cast<std::size_t>(inter_size()), node_of).most());
}

void Communicator::bcast_data(const Tensor& values) {
  TASUKI_CHECK(values.defined(), "bcast_data of an undefined tensor");
  const CollectiveScope scope(*this, Waiting::bcast_data, values.bytes(), "bcast_data of {} {}",
                              values.count(), name_of(values.dtype()));
  require_agreement("bcast_data",
                    fmt::format("{} {}", name_of(values.dtype()), values.shape().text()));
  if (is_on_gpu(values)) return gpu().in_order([&] { bcast_on_gpu(values); });
  const HostValues host(values);
  tasuki::bcast(host.bytes(), 0, comm().get(), call_bytes());
  host.write_back();
}

}  // namespace tasuki
