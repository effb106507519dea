/// Words, figures and tables of the paper's claims.
#pragma once

#include <limits>
#include <string>
#include <vector>

#include "eval/paper/paper.h"

namespace hmann::eval {

inline constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
inline constexpr const char *kHeld = "held", *kPartly = "partly", *kNotHeld = "not held",
                            *kBeyond = "needs 10^9";

/// Three digits or more; "-" for what no curve reaches.
std::string Text(double value, const char* unit = "");
std::string Percent(double share);

struct Table {
  std::string title;
  std::vector<std::string> head;
  std::vector<std::vector<std::string>> rows = {};
};

/// A line of kind "claim" (JudgeClaims).
Json ClaimLine(const char* claim, const char* paper, const std::string& ran,
               const std::string& figure, const char* verdict, const std::string& varied,
               const std::vector<Table>& tables);

/// The last claim, which has a grid of its own.
Json JudgeEquation(const PaperParts& parts);

}  // namespace hmann::eval
