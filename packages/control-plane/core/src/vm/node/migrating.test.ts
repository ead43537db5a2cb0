// SPDX-License-Identifier: Apache-2.0
// What does a node do for a VMI that is being migrated? The target wires and waits, the source changes nothing.
import type { MigrationState } from "@patchbay/api";
import { aVmi } from "@patchbay/support";
import { describe, expect, test } from "vitest";
import {
  anIface,
  factsOf,
  IN_POD,
  IN_USE,
  plan,
  running,
  listSteps,
  WIRED,
} from "../../testing/node-scene.ts";
import { mayNodeReport, buildNodeVmStatus } from "../../status/node-vm.ts";
import { blockedReasonOfWait } from "../../status/blocked-reason.ts";
import {
  listAnnouncedNics,
  listIncomingWirings,
  listOutgoingWirings,
} from "../../migration/migrated-nics.ts";
import { planNodeVm, type DomainSnapshot } from "./node-vm.ts";

const MOVE: MigrationState = { migrationUid: "m1", sourceNode: "a", targetNode: "b" };
const OVER = { ...MOVE, completed: true };

function migrating(phase: "Running" | "Scheduled", migrationState = MOVE) {
  return aVmi({ status: { phase, nodeName: "a", migrationState } });
}

const PAUSED: DomainSnapshot = { ...running(), isPaused: true };
const SHUT_OFF: DomainSnapshot = { ...running(), running: false };

describe("the target node", () => {
  const vmi = migrating("Running");
  const attached = anIface({ attachment: "Attached", links: IN_POD });
  test.each([
    { name: "wires the NICs of its pod", ifaces: [attached], want: ["wireTap a"] },
    {
      name: "wires a NIC while another NIC is being attached",
      ifaces: [anIface({ name: "b", attachment: "Requested" }), attached],
      want: ["wireTap a"],
    },
    {
      name: "wires a NIC that is being unplugged, which the guest may still have",
      ifaces: [anIface({ iface: { state: "absent" }, attachment: "Attached", links: IN_POD })],
      want: ["wireTap a"],
    },
    {
      name: "waits for a NIC that its pod lacks",
      ifaces: [anIface({ attachment: "Attached" })],
      want: ["wait a"],
    },
    {
      name: "takes no action when all NICs are wired",
      ifaces: [anIface({ attachment: "Attached", links: WIRED })],
      want: [],
    },
    {
      name: "takes no action once the guest is incoming",
      ifaces: [attached],
      domain: PAUSED,
      want: [],
    },
    { name: "does not start a leftover domain", ifaces: [attached], domain: SHUT_OFF, want: [] },
  ])("$name", ({ ifaces, domain, want }) => {
    expect(listSteps(plan(ifaces, { vmi, role: "target", domain }))).toEqual(want);
  });

  test("rebuilds the wirings after the guest arrives", () => {
    const awaited = { ...attached, incomingPodUid: "pod-2" };
    const facts = factsOf([awaited, anIface({ name: "b", attachment: "Requested" })], { vmi });
    const plan = planNodeVm({ ...facts, role: "target" });
    expect(plan).toMatchObject([{ kind: "wireTap", wiring: { incomingPodUid: "pod-2" } }]);
    const [wiring, ...others] = listIncomingWirings({ ...facts, role: "target" });
    expect(others).toEqual([]);
    expect(wiring).toMatchObject({ kind: "bridge", owner: 107 });
    expect(wiring).not.toHaveProperty("incomingPodUid");
  });

  test("starts nothing in any reported phase", () => {
    expect(plan([], { vmi: migrating("Scheduled"), role: "target" })).toEqual([]);
    expect(listSteps(plan([], { vmi: migrating("Scheduled", OVER) }))).toContain("startDomain");
  });
});

test("announces the guest's NICs and their assigned addresses on their networks", () => {
  const remembered = { podInterfaceName: "poda", index: 2, routes: [], addresses: ["10.9.0.1/24"] };
  const observed = { attachment: "Attached", links: WIRED } as const;
  const facts = factsOf([
    { ...anIface(observed), remembered },
    { ...anIface({ ...observed, name: "b" }), binding: { kind: "masquerade" } },
    anIface({ name: "c", attachment: "Attached" }),
    anIface({ name: "d", attachment: "Requested", links: WIRED }),
  ]);
  const [nic, ...others] = listAnnouncedNics(facts);
  expect(nic).toMatchObject({ addresses: ["10.9.0.1/24"] });
  expect(others).toEqual([]);
});

test("resets the source's wirings to await a guest after it left", () => {
  const facts = factsOf([
    anIface({ attachment: "Attached", links: WIRED }),
    anIface({ name: "b", attachment: "Attached" }),
  ]);
  expect(listOutgoingWirings(facts, "pod-1")).toMatchObject([
    { kind: "bridge", incomingPodUid: "pod-1", owner: 107 },
  ]);
});

