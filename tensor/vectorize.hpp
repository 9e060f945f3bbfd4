// Loops that are compiled several times; the best version is chosen when the library is loaded.
#pragma once

// To be put before a function definition with a simple loop: the compiler makes one version for the
// baseline (x86-64-v2), one for x86-64-v3 (AVX2 and FMA) and one for x86-64-v4 (AVX-512), and the
// dynamic loader chooses by the processor's features (GNU indirect functions). Levels, because GCC
// takes "arch=haswell" and the like for exactly that model: any other processor would get the
// baseline. The function must not be a template or inline.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && \
    !defined(__SANITIZE_ADDRESS__)
#define TASUKI_VECTORIZE                                                                       \
  __attribute__((target_clones("default", "arch=x86-64-v3", "arch=x86-64-v4"), optimize("O3"), \
                 noinline))
#else
#define TASUKI_VECTORIZE
#endif
