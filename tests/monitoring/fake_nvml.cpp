// NVML of a machine with one GPU at 0000:65:00.0: enough of its functions to test the reader
// through dlopen. The one for the temperature is missing, as in an old driver, and the energy is
// not supported, as on some cards.

#include <nvml.h>

#include <cstdlib>
#include <cstring>

static int open_sessions = 0;
static bool lost = false;

extern "C" {

int fake_open_sessions() { return open_sessions; }
void fake_lose_gpu() { lost = true; }

nvmlReturn_t nvmlInit_v2(void) {
  lost = false;
  ++open_sessions;
  return NVML_SUCCESS;
}
nvmlReturn_t nvmlShutdown(void) {
  --open_sessions;
  return NVML_SUCCESS;
}
const char* nvmlErrorString(nvmlReturn_t code) {
  return code == NVML_ERROR_NOT_FOUND ? "Not Found" : "Unknown Error";
}

nvmlReturn_t nvmlDeviceGetHandleByPciBusId_v2(const char* id, nvmlDevice_t* device) {
  if (std::strcmp(id, "0000:65:00.0") != 0) return NVML_ERROR_NOT_FOUND;
  *device = nullptr;
  return NVML_SUCCESS;
}
nvmlReturn_t nvmlDeviceGetName(nvmlDevice_t, char* name, unsigned int length) {
  std::strncpy(name, "Fake GPU", length);
  return NVML_SUCCESS;
}
nvmlReturn_t nvmlDeviceGetUUID(nvmlDevice_t, char* uuid, unsigned int length) {
  std::strncpy(uuid, "GPU-fake", length);
  return NVML_SUCCESS;
}
nvmlReturn_t nvmlDeviceGetUtilizationRates(nvmlDevice_t, nvmlUtilization_t* utilization) {
  if (lost) return NVML_ERROR_GPU_IS_LOST;
  *utilization = {97, 41};
  return NVML_SUCCESS;
}
nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t, nvmlMemory_t* memory) {
  *memory = {24000000000ULL, 16000000000ULL, 8000000000ULL};
  return NVML_SUCCESS;
}
nvmlReturn_t nvmlDeviceGetPowerUsage(nvmlDevice_t, unsigned int* milliwatts) {
  *milliwatts = 342500;
  return NVML_SUCCESS;
}
nvmlReturn_t nvmlDeviceGetTotalEnergyConsumption(nvmlDevice_t, unsigned long long*) {
  return NVML_ERROR_NOT_SUPPORTED;
}
nvmlReturn_t nvmlDeviceGetClockInfo(nvmlDevice_t, nvmlClockType_t type, unsigned int* mhz) {
  *mhz = type == NVML_CLOCK_SM ? 1695 : 9501;
  return NVML_SUCCESS;
}
nvmlReturn_t nvmlDeviceGetMaxClockInfo(nvmlDevice_t, nvmlClockType_t, unsigned int* mhz) {
  *mhz = 2100;
  return NVML_SUCCESS;
}
nvmlReturn_t nvmlDeviceGetCurrentClocksThrottleReasons(nvmlDevice_t, unsigned long long* reasons) {
  *reasons = 0x44;
  return NVML_SUCCESS;
}
// Persistence mode is off; this card does not say which power limit it was delivered with.
nvmlReturn_t nvmlDeviceGetPersistenceMode(nvmlDevice_t, nvmlEnableState_t* mode) {
  *mode = NVML_FEATURE_DISABLED;
  return NVML_SUCCESS;
}
nvmlReturn_t nvmlDeviceGetEnforcedPowerLimit(nvmlDevice_t, unsigned int* milliwatts) {
  *milliwatts = 280000;
  return NVML_SUCCESS;
}
nvmlReturn_t nvmlDeviceGetPowerManagementDefaultLimit(nvmlDevice_t, unsigned int*) {
  return NVML_ERROR_NOT_SUPPORTED;
}

}  // extern "C"
