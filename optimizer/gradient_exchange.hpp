// GradientExchange: sums a model's gradients over the ranks, range by range of their arena, while
// the backward pass still computes others.
//
// Ranges are a function of the model. A range is complete when the last gradient in it is written.
// All ranks start the ranges in the same order, whatever the order in which they complete here: it
// is learned in the first step, from the lowest rank that had examples, and agreed upon before the
// second. Ranges that are not complete at the end of the backward pass (parameters that the loss
// did not use) follow in that order.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "tasuki/communicator/communicator.hpp"
#include "tasuki/core/range.hpp"
#include "tasuki/core/stopwatch.hpp"
#include "tasuki/optimizer/arena.hpp"
#include "tasuki/optimizer/exchange_form.hpp"

namespace tasuki {

class PowerSgd;

enum class ExchangeMode {
  overlapped,  // a range travels as soon as it is complete, in slices or by a thread: as measured
  slices,      // the same, in slices
  thread,      // the same, by a thread
  whole,       // all ranges travel after the backward pass
  // All gradients travel during the next step, and its update uses them (double_buffer.hpp). CPUs
  // only.
  double_buffered,
};
// "overlapped", ...
const char* name_of(ExchangeMode mode);

// The same on all ranks. On GPUs all gradients travel as one range after the backward pass.
struct ExchangeSettings {
  // Empty: where ranks are on several nodes, overlapped or whole as measured in the first steps;
  // else whole. Inside a node the ranks' cores do the work of the exchange, so there is nothing
  // that it could overlap with.
  std::optional<ExchangeMode> mode{};
  // Of a range, at most, but 64 at least; the last one also has the notices. 0: a sixteenth of the
  // arena, but 1 to 25 MiB; one range if `mode` is empty and all gradients travel after the
  // backward pass.
  std::int64_t range_bytes = 0;
  // Where gradients travel in 16 bits: adds what rounding takes from them on their way to those of
  // the next step. Not of compressed gradients.
  bool error_feedback = false;
  // On CPUs: gradients travel as so many directions of each matrix (power_sgd.hpp), after the
  // backward pass, and the rest is added to the gradients of the next step; 0: as they are.
  std::int64_t power_sgd_rank = 0;

  // "overlapped, in ranges of 1048576 bytes"
  std::string text() const;
};

// Consecutive ranges of an arena of `count` elements, parameters at `entries` and the notices in
// the last range. Small parameters share a range, and one that is larger than `range_bytes` is
// divided. Ranges begin at multiples of 16 elements.
std::vector<Range> exchange_ranges(const std::vector<ParameterArena::Entry>& entries,
                                   std::int64_t count, std::int64_t range_bytes);

class GradientExchange {
 public:
  // All but the settings outlive the exchange. `needed`: GradientView's. Collective if gradients
  // are compressed. Settings that do not fit each other or the communicator are a usage error.
  GradientExchange(const ParameterArena& arena, Communicator& communicator,
                   const ExchangeSettings& settings, std::span<const Range> needed = {});
  ~GradientExchange();

  // Before the last backward pass of a step; the notices are set. Collective in the second step.
  // `wire_scale_hint`: GradientView's. Where errors are kept for the next step, it is the number of
  // examples on all ranks, or 0: then the ranks add up their `examples`, in one more small message.
  void begin(double wire_scale_hint, std::int64_t examples = 0);
  bool has_begun() const { return has_begun_; }
  // The parameter's gradient of this step is final.
  void ready(Parameter& parameter);
  // Between two functions of the backward pass: does a slice of what is under way.
  void advance();
  // Forgets a step that failed, after waiting for what is under way.
  void give_up();
  // Returns when the arena holds the sums that this rank needs; calls begin() if nobody has.
  // Gradients that nothing wrote are filled with zeros before.
  void finish(double wire_scale_hint, std::int64_t examples = 0);
  // Takes part in a step of the other ranks without gradients of its own. Whether these pass a hint
  // is not known here: they are expected to do as in the last step.
  void finish_without_gradients();
  // After finish(): how many examples on all ranks the sums are over, and so what the step leaves.
  void set_examples(std::int64_t examples) const;

  // Never empty: overlapped or whole where the settings leave it open.
  ExchangeMode mode() const { return mode_; }
  // Of the next step; what was chosen, if trials are over.
  ExchangeForm form() const { return trials_.form(); }
  const std::vector<Range>& ranges() const { return ranges_; }
  // Numbers of ranges, in the order in which they are exchanged.
  const std::vector<std::size_t>& order() const { return order_; }
  // Null: gradients travel as they are.
  const PowerSgd* power_sgd() const { return power_sgd_.get(); }
  // What this rank's steps leave for the next one; writing to them changes it. None: nothing. It is
  // zero, or drawn anew, when the exchange is made. First the errors, last (float64) the number of
  // examples on all ranks that they are sums over.
  std::vector<Tensor> carried_over() const;

 private:
  GradientView view_of(std::size_t range) const;
  void complete(std::size_t range);
  void start_complete_ranges();
  void agree_on_order();
  Tensor errors() const;
  void adapt_errors(double wire_scale_hint, std::int64_t examples);
  bool overlaps() const { return is_agreed_ && form_ != ExchangeForm::whole; }
  void measure_step();

  const ParameterArena& arena_;
  Communicator& communicator_;
  std::span<const Range> needed_;
  ExchangeMode mode_;
  std::vector<Range> ranges_;
  std::vector<std::vector<GradientView::Segment>> segments_;  // of each range, from its begin
  std::unordered_map<const Parameter*, Range> ranges_of_;     // numbers of ranges
  std::vector<int> parameters_in_;                            // each range
  Tensor residual_;                                           // of error feedback, or undefined
  std::unique_ptr<PowerSgd> power_sgd_;
  Tensor examples_of_errors_;  // as in carried_over(); 0: no step has left errors

  std::vector<std::size_t> order_;
  bool has_exchanged_ = false, is_agreed_ = false;
  ExchangeTrials trials_;  // from the second step on

  // Of the step under way.
  bool has_begun_ = false;
  ExchangeForm form_ = ExchangeForm::whole;
  Stopwatch since_begin_;
  double wire_scale_hint_ = 0;
  bool takes_errors_ = true;
  std::vector<int> incomplete_;                              // parameters, of each range
  std::vector<std::size_t> completed_;                       // ranges, in the order of completion
  std::vector<std::unique_ptr<PendingExchange>> under_way_;  // in order_, from its first
};

}  // namespace tasuki
