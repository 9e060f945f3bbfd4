// Chooses among the algorithms that cuDNN offers for a convolution. Independent of cuDNN, so that
// it can be tested anywhere.
#pragma once

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <span>
#include <vector>

namespace tasuki {

struct ConvolutionOffer {
  int algorithm = 0;
  bool works = false;  // for these shapes
  bool is_deterministic = false;
  bool is_reduced = false;  // rounds float32 operands (TF32)
  int math = 0;             // cuDNN's math type, to be set when it runs
  std::size_t workspace = 0;
  float milliseconds = -1;  // if it was timed
};

struct ConvolutionRules {
  bool only_deterministic = false;
  bool allow_reduced = false;
  std::size_t workspace_limit = 0;
};

// The offers of two timings of the same algorithms, each with the shorter of its times, fastest
// first.
inline std::vector<ConvolutionOffer> fastest_times(std::vector<ConvolutionOffer> offers,
                                                   std::span<const ConvolutionOffer> again) {
  for (ConvolutionOffer& offer : offers)
    for (const ConvolutionOffer& other : again)
      if (other.works && other.algorithm == offer.algorithm && other.math == offer.math)
        offer.milliseconds = std::min(offer.milliseconds, other.milliseconds);
  std::ranges::stable_sort(offers, [](const ConvolutionOffer& a, const ConvolutionOffer& b) {
    return a.works != b.works ? a.works : a.works && a.milliseconds < b.milliseconds;
  });
  return offers;
}

// The algorithms that the rules allow, in the order given (fastest first).
inline std::vector<ConvolutionOffer> allowed_offers(std::span<const ConvolutionOffer> offers,
                                                    const ConvolutionRules& rules) {
  std::vector<ConvolutionOffer> allowed;
  std::ranges::copy_if(offers, std::back_inserter(allowed), [&](const ConvolutionOffer& offer) {
    return offer.works && (offer.is_deterministic || !rules.only_deterministic) &&
           (!offer.is_reduced || rules.allow_reduced) && offer.workspace <= rules.workspace_limit;
  });
  return allowed;
}

}  // namespace tasuki
