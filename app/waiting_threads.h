// How threads of one product wait for each other. Free of LibTorch.
#pragma once

namespace hydrascope::app {

/// For programs whose computing threads share their processors with others: workers that decode,
/// another program. GNU OpenMP's threads spin for milliseconds where one of them was not scheduled,
/// and with more work than processors that becomes most of the time (a step of training took two
/// to three times as long). Its patience is read when the library is loaded, so the program starts
/// itself again with a shorter one. Call it before anything else; does nothing when GOMP_SPINCOUNT
/// or OMP_WAIT_POLICY is set, or where it cannot.
void wait_briefly_for_threads();

}  // namespace hydrascope::app
