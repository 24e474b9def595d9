// hydrascope inspect: what a checkpoint's header says, and whether its numbers are numbers.
#include "app/command.h"
#include "app/model/assets.h"
#include "app/options/requests.h"
#include "app/results/format.h"
#include "app/results/json.h"
#include "app/results/table.h"
#include "app/run/console.h"
#include "app/run/output_file.h"
#include "app/run/terminal_text.h"
#include "app/run/usage_error.h"
#include "model/checkpoint/checkpoint.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <iostream>
#include <optional>
#include <ostream>
#include <span>
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
  findings.notes = with_flags(file.notes());
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

/// How many numbers of a tensor are none.
struct NotFinite {
  std::string tensor;
  std::int64_t nan = 0;
  std::int64_t infinite = 0;
};

/// `exponent` and `fraction`: masks of IEEE 754's fields. All of an exponent's bits are set in what
/// is not finite; then a fraction of zero is an infinity.
template <class Bits>
void count(std::span<const std::byte> bytes, Bits exponent, Bits fraction, NotFinite& found) {
  for (std::size_t at = 0; at + sizeof(Bits) <= bytes.size(); at += sizeof(Bits)) {
    Bits bits{};
    std::memcpy(&bits, bytes.data() + at, sizeof bits);
    if ((bits & exponent) != exponent) continue;
    ++((bits & fraction) == 0 ? found.infinite : found.nan);
  }
}

/// Of the types that weights can have.
std::vector<NotFinite> not_finite(const checkpoint::WeightFile& file) {
  using checkpoint::Dtype;
  std::vector<NotFinite> all;
  for (const checkpoint::TensorView& view : file.tensors()) {
    NotFinite found{view.name};
    switch (view.dtype) {
      case Dtype::F16: count<std::uint16_t>(view.data, 0x7C00, 0x03FF, found); break;
      case Dtype::BF16: count<std::uint16_t>(view.data, 0x7F80, 0x007F, found); break;
      case Dtype::F32: count<std::uint32_t>(view.data, 0x7F800000, 0x007FFFFF, found); break;
      case Dtype::F64:
        count<std::uint64_t>(view.data, 0x7FF0000000000000, 0x000FFFFFFFFFFFFF, found);
        break;
      case Dtype::F8_E5M2: count<std::uint8_t>(view.data, 0x7C, 0x03, found); break;
      // Has one NaN with either sign, and no infinity.
      case Dtype::F8_E4M3: count<std::uint8_t>(view.data, 0x7F, 0x7F, found); break;
      case Dtype::F8_E4M3FNUZ:
      case Dtype::F8_E5M2FNUZ: found.nan = std::ranges::count(view.data, std::byte{0x80}); break;
      default: break;
    }
    if (found.nan + found.infinite > 0) all.push_back(std::move(found));
  }
  return all;
}

void write_not_finite(const std::vector<NotFinite>& all, std::ostream& out) {
  for (const NotFinite& one : all)
    out << printable(one.tensor) << " is not finite: " << one.nan << " NaN, " << one.infinite
        << " infinite\n";
  if (all.empty()) out << "all weights are finite\n";
}

OrderedJson json_of(const std::vector<NotFinite>& all) {
  OrderedJson json = OrderedJson::array();
  for (const NotFinite& one : all)
    json.push_back({{"name", one.tensor}, {"nan", one.nan}, {"infinite", one.infinite}});
  return json;
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

void write_tensors(const checkpoint::WeightFile& file, Format format, std::ostream& out) {
  ResultTable table({{"name", ""}, {"dtype", ""}, {"shape", ""}, {"bytes", ""}});
  for (const checkpoint::TensorView& view : file.tensors()) {
    const std::vector<std::string> cells{view.name, std::string(name(view.dtype)),
                                         shape_text(view.shape), std::to_string(view.data.size())};
    if (format == Format::text)
      out << printable(cells[0]) << '\t' << cells[1] << '\t' << cells[2] << '\t' << cells[3]
          << '\n';
    table.add({cells.begin(), cells.end()});
  }
  if (format != Format::text) table.write(format, out);
}

void write_summary(const checkpoint::WeightFile& file, const Findings& findings,
                   std::ostream& out) {
  std::size_t total = 0;
  for (const checkpoint::TensorView& view : file.tensors()) total += view.data.size();
  for (const auto& [key, value] : file.metadata())
    out << "metadata " << printable(key) << " = " << printable(value) << '\n';
  out << "format " << file.format() << ", " << file.tensors().size() << " tensors, " << total
      << " bytes\n";
  if (!findings.layout.empty()) out << "names of " << findings.layout << '\n';
  for (const std::string& note : findings.notes) out << "note: " << printable(note) << '\n';
  if (findings.arch.empty()) {
    out << "no vision transformer: " << printable(findings.problem) << '\n';
  } else {
    out << "architecture " << findings.arch << ", attention " << findings.attention << '\n';
  }
}

}  // namespace

int run_inspect(const ParsedOptions& options) {
  if (options.positionals().size() != 1) {
    throw UsageError("expected one file, found " + std::to_string(options.positionals().size()),
                     "inspect");
  }
  const std::filesystem::path given = options.positionals().front();
  std::error_code ignored;
  const auto cached =
      std::filesystem::exists(given, ignored) ? std::nullopt : hub_folder(given.native());
  const checkpoint::WeightFile file =
      checkpoint::WeightFile::open(cached.value_or(given), {options.flag("use-ema")});
  const Findings findings = look_at(file);
  std::optional<std::vector<NotFinite>> verified;
  if (options.flag("verify")) verified = not_finite(file);
  const auto& [name, wanted] = output_request(options);
  OutputFile output(name);
  std::ostream& out = output.stream();
  if (is_json(wanted)) {
    OrderedJson json = json_of(file, findings);
    if (verified) json["not_finite"] = json_of(*verified);
    out << json.dump(wanted == Format::json ? 2 : -1, ' ', false,
                     OrderedJson::error_handler_t::replace)
        << '\n';
  } else {
    write_tensors(file, wanted, out);
  }
  if (wanted == Format::text) {
    write_summary(file, findings, out);
    if (verified) write_not_finite(*verified, out);
  } else if (verified && !verified->empty() && !is_json(wanted)) {
    write_not_finite(*verified, std::cerr);  // a table of tensors has no room for it
  }
  output.close();
  return verified && !verified->empty() ? kExitCheckFailed : kExitOk;
}

}  // namespace hydrascope::app
