#include "app/waiting_threads.h"

#include "app/own_program.h"

#include <cstdlib>
#include <unistd.h>

namespace hydrascope::app {

void wait_briefly_for_threads() {
  // Some ten microseconds: more than a product's parts differ by, less than a time slice.
  constexpr const char* kSpins = "1000";
  if (std::getenv("GOMP_SPINCOUNT") != nullptr || std::getenv("OMP_WAIT_POLICY") != nullptr) return;
  std::optional<OwnProgram> program = own_program();
  if (!program || ::setenv("GOMP_SPINCOUNT", kSpins, 1) != 0) return;
  ::execv(program->file.c_str(), exec_words(program->words).data());
}

}  // namespace hydrascope::app
