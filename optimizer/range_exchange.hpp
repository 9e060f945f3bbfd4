// RangeExchange: sums a model's gradients over the ranks, range by range of their arena, while the
// backward pass still computes others.
//
// Ranges are a function of the model. A range is complete when the last gradient in it is written.
// All ranks start the ranges in the same order, whatever the order in which they complete here: it
// is learned in the first step, from the lowest rank that had examples, and agreed upon before the
// second. Ranges that are not complete at the end of the backward pass (parameters that the loss
// did not use) follow in that order.
//
// On GPUs, with communicators that queue their exchanges there, a range's sum is queued beside the
// computation when its last gradient is queued, so recorded steps contain it. Others exchange all
// gradients as one range after the backward pass.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "tasuki/core/stopwatch.hpp"
#include "tasuki/optimizer/exchange_form.hpp"
#include "tasuki/optimizer/gradient_exchange.hpp"

namespace tasuki {

// Consecutive ranges of an arena of `count` elements, parameters at `entries` and the notices in
// the last range. Small parameters share a range, and one that is larger than `range_bytes` is
// divided. Ranges begin at multiples of 16 elements.
std::vector<Range> exchange_ranges(const std::vector<ParameterArena::Entry>& entries,
                                   std::int64_t count, std::int64_t range_bytes);

class RangeExchange final : public GradientExchange {
 public:
  // All but the settings outlive the exchange. `needed`: GradientView's. Collective if gradients
  // are compressed.
  RangeExchange(const ParameterArena& arena, Communicator& communicator,
                const ExchangeSettings& settings, std::span<const Range> needed = {});
  ~RangeExchange() override;

  // This rank cannot know whether the others know the number of examples, and assumes that they do
  // as in the last step.
  void begin_without_gradients() override;
  void ready(Parameter& parameter) override;
  void advance() override;
  void set_examples(std::int64_t examples) override;
  std::vector<Tensor> carried_over() const override;
  // Once all ranks have agreed on the order.
  bool is_settled() const override { return mode() == ExchangeMode::whole || is_agreed_; }
  std::string describe() const override;
  const PowerSgd* power_sgd() const override { return power_sgd_.get(); }

  // Numbers of ranges, in the order in which they are exchanged.
  const std::vector<std::size_t>& order() const { return order_; }

 private:
  // `mode` is not empty.
  RangeExchange(ExchangeMode mode, const ParameterArena& arena, Communicator& communicator,
                const ExchangeSettings& settings, std::span<const Range> needed);

  // Where errors are kept for the next step and the number of examples on all ranks is not known,
  // the ranks add up their own in one more small message. Collective in the second step.
  void begin_step(const Examples& examples) override;
  void give_up_step() override;
  std::optional<Sums> finish_step() override;

  GradientView view_of(std::size_t range) const;
  double wire_scale_hint() const { return static_cast<double>(examples_.global.value_or(0)); }
  void complete(std::size_t range);
  void start_complete_ranges();
  void agree_on_order();
  Tensor errors() const;
  void adapt_errors();
  bool overlaps() const { return is_agreed_ && form_ != ExchangeForm::whole; }
  void measure_step();

  const ParameterArena& arena_;
  Communicator& communicator_;
  std::span<const Range> needed_;
  std::vector<std::vector<GradientView::Segment>> segments_;  // of each range, from its begin
  std::unordered_map<const Parameter*, Range> ranges_of_;     // numbers of ranges
  std::vector<int> parameters_in_;                            // each range
  Tensor residual_;                                           // of error feedback, or undefined
  std::unique_ptr<PowerSgd> power_sgd_;
  Tensor examples_of_errors_;  // as in carried_over(); 0: no step has left errors

  std::vector<std::size_t> order_;
  bool has_exchanged_ = false, is_agreed_ = false;
  ExchangeTrials trials_;  // from the second step on

  // Of the step under way, or the last one.
  ExchangeForm form_ = ExchangeForm::whole;
  Stopwatch since_begin_;
  Examples examples_;
  bool takes_errors_ = true;
  std::vector<int> incomplete_;                              // parameters, of each range
  std::vector<std::size_t> completed_;                       // ranges, in the order of completion
  std::vector<std::unique_ptr<PendingExchange>> under_way_;  // in order_, from its first
};

}  // namespace tasuki
