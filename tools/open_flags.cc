#include "tools/open_flags.h"

#include "index/base/units.h"
#include "tools/flags.h"
#include "tools/help.h"

namespace hmann::tools {

void AddTierFlags(CLI::App& app, OpenOptions* open) {
  app.add_option("--fast", open->fast,
                 "tier of the upper layers and promoted vectors: dram, numa:N")
      ->capture_default_str();
  app.add_option("--slow", open->slow,
                 "tier of L0: mapped (the file in place), mapped:PATH, dram, numa:N, dax:PATH, "
                 "nvme (the file in place, O_DIRECT), nvme:PATH, "
                 "emulated:lat=300ns")
      ->capture_default_str();
}

void AddOpenFlags(CLI::App& app, OpenOptions* open) {
  const OptionGroup group(app, "Memory and drives");
  AddTierFlags(app, open);
  AddParsed(
      app, "--cache", ParseCachePolicy, &open->cache,
      "cache of slow records in fast memory: none (default), static (by degree), dynamic (by use)");
  AddParsed(app, "--cache-size", ParseSize, &open->cache_bytes, "size of that cache, as 256MiB");
  AddParsed(app, "--read-buffers", ParseSize, &open->read_buffer_bytes,
            "bytes per search thread for reads from nvme (default 16MiB)");
  app.add_option_function<std::uint32_t>(
         "--sq", [open](const std::uint32_t& bits) { open->sq_bits = bits; },
         "scalar quantization: search with codes of 8 or 4 bits per component, and rank by exact "
         "distances (0: exact distances only). Codes that the index does not contain are made when "
         "it is opened. Default: the fastest that `hmann tune --sq` has tuned, or those of the "
         "index if L0 is dram or mapped")
      ->check(CLI::IsMember({0, 4, 8}));
}

}  // namespace hmann::tools
