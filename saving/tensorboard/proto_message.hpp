// ProtoMessage: a message in the wire format of protocol buffers (protobuf.dev, "Encoding"), built
// field by field.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace tasuki {

// Fields appear in the order of the calls; a repeated field is added several times.
class ProtoMessage {
 public:
  ProtoMessage& add_integer(int field, std::int64_t value);  // int32, int64, bool, an enumeration
  ProtoMessage& add_double(int field, double value);
  ProtoMessage& add_float(int field, float value);
  ProtoMessage& add_text(int field, std::string_view bytes);  // string, bytes
  ProtoMessage& add(int field, const ProtoMessage& message);
  ProtoMessage& add_doubles(int field, std::span<const double> values);  // packed

  const std::string& bytes() const { return bytes_; }

 private:
  enum class Wire : std::uint8_t { varint = 0, fixed64 = 1, length = 2, fixed32 = 5 };
  void add_key(int field, Wire wire);
  void add_varint(std::uint64_t value);
  template <class T>
  void add_fixed(T value);

  std::string bytes_;
};

}  // namespace tasuki