describe("the source node", () => {
  const vmi = migrating("Running");
  const device = {};
  const rows = [
    { name: "a plug", iface: anIface({ attachment: "Attached", links: IN_POD }) },
    { name: "an unplug", iface: anIface({ iface: { state: "absent" }, links: IN_USE, device }) },
    {
      name: "a link state change",
      iface: anIface({
        iface: { state: "down" },
        attachment: "Attached",
        links: IN_USE,
        device: { pciAddress: "0000:01:00.0" },
      }),
    },
    {
      name: "an unwiring",
      iface: anIface({ iface: null, attachment: "Attached", links: WIRED }),
    },
  ];

  test.each(rows)("$name waits during the migration, and is done afterwards", ({ iface }) => {
    const input = { domain: running() };
    const wait = { kind: "wait", iface: "a", reason: "WaitingForMigration" } as const;
    expect(plan([iface], { ...input, vmi })).toEqual([wait]);
    const after = plan([iface], { ...input, vmi: migrating("Running", OVER) });
    expect(after.map(({ kind }) => kind)).not.toContain("wait");
    expect(after).not.toEqual([]);
    expect(blockedReasonOfWait(wait, factsOf([iface]))).toMatchObject({
      reason: "WaitingForMigration",
      attempts: 0,
    });
  });

  test("resumes a guest that is paused when its migration ends", () => {
    const domain = { ...running(), isMigratingOut: true } as const;
    expect(listSteps(plan([], { vmi, domain }))).toEqual([]);
    const over = migrating("Running", OVER);
    expect(listSteps(plan([], { vmi: over, domain }))).toEqual(["resumeDomain"]);
    expect(listSteps(plan([], { vmi: over, domain: running() }))).toEqual([]);
  });

  test("does not resume a guest that a disk error has paused, until the migration ends", () => {
    const domain = { ...PAUSED, hasDiskError: true } as const;
    expect(listSteps(plan([], { vmi, domain }))).toEqual([]);
    const over = migrating("Running", OVER);
    expect(listSteps(plan([], { vmi: over, domain }))).toEqual(["retryDisk"]);
    expect(listSteps(plan([], { vmi: over, domain: PAUSED }))).toEqual([]);
  });

  test.each([
    { reason: "PausedIOError", isPauseRequested: undefined, want: ["retryDisk"] },
    { reason: "PausedIOError", isPauseRequested: true, want: [] },
    { reason: "PausedByUser", isPauseRequested: undefined, want: [] },
    { reason: "PausedByUser", isPauseRequested: false, want: ["retryDisk"] },
  ])(
    "resumes a guest after a disk error unless a user paused it: $reason, $isPauseRequested",
    ({ reason, isPauseRequested, want }) => {
      const domain = { ...PAUSED, hasDiskError: true } as const;
      const conditions = [{ type: "Paused", status: "True" as const, reason }];
      const paused = aVmi({ status: { phase: "Running", nodeName: "a", conditions } });
      expect(listSteps(plan([], { vmi: paused, domain, isPauseRequested }))).toEqual(want);
    },
  );

  test("does not change links and addresses", () => {
    const orphan = { podInterfaceName: "x", bridgeName: "y", tapName: "z" } as never;
    expect(plan([], { vmi, domain: running(), orphanedWirings: [orphan] })).toEqual([]);
  });

  test.each([undefined, SHUT_OFF])("starts nothing if the domain does not run: %o", (domain) => {
    expect(plan([], { vmi: migrating("Scheduled"), domain })).toEqual([]);
  });
});

describe("whether the node reports the guest's phase", () => {
  test.each([
    { name: "the owner without a migration", migrationState: OVER, domain: SHUT_OFF, want: true },
    { name: "the source while it has the guest", domain: running(), want: true },
    { name: "the source after the guest has migrated", domain: SHUT_OFF, want: false },
    { name: "the source without a domain", domain: undefined, want: false },
    { name: "the target", role: "target", domain: PAUSED, want: false },
  ] as const)("$name: $want", ({ want, domain, ...input }) => {
    const { migrationState = MOVE, role = "owner" } = { migrationState: undefined, ...input };
    const facts = factsOf([], { vmi: migrating("Running", migrationState), role, domain });
    expect(mayNodeReport(facts)).toBe(want);
  });

  test("after the migration, the end of the domain is the end of the guest", () => {
    const facts = factsOf([], { vmi: migrating("Running", OVER), domain: SHUT_OFF });
    const report = { blockedReasons: {}, now: "2026-01-01T00:00:00Z" };
    expect(buildNodeVmStatus(facts, report).phase).toBe("Succeeded");
  });
});
