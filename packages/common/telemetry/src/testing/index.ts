// SPDX-License-Identifier: Apache-2.0
// Fakes of this package's ports, and the contract suites that fakes and adapters pass.
export { describeLoggerContract } from "./contracts/logger.ts";
export { createFakeLogger, type FakeLogger } from "./fakes/logger.ts";
