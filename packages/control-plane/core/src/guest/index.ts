// SPDX-License-Identifier: Apache-2.0
export { type GuestView, guestViewOf, nextAskInMs, nextGuestView, NO_VIEW } from "./agent-view.ts";
export {
  CAPTURE,
  CAPTURE_LIMITS,
  type CaptureOrder,
  capturePath,
  type CaptureRequest,
  parseCapturePath,
  parseCaptureQuery,
  printCaptureQuery,
  WholePackets,
} from "./capture.ts";
export {
  guestAgentInfoOf,
  guestFilesystemsOf,
  guestUsersOf,
  type HeardOfGuest,
  readGuestSystem,
} from "./details.ts";
export {
  findForwardAddress,
  guestRequestProblem,
  guestStreamProblem,
  runningProblem,
} from "./guest-request.ts";
export { readGuestLinks } from "./links.ts";
export {
  DOCTOR,
  doctorPath,
  GUEST_REQUESTS,
  guestPath,
  type GuestRequest,
  type GuestStream,
  guestStreamPath,
  HANDLER_CLIENT_NAME,
  HANDLER_SERVER_NAME,
  isGuestStream,
  parseDoctorPath,
  parseDoctorQuery,
  parseGuestRequest,
  parseGuestStream,
  PRESERVE_SESSION,
  RELAY_CERTIFICATE,
  STREAM_PROTOCOL,
  type StreamRequest,
} from "./requests.ts";
