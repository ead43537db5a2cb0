// SPDX-License-Identifier: Apache-2.0
// The public door of telemetry.
export { FIELDS, type FieldName } from "./fields.ts";
export {
  createLogger,
  createSilentLogger,
  LOG_LEVELS,
  type LoggerOptions,
  type LogLevel,
} from "./logger.ts";
export { createMetrics, type Metrics, type ReconcilePass } from "./metrics.ts";
