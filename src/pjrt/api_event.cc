// Slots of events.
#include "client/interrupt.h"
#include "pjrt/api.h"

namespace weft::pjrt::slot {

Status Event_Destroy(PJRT_Event_Destroy_Args& args) {
  if (args.event != DoneEvent()) delete args.event;
  return {};
}
Status Event_IsReady(PJRT_Event_IsReady_Args& args) {
  args.is_ready = false;
  REQUIRE_ARG(event);
  args.is_ready = args.event->event->IsReady();
  return {};
}
Status Event_Error(PJRT_Event_Error_Args& args) {
  REQUIRE_ARG(event);
  AboutToWait(args.event->event);
  return args.event->event->Await();
}
Status Event_Await(PJRT_Event_Await_Args& args) {
  REQUIRE_ARG(event);
  AboutToWait(args.event->event);
  return args.event->event->Await();
}
// The callback owns the error that it gets. The event may be destroyed before it comes.
Status Event_OnReady(PJRT_Event_OnReady_Args& args) {
  REQUIRE_ARG(event);
  if (args.callback == nullptr) return InvalidArgument("PJRT_Event_OnReady: callback is null");
  if (args.event->event->IsReady()) {
    args.callback(ToC(args.event->event->status()), args.user_arg);
    return {};
  }
  args.event->event->OnReady([callback = args.callback, arg = args.user_arg](const Status& status) {
    callback(ToC(status), arg);
  });
  return {};
}
Status Event_Create(PJRT_Event_Create_Args& args) {
  args.event = ToC(std::make_shared<Event>());
  return {};
}
Status Event_Set(PJRT_Event_Set_Args& args) {
  REQUIRE_ARG(event);
  // Two threads that set one event at once break the contract; one that sets it twice is told.
  if (args.event->event->IsReady()) {
    return FailedPrecondition("PJRT_Event_Set: the event was set already");
  }
  if (args.error_code == PJRT_Error_Code_OK) {
    args.event->event->Set({});
  } else {
    args.event->event->Set(
        std::unexpected(FromC(args.error_code, args.error_message, args.error_message_size)));
  }
  return {};
}

}  // namespace weft::pjrt::slot
