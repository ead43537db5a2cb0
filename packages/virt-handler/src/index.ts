// SPDX-License-Identifier: Apache-2.0
// The public door of virt-handler.
export { WORKERS } from "./config.ts";
export { withPenalties } from "./penalties.ts";
export { runLoop, type LoopParts } from "./loop.ts";
export { createSessions, type Session, type Sessions } from "./sessions.ts";
