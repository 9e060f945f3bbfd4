// What this processor can do at most, measured on one thread.
#pragma once

namespace tasuki::bench {

// Floating-point operations a second of fused multiply-adds in the widest vectors.
double float32_rate();
// Of products of bfloat16 with sums in float32: by AMX's tiles with their loads from the first
// cache, or by VDPBF16PS. 0: the processor has neither.
double bfloat16_rate();
// Bytes a second that are read and written while an array of 8 MiB is copied.
double copy_rate();

}  // namespace tasuki::bench
