// SPDX-License-Identifier: Apache-2.0
// A logger for tests that ignore logs.
import type { Logger } from "@patchbay/base";

const ignore = (): void => undefined;

export const silentLogger: Logger = {
  debug: ignore,
  info: ignore,
  warn: ignore,
  error: ignore,
  child: () => silentLogger,
};
