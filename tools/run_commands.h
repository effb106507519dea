#pragma once

#include <span>

#include "tools/commands.h"

namespace hmann::tools {

/// The main function of a program with these commands. Returns its exit code: 0 done, 1
/// the work failed, 2 wrong usage, 75 the work failed and may not if it is tried again
/// (UNAVAILABLE), 130 interrupted.
int RunCommands(std::span<const Command> commands, int argc, char** argv);

/// The `eval` command. It belongs to hmann (SetupEval, which hands over) and to
/// hmann-eval (which does the work).
constexpr Command EvalRow(CommandAction (*setup)(CLI::App& app)) {
  return {"eval", "Measure recall against latency, next to the baselines",
          "hmann eval sweep --base datasets/sample/base.u8bin --queries "
          "datasets/sample/query.u8bin --groundtruth "
          "datasets/sample/query.gt100 --out build/sweep",
          setup,
          "--base --queries --groundtruth --metric --k --systems --index --server --sizes --rate "
          "--out"};
}

}  // namespace hmann::tools
