#include "tasuki/tensor/cuda/convolution_choice.hpp"

#include <algorithm>
#include <iterator>

namespace tasuki {

std::vector<ConvolutionOffer> allowed_offers(std::span<const ConvolutionOffer> offers,
                                             const ConvolutionRules& rules) {
  std::vector<ConvolutionOffer> allowed;
  std::ranges::copy_if(offers, std::back_inserter(allowed), [&](const ConvolutionOffer& offer) {
    return offer.works && (offer.is_deterministic || !rules.only_deterministic) &&
           (!offer.is_reduced || rules.allow_reduced) && offer.workspace <= rules.workspace_limit;
  });
  return allowed;
}

}  // namespace tasuki
