// Manifests of checkpoints. What is accepted has exactly the text that was read; a description of a
// file is the same after it was written and read again.
#include "core/hash.hpp"
#include "fuzz.hpp"
#include "saving/checkpoint.hpp"

using namespace tasuki;

namespace {

// The manifest that consists of `body` and the hash that fits it: what is behind the first check.
std::string sealed(std::string_view body) {
  return fmt::format("{}\"xxh3\": \"{:016x}\"\n}}\n", body, hash_text(body));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::Input input(data, size);
  const std::uint8_t mode = input.number();
  const std::string_view rest = fuzz::as_text(input.rest());
  if (mode % 4 == 0) {
    CheckpointManifest::File file;
    if (fuzz::accepts([&] { file = file_of_line(rest); }))
      fuzz::require(file_of_line(to_line(file)) == file,
                    "a description changes when it is written");
    return 0;
  }
  const std::string text = mode % 4 == 1 ? std::string(rest) : sealed(rest);
  CheckpointManifest manifest;
  if (fuzz::accepts([&] { manifest = CheckpointManifest::parse(text, "manifest.json"); }))
    fuzz::require(manifest.text() == text, "a manifest changes when it is written");
  return 0;
}
