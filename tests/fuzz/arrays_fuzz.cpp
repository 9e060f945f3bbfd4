// Data sets of NPY and NPZ files, and the places of a zip file's members. What an accepted file has
// is the same example by example and in batches.
#include <algorithm>

#include "array_files/npy_dataset.hpp"
#include "array_files/zip_members.hpp"
#include "fuzz.hpp"

using namespace tasuki;

namespace {

void check_members(std::span<const std::byte> zip) {
  for (const auto& [name, place] : stored_members(zip))
    fuzz::require(place.begin <= zip.size() && place.bytes <= zip.size() - place.begin,
                  "a member is not inside the file");
}

void check_examples(const Dataset& data) {
  const Field& field = data.header().fields[0];
  constexpr std::int64_t few = 16, small = 1 << 16;
  const std::int64_t count = std::min(few, data.size());
  if (field.shape.count() > small) return;
  std::vector<std::int64_t> backward;
  for (std::int64_t i = count; i-- > 0;) backward.push_back(i);
  const Tensor batch = read_field(data, 0, backward).values;
  const std::size_t bytes = batch.bytes() / std::max<std::size_t>(1, backward.size());
  for (std::size_t at = 0; at < backward.size(); ++at) {
    const std::int64_t example[] = {backward[at]};
    const Tensor one = read_field(data, 0, example).values;
    const auto* const in_batch = static_cast<const std::byte*>(batch.raw()) + at * bytes;
    fuzz::require(std::equal(in_batch, in_batch + bytes, static_cast<const std::byte*>(one.raw())),
                  "an example differs in a batch");
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::Input input(data, size);
  const std::uint8_t mode = input.number();
  const std::optional<DType> types[] = {std::nullopt, DType::float32, DType::int32, DType::int64};
  ArrayFileField field{"x", "", /*is_target=*/false, mode / 12 % 2, types[mode / 3 % 4]};
  const std::span<const std::byte> contents = input.rest();
  if (mode % 3 == 0) {
    check_members(contents);
    return 0;
  }
  static fuzz::InputFile file;
  file.write(contents);
  const std::filesystem::path path = file.path();
  fuzz::accepts([&] {
    const bool is_npz = mode % 3 == 1;
    field.array = is_npz ? "a" : path.filename().string();
    check_examples(*open_npy(is_npz ? path : path.parent_path(), {field}));
  });
  return 0;
}
