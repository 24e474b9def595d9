#include "app/run/own_program.h"

#include "kernels/input_file.h"

#include <algorithm>
#include <sstream>
#include <sys/auxv.h>
#include <system_error>
#include <unistd.h>

namespace hydrascope::app {

namespace fs = std::filesystem;

namespace {

/// argv as it was given to main.
char** g_words = nullptr;

/// The loader of glibc gives every initialiser what main gets.
[[gnu::constructor]] void keep_words(int, char** words, char**) { g_words = words; }

fs::path find_own_file() {
  std::error_code error;
  fs::path file = fs::read_symlink("/proc/self/exe", error);
  if (!error) return file;
  // A relative name is of the folder where the process began, which nothing here leaves.
  const auto* told = reinterpret_cast<const char*>(::getauxval(AT_EXECFN));
  file = told == nullptr ? fs::path() : fs::canonical(told, error);
  return error ? fs::path() : file;
}

}  // namespace

const fs::path& own_file() {
  static const fs::path file = find_own_file();
  return file;
}

std::optional<OwnProgram> own_program() {
  OwnProgram program{own_file().string(), {}};
  for (char** word = g_words; word != nullptr && *word != nullptr; ++word)
    program.words.emplace_back(*word);
  if (program.file.empty() || program.words.empty()) return std::nullopt;
  return program;
}

double seconds_of_process() {
  // Field 22 of proc(5)'s stat, counted behind the name in brackets, which may hold anything.
  const std::string text = InputFile("/proc/self/stat").text();
  std::istringstream fields(text.substr(text.rfind(')') + 1));
  constexpr int kBetween = 19;
  std::string field;
  for (int i = 0; i < kBetween; ++i) fields >> field;
  double began = 0;
  double now = 0;
  InputFile uptime("/proc/uptime");
  if (!(fields >> began) || !(uptime >> now)) return 0;
  return std::max(0.0, now - began / static_cast<double>(::sysconf(_SC_CLK_TCK)));
}

std::vector<char*> exec_words(std::vector<std::string>& words) {
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  return pointers;
}

}  // namespace hydrascope::app
