// SPDX-License-Identifier: Apache-2.0
export { wayFactsOf, wayQuestionOf, type WaySources } from "./collect.ts";
export { diagnose } from "./diagnose.ts";
export type {
  FixedEntry,
  FixedNeighbor,
  ForwardedPing,
  FrameFilter,
  FrameTrace,
  LossCount,
  Place,
  ProbeName,
  RefusedFrames,
  SeenWay,
  WayLink,
  WayLinks,
  WayTarget,
  WiringLack,
} from "./facts.ts";
export type { DoctorReport, HopName, HopReport, HopState } from "./report.ts";
