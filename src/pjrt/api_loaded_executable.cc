// Slots of executables on devices.
#include "pjrt/api.h"

struct PJRT_DeviceAssignmentSerialized {
  std::string bytes;
};

namespace weft::pjrt::slot {

Status LoadedExecutable_Destroy(PJRT_LoadedExecutable_Destroy_Args& args) {
  delete args.executable;
  return {};
}
Status LoadedExecutable_GetExecutable(PJRT_LoadedExecutable_GetExecutable_Args& args) {
  args.executable = nullptr;
  REQUIRE_ARG(loaded_executable);
  args.executable = new PJRT_Executable{args.loaded_executable->view};
  return {};
}
Status LoadedExecutable_AddressableDevices(PJRT_LoadedExecutable_AddressableDevices_Args& args) {
  REQUIRE_ARG(executable);
  args.addressable_devices = args.executable->devices.data();
  args.num_addressable_devices = args.executable->devices.size();
  return {};
}
Status LoadedExecutable_AddressableDeviceLogicalIds(
    PJRT_LoadedExecutable_AddressableDeviceLogicalIds_Args& args) {
  REQUIRE_ARG(executable);
  args.addressable_device_logical_ids = args.executable->logical_ids.data();
  args.num_addressable_device_logical_ids = args.executable->logical_ids.size();
  return {};
}
Status LoadedExecutable_GetDeviceAssignment(PJRT_LoadedExecutable_GetDeviceAssignment_Args& args) {
  args.serialized_device_assignment = nullptr;
  REQUIRE_ARG(executable);
  CompileRequest request = args.executable->view->executable->request();
  request.device_assignment.clear();
  for (const PJRT_Device* device : args.executable->devices) {
    request.device_assignment.push_back(device->description.id);
  }
  auto* bytes = new PJRT_DeviceAssignmentSerialized{
      request.portable_executable ? "" : SerializeDeviceAssignment(request)};
  args.serialized_device_assignment = bytes;
  args.serialized_bytes = bytes->bytes.data();
  args.serialized_bytes_size = bytes->bytes.size();
  args.serialized_device_assignment_deleter = [](PJRT_DeviceAssignmentSerialized* p) { delete p; };
  return {};
}
Status LoadedExecutable_Delete(PJRT_LoadedExecutable_Delete_Args& args) {
  REQUIRE_ARG(executable);
  args.executable->loaded->Delete();
  return {};
}
Status LoadedExecutable_IsDeleted(PJRT_LoadedExecutable_IsDeleted_Args& args) {
  args.is_deleted = true;
  REQUIRE_ARG(executable);
  args.is_deleted = args.executable->loaded->IsDeleted();
  return {};
}
Status LoadedExecutable_Fingerprint(PJRT_LoadedExecutable_Fingerprint_Args& args) {
  REQUIRE_ARG(executable);
  const std::string& fingerprint = args.executable->view->executable->fingerprint();
  args.executable_fingerprint = fingerprint.data();
  args.executable_fingerprint_size = fingerprint.size();
  return {};
}

}  // namespace weft::pjrt::slot
