#include "app/model/inspection.h"

#include "app/run/console.h"
#include "kernels/error.h"
#include "model/config/config.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <utility>

namespace hydrascope::app {

Findings look_at(const checkpoint::WeightFile& file) {
  Findings findings;
  findings.notes = spelled(file.notes());
  try {
    const checkpoint::Checkpoint weights{file};
    findings.layout = weights.layout();
    findings.notes = spelled(weights.notes());
    const model::VitConfig config = weights.deduce_config();
    findings.arch = config.arch;
    findings.attention = model::to_text(config.attention);
  } catch (const Error& error) {
    findings.problem = error.what();
    if (error.about() != file.file().string()) findings.problem += " (" + error.about() + ")";
    findings.problem = spelled(findings.problem);
  }
  return findings;
}

namespace {

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

/// For the types that weights can have.
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

}  // namespace

void add_header(const checkpoint::WeightFile& file, const Findings& findings, Report& report) {
  const auto or_null = [](const std::string& text) {
    return text.empty() ? OrderedJson() : OrderedJson(text);
  };
  ResultTable tensors(
      {{"name", "tensor"}, {"dtype", "dtype"}, {"shape", "shape"}, {"bytes", "bytes"}});
  std::size_t bytes = 0;
  for (const checkpoint::TensorView& view : file.tensors()) {
    bytes += view.data.size();
    tensors.add({view.name, std::string(name(view.dtype)), view.shape, view.data.size()});
  }
  report.add("format", file.format());
  report.summary.add("tensors", tensors.size(), 0, kForPeople);
  report.summary.add("bytes", bytes, 0, kForPeople);
  report.add("arch", or_null(findings.arch));
  report.add("attention", or_null(findings.attention));
  report.add("layout", or_null(findings.layout));
  report.add("entry", or_null(file.entry()));
  report.summary.add("metadata", file.metadata(), 0, kInJson);
  report.summary.add("notes", findings.notes, 0, kInJson);
  report.add_table("", "metadata", ResultTable::of_settings(file.metadata()), kForPeople);
  report.add_table("tensors", "tensors", std::move(tensors), kMain);
  report.notes = findings.notes;
  if (findings.arch.empty()) report.notes.push_back("no vision transformer: " + findings.problem);
}

bool add_not_finite(const checkpoint::WeightFile& file, Report& report) {
  ResultTable table({{"name", "tensor"}, {"nan", "NaN"}, {"infinite", "infinite"}});
  const std::vector<NotFinite> all = not_finite(file);
  for (const NotFinite& one : all) {
    table.add({one.tensor, one.nan, one.infinite});
    report.notes.push_back(one.tensor + " is not finite: " + std::to_string(one.nan) + " NaN, " +
                           std::to_string(one.infinite) + " infinite");
  }
  report.add_table("not_finite", "", std::move(table), kInJson);
  if (all.empty()) report.remarks.emplace_back("all weights are finite");
  return all.empty();
}

}  // namespace hydrascope::app
