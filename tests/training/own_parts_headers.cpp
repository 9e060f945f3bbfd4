// Parts of programs include no header of recordings: these names would be defined twice. Compiled,
// never linked.
#include "own_parts.hpp"

namespace tasuki {

class FieldMemory {};
class GpuSteps {};
class Journal {};
class NumberBlock {};
class ObservationParts {};
struct RecordedStep {};
class BatchKinds {};
class KindReport {};
class StepRunner {};

}  // namespace tasuki
