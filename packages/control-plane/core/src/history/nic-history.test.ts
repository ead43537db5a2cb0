// SPDX-License-Identifier: Apache-2.0
// Which operations are told of a NIC that was seen so and so.
import type { IfaceOperation, IfacePhase, IfaceStatus, VmiStatus } from "@patchbay/api";
import { aVmi } from "@patchbay/support";
import { expect, test } from "vitest";
import { toHotplugType } from "../nics/phase.ts";
import { printTime } from "@patchbay/base";
import type { IfaceStage } from "../nics/status/phase-timings.ts";
import { buildHistory, observeNics, withBlockedReasons, type ObservedNics } from "./nic-history.ts";

/** The NIC in a pass: its phase, or nothing of it; its status is told, or its process starts anew before it. */
interface Observed {
  readonly atMs: number;
  readonly phase?: IfacePhase;
  readonly more?: Partial<IfaceStage>;
  readonly reason?: string;
  /** Written at the end of the pass; a pass whose news can wait writes nothing. */
  readonly isTold?: boolean;
  readonly isRestarted?: boolean;
  readonly vmiPhase?: "Scheduled" | "Running";
}

function stageOf({ phase, more }: Observed): readonly IfaceStage[] {
  if (phase === undefined) return [];
  const type = toHotplugType(phase);
  return [
    { name: "one", type, phase, networkName: "default/blue", podInterfaceName: "blue0", ...more },
  ];
}

function interfaceOf(stage: IfaceStage, reason: string | undefined): IfaceStatus {
  const { name, type, phase, podInterfaceName, link } = stage;
  const blockedReason =
    reason === undefined ? {} : { reason, message: `${reason} it is`, attempts: 2 };
  return {
    name,
    podInterfaceName,
    ...(link === undefined ? {} : { linkState: link.state }),
    hotplug: { type, phase, ...blockedReason, since: printTime(0) },
  };
}

/** What the VMI tells after all of it. */
function reportedAfter(all: readonly Observed[]): readonly IfaceOperation[] {
  let status: VmiStatus = {};
  let observed: ObservedNics | undefined;
  for (const each of all) {
    const {
      atMs,
      reason,
      isTold: isReported = true,
      isRestarted = false,
      vmiPhase = "Running",
    } = each;
    const stages = stageOf(each);
    const vmi = aVmi({ status: { ...status, phase: vmiPhase } });
    const at = { nowMs: atMs + 7, now: printTime(atMs) };
    observed = observeNics(isRestarted ? undefined : observed, { vmi, stages, at });
    const interfaces = stages.map((stage) => interfaceOf(stage, reason));
    if (!isReported) continue;
    observed = withBlockedReasons(observed, interfaces);
    const interfaceHistory = buildHistory(status.interfaceHistory ?? [], observed);
    observed = { ...observed, ended: [] };
    status = { interfaces, interfaceHistory };
  }
  return (status.interfaceHistory ?? []).flatMap(({ operations }) => operations);
}

/** In a line: what, on which network, from when to when, by which phases, with which end, and what held it up. */
function print(operation: IfaceOperation): string {
  const ms = (time: string | undefined): string =>
    time === undefined ? "" : String(Date.parse(time));
  const { type, linkState, networkName = "pod", startTimestamp, endTimestamp } = operation;
  const phases = operation.phases
    .map(
      ({ phase, milliseconds }) =>
        `${phase} ${milliseconds === undefined ? "…" : String(milliseconds)}`,
    )
    .join(", ");
  const held =
    operation.reason === undefined
      ? ""
      : ` ${operation.reason} ×${String(operation.attempts ?? 0)}`;
  const what = [type, linkState, networkName].filter((verb) => verb !== undefined).join(" ");
  return `${what} ${ms(startTimestamp)}-${ms(endTimestamp)} [${phases}] ${operation.outcome ?? "goes on"}${held}`;
}

const READY: Observed = {
  atMs: 0,
  phase: "Ready",
  more: { link: { state: "up" } },
  vmiPhase: "Scheduled",
};
const ON_GREEN = { networkName: "default/green" };

interface Row {
  readonly name: string;
  readonly seen: readonly Observed[];
  readonly want: readonly string[];
}

