#include "apps/imagenet/mean_image.hpp"

#include <cstring>
#include <span>

#include "core/error.hpp"
#include "core/file.hpp"
#include "saving/npz.hpp"

namespace tasuki {

Tensor read_mean_image(const std::string& name) {
  const std::string file = read_file(name);
  const auto bytes = std::as_bytes(std::span(file));
  const NpyHeader header = parse_npy_header(bytes, name);
  if (header.dtype != DType::float32 || bytes.size() != header.header_bytes + header.data_bytes())
    fail(ErrorKind::data, "{}: expected one whole array of float32 values, found something else",
         name);
  Tensor mean = Tensor::empty(header.shape);
  std::memcpy(mean.raw(), bytes.data() + header.header_bytes, header.data_bytes());
  return mean;
}

}  // namespace tasuki
