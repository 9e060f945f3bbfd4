// RangeExchange: sums a model's gradients over the ranks, range by range of their arena, while the
// backward pass still computes others.
//
// Ranges are a function of the model. A range is complete when the last gradient in it is written.
// Each rank may complete ranges in another order, but all ranks start them in the same order. It is
// the order of completion in the first step, on the lowest rank that had examples; the ranks agree
// on it before the second step. Ranges that are not complete at the end of the backward pass, with
// parameters that the loss did not use, follow in that order.
//
// On GPUs, with communicators that queue their exchanges there, a range's sum is queued beside the
// computation when its last gradient is queued, so recorded steps contain it. Ranges are of whole
// parameters there, and `whole` is one range, unless the settings say how large ranges are. Other
// communicators exchange all gradients of GPUs as one range after the backward pass.
//
// If the arena keeps sums only, ranges are of whole parameters, lie in slots (gradient_slots.hpp),
// and are exchanged in every backward pass.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/stopwatch.hpp"
#include "optimizer/exchange_trials.hpp"
#include "optimizer/gradient_exchange.hpp"
#include "optimizer/gradient_slots.hpp"

namespace tasuki {

// Divides an arena of `count` elements, with parameters at `entries`, into consecutive ranges.
// Small parameters share a range, and one that is larger than `range_bytes` is divided. Ranges
// begin at multiples of 16 elements. The last one also has the notices. `whole`: parameters are not
// divided, so ranges may be larger, by half or by their largest parameter.
std::vector<Range> exchange_ranges(const std::vector<ParameterArena::Entry>& entries,
                                   std::int64_t count, std::int64_t range_bytes,
                                   bool whole = false);

// The ranges of an arena that keeps sums only: of whole parameters, of
// ExchangeSettings::range_bytes or a sixteenth of the arena's gradients, 1 to 25 MiB.
std::vector<Range> slot_ranges(const std::vector<ParameterArena::Entry>& entries,
                               std::int64_t count, const ExchangeSettings& settings);

class RangeExchange final : public GradientExchange {
 public:
  // Follows the settings, which the caller has checked (conflict_in). Arena, communicator and the
  // ranges `needed` (GradientView::needed) outlive this object. Collective if gradients are
  // compressed.
  RangeExchange(const ParameterArena& arena, Communicator& communicator,
                const ExchangeSettings& settings, std::span<const Range> needed = {});
  ~RangeExchange() override;

  // Collective in the second step. Also if errors are kept and Examples::global is not known: ranks
  // then add up their numbers of examples in one more small message.
  void begin(const Examples& examples) override;
  // Must send the same messages as begin() elsewhere, so it assumes that the others know the number
  // of examples if they knew it in the last step.
  void begin_without_gradients() override;
  void ready(Parameter& parameter) override;
  void advance() override;
  void give_up() override;
  std::optional<Sums> finish() override;
  bool exchanges_each_pass() const override { return slots_ != nullptr; }
  void begin_step() override { adds_ = false; }
  void begin_pass() override;
  bool finish_pass() override;
  void begin_after_passes(const Examples& examples) override;
  void set_examples(std::int64_t examples) override;
  std::vector<Tensor> carried_over() const override;
  // True from the beginning with `whole`, else once all ranks have agreed on the order.
  bool is_settled() const override { return mode() == ExchangeMode::whole || is_agreed_; }
  std::string describe() const override;
  std::size_t bytes() const override { return slots_ ? slots_->bytes() : 0; }
  const PowerSgd* power_sgd() const override { return power_sgd_.get(); }

  // Numbers of ranges, in the order in which they are exchanged.
  const std::vector<std::size_t>& order() const { return order_; }

 private:
  // `mode`: the one that results from the settings.
  RangeExchange(ExchangeMode mode, const ParameterArena& arena, Communicator& communicator,
                const ExchangeSettings& settings, std::span<const Range> needed);

  GradientView view_of(std::size_t range);
  double wire_scale_hint() const { return static_cast<double>(examples_.global.value_or(0)); }
  void complete(std::size_t range);
  void start_complete_ranges(bool may_move = true);
  void start(std::size_t range, Background how);
  void finish_ranges();
  void note_exchange();
  void wait_for(std::size_t range);
  void keep(std::size_t range);
  Tensor notices() const;
  Tensor taken(std::size_t range);
  void agree_on_order();
  Tensor errors() const;
  void adapt_errors();
  bool overlaps() const { return slots_ || (is_agreed_ && mode_of_step_ != ExchangeMode::whole); }
  void measure_step();

  const ParameterArena& arena_;
  Communicator& communicator_;
  std::span<const Range> needed_;
  // For each range: its segments, by their offset in the range, and how many parameters it has.
  std::vector<std::vector<GradientView::Segment>> segments_;
  std::vector<int> parameters_in_;
  std::unordered_map<const Parameter*, Range> ranges_of_;  // numbers of a parameter's ranges
  Tensor residual_;                                        // of error feedback, or undefined
  std::unique_ptr<PowerSgd> power_sgd_;
  std::shared_ptr<GradientSlots> slots_;  // null: the arena has all gradients
  Tensor examples_of_errors_;             // as in carried_over(); 0: no step has left errors

  std::vector<std::size_t> order_;
  bool has_exchanged_ = false, is_agreed_ = false;
  ExchangeTrials trials_;  // they begin with the second step

  // Of the step under way, or the last one.
  ExchangeMode mode_of_step_ = ExchangeMode::whole;
  bool has_gradient_ = false;       // that is final
  Stopwatch since_first_gradient_;  // or, before there is one, since the step's beginning
  Examples examples_;
  bool takes_errors_ = true;
  std::vector<int> incomplete_;                              // parameters in each range
  std::vector<std::size_t> completed_;                       // ranges, in the order of completion
  std::vector<std::unique_ptr<PendingExchange>> under_way_;  // in order_, from its first
  std::size_t kept_ = 0;  // with slots: how many of these have left their slots
  // What the step or pass under way exchanges.
  enum class Content { gradients, notices_alone, no_gradients };
  Content content_ = Content::gradients;
  bool is_last_pass_ = true, adds_ = false, model_changed_ = false;
};

}  // namespace tasuki
