// The exchange of gradients, blocking and in the background, and the broadcast of rank 0's values.
#include <utility>

#include "communicator/communicator.hpp"
#include "communicator/exchange_chain.hpp"
#include "communicator/exchange_timer.hpp"
#include "communicator/gpu/gpu_exchange.hpp"
#include "communicator/host_values.hpp"
#include "communicator/mpi/transfer.hpp"
#include "communicator/slice_queue.hpp"
#include "core/background_thread.hpp"
#include "core/log.hpp"
#include "tensor/backend.hpp"

namespace tasuki {
namespace {

bool has_thread_level_multiple() {
  int provided = MPI_THREAD_SINGLE;
  TASUKI_MPI(MPI_Query_thread, &provided);
  return provided >= MPI_THREAD_MULTIPLE;
}

}  // namespace

PendingExchange::PendingExchange(std::function<void()> finish,
                                 std::shared_ptr<std::atomic<int>> under_way,
                                 std::function<void()> advance)
    : finish_(std::move(finish)), under_way_(std::move(under_way)), advance_(std::move(advance)) {
  if (under_way_) ++*under_way_;
}

// Destroying an unfinished exchange would leave its buffer in use.
PendingExchange::~PendingExchange() {
  if (!finish_) return;
  try {
    wait();
  } catch (const ExchangeChain::NotBegun&) {
  } catch (const std::exception& error) {
    log_warning("an exchange of gradients failed, and wait() was not called on it: {}",
                error.what());
  }
}

void PendingExchange::wait() {
  TASUKI_CHECK(finish_ != nullptr, "wait() was called twice on a gradient exchange");
  if (under_way_) --*under_way_;
  std::exchange(finish_, nullptr)();
}

void Communicator::sum_gradients(const GradientView& gradients) {
  TASUKI_CHECK(gradients.arena.defined(), "sum_gradients of an undefined tensor");
  TASUKI_CHECK(
      !gradients.residual.defined() || gradients.residual.count() == gradients.arena.count(),
      "a residual of {} elements for {} gradients", gradients.residual.count(),
      gradients.arena.count());
  const auto waiting = wait_in(Waiting::sum_gradients, gradients.arena.bytes());
  compare_calls("sum_gradients of {} {}", gradients.arena.count(),
                name_of(gradients.arena.dtype()));
  if (!exchanges_gradients()) return;
  check_free();
  if (size() == 1) return;
  if (is_on_gpu(gradients.arena)) return sum_gradients_on_gpu(gradients);
  const ExchangeTimer timer(exchange_seconds_, gradients.first,
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
  return background == Background::thread ? has_thread_level_multiple() : sums_in_slices();
}

void Communicator::do_work_of_exchange(const std::function<void()>& work) {
  struct Scope {
    bool& flag;
    bool before;
    ~Scope() { flag = before; }
  } const scope{works_on_exchange_, works_on_exchange_};
  works_on_exchange_ = true;
  work();
}

std::unique_ptr<PendingExchange> Communicator::start_sum_gradients(const GradientView& gradients,
                                                                   Background background) {
  compare_calls("start_sum_gradients of {} {}", gradients.arena.count(),
                name_of(gradients.arena.dtype()));
  if (!exchanges_gradients()) return std::make_unique<PendingExchange>([] {}, under_way_);
  // The span of segments may end before the exchange does.
  std::function<void()> work =
      [this, view = gradients,
       segments = std::vector(gradients.segments.begin(), gradients.segments.end())]() mutable {
        view.segments = segments;
        sum_gradients(view);
      };
  std::function<void()> join = [] {};
  if (is_on_gpu(gradients.arena)) {
    const auto place = std::make_shared<GpuExchange::Background>(gpu().background_start());
    work = [this, place, work] { gpu().in_background(*place, work); };
    join = [this, place, arena = gradients.arena] {  // keeps the arena's memory until then
      if (place->end) gpu().channel().let_backend_follow(*place->end);
    };
    if (queues_on_gpu()) {
      do_work_of_exchange(work);
      return std::make_unique<PendingExchange>(join, under_way_);
    }
  } else if (background == Background::slices) {
    return start_in_slices(gradients, work);
  }
  return start_in_thread(std::move(work), std::move(join),
                         static_cast<std::int64_t>(gradients.arena.bytes()));
}

std::unique_ptr<PendingExchange> Communicator::start_in_thread(std::function<void()> work,
                                                               std::function<void()> join,
                                                               std::int64_t bytes) {
  // Without MPI_THREAD_MULTIPLE another thread may not call MPI, so wait() does all the work.
  if (!has_thread_level_multiple())
    return std::make_unique<PendingExchange>(
        [work = std::move(work), join = std::move(join)] {
          work();
          join();
        },
        nullptr);
  if (!background_) background_ = std::make_unique<BackgroundThread>();
  if (*under_way_ == 0) chain_ = std::make_shared<ExchangeChain>();
  const std::shared_future<void> result =
      background_->start([work = std::move(work), chain = chain_] { chain->run(work); });
  // The watchdog knows this exchange by its number among the communicator's operations.
  const std::int64_t number = ++operations_;
  return std::make_unique<PendingExchange>(
      [join = std::move(join), result, id = id_, number, bytes] {
        const WaitScope waiting(Waiting::sum_gradients, id, number, bytes);
        result.get();
        join();
      },
      under_way_);
}

std::unique_ptr<PendingExchange> Communicator::start_in_slices(const GradientView& gradients,
                                                               const std::function<void()>& work) {
  if (!slices_) slices_ = std::make_shared<SliceQueue>();
  if (*under_way_ == 0) chain_ = std::make_shared<ExchangeChain>();
  const auto bytes = static_cast<std::int64_t>(gradients.arena.bytes());
  const bool may_be_sliced = gradients.is_agreed && gradients.arena.device().is_cpu() &&
                             gradients.arena.count() > 0 && size() > 1;
  const auto exchange = std::make_shared<SliceQueue::Exchange>(SliceQueue::Exchange{
      .chain = chain_,
      .start =
          [this, may_be_sliced, view = gradients,
           segments = std::vector(gradients.segments.begin(), gradients.segments.end())]() mutable {
            view.segments = segments;
            return may_be_sliced ? start_sum(view) : nullptr;
          },
      .whole = work,
      .start_timer =
          [this, first = gradients.first, bytes] {
            return std::make_unique<ExchangeTimer>(exchange_seconds_, first, bytes);
          }});
  slices_->add(exchange);
  const std::int64_t number = ++operations_;
  return std::make_unique<PendingExchange>(
      [this, exchange, slices = slices_, number, bytes] {
        const WaitScope waiting(Waiting::sum_gradients, id_, number, bytes);
        do_work_of_exchange([&] { slices->finish(*exchange); });
      },
      under_way_, [this, slices = slices_] { do_work_of_exchange([&] { slices->advance(); }); });
}

void Communicator::bcast_data(const Tensor& values) {
  TASUKI_CHECK(values.defined(), "bcast_data of an undefined tensor");
  const auto waiting = wait_in(Waiting::bcast_data, values.bytes());
  compare_calls("bcast_data of {} {}", values.count(), name_of(values.dtype()));
  require_agreement("bcast_data",
                    fmt::format("{} {}", name_of(values.dtype()), values.shape().text()));
  if (is_on_gpu(values)) return gpu().in_order([&] { bcast_on_gpu(values); });
  const HostValues host(values);
  tasuki::bcast(host.bytes(), 0, comm().get(), call_bytes());
  host.write_back();
}

}  // namespace tasuki
