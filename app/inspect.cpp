// hydrascope inspect: what a checkpoint's header says, without loading a tensor.
#include "app/command.h"
#include "app/console.h"
#include "app/report.h"
#include "kernels/error.h"
#include "model/checkpoint/checkpoint.h"

#include <nlohmann/json.hpp>

#include <array>
#include <cstdio>
#include <fstream>
#include <span>

namespace hydrascope::app {
namespace {

using Json = nlohmann::ordered_json;

std::string sniff(const std::string& file) {
  std::ifstream stream(file, std::ios::binary);
  if (!stream) throw Error(ErrorCode::not_found, "cannot be opened", file);
  std::array<char, 512> bytes{};
  stream.read(bytes.data(), bytes.size());
  return std::string(checkpoint::sniff_format(
      std::as_bytes(std::span(bytes).first(static_cast<std::size_t>(stream.gcount())))));
}

std::string shape_text(const std::vector<std::int64_t>& shape) {
  std::string text;
  for (const std::int64_t size : shape) text += (text.empty() ? "" : "x") + std::to_string(size);
  return text.empty() ? "scalar" : text;
}

int run_inspect(const ParsedOptions& options) {
  if (dump_config_requested(options)) return kExitOk;
  if (options.positionals().size() != 1) {
    throw Error(ErrorCode::invalid_argument,
                "expected one file, found " + std::to_string(options.positionals().size()),
                "inspect");
  }
  const std::string& file = options.positionals().front();
  const bool is_index = file.ends_with(".index.json");
  const std::string format = is_index ? "safetensors" : sniff(file);
  const checkpoint::SafetensorsFile contents = checkpoint::SafetensorsFile::open(file);
  std::string arch;
  std::string attention;
  // A file that is no vision transformer is still worth looking at.
  std::string no_model;
  try {
    const model::VitConfig config = checkpoint::Checkpoint::open(file).deduce_config();
    arch = config.arch;
    attention = model::to_text(config.attention);
  } catch (const Error& error) {
    no_model = error.what();
  }

  OutputFile output(options.text("output"));
  std::ostream& out = output.stream();
  const Format wanted = choose_format(options.text("format"), options.text("output"));
  std::size_t total = 0;
  if (wanted == Format::json || wanted == Format::jsonl) {
    Json tensors = Json::array();
    for (const checkpoint::TensorView& view : contents.tensors()) {
      tensors.push_back({{"name", view.name},
                         {"dtype", std::string(name(view.dtype))},
                         {"shape", view.shape},
                         {"bytes", view.data.size()}});
    }
    Json json = {{"schema", 1},
                 {"format", format},
                 {"tensors", tensors},
                 {"metadata", contents.metadata()},
                 {"arch", arch.empty() ? Json() : Json(arch)},
                 {"attention", attention.empty() ? Json() : Json(attention)}};
    out << json.dump(wanted == Format::json ? 2 : -1, ' ', false, Json::error_handler_t::replace)
        << '\n';
  } else {
    for (const checkpoint::TensorView& view : contents.tensors()) {
      out << view.name << '\t' << name(view.dtype) << '\t' << shape_text(view.shape) << '\t'
          << view.data.size() << '\n';
      total += view.data.size();
    }
  }
  if (wanted == Format::text) {
    for (const auto& [key, value] : contents.metadata())
      out << "metadata " << key << " = " << value << '\n';
    out << "format " << format << ", " << contents.tensors().size() << " tensors, " << total
        << " bytes\n";
    out << (arch.empty() ? "no vision transformer: " + no_model
                         : "architecture " + arch + ", attention " + attention)
        << '\n';
  }
  output.close();
  return kExitOk;
}

}  // namespace

Command inspect_command() {
  CommandSpec spec;
  spec.name = "inspect";
  spec.summary = "header of a checkpoint without loading it";
  spec.positionals = "FILE";
  spec.options = join({output_options(), general_options()});
  spec.examples = {"hydrascope inspect model.safetensors",
                   "hydrascope inspect model.safetensors --format json"};
  return {std::move(spec), run_inspect};
}

}  // namespace hydrascope::app
