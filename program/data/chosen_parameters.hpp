// Which parameters the patterns of a flag choose (--init-skip, --freeze).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "communicator/communicator.hpp"
#include "nn/module.hpp"
#include "optimizer/optimizer.hpp"

namespace tasuki::program {

// Whether a pattern matches the path (optimizer/parameter_group.hpp) or that of a layer above it:
// "predictor/fc" and "predictor/f*" choose "predictor/fc/W".
bool is_chosen(const std::vector<std::string>& patterns, std::string_view path);

// A usage error on all ranks that names the flag and the first pattern that chooses none of the
// names, on any rank. Collective.
void check_patterns(const char* flag, const std::vector<std::string>& patterns,
                    const std::vector<std::string>& names, Communicator& communicator);

// Freezes the parameters of `trained` that the patterns choose by their paths in `whole`, which is
// the same model or has it as a part. Call it before the optimizer's setup().
void freeze_chosen(const std::vector<std::string>& patterns, const Module& whole,
                   const Module& trained, Optimizer& optimizer);

}  // namespace tasuki::program
