// hydrascope inspect: what a checkpoint's header says, without loading a tensor.
#include "app/command.h"
#include "app/model/hub_cache.h"
#include "app/results/format.h"
#include "app/results/json.h"
#include "app/run/console.h"
#include "app/run/output_file.h"
#include "kernels/error.h"
#include "model/checkpoint/checkpoint.h"

#include <filesystem>
#include <ostream>
#include <string>
#include <system_error>
#include <vector>

namespace hydrascope::app {
namespace {

std::string shape_text(const std::vector<std::int64_t>& shape) {
  std::string text;
  for (const std::int64_t size : shape) text += (text.empty() ? "" : "x") + std::to_string(size);
  return text.empty() ? "scalar" : text;
}

/// The file as a vision transformer. One that is none is still worth looking at.
struct Findings {
  std::string arch;
  std::string attention;
  std::string layout;
  std::vector<std::string> notes;
  std::string problem;  ///< why it is none, or not a complete one
};

Findings look_at(const checkpoint::WeightFile& file) {
  Findings findings;
  try {
    const checkpoint::Checkpoint weights{file};
    findings.layout = weights.layout();
    findings.notes = with_flags(weights.notes());
    const model::VitConfig config = weights.deduce_config();
    findings.arch = config.arch;
    findings.attention = model::to_text(config.attention);
  } catch (const Error& error) {
    findings.problem = error.what();
    if (error.subject() != file.file().string()) findings.problem += " (" + error.subject() + ")";
    findings.problem = with_flags(findings.problem);
  }
  return findings;
}

OrderedJson json_of(const checkpoint::WeightFile& file, const Findings& findings) {
  OrderedJson tensors = OrderedJson::array();
  for (const checkpoint::TensorView& view : file.tensors()) {
    tensors.push_back({{"name", view.name},
                       {"dtype", std::string(name(view.dtype))},
                       {"shape", view.shape},
                       {"bytes", view.data.size()}});
  }
  const auto or_null = [](const std::string& text) {
    return text.empty() ? OrderedJson() : OrderedJson(text);
  };
  return {{"schema", 1},
          {"format", file.format()},
          {"tensors", tensors},
          {"metadata", file.metadata()},
          {"arch", or_null(findings.arch)},
          {"attention", or_null(findings.attention)},
          {"layout", or_null(findings.layout)},
          {"entry", or_null(file.entry())},
          {"notes", findings.notes}};
}

void write_tensors(const checkpoint::WeightFile& file, std::ostream& out) {
  for (const checkpoint::TensorView& view : file.tensors()) {
    out << view.name << '\t' << name(view.dtype) << '\t' << shape_text(view.shape) << '\t'
        << view.data.size() << '\n';
  }
}

void write_summary(const checkpoint::WeightFile& file, const Findings& findings,
                   std::ostream& out) {
  std::size_t total = 0;
  for (const checkpoint::TensorView& view : file.tensors()) total += view.data.size();
  for (const auto& [key, value] : file.metadata())
    out << "metadata " << key << " = " << value << '\n';
  out << "format " << file.format() << ", " << file.tensors().size() << " tensors, " << total
      << " bytes\n";
  if (!findings.layout.empty()) out << "names of " << findings.layout << '\n';
  for (const std::string& note : findings.notes) out << "note: " << note << '\n';
  if (findings.arch.empty()) {
    out << "no vision transformer: " << findings.problem << '\n';
  } else {
    out << "architecture " << findings.arch << ", attention " << findings.attention << '\n';
  }
}

}  // namespace

int run_inspect(const ParsedOptions& options) {
  if (options.positionals().size() != 1) {
    throw Error(ErrorCode::invalid_argument,
                "expected one file, found " + std::to_string(options.positionals().size()),
                "inspect");
  }
  const std::filesystem::path given = options.positionals().front();
  std::error_code ignored;
  const auto cached =
      std::filesystem::exists(given, ignored) ? std::nullopt : hub_folder(given.native());
  const checkpoint::WeightFile file =
      checkpoint::WeightFile::open(cached.value_or(given), {options.flag("use-ema")});
  const Findings findings = look_at(file);
  OutputFile output(options.text("output"));
  std::ostream& out = output.stream();
  const Format wanted = choose_format(options.text("format"), options.text("output"));
  if (is_json(wanted)) {
    out << json_of(file, findings)
               .dump(wanted == Format::json ? 2 : -1, ' ', false,
                     OrderedJson::error_handler_t::replace)
        << '\n';
  } else {
    write_tensors(file, out);
  }
  if (wanted == Format::text) write_summary(file, findings, out);
  output.close();
  return kExitOk;
}

}  // namespace hydrascope::app
