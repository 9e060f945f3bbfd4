// Data files that may be gzip-compressed: InputFile accepts what zlib accepts and reads the same
// bytes, in pieces of any size.
#include <zlib.h>

#include <optional>

#include "dataset/files/input_file.hpp"
#include "fuzz.hpp"

using namespace tasuki;

namespace {

constexpr std::size_t most_bytes = 8 << 20;  // unpacked

bool is_gzip(std::string_view text) {
  return text.starts_with("\x1f\x8b");
}

// All members of a gzip file, one after the other; nothing if it is damaged or something follows.
std::optional<std::string> unpacked(std::string_view packed) {
  std::string result;
  while (is_gzip(packed)) {
    z_stream stream{};
    constexpr int gzip_only = 16;
    fuzz::require(::inflateInit2(&stream, MAX_WBITS + gzip_only) == Z_OK, "zlib does not start");
    stream.next_in = reinterpret_cast<unsigned char*>(const_cast<char*>(packed.data()));
    stream.avail_in = static_cast<unsigned>(packed.size());
    int code = Z_OK;
    while (code == Z_OK && result.size() <= most_bytes) {
      const std::size_t before = result.size();
      result.resize(before + (64 << 10));
      stream.next_out = reinterpret_cast<unsigned char*>(result.data() + before);
      stream.avail_out = 64 << 10;
      code = ::inflate(&stream, Z_NO_FLUSH);
      result.resize(result.size() - stream.avail_out);
    }
    packed.remove_prefix(packed.size() - stream.avail_in);
    ::inflateEnd(&stream);
    if (code != Z_STREAM_END) return std::nullopt;
  }
  if (!packed.empty()) return std::nullopt;
  return result;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::Input input(data, size);
  const std::size_t piece = 1 + input.number();
  const std::string_view contents = fuzz::as_text(input.rest());
  const auto expected =
      is_gzip(contents) ? unpacked(contents) : std::optional(std::string(contents));
  if (expected && expected->size() > most_bytes) return 0;

  static fuzz::InputFile file;
  file.write(std::as_bytes(std::span(contents)));
  std::string found;
  const bool is_accepted = fuzz::accepts([&] {
    InputFile reader(file.path());
    for (std::size_t got = piece; got == piece && found.size() <= most_bytes;) {
      // Larger and larger pieces: a file of megabytes is not read byte by byte.
      const std::size_t before = found.size(), wanted = piece + before / 2 / piece * piece;
      found.resize(before + wanted);
      got = reader.read_some(reinterpret_cast<std::byte*>(found.data() + before), wanted);
      found.resize(before + got);
      if (got == wanted) got = piece;
    }
    if (found.size() > most_bytes) fail(ErrorKind::data, "longer than this harness reads");
    reader.check_end();
  });
  fuzz::require(is_accepted == expected.has_value(), "InputFile and zlib do not agree on a file");
  fuzz::require(!is_accepted || found == *expected, "InputFile reads other bytes than zlib");
  return 0;
}
