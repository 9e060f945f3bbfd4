#include "training/recording/kind_report.hpp"

namespace tasuki {

std::vector<Tensor> KindReport::take(const Observation& found) {
  *this = {};
  has_numbers_of_host_ = ObservationParts::has_numbers_of_host(found);
  std::vector<Tensor> scalars;
  using Part = ObservationParts::Part;
  for (const auto& [key, value] : ObservationParts::known(found)) {
    ObservationParts::add_known(rest_, key, value);
    for (const Part part : {Part::sum, Part::count})
      for (const auto& term : ObservationParts::terms(found, key, part)) {
        scalars.push_back(term.value);
        columns_.push_back({key, part, term.factor});
      }
  }
  return scalars;
}

void KindReport::deliver(Journal& journal, Observation& observation,
                         const std::string& prefix) const {
  journal.open_row();
  Observation seen = rest_;
  for (std::size_t i = 0; i < columns_.size(); ++i) {
    const auto& [key, part, factor] = columns_[i];
    ObservationParts::add_journal(seen, key, part,
                                  journal.cell(static_cast<std::int64_t>(i), factor));
  }
  observation.add(seen, prefix);
}

}  // namespace tasuki
