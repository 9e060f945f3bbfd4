// Loops that are compiled several times; the best version is chosen when the library is loaded.
#pragma once

// TASUKI_VECTORIZE: to be put before a function definition with a simple loop. The compiler makes
// one version for the baseline (x86-64-v2), one for x86-64-v3 (AVX2 and FMA) and one for x86-64-v4
// (AVX-512), and the dynamic loader chooses by the processor's features (GNU indirect functions).
// Levels, because GCC takes "arch=haswell" and the like for exactly that model: any other processor
// would get the baseline. Clang does so with levels, too, but knows single features; its version
// for AVX2 has no FMA. The function must not be a template or inline, and with Clang no other
// source of the library may have a function of this name and these parameters, even in an unnamed
// namespace.
//
// TASUKI_VECTORIZED_BEGIN and _END: around the declarations of such functions in a header. Clang
// before 18 makes the versions only if the first declaration asks for them.
#if defined(__clang__)
#if defined(__x86_64__) && !__has_feature(address_sanitizer)
#define TASUKI_VECTORIZE __attribute__((target_clones("default", "avx2", "avx512vl")))
#if __clang_major__ < 18
#define TASUKI_PRAGMA(...) _Pragma(#__VA_ARGS__)
#define TASUKI_VECTORIZED_BEGIN       \
  TASUKI_PRAGMA(clang attribute push( \
      __attribute__((target_clones("default", "avx2", "avx512vl"))), apply_to = function))
#define TASUKI_VECTORIZED_END TASUKI_PRAGMA(clang attribute pop)
#endif
#endif
#elif defined(__x86_64__) && !defined(__SANITIZE_ADDRESS__)
#define TASUKI_VECTORIZE                                                                       \
  __attribute__((target_clones("default", "arch=x86-64-v3", "arch=x86-64-v4"), optimize("O3"), \
                 noinline))
#endif
#ifndef TASUKI_VECTORIZE
#define TASUKI_VECTORIZE
#endif
#ifndef TASUKI_VECTORIZED_BEGIN
#define TASUKI_VECTORIZED_BEGIN
#define TASUKI_VECTORIZED_END
#endif

// To be put before a loop: no iteration reads or writes what another one writes.
#ifdef __clang__
#define TASUKI_INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#else
#define TASUKI_INDEPENDENT _Pragma("GCC ivdep")
#endif
