#pragma once

// A diagnosis as text for people and as JSON for programs. Pure.

#include <string>

#include "doctor/checks.h"

namespace dtrain::doctor {

// Tables of the ranks and of the findings, then each finding with cause, evidence and fix; at the
// end one line of what is right and one of what was not checked, by reason. Names of others are
// escaped (text/printable.h).
std::string to_text(const Launch&, const Diagnosis&);

// {"kind": "doctor", "blocks": bool, "findings": [...], "right": [...], "unchecked": [...],
// "ranks": [facts]}
std::string to_json(const Launch&, const Diagnosis&);

}  // namespace dtrain::doctor
