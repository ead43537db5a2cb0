// SPDX-License-Identifier: Apache-2.0
export {
  type GuestView,
  restoreGuestView,
  computeAgentPollDelayMs,
  updateGuestView,
  EMPTY_GUEST_VIEW,
} from "./agent-view.ts";
export {
  CAPTURE,
  CAPTURE_LIMITS,
  type CaptureOptions,
  buildCapturePath,
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
  checkGuestRequest,
  checkGuestStream,
  checkRunning,
} from "./guest-request.ts";
export {
  buildAnnouncementFilter,
  findNextEndMs,
  learnAddresses,
  type LearnedAddress,
  type LearnedOnNic,
  type ListenedNic,
  listListenedNics,
  listReportedLearned,
  readAddressClaim,
  removeExpired,
  restoreLearned,
} from "./learned-addresses.ts";
export { readGuestLinks } from "./links.ts";
export {
  DOCTOR,
  buildDoctorPath,
  GUEST_REQUESTS,
  buildGuestPath,
  type GuestRequest,
  type GuestStream,
  buildGuestStreamPath,
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
