// How an UpdatePlan computes norms of parameters and gradients, and LAMB's trust ratios. On a CPU,
// each owner of a slice adds up its pieces of parameters (norm_pieces_).
#include <algorithm>
#include <cmath>

#include "optimizer/update_plan.hpp"

namespace tasuki {
namespace {

LambPass first_pass_of(const UpdatePass& second) {
  LambPass pass;
  pass.device = second.device;
  pass.parameter = second.parameter;
  pass.gradient = second.gradient;
  std::ranges::copy(second.state, pass.state);
  pass.factors = second.factors;
  pass.table = second.table;
  pass.rows = second.rows;
  pass.skip = second.skip;
  return pass;
}

}  // namespace

Tensor UpdatePlan::norms(const Update& update, const Factors& factors) const {
  NormPass pass;
  pass.device = update.arena.values().device();
  pass.parameter = update.arena.shared_values().data<float>();
  pass.gradient = update.arena.gradients().data<float>();
  pass.factors = factors.of_all;
  pass.table = factors.table;
  pass.rows = factors.table != nullptr ? rows_on_device() : nullptr;
  if (pass.device.is_cpu()) return norms_on_cpu(update, pass);
  Tensor found = Tensor::empty({2 * std::ssize(infos_)}, DType::float64, pass.device);
  pass.segments = segments_.data<std::int64_t>();
  pass.parameters = std::ssize(infos_);
  pass.norms = found.data<double>();
  backend(pass.device).norms(pass);
  return found;
}

Tensor UpdatePlan::norms_on_cpu(const Update& update, NormPass pass) const {
  const std::vector<double> squares =
      sums_of_pieces(update, [&](std::span<const std::int64_t> pieces, double* sums) {
        pass.segments = pieces.data();
        pass.parameters = std::ssize(pieces) / 2;
        pass.norms = sums;
        pass.squared = true;
        backend(pass.device).norms(pass);
      });
  Tensor found = Tensor::empty({std::ssize(squares)}, DType::float64);
  std::ranges::transform(squares, found.data<double>(), [](double sum) { return std::sqrt(sum); });
  return found;
}

// Owners exchange the sums of their pieces. Every rank adds them in the arena's order.
std::vector<double> UpdatePlan::sums_of_pieces(const Update& update,
                                               const SumPieces& of_pieces) const {
  const Range own = update.owners.own();
  const auto piece_from = [this](std::int64_t element) {
    return static_cast<std::size_t>(std::ranges::lower_bound(piece_begins_, element) -
                                    piece_begins_.begin());
  };
  const std::size_t first = piece_from(own.begin), last = piece_from(own.end);
  const Tensor sums = Tensor::zeros({2 * std::ssize(piece_begins_)}, DType::float64);
  const std::span<double> of_piece = sums.span<double>();
  of_pieces(std::span(norm_pieces_).subspan(2 * first, 2 * (last - first)),
            of_piece.data() + 2 * first);
  update.owners.share_numbers(sums, piece_begins_, 2);

  std::vector<double> of_parameters(2 * infos_.size());
  for (std::size_t piece = 0; piece < piece_begins_.size(); ++piece) {
    const std::size_t parameter = parameter_of_piece_[piece];
    of_parameters[2 * parameter] += of_piece[2 * piece];
    of_parameters[2 * parameter + 1] += of_piece[2 * piece + 1];
  }
  return of_parameters;
}

Tensor UpdatePlan::trust_ratios(const Update& update, const UpdatePass& own) const {
  Tensor ratios = Tensor::empty({std::ssize(infos_)}, DType::float32, own.device);
  LambPass pass = first_pass_of(own);
  if (!own.device.is_cpu()) {
    pass.segments = segments_.data<std::int64_t>();
    pass.parameters = std::ssize(infos_);
    pass.ratios = ratios.data<float>();
    backend(own.device).lamb(pass);
    return ratios;
  }
  const std::vector<double> squares =
      sums_of_pieces(update, [&](std::span<const std::int64_t> pieces, double* sums) {
        // From the begin of the slice.
        std::vector<std::int64_t> segments(pieces.begin(), pieces.end());
        for (std::size_t i = 0; i < segments.size(); i += 2)
          segments[i] -= update.owners.own().begin;
        pass.segments = segments.data();
        pass.parameters = std::ssize(segments) / 2;
        pass.squares = sums;
        backend(own.device).lamb(pass);
      });
  for (std::size_t i = 0; i < infos_.size(); ++i) {
    const UpdateFactors& factors = own.table != nullptr ? own.table[row_of_[i]] : own.factors;
    ratios.data<float>()[i] =
        LambPass::ratio(squares[2 * i], squares[2 * i + 1], double{factors.of_rule[7]});
  }
  return ratios;
}

}  // namespace tasuki
