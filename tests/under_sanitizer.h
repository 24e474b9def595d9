/// Whether a sanitizer is part of this program. It is asked while the program runs, because a sanitized program may
/// link the objects of a plain one.
#pragma once

extern "C" {
void __asan_init() __attribute__((weak));
void __tsan_init() __attribute__((weak));
}

namespace hydrascope::testing {

inline bool under_sanitizer() { return __asan_init != nullptr || __tsan_init != nullptr; }

}  // namespace hydrascope::testing

/// Leaves a test that limits the process's memory: a sanitizer reserves terabytes of addresses.
#define SKIP_UNDER_SANITIZER()                  \
  if (::hydrascope::testing::under_sanitizer()) \
  GTEST_SKIP() << "a sanitizer reserves more memory than the test allows"
