#include "refusals.hpp"

#include <array>
#include <cstdlib>
#include <sstream>
#include <string>

namespace tasuki::simulated {

cudnnStatus_t refusal(Moment moment, int algorithm, cudnnTensorFormat_t format) {
  const char* const text = std::getenv("SIMULATED_CUDNN_REFUSES");
  if (text == nullptr) return CUDNN_STATUS_SUCCESS;
  constexpr std::array<const char*, 4> moments = {"ask", "offer", "workspace", "run"};
  std::istringstream words(text);
  std::string at, of, in;
  int status = 0;
  words >> at >> of >> in >> status;
  const bool is_meant =
      at == moments.at(static_cast<std::size_t>(moment)) &&
      (of == "any" || of == std::to_string(algorithm)) &&
      (in == "any" || in == (format == CUDNN_TENSOR_NHWC ? "channels_last" : "plain"));
  return is_meant ? static_cast<cudnnStatus_t>(status) : CUDNN_STATUS_SUCCESS;
}

}  // namespace tasuki::simulated
