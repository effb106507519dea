#include <iostream>
#include <memory>
#include <string>

#include "absl/strings/str_format.h"
#include "hmann/hmann.h"
#include "index/base/status_macros.h"
#include "index/base/units.h"
#include "tools/build_flags.h"
#include "tools/commands.h"
#include "tools/flags.h"
#include "tools/interrupt.h"
#include "tools/print.h"

namespace hmann::tools {
namespace {

struct AttrsFlags {
  std::string index;
  MakeAttributesOptions make;
  bool json = false;
};

absl::Status Show(const AttrsFlags& flags) {
  HMANN_ASSIGN_OR_RETURN(const IndexInfo info, ReadInfo(flags.index));
  const std::string path = Attributes::PathOf(flags.index);
  HMANN_ASSIGN_OR_RETURN(const std::shared_ptr<const Attributes> attributes,
                         Attributes::Open(path, info.n, info.content_hash));
  nlohmann::ordered_json fields = nlohmann::ordered_json::array();
  std::string text;
  for (const AttributeFieldInfo& of : attributes->fields()) {
    const std::string type(AttributeTypeName(of.field.type));
    fields.push_back({{"name", of.field.name}, {"type", type}, {"rows", of.rows}});
    absl::StrAppendFormat(&text, "  %-24s %-8s %d vectors", of.field.name, type, of.rows);
    if (of.values > 0) {
      fields.back()["values"] = of.values;
      absl::StrAppendFormat(&text, ", %d values", of.values);
    }
    text += '\n';
  }
  if (flags.json) {
    return PrintJson({{"n", info.n},
                      {"memory_bytes", attributes->memory_bytes()},
                      {"mapped_bytes", attributes->mapped_bytes()},
                      {"fields", fields}});
  }
  std::cout << absl::StrFormat("%s: attributes of %d vectors; %s in memory, %s mapped\n%s", path,
                               info.n, FormatSize(attributes->memory_bytes()),
                               FormatSize(attributes->mapped_bytes()), text);
  return absl::OkStatus();
}

}  // namespace

CommandAction SetupAttrs(CLI::App& app) {
  auto flags = std::make_shared<AttrsFlags>();
  app.add_option("INDEX", flags->index, "index file")->required();
  AddRowsFlags(app, "--from", "without it, the fields that there are are shown", &flags->make);
  AddParsed(app, "--build-memory", ParseSize, &flags->make.memory,
            "memory to use; with less, the rows are read several times (default: half of what is "
            "available)");
  app.add_flag("--json", flags->json, "print one JSON object on stdout");
  return [flags]() -> absl::Status {
    if (!flags->make.from.empty()) {
      Progress progress;
      flags->make.cancelled = CancelOnInterrupt();
      HMANN_RETURN_IF_ERROR(MakeAttributes(flags->index, flags->make, progress));
    }
    return Show(*flags);
  };
}

}  // namespace hmann::tools
