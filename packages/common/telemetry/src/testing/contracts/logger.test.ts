// SPDX-License-Identifier: Apache-2.0
// The fake of a log keeps the contract.
import { createFakeLogger } from "../fakes/logger.ts";
import { describeLoggerContract } from "./logger.ts";

describeLoggerContract("fake", () => {
  const logger = createFakeLogger();
  return { logger, lines: () => logger.lines };
});