test.each<Row>([
  {
    name: "a plug with only its end reported",
    seen: [
      { atMs: 1000, phase: "Pending", isTold: false },
      { atMs: 1200, phase: "PodAttaching", isTold: false },
      { atMs: 1600, phase: "Wiring", isTold: false },
      { atMs: 1640, phase: "Ready" },
      { atMs: 9000, phase: "Ready" },
    ],
    want: ["Plug default/blue 1000-1640 [Pending 200, PodAttaching 400, Wiring 40] Done"],
  },
  {
    name: "a plug in progress",
    seen: [
      { atMs: 1000, phase: "Pending" },
      { atMs: 3000, phase: "PodAttaching" },
    ],
    want: ["Plug default/blue 1000- [Pending 2000, PodAttaching …] goes on"],
  },
  {
    name: "a plug that fails, is retried and succeeds",
    seen: [
      { atMs: 0, phase: "PodAttaching", isTold: false },
      { atMs: 500, phase: "PodAttaching", reason: "CniFailed" },
      { atMs: 900, phase: "Wiring", isTold: false },
      { atMs: 1000, phase: "PodAttaching", isTold: false },
      { atMs: 1500, phase: "Wiring", isTold: false },
      { atMs: 1600, phase: "Ready" },
    ],
    want: ["Plug default/blue 0-1600 [PodAttaching 1400, Wiring 200] Done CniFailed ×2"],
  },
  {
    name: "a plug that is canceled before anything was reported",
    seen: [
      { atMs: 0, phase: "Pending", isTold: false },
      { atMs: 100, isTold: false },
      { atMs: 200, phase: "Pending" },
    ],
    want: [
      "Plug default/blue 0-100 [Pending 100] Cancelled",
      "Plug default/blue 200- [Pending …] goes on",
    ],
  },
  {
    name: "a plug that is canceled after the pod had the NIC",
    seen: [
      { atMs: 0, phase: "PodAttaching" },
      { atMs: 4000, phase: "PodDetaching" },
      { atMs: 4500 },
    ],
    want: [
      "Plug default/blue 0-4000 [PodAttaching 4000] Cancelled",
      "Unplug default/blue 4000-4500 [PodDetaching 500] Done",
    ],
  },
  {
    name: "an unplug",
    seen: [
      READY,
      { atMs: 100, phase: "Detaching", isTold: false },
      { atMs: 900, phase: "Unwiring", isTold: false },
      { atMs: 950, phase: "PodDetaching" },
      { atMs: 1200 },
      { atMs: 8000 },
    ],
    want: ["Unplug default/blue 100-1200 [Detaching 800, Unwiring 50, PodDetaching 250] Done"],
  },
  {
    name: "an unplug that is reverted while the guest has the device",
    seen: [READY, { atMs: 100, phase: "Detaching" }, { atMs: 900, phase: "Ready" }],
    want: ["Unplug default/blue 100-900 [Detaching 800] Cancelled"],
  },
  {
    name: "a NIC that is requested again after its unplug",
    seen: [
      READY,
      { atMs: 100, phase: "Detaching" },
      { atMs: 900, phase: "PodDetaching" },
      { atMs: 1000, phase: "Pending" },
    ],
    want: [
      "Unplug default/blue 100-1000 [Detaching 800, PodDetaching 100] Done",
      "Plug default/blue 1000- [Pending …] goes on",
    ],
  },
  {
    name: "a change of the network",
    seen: [
      READY,
      { atMs: 100, phase: "PodSwapping", more: ON_GREEN },
      { atMs: 400, phase: "Switching", more: ON_GREEN, isTold: false },
      { atMs: 440, phase: "Ready", more: { ...ON_GREEN, podInterfaceName: "green0" } },
    ],
    want: ["Swap default/green 100-440 [PodSwapping 300, Switching 40] Done"],
  },
  {
    name: "a network change that is reverted",
    seen: [
      READY,
      { atMs: 100, phase: "PodSwapping", more: ON_GREEN },
      { atMs: 400, phase: "Ready" },
    ],
    want: ["Swap default/green 100-400 [PodSwapping 300] Cancelled"],
  },
  {
    name: "a network change that ends in another process",
    seen: [
      READY,
      { atMs: 100, phase: "PodSwapping", more: ON_GREEN },
      {
        atMs: 400,
        phase: "Ready",
        more: { ...ON_GREEN, podInterfaceName: "green0" },
        isRestarted: true,
      },
    ],
    want: ["Swap default/green 100-400 [PodSwapping 300] Done"],
  },
  {
    name: "a link that is set down",
    seen: [
      READY,
      { atMs: 100, phase: "Ready", more: { link: { state: "up", wanted: "down" } }, isTold: false },
      { atMs: 130, phase: "Ready", more: { link: { state: "down" } } },
    ],
    want: ["LinkState down default/blue 100-130 [] Done"],
  },
  {
    name: "a failed link change that survives a restart and is then abandoned",
    seen: [
      READY,
      {
        atMs: 100,
        phase: "Ready",
        more: { link: { state: "up", wanted: "down" } },
        reason: "LinkStateFailed",
      },
      {
        atMs: 900,
        phase: "Ready",
        more: { link: { state: "up", wanted: "down" } },
        isRestarted: true,
      },
      { atMs: 1000, phase: "Ready", more: { link: { state: "up" } } },
    ],
    want: ["LinkState down default/blue 100-1000 [] Cancelled LinkStateFailed ×2"],
  },
  {
    name: "a repaired link that changed on its own is not an operation",
    seen: [
      READY,
      { atMs: 100, phase: "Ready", more: { link: { state: "down", wanted: "up" } }, isTold: false },
      { atMs: 130, phase: "Ready", more: { link: { state: "up" } } },
    ],
    want: [],
  },
  {
    name: "a plug that outlives the process that recorded its start",
    seen: [
      { atMs: 1000, phase: "PodAttaching" },
      { atMs: 60_000, phase: "PodAttaching", isRestarted: true, isTold: false },
      { atMs: 61_000, phase: "Wiring", isTold: false },
      { atMs: 61_050, phase: "Ready" },
    ],
    want: ["Plug default/blue 1000-61050 [PodAttaching 60000, Wiring 50] Done"],
  },
  {
    name: "an unplug whose end was not observed",
    seen: [READY, { atMs: 100, phase: "PodDetaching" }, { atMs: 700, isRestarted: true }],
    want: ["Unplug default/blue 100-700 [PodDetaching 600] Done"],
  },
  {
    name: "a plug by a process that crashed before it reported",
    seen: [{ atMs: 700, phase: "Ready" }],
    want: ["Plug default/blue 700-700 [] Done"],
  },
  {
    name: "a link set by a process that crashed before it reported",
    seen: [
      READY,
      { atMs: 700, phase: "Ready", more: { link: { state: "down" } }, isRestarted: true },
      { atMs: 900, phase: "Ready", more: { link: { state: "down" } } },
    ],
    want: ["LinkState down default/blue 700-700 [] Done"],
  },
  {
    name: "a NIC present at the guest's start",
    seen: [
      { atMs: 0, phase: "Wiring", vmiPhase: "Scheduled" },
      { atMs: 100, phase: "Ready", vmiPhase: "Scheduled" },
      { atMs: 200, phase: "Ready" },
    ],
    want: [],
  },
  {
    name: "a NIC that was due at the guest's start and is plugged later",
    seen: [
      { atMs: 0, phase: "PodAttaching", vmiPhase: "Scheduled" },
      { atMs: 100, phase: "PodAttaching", reason: "CniFailed" },
      { atMs: 900, phase: "Ready" },
    ],
    want: ["Plug default/blue 0-900 [PodAttaching 900] Done CniFailed ×2"],
  },
  {
    name: "a repaired NIC, also after a restart",
    seen: [
      READY,
      { atMs: 100, phase: "Attaching" },
      { atMs: 200, phase: "Ready" },
      { atMs: 300, phase: "Wiring", isRestarted: true },
      { atMs: 400, phase: "Ready" },
    ],
    want: [],
  },
  {
    name: "a healthy NIC observed by another node",
    seen: [READY, { ...READY, atMs: 100, isRestarted: true }],
    want: [],
  },
])("$name", ({ seen: observed, want }) => {
  expect(reportedAfter(observed).map(print)).toEqual(want);
});

test("truncates long foreign messages", () => {
  const message = "x".repeat(500);
  const vmi = aVmi({ status: { phase: "Running" } });
  const stages = stageOf({ atMs: 0, phase: "PodAttaching" });
  const observed = observeNics(undefined, { vmi, stages, at: { nowMs: 0, now: printTime(0) } });
  const reported = withBlockedReasons(observed, [
    { name: "one", hotplug: { type: "Plug", phase: "PodAttaching", reason: "CniFailed", message } },
  ]);
  const [operation] = buildHistory([], reported)[0]?.operations ?? [];
  expect(operation?.message).toHaveLength(200);
});
