#include "nn/call_recorder.hpp"

namespace tasuki {

void CallRecorder::called(const Function& function, const std::vector<Variable>& inputs,
                          const Variable& result) {
  Call call = {function.name(), {}, result.value(), {}};
  for (const Variable& input : inputs)
    call.inputs.push_back(input.defined() ? input.value() : Tensor());
  function.describe(call.settings);
  calls_.push_back(std::move(call));
}

}  // namespace tasuki
