#include "app/run/own_program.h"

#include <filesystem>
#include <fstream>
#include <system_error>

namespace hydrascope::app {

std::optional<OwnProgram> own_program() {
  OwnProgram program;
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  for (std::string word; std::getline(file, word, '\0');) program.words.push_back(word);
  std::error_code error;
  program.file = std::filesystem::read_symlink("/proc/self/exe", error).string();
  if (error || program.words.empty()) return std::nullopt;
  return program;
}

std::vector<char*> exec_words(std::vector<std::string>& words) {
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  return pointers;
}

}  // namespace hydrascope::app
