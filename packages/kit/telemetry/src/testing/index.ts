// SPDX-License-Identifier: Apache-2.0
// The second door: fakes of what this package does, and the suites that they pass as it does.
export { describeLoggerContract } from "./contracts/logger.ts";
export { createFakeLogger, type FakeLogger } from "./fakes/logger.ts";
