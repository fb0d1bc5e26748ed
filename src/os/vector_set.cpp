#include "os/vector_set.h"

#include <algorithm>
#include <cstdlib>
#include <string_view>

#if defined(__x86_64__) && defined(__GNUC__)
#include <cpuid.h>
#define DTRAIN_X86
#endif

namespace dtrain {
namespace {

VectorSet vectors_of_cpu() {
#ifdef DTRAIN_X86
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  const bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
                      __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq");
  return avx512 ? VectorSet::kAvx512 : avx2 ? VectorSet::kAvx2 : VectorSet::kAny;
#else
  return VectorSet::kAny;
#endif
}

bool bfloat16_of_cpu() {
#ifdef DTRAIN_X86
  if (vectors_of_cpu() != VectorSet::kAvx512) return false;
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  const bool amx = __get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) != 0 && (edx >> 22 & 1) != 0;
  const bool avx512 = __get_cpuid_count(7, 1, &eax, &ebx, &ecx, &edx) != 0 && (eax >> 5 & 1) != 0;
  return amx || avx512;
#else
  return false;
#endif
}

}  // namespace

VectorSet vectors_allowed_by(const char* aten_cpu_capability) {
  const std::string_view value = aten_cpu_capability == nullptr ? "" : aten_cpu_capability;
  return value == "default" ? VectorSet::kAny
         : value == "avx2"  ? VectorSet::kAvx2
                            : VectorSet::kAvx512;
}

VectorSet widest_vectors() {
  static const VectorSet of_process =
      std::min(vectors_of_cpu(), vectors_allowed_by(std::getenv("ATEN_CPU_CAPABILITY")));
  return of_process;
}

bool has_bfloat16_products() {
  static const bool has = bfloat16_of_cpu();
  return has;
}

}  // namespace dtrain
