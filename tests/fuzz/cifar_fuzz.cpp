// CIFAR's binary files: what is read are the files' bytes.
#include "dataset/files/cifar.hpp"
#include "fuzz.hpp"

using namespace tasuki;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::Input input(data, size);
  const std::uint8_t mode = input.number();
  const std::size_t label_bytes = 1 + mode % 2;
  const std::int64_t classes = label_bytes == 1 ? 10 : 100;
  static fuzz::InputFile first, second;
  const std::span<const std::byte> one = input.part(), other = input.rest();
  first.write(one);
  second.write(other);

  fuzz::accepts([&] {
    const auto source = open_cifar({first.path(), second.path()}, classes, label_bytes);
    const auto fields = fuzz::read_all(*source);
    constexpr std::size_t pixels = 3 * 32 * 32;
    std::vector<std::byte> expected;
    for (const auto& file : {one, other})
      for (std::size_t at = 0; at < file.size(); at += label_bytes + pixels) {
        const auto picture = file.subspan(at + label_bytes, pixels);
        expected.insert(expected.end(), picture.begin(), picture.end());
      }
    const bool is_packed =
        fuzz::as_text(one).starts_with("\x1f\x8b") || fuzz::as_text(other).starts_with("\x1f\x8b");
    fuzz::require(is_packed || fields.at(0) == expected, "pictures are not the files' bytes");
  });
  return 0;
}
