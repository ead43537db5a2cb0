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
  NodeUplinkFault,
  Place,
  ProbeName,
  RefusedFrames,
  RouteFault,
  ObservedPath,
  PacketFilter,
  PathLink,
  PathLinks,
  ProbeTarget,
  WiringFault,
} from "./facts.ts";
export type { DoctorReport, HopName, HopReport, HopState } from "./report.ts";
