#include "tasuki/training/recording/step_report.hpp"

namespace tasuki {

void StepReport::post(const Observation& found, const Journal& journal, const Tensor& row) {
  *this = {};
  std::vector<Tensor> scalars;
  for (const auto& [key, value] : found.known()) {
    rest_.add_known(key, value);
    if (found.terms(key, Observation::Part::sum).empty()) has_numbers_of_host_ = true;
    for (const auto part : {Observation::Part::sum, Observation::Part::count})
      for (const Observation::Term& term : found.terms(key, part)) {
        scalars.push_back(term.value);
        columns_.push_back({key, part, term.factor});
      }
  }
  journal.post(row, scalars);
}

void StepReport::deliver(Journal& journal, Observation& observation,
                         const std::string& prefix) const {
  journal.open_row();
  Observation seen = rest_;
  for (std::size_t i = 0; i < columns_.size(); ++i) {
    const auto& [key, part, factor] = columns_[i];
    seen.add_journal(key, part, journal.cell(static_cast<std::int64_t>(i), factor));
  }
  observation.add(seen, prefix);
}

}  // namespace tasuki
