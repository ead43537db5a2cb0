// SPDX-License-Identifier: Apache-2.0
// A VMI's status, fields of other writers, and events.
import { createHash } from "node:crypto";
import {
  names,
  PODS,
  VIRTUAL_MACHINE_INSTANCES,
  type VirtualMachineInstance,
  type VmiStatus,
} from "@patchbay/api";
import type { Pod } from "@patchbay/api/kubernetes";
import { aVmi } from "@patchbay/support";
import { beforeEach, describe, expect, test } from "vitest";
import { Bench } from "../../testing/bench.ts";
import { launcher, ON_NODE1, STARTED, vmiWith } from "../../testing/launched-vmi.ts";

let bench: Bench;

beforeEach(() => {
  bench = new Bench();
});

function putVmi(vmi: VirtualMachineInstance): Promise<void> {
  return bench.put(VIRTUAL_MACHINE_INSTANCES, vmi);
}

describe("the status", () => {
  const INTERFACES = [{ name: "one" }];
  const BEFORE: VmiStatus = { phase: "Scheduled", interfaces: INTERFACES };

  async function reportMeanwhile(status: VmiStatus): Promise<void> {
    const labels = ON_NODE1;
    await putVmi(vmiWith({ labels }, { status: BEFORE }));
    await bench.put(PODS, launcher());
    bench.server.beforeNextWrite(() => {
      bench.server.put(VIRTUAL_MACHINE_INSTANCES, vmiWith({ labels }, { status }));
    });
    await bench.passVmi();
  }

  test.each<{ name: string; status: VmiStatus }>([
    { name: "phase", status: { ...BEFORE, phase: "Running" } },
    { name: "interfaces", status: { ...BEFORE, interfaces: [] } },
  ])("is not written over a new $name", async ({ status }) => {
    await expect(reportMeanwhile(status)).rejects.toMatchObject({ code: "KUBE_CONFLICT" });
    expect((await bench.vmi())?.status).toEqual(status);
  });

  test("is written together with other news", async () => {
    const pciePorts = { total: 4, free: 4 };
    await reportMeanwhile({ ...BEFORE, pciePorts });
    expect((await bench.vmi())?.status).toMatchObject({
      ...BEFORE,
      pciePorts,
      activePods: { "pod-uid": "node1" },
    });
  });

  test("is written once", async () => {
    await reportMeanwhile(BEFORE);
    await bench.catchUp();
    await bench.passVmi();
    expect(bench.calls).toEqual([]);
  });

  test("preserves the report on a deleted pod, except for attachments", async () => {
    const attachments = [{ name: "one", state: "Attached" as const, podInterfaceName: "pod1" }];
    await putVmi(aVmi({ status: { ...STARTED, nodeName: "node1", attachments } }));
    await bench.passVmi();
    const { status } = (await bench.vmi()) ?? {};
    expect(status).toMatchObject({ ...STARTED, phase: "Failed", nodeName: "node1" });
    expect(status).not.toHaveProperty("attachments");
  });
});

describe("a sync error", () => {
  const WORDS = { reason: "Unschedulable", message: "0/1 nodes are available" };
  const UNSCHEDULABLE = { type: "PodScheduled", status: "False", ...WORDS } as const;

  function waiting(): Pod {
    const pod = launcher();
    const { containers } = pod.spec;
    return {
      ...pod,
      spec: { containers },
      status: { phase: "Pending", conditions: [UNSCHEDULABLE] },
    };
  }

  test("is recorded as one event, however often it is observed", async () => {
    await putVmi(aVmi());
    await bench.put(PODS, waiting());
    await bench.settleVmi();
    await bench.put(PODS, waiting());
    await bench.settleVmi();
    expect(bench.events).toEqual([
      `VirtualMachineInstance Warning ${WORDS.reason}: ${WORDS.message}`,
    ]);
  });

  test("is separate from a changed address, which is also recorded as an event", async () => {
    const element = { name: "blue", interface: "pod1", "io.patchbay.kept-ips": ["10.0.0.5"] };
    const given = { name: "default/blue", interface: "pod1", ips: ["10.0.0.6"] };
    const attachment = { name: "one", networkName: "default/blue", podInterfaceName: "pod1" };
    const attachments = [{ ...attachment, state: "Attached" as const }];
    const pod = launcher();
    const annotations = {
      [names.NETWORKS_ANNOTATION]: JSON.stringify([element]),
      [names.NETWORK_STATUS_ANNOTATION]: JSON.stringify([given]),
    };
    await putVmi(aVmi({ status: { ...STARTED, attachments } }));
    for (let passes = 0; passes < 2; passes += 1) {
      await bench.put(PODS, { ...pod, metadata: { ...pod.metadata, annotations } });
      await bench.settleVmi();
    }
    const message =
      "interface one now has 10.0.0.6 on default/blue; it had 10.0.0.5 before; see the events of the launcher pod for the cause";
    const conditions = (await bench.vmi())?.status?.conditions ?? [];
    expect(conditions.map(({ type }) => type)).toEqual(["Ready", "AddressChanged"]);
    expect(bench.events).toEqual([`VirtualMachineInstance Warning AddressNotKept: ${message}`]);
  });

  test("is separate from a changed MAC, which is recorded as one event", async () => {
    const [before, now] = ["02:00:00:00:00:01", "02:00:00:00:00:02"];
    const interfaceName = `pod${createHash("sha256").update("one").digest("hex").slice(0, 11)}`;
    const element = {
      name: "blue",
      interface: interfaceName,
      mac: before,
      "io.patchbay.kept-mac": true,
    };
    const assigned = { name: "default/blue", interface: interfaceName, mac: now };
    const annotations = {
      [names.NETWORKS_ANNOTATION]: JSON.stringify([element]),
      [names.NETWORK_STATUS_ANNOTATION]: JSON.stringify([assigned]),
    };
    const pod = launcher();
    await putVmi(aVmi({ nics: [{ name: "one" }], status: STARTED }));
    for (let passes = 0; passes < 2; passes += 1) {
      await bench.put(PODS, { ...pod, metadata: { ...pod.metadata, annotations } });
      await bench.settleVmi();
    }
    expect(bench.events.filter((each) => each.includes("MacChanged"))).toEqual([
      expect.stringContaining(`interface one now has MAC ${now}`),
    ]);
  });

  test("that virt-handler reports is not recorded twice", async () => {
    const told = { reason: "LauncherUnreachable", message: "no answer" };
    const blockedReason = { ...told, attempts: 1, since: "2026-01-01T00:00:00Z" };
    await putVmi(aVmi({ status: { ...STARTED, blockedReason } }));
    await bench.put(PODS, launcher());
    await bench.settleVmi();
    expect((await bench.vmi())?.status?.conditions).toContainEqual(
      expect.objectContaining({ type: "Synchronized", status: "False", ...told }),
    );
    expect(bench.events).toEqual([]);
  });
});
