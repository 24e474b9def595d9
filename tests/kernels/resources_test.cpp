// What ptxas said of every kernel against the budgets at the head of its file:
//   // Budget: project_kernel: 128 registers, 8448 shared bytes
// No spills, no stack, on any architecture; a kernel without a budget fails, and so does a budget
// without a kernel.
#include <gtest/gtest.h>

#include <cstdlib>
#include <cxxabi.h>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <regex>
#include <set>
#include <string>
#include <vector>

namespace hydrascope::kernels::test {
namespace {

/// "linear_attention/state_kernel": the folder, which is the namespace, and the kernel's name.
using KernelName = std::string;

struct Budget {
  int registers = 0;
  int shared_bytes = 0;
};

std::map<KernelName, Budget> read_budgets(const std::filesystem::path& kernels) {
  std::map<KernelName, Budget> budgets;
  const std::regex line_form(R"(// Budget: (\w+): (\d+) registers, (\d+) shared bytes)");
  for (const auto& entry : std::filesystem::recursive_directory_iterator(kernels)) {
    if (entry.path().extension() != ".cuh" && entry.path().extension() != ".cu") continue;
    std::ifstream file(entry.path());
    for (std::string line; std::getline(file, line);) {
      std::smatch match;
      if (!std::regex_match(line, match, line_form)) continue;
      const KernelName name = entry.path().parent_path().filename().string() + "/" + match[1].str();
      EXPECT_TRUE(budgets.emplace(name, Budget{std::stoi(match[2]), std::stoi(match[3])}).second)
          << name << " has two budgets";
    }
  }
  return budgets;
}

/// One compiled instance of a kernel.
struct Report {
  std::string symbol;
  std::string architecture;
  int stack = -1;
  int spilled = -1;
  int registers = -1;
  int shared_bytes = 0;
};

std::vector<Report> read_reports(const std::filesystem::path& folder) {
  std::vector<Report> reports;
  const std::regex entry_form(R"(.*Compiling entry function '(\S+)' for '(\w+)'.*)");
  const std::regex stack_form(
      R"(\s*(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads.*)");
  const std::regex used_form(R"(.*Used (\d+) registers.*)");
  const std::regex shared_form(R"(.* (\d+) bytes smem.*)");
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    if (entry.path().extension() != ".ptxas") continue;
    // Objects that are gone leave their report behind.
    std::filesystem::path object = entry.path();
    if (!std::filesystem::exists(object.replace_extension())) continue;
    std::ifstream file(entry.path());
    for (std::string line; std::getline(file, line);) {
      std::smatch match;
      if (std::regex_match(line, match, entry_form)) {
        reports.push_back({match[1], match[2]});
      } else if (reports.empty()) {
        continue;
      } else if (std::regex_match(line, match, stack_form)) {
        reports.back().stack = std::stoi(match[1]);
        reports.back().spilled = std::stoi(match[2]) + std::stoi(match[3]);
      } else if (std::regex_match(line, match, used_form)) {
        reports.back().registers = std::stoi(match[1]);
        if (std::regex_match(line, match, shared_form))
          reports.back().shared_bytes = std::stoi(match[1]);
      }
    }
  }
  return reports;
}

/// hydrascope::kernels::hydra::cuda::project_kernel<...>(...) -> "hydra/project_kernel".
KernelName kernel_name(const std::string& symbol) {
  const std::unique_ptr<char, decltype(&std::free)> text(
      abi::__cxa_demangle(symbol.c_str(), nullptr, nullptr, nullptr), &std::free);
  const std::regex form(R"((?:void )?hydrascope::kernels::(\w+)::(?:\w+::)*(\w+)(?:<|\().*)");
  std::smatch match;
  const std::string readable = text ? text.get() : symbol;
  return std::regex_match(readable, match, form) ? match[1].str() + "/" + match[2].str() : readable;
}

TEST(KernelResources, StayWithinTheirBudgetsOnEveryArchitecture) {
  const auto budgets = read_budgets(std::filesystem::path(HYDRASCOPE_SOURCE_DIR) / "kernels");
  const auto reports = read_reports(HYDRASCOPE_PTXAS_REPORTS);
  ASSERT_FALSE(reports.empty()) << "no report in " HYDRASCOPE_PTXAS_REPORTS;
  std::set<std::string> architectures;
  std::map<KernelName, std::set<std::string> > compiled;
  for (const Report& report : reports) {
    const KernelName name = kernel_name(report.symbol);
    const std::string which = name + " for " + report.architecture + " (" + report.symbol + ")";
    architectures.insert(report.architecture);
    compiled[name].insert(report.architecture);
    EXPECT_EQ(report.stack, 0) << which;
    EXPECT_EQ(report.spilled, 0) << which;
    EXPECT_GT(report.registers, 0) << which;
    const auto budget = budgets.find(name);
    if (budget == budgets.end()) {
      ADD_FAILURE() << which << " has no budget in its file";
      continue;
    }
    EXPECT_LE(report.registers, budget->second.registers) << which;
    EXPECT_LE(report.shared_bytes, budget->second.shared_bytes) << which;
  }
  // "80;86-real;90a-real" -> sm_80, sm_86, sm_90a.
  const std::string wanted = HYDRASCOPE_CUDA_ARCHITECTURES;
  const std::regex word_form("[0-9]+[a-z]?");
  for (std::sregex_iterator word(wanted.begin(), wanted.end(), word_form), end; word != end; ++word)
    EXPECT_TRUE(architectures.contains("sm_" + word->str())) << word->str() << " is asked for";
  for (const auto& [name, budget] : budgets) {
    EXPECT_EQ(compiled[name], architectures) << name << " has a budget";
    EXPECT_LE(budget.shared_bytes, 48 * 1024) << name;
  }
  RecordProperty("kernels", static_cast<int>(reports.size()));
  std::printf("%zu kernels on %zu architectures\n", compiled.size(), architectures.size());
}

}  // namespace
}  // namespace hydrascope::kernels::test
