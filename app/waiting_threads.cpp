#include "app/waiting_threads.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <system_error>
#include <unistd.h>
#include <vector>

namespace hydrascope::app {

void wait_briefly_for_threads() {
  // Some ten microseconds: more than a product's parts differ by, less than a time slice.
  constexpr const char* kSpins = "1000";
  if (std::getenv("GOMP_SPINCOUNT") != nullptr || std::getenv("OMP_WAIT_POLICY") != nullptr) return;
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  std::vector<std::string> words;
  for (std::string word; std::getline(file, word, '\0');) words.push_back(word);
  if (words.empty() || ::setenv("GOMP_SPINCOUNT", kSpins, 1) != 0) return;
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  // Its real path: the process keeps its name.
  std::error_code error;
  const std::string program = std::filesystem::read_symlink("/proc/self/exe", error).string();
  if (!error) ::execv(program.c_str(), arguments.data());
}

}  // namespace hydrascope::app
