// SPDX-License-Identifier: Apache-2.0
export {
  type GuestView,
  restoreGuestView,
  nextAgentPollMs,
  nextGuestView,
  EMPTY_VIEW,
} from "./agent-view.ts";
export {
  CAPTURE,
  CAPTURE_LIMITS,
  type CaptureOptions,
  capturePath,
  type CaptureRequest,
  parseCapturePath,
  parseCaptureQuery,
  printCaptureQuery,
  PacketLimiter,
} from "./capture.ts";
export {
  buildGuestAgentInfo,
  parseGuestFilesystems,
  parseGuestUsers,
  type AgentReplies,
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
