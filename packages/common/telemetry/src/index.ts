// SPDX-License-Identifier: Apache-2.0
export { createLogger, createSilentLogger, LOG_LEVELS, type LogLevel } from "./logger.ts";
export { createMetrics, type ApiRequest, type Metrics, type ReconcilePass } from "./metrics.ts";
