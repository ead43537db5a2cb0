// SPDX-License-Identifier: Apache-2.0
export { collectPathFacts, planProbes, type PathSources } from "./collect.ts";
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
  RouteFault,
  ObservedPath,
  PathLink,
  PathLinks,
  ProbeTarget,
  WiringFault,
} from "./facts.ts";
export type { DoctorReport, HopName, HopReport, HopState } from "./report.ts";
