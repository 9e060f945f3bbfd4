#include "saving/serializer.hpp"

#include <cmath>
#include <cstring>
#include <utility>

#include "communicator/run_on_root.hpp"
#include "core/error.hpp"
#include "saving/npz.hpp"

namespace tasuki {
namespace {

// Returns rank 0's result of `work` on all ranks; rank 0's exception is thrown on all.
Bytes from_root(Communicator* communicator, const std::function<Bytes()>& work) {
  return communicator ? run_on_root(*communicator, 0, work) : work();
}

Bytes encode(const NpzValue& value) {
  const std::string header = npy_header(value);
  const Tensor elements = npy_elements(value);
  Bytes bytes(header.size() + elements.bytes());
  std::memcpy(bytes.data(), header.data(), header.size());
  if (elements.bytes() > 0)
    std::memcpy(bytes.data() + header.size(), elements.raw(), elements.bytes());
  return bytes;
}

NpzValue decode(const Bytes& bytes, const std::string& name) {
  const NpyHeader header = parse_npy_header(bytes, name);
  const Tensor elements =
      Tensor::empty(Shape{static_cast<std::int64_t>(header.data_bytes())}, DType::uint8);
  if (header.data_bytes() > 0)
    std::memcpy(elements.raw(), bytes.data() + header.header_bytes, header.data_bytes());
  return npy_value(header, elements);
}

template <class T>
Tensor scalar(T value) {
  return Tensor::from(std::span<const T>(&value, 1), Shape{});
}

}  // namespace

Serializer::Serializer(std::vector<NpzEntry>* entries, const ArraySource* source,
                       Communicator* communicator, std::string prefix)
    : entries_(entries), source_(source), communicator_(communicator), prefix_(std::move(prefix)) {}

Serializer Serializer::saver(std::vector<NpzEntry>& entries, Communicator* communicator,
                             std::vector<NpzPiece>* pieces) {
  Serializer saver(&entries, nullptr, communicator, "");
  saver.pieces_ = pieces;
  return saver;
}

Serializer Serializer::loader(const ArraySource* source, Communicator* communicator) {
  return {nullptr, source, communicator, ""};
}

Serializer Serializer::operator[](const std::string& name) const {
  Serializer below = *this;
  below.prefix_ += name + "/";
  return below;
}

bool Serializer::contains(const std::string& name) const {
  TASUKI_CHECK(is_loading(), "contains() was called while saving: {}{}", prefix_, name);
  const std::string path = prefix_ + name;
  const Bytes found = from_root(communicator_, [&] {
    bool is_there = source_->find(path).has_value();
    for (const std::string& other : source_->names()) is_there |= other.starts_with(path + "/");
    return Bytes{std::byte{is_there}};
  });
  return found.front() == std::byte{1};
}

std::optional<Shape> Serializer::find_shape(const std::string& name) const {
  TASUKI_CHECK(is_loading(), "find_shape() was called while saving: {}{}", prefix_, name);
  const Bytes found = from_root(communicator_, [&] {
    const auto header = source_->find(prefix_ + name);
    if (!header || !header->dtype) return Bytes();
    const auto sizes = std::as_bytes(std::span(header->shape.begin(), header->shape.end()));
    Bytes bytes{std::byte{1}};
    bytes.insert(bytes.end(), sizes.begin(), sizes.end());
    return bytes;
  });
  if (found.empty()) return std::nullopt;
  std::vector<std::int64_t> sizes((found.size() - 1) / sizeof(std::int64_t));
  if (!sizes.empty()) std::memcpy(sizes.data(), found.data() + 1, found.size() - 1);
  return Shape(sizes);
}

void Serializer::save(const std::string& name, NpzValue value) const {
  if (is_root()) entries_->push_back({prefix_ + name, std::move(value)});
}

NpzValue Serializer::load(const std::string& name) const {
  if (communicator_ == nullptr) return source_->read(prefix_ + name);
  return decode(from_root(communicator_, [&] { return encode(source_->read(prefix_ + name)); }),
                prefix_ + name);
}

Tensor Serializer::load_array(const std::string& name, const Shape& shape, DType dtype) const {
  const NpzValue value = load(name);
  const auto* array = std::get_if<Tensor>(&value);
  if (array == nullptr || array->shape() != shape || array->dtype() != dtype)
    fail_everywhere(
        ErrorKind::data, "{}{}: expected {} {}, found {}", prefix_, name, shape.text(),
        name_of(dtype),
        array ? fmt::format("{} {}", array->shape().text(), name_of(array->dtype())) : "a text");
  return *array;
}

void Serializer::operator()(const std::string& name, double& value) const {
  if (is_loading())
    value = *load_array(name, Shape{}, DType::float64).data<double>();
  else
    save(name, scalar(value));
}

void Serializer::operator()(const std::string& name, std::int64_t& value) const {
  if (is_loading())
    value = *load_array(name, Shape{}, DType::int64).data<std::int64_t>();
  else
    save(name, scalar(value));
}

void Serializer::operator()(const std::string& name, std::string& value) const {
  if (!is_loading()) return save(name, value);
  NpzValue loaded = load(name);
  auto* text = std::get_if<std::string>(&loaded);
  if (text == nullptr)
    fail_everywhere(ErrorKind::data, "{}{}: expected a text, found an array", prefix_, name);
  value = std::move(*text);
}

void Serializer::operator()(const std::string& name, const Tensor& value) const {
  if (is_loading())
    value.copy_from(load_array(name, value.shape(), value.dtype()));
  else
    save(name, value);
}

void Serializer::save_piece(const std::string& name, const Shape& whole, std::int64_t begin,
                            const Tensor& values) const {
  TASUKI_CHECK(takes_pieces(), "a piece of {}{} is saved where whole arrays are", prefix_, name);
  pieces_->push_back({{prefix_ + name, values}, begin, whole});
}

std::vector<Bytes> Serializer::of_every_rank(const std::string& name,
                                             std::span<const std::byte> own) const {
  const Serializer parts = (*this)[name];
  std::int64_t ranks = communicator_ ? communicator_->size() : 1;
  if (!is_loading()) {
    std::vector<Bytes> gathered = communicator_ ? gather_bytes(*communicator_, own, 0)
                                                : std::vector<Bytes>{Bytes(own.begin(), own.end())};
    parts("ranks", ranks);
    for (std::size_t rank = 0; rank < gathered.size(); ++rank) {
      const auto* bytes = reinterpret_cast<const std::uint8_t*>(gathered[rank].data());
      const std::span<const std::uint8_t> values(bytes, gathered[rank].size());
      parts.save(std::to_string(rank),
                 Tensor::from(values, Shape{static_cast<std::int64_t>(values.size())}));
    }
    return {};
  }
  parts("ranks", ranks);
  std::vector<Bytes> all;
  for (std::int64_t rank = 0; rank < ranks; ++rank)
    all.push_back(parts.load_bytes(std::to_string(rank)));
  return all;
}

Bytes Serializer::of_own_rank(const std::string& name) const {
  const Serializer parts = (*this)[name];
  const std::int64_t ranks_here = communicator_ ? communicator_->size() : 1;
  std::int64_t ranks = ranks_here;
  parts("ranks", ranks);
  if (ranks != ranks_here) return {};
  // One part after the other is given to all ranks, so none holds more than one beside its own.
  Bytes own;
  for (std::int64_t rank = 0; rank < ranks; ++rank) {
    Bytes part = parts.load_bytes(std::to_string(rank));
    if (!communicator_ || rank == communicator_->rank()) own = std::move(part);
  }
  return own;
}

Bytes Serializer::load_bytes(const std::string& name) const {
  const NpzValue value = load(name);
  const auto* array = std::get_if<Tensor>(&value);
  if (array == nullptr || array->dtype() != DType::uint8)
    fail_everywhere(ErrorKind::data, "{}{}: expected bytes", prefix_, name);
  const auto bytes = std::as_bytes(array->span<std::uint8_t>());
  return {bytes.begin(), bytes.end()};
}

void serialize_count(const Serializer& serializer, const std::string& name, std::int64_t& value,
                     std::int64_t most) {
  serializer(name, value);
  if (serializer.is_loading() && (value < 0 || value > most))
    fail_everywhere(ErrorKind::data, "the snapshot's {}: expected a number from 0 to {}, found {}",
                    name, most, value);
}

void serialize_finite(const Serializer& serializer, const std::string& name, double& value) {
  serializer(name, value);
  if (serializer.is_loading() && !std::isfinite(value))
    fail_everywhere(ErrorKind::data, "the snapshot's {}: expected a number, found {}", name, value);
}

void serialize_seconds(const Serializer& serializer, const std::string& name, double& value) {
  serializer(name, value);
  if (serializer.is_loading() && !(std::isfinite(value) && value >= 0))
    fail_everywhere(ErrorKind::data, "the snapshot's {}: expected seconds from 0, found {}", name,
                    value);
}

}  // namespace tasuki
