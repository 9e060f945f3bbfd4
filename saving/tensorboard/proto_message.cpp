#include "saving/tensorboard/proto_message.hpp"

#include <bit>

namespace tasuki {

// Numbers of fixed width are little-endian in the format, and here as they are in memory.
static_assert(std::endian::native == std::endian::little);

// Seven bits in a byte, the lowest first; the highest bit of a byte says that others follow.
void ProtoMessage::add_varint(std::uint64_t value) {
  for (; value >= 0x80; value >>= 7) bytes_ += static_cast<char>(value | 0x80);
  bytes_ += static_cast<char>(value);
}

void ProtoMessage::add_key(int field, Wire wire) {
  add_varint(static_cast<std::uint64_t>(field) << 3 | static_cast<std::uint64_t>(wire));
}

template <class T>
void ProtoMessage::add_fixed(T value) {
  bytes_.append(reinterpret_cast<const char*>(&value), sizeof value);
}

ProtoMessage& ProtoMessage::add_integer(int field, std::int64_t value) {
  add_key(field, Wire::varint);
  add_varint(static_cast<std::uint64_t>(value));
  return *this;
}

ProtoMessage& ProtoMessage::add_double(int field, double value) {
  add_key(field, Wire::fixed64);
  add_fixed(value);
  return *this;
}

ProtoMessage& ProtoMessage::add_float(int field, float value) {
  add_key(field, Wire::fixed32);
  add_fixed(value);
  return *this;
}

ProtoMessage& ProtoMessage::add_text(int field, std::string_view bytes) {
  add_key(field, Wire::length);
  add_varint(bytes.size());
  bytes_ += bytes;
  return *this;
}

ProtoMessage& ProtoMessage::add(int field, const ProtoMessage& message) {
  return add_text(field, message.bytes());
}

ProtoMessage& ProtoMessage::add_doubles(int field, std::span<const double> values) {
  add_key(field, Wire::length);
  add_varint(values.size_bytes());
  for (const double value : values) add_fixed(value);
  return *this;
}

}  // namespace tasuki
