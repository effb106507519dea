#pragma once

#include <span>

#include "tools/commands.h"

namespace hmann::tools {

/// The main of a program with these commands. Returns its exit code: 0 done, 1 the work
/// failed, 2 wrong usage.
int RunCommands(std::span<const Command> commands, int argc, char** argv);

/// `eval`, which is a command of hmann (SetupEval: it hands over) and of hmann-eval
/// (which does the work).
constexpr Command EvalRow(CommandAction (*setup)(CLI::App& app)) {
  return {"eval", "Measure: recall against latency, beside the baselines",
          "hmann eval sweep --base datasets/sample/base.u8bin --queries "
          "datasets/sample/query.u8bin --groundtruth "
          "datasets/sample/query.gt100 --out build/sweep",
          setup};
}

}  // namespace hmann::tools
