// SPDX-License-Identifier: Apache-2.0
export type { Clock } from "./clock.ts";
export {
  ConnectionPool,
  HANDSHAKE_TIMEOUT_MS,
  limitConnections,
  limitHandshakes,
  limitPipelining,
} from "./connection-pool.ts";
export { omitUndefined } from "./omit-undefined.ts";
export { covers, isEqual } from "./equal.ts";
export {
  AppError,
  type Details,
  fillTemplate,
  isAppError,
  isDomainBusy,
  minRetryDelayMs,
  messageOf,
  findRetryRule,
} from "./errors/app-error.ts";
export { CATALOGUE, type ErrorCode } from "./errors/catalogue.ts";
export { LIBVIRT_ERRORS } from "./errors/catalogue/guest.ts";
export type { ErrorEntry } from "./errors/entry.ts";
export { checkFormat, FIRST_FORMAT, isSupportedFormat, printFormat } from "./format.ts";
export { ByteQueue, joinedBytes } from "./joined-bytes.ts";
export { KeyedMutex } from "./keyed-mutex.ts";
export type { LogFields, Logger } from "./logger.ts";
export { nearestName } from "./nearest-name.ts";
export {
  isSystemKey,
  type Rate,
  RateLimiter,
  type RateLimiterDeps,
  SHARE_KEYS,
  SharePool,
  signalClose,
  tryAcquireAll,
  type PoolLimits,
  type Release,
  type CancelSignal,
} from "./share-pool.ts";
export { printTime, toMs } from "./time.ts";
