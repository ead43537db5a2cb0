// SPDX-License-Identifier: Apache-2.0
// Results, effects and log lines of one pass.
import {
  VIRTUAL_MACHINE_INSTANCES,
  type VirtualMachineInstance,
  type VmiPhase,
  type VmiStatus,
} from "@patchbay/api";
import { AppError } from "@patchbay/base";
import type { Next } from "@patchbay/kube";
import { describe, expect, test } from "vitest";
import { TRANSIENT_REPORT_DELAY_MS } from "../../rate-limits.ts";
import { createBench, type Bench } from "../../testing/bench.ts";
import {
  aScheduledVmi,
  attachment,
  devicesOf,
  linksOf,
  putNic,
  running,
  without,
} from "../../testing/scene.ts";

const DONE: Next = { kind: "done" };
const MINUTE_MS = 60_000;

/** A running VM that is to get these NICs. */
async function plugging(): Promise<Bench> {
  const bench = await running([]);
  const { spec } = aScheduledVmi(["one", "two"]);
  const attachments = [attachment("one"), attachment("two")];
  await bench.edit((vmi) => ({ ...vmi, spec, status: { ...vmi.status, attachments } }));
  putNic(bench, "one");
  putNic(bench, "two");
  return bench;
}

function withStates(vmi: VirtualMachineInstance, state: string): VirtualMachineInstance {
  const interfaces = vmi.spec.domain.devices?.interfaces?.map((iface) => ({ ...iface, state }));
  const devices = { ...vmi.spec.domain.devices, interfaces: interfaces ?? [] };
  return { ...vmi, spec: { ...vmi.spec, domain: { ...vmi.spec.domain, devices } } };
}

function callsOf(bench: Bench, call: string): number {
  return bench.daemon.calls.filter((line) => line.startsWith(call)).length;
}

function waitMs({ next }: Bench): number {
  return next?.kind === "after" ? next.ms : -1;
}

describe("the next pass", () => {
  test("waits for a change at rest", async () => {
    const bench = await running();
    await bench.resume();
    expect(bench.next).toEqual({ kind: "done" });
  });

  test("is due when the guest must be queried again", async () => {
    const bench = await running();
    bench.daemon.unplugPolicy = "hold";
    await bench.edit((vmi) => without(vmi, "one"));
    await bench.resume();
    bench.nowMs += 4_000;
    await bench.resume();
    expect(bench.next).toEqual({ kind: "after", ms: 6_000 });
  });

  test("is due when the first of several steps may be retried", async () => {
    const bench = await plugging();
    bench.podNetwork.failNext("wireTap", new AppError("PODNET_FAILED", { message: "no" }));
    bench.daemon.failAlways("attachDevice", new AppError("LIBVIRT_UNSUPPORTED", {}));
    await bench.resume();
    expect(waitMs(bench)).toBeGreaterThan(750);
    expect(waitMs(bench)).toBeLessThanOrEqual(1_000);
  });

  test.each([
    { name: "a step", call: "attachDevice", set: plugging },
    {
      name: "a failed start",
      call: "startDomain",
      set: () => Promise.resolve(createBench(aScheduledVmi([]))),
    },
  ] as const)(
    "after $name that only a change can fix is due in a minute",
    async ({ call, set }) => {
      const bench = await set();
      bench.daemon.failAlways(call, new AppError("LIBVIRT_UNSUPPORTED", {}));
      await bench.resume();
      expect(waitMs(bench)).toBe(MINUTE_MS);
    },
  );

  test("waits for a change when an iface waits for one", async () => {
    const bench = createBench(aScheduledVmi(["one"], { attachments: [] }));
    await bench.resume();
    // The wait is reported a moment later, if it continues.
    expect(bench.next).toEqual({ kind: "after", ms: TRANSIENT_REPORT_DELAY_MS });
    expect((await bench.vmi()).status?.interfaces).toBeUndefined();
    bench.nowMs += TRANSIENT_REPORT_DELAY_MS;
    await bench.resume();
    expect((await bench.vmi()).status?.interfaces?.[0]?.hotplug?.phase).toBe("Pending");
    expect(bench.next).toEqual({ kind: "done" });
  });
});

describe("one pass", () => {
  test("continues as long as a step enables another one", async () => {
    const bench = createBench(aScheduledVmi(["one"]));
    putNic(bench, "one");
    await bench.wake();
    expect((await bench.vmi()).status?.phase).toBe("Running");
    // Wires, starts, and finds nothing left.
    expect(callsOf(bench, "findDomain")).toBe(3);
  });

  test("observes once at rest", async () => {
    const bench = await running();
    const before = callsOf(bench, "findDomain");
    await bench.wake();
    expect(callsOf(bench, "findDomain")).toBe(before + 1);
  });

  test("ends after five observations", async () => {
    const bench = await plugging();
    const before = callsOf(bench, "findDomain");
    bench.daemon.failAlways("attachDevice", new AppError("LIBVIRT_DEVICE_EXISTS", {}), "live");
    await bench.wake();
    expect(callsOf(bench, "findDomain")).toBe(before + 5);
  });

  test("reports on a VMI whose pod has no attachments", async () => {
    const bench = createBench(aScheduledVmi([]));
    const status = { phase: "Scheduled", activePods: { "pod-uid": "node1" } } as const;
    await bench.edit((vmi) => ({ ...vmi, status }));
    await bench.resume();
    expect((await bench.vmi()).status?.phase).toBe("Running");
  });

  test.each<{ name: string; status: VmiStatus }>([
    { name: "attachments", status: { attachments: [attachment("one", "Failed")] } },
    { name: "the phase", status: { phase: "Failed" } },
  ])("does not write a report based on $name that changed meanwhile", async ({ status }) => {
    const bench = createBench(aScheduledVmi(["one"]));
    putNic(bench, "one");
    const vmi = await bench.vmi();
    bench.store.beforeNextWrite(() => {
      const changed = { ...vmi, status: { ...vmi.status, ...status } };
      bench.store.put(VIRTUAL_MACHINE_INSTANCES, changed);
    });
    await bench.wake();
    expect(bench.next).toBeUndefined();
    expect((await bench.vmi()).status).toMatchObject(status);
  });
});

describe("the API server gets", () => {
  const writesOf = (bench: Bench): number =>
    bench.store.calls.filter((line) => line.startsWith("patch ")).length;

  test("one write for a plug, and two for an unplug", async () => {
    const bench = await running([]);
    const start = writesOf(bench);
    const { spec } = aScheduledVmi(["one"]);
    await bench.edit((vmi) => ({ ...vmi, spec }));
    await bench.resume();
    putNic(bench, "one");
    const attachments = [attachment("one")];
    await bench.edit((vmi) => ({ ...vmi, status: { ...vmi.status, attachments } }));
    await bench.resume();
    expect((await bench.vmi()).status?.interfaces?.[0]?.hotplug?.phase).toBe("Ready");
    expect(writesOf(bench) - start).toBe(1);
    bench.daemon.unplugPolicy = "hold";
    await bench.edit((vmi) => without(vmi, "one"));
    await bench.resume();
    bench.daemon.grantUnplugs("default_vm1");
    await bench.resume();
    expect((await bench.vmi()).status?.interfaces?.[0]?.hotplug?.phase).toBe("PodDetaching");
    await bench.edit((vmi) => ({ ...vmi, status: { ...vmi.status, attachments: [] } }));
    await bench.resume();
    expect((await bench.vmi()).status?.interfaces).toEqual([]);
    expect(writesOf(bench) - start).toBe(3);
  });
});

describe("retry state is forgotten after", () => {
  test("a granted unplug: the next one is requested at once", async () => {
    const bench = await running();
    const { spec } = await bench.vmi();
    const asked = (): number => callsOf(bench, "detachDevice default_vm1 ua-one live");
    await bench.edit((vmi) => without(vmi, "one"));
    await bench.resume();
    await bench.edit((vmi) => ({ ...vmi, spec }));
    await bench.resume();
    expect(asked()).toBe(1);
    await bench.edit((vmi) => without(vmi, "one"));
    await bench.resume();
    expect(asked()).toBe(2);
  });

  test("a failed plug was withdrawn: the same plug is tried at once when requested again", async () => {
    const bench = await plugging();
    const { spec } = await bench.vmi();
    bench.daemon.failAlways("attachDevice", new AppError("LIBVIRT_UNSUPPORTED", {}));
    await bench.resume();
    bench.daemon.failAlways("attachDevice", undefined);
    await bench.edit((vmi) => withStates(vmi, "absent"));
    await bench.resume();
    expect(devicesOf(bench)).toEqual([]);
    await bench.edit((vmi) => ({ ...vmi, spec }));
    await bench.resume();
    expect(devicesOf(bench)).toEqual(["ua-one", "ua-two"]);
  });
});

test("reports a canceled unplug before it repairs the links", async () => {
  const bench = await running();
  const { spec } = await bench.vmi();
  await bench.edit((vmi) => without(vmi, "one"));
  await bench.resume();
  await bench.edit((vmi) => ({ ...vmi, spec }));
  let links: readonly boolean[] = [];
  bench.store.beforeNextWrite(() => {
    links = linksOf(bench, "one");
  });
  await bench.wake();
  expect(links).toEqual([false, false]);
  expect(linksOf(bench, "one")).toEqual([true, true]);
});

describe("a pass does nothing", () => {
  test("when the VMI was deleted", async () => {
    const bench = await running();
    const { name, namespace = "" } = (await bench.vmi()).metadata;
    await bench.store.delete(VIRTUAL_MACHINE_INSTANCES, { name, namespace });
    await bench.wake();
    expect(bench.next).toEqual(DONE);
  });

  test.each<VmiPhase>(["Succeeded", "Failed"])(
    "when the VMI is %s, except for releasing its launcher",
    async (phase) => {
      const bench = await running();
      expect(bench.launcher.openCount).toBe(1);
      await bench.edit((vmi) => ({ ...vmi, status: { ...vmi.status, phase } }));
      const { length } = bench.daemon.calls;
      await bench.resume();
      expect(bench.next).toEqual(DONE);
      expect(bench.launcher.openCount).toBe(0);
      expect(bench.daemon.calls).toHaveLength(length);
    },
  );

  test("when its pod is on another node", async () => {
    const activePods = { "pod-uid": "node2" };
    const bench = createBench(aScheduledVmi(["one"], { activePods }));
    await bench.resume();
    expect(bench.next).toEqual(DONE);
    expect(bench.daemon.calls).toEqual([]);
  });

  test("for another node's pod beside its own", async () => {
    const activePods = { other: "node2", "pod-uid": "node1" };
    const bench = createBench(aScheduledVmi([], { activePods }));
    await bench.resume();
    expect((await bench.vmi()).status?.phase).toBe("Running");
  });

  test("when the guest has left its node", async () => {
    const bench = await running();
    const migrationState = { migrationUid: "m1", sourceNode: "node1", targetNode: "node2" };
    const status = { nodeName: "node2", migrationState: { ...migrationState, completed: true } };
    await bench.edit((vmi) => ({ ...vmi, status: { ...vmi.status, ...status } }));
    const { length } = bench.daemon.calls;
    await bench.resume();
    expect(bench.next).toEqual(DONE);
    expect(bench.daemon.calls).toHaveLength(length);
  });

  test("before the watch has delivered its own last write", async () => {
    const bench = createBench(aScheduledVmi([]));
    await bench.wake();
    bench.isBehind = true;
    await bench.edit((vmi) => vmi);
    await bench.wake();
    const { length } = bench.daemon.calls;
    await bench.wake();
    expect(bench.next).toEqual(DONE);
    expect(bench.daemon.calls).toHaveLength(length);
  });
});

describe("a busy domain", () => {
  const busy = new AppError("LIBVIRT_BUSY", { message: "no" });

  test("gets no request to release the next NIC", async () => {
    const bench = await running();
    await bench.edit((vmi) => withStates(vmi, "absent"));
    bench.daemon.failAlways("detachDevice", busy);
    await bench.resume();
    expect(callsOf(bench, "detachDevice")).toBe(1);
  });

  test("gets no request to set the next link", async () => {
    const bench = await running();
    await bench.edit((vmi) => withStates(vmi, "down"));
    bench.daemon.failAlways("updateDevice", busy);
    await bench.resume();
    expect(callsOf(bench, "updateDevice")).toBe(1);
  });

  test("gets the next NIC when one was rejected for its own reason", async () => {
    const bench = await running();
    await bench.edit((vmi) => withStates(vmi, "down"));
    bench.daemon.failAlways("updateDevice", new AppError("LIBVIRT_REFUSED", {}));
    await bench.resume();
    expect(callsOf(bench, "updateDevice")).toBe(2);
  });
});

describe("a libvirt call for a state that already exists", () => {
  test("succeeds when the device exists", async () => {
    const bench = await plugging();
    bench.daemon.failAlways("attachDevice", new AppError("LIBVIRT_DEVICE_EXISTS", {}), "live");
    await bench.wake();
    expect(bench.log.lines.filter(({ level }) => level === "warn")).toEqual([]);
  });

  test("succeeds when the device was removed meanwhile", async () => {
    const bench = await running();
    await bench.edit((vmi) => without(vmi, "one"));
    bench.daemon.failAlways("detachDevice", new AppError("LIBVIRT_DEVICE_MISSING", {}));
    await bench.resume();
    bench.nowMs += TRANSIENT_REPORT_DELAY_MS;
    await bench.resume();
    const { interfaces } = (await bench.vmi()).status ?? {};
    expect(interfaces?.[0]?.hotplug).toMatchObject({ reason: "WaitingForGuest", attempts: 1 });
  });
});

describe("the log", () => {
  const linesOf = (bench: Bench, message: string): readonly unknown[] =>
    bench.log.lines.flatMap((line) => (line.message === message ? line.fields : []));

  test("has each performed step", async () => {
    const bench = await running(["one"]);
    const vmi = "default/vm1";
    expect(linesOf(bench, "performed step")).toEqual([
      { vmi, action: "wireTap", iface: "one", durationMs: 0 },
      { vmi, action: "defineDomain", durationMs: 0 },
      { vmi, action: "startDomain", durationMs: 0 },
    ]);
  });

  test("has each failed step, once per attempt", async () => {
    const bench = await plugging();
    const err = new AppError("LIBVIRT_TAP_REFUSED", {});
    bench.daemon.failAlways("attachDevice", err);
    await bench.resume();
    await bench.resume();
    expect(linesOf(bench, "step failed")).toEqual([
      { action: "attachDevice", iface: "one", attempt: 1, err },
      { action: "attachDevice", iface: "two", attempt: 1, err },
    ]);
  });

  test("has no step line for a lost connection", async () => {
    const bench = await plugging();
    bench.daemon.failAlways("attachDevice", new AppError("LIBVIRT_CONNECTION_LOST", {}));
    await bench.resume();
    expect(linesOf(bench, "step failed")).toEqual([]);
  });

  test("has why the guest cannot be started, and when it is retried", async () => {
    const bench = createBench(aScheduledVmi([]));
    const err = new AppError("LIBVIRT_UNSUPPORTED", {});
    bench.daemon.failAlways("startDomain", err);
    await bench.resume();
    const vmi = "default/vm1";
    expect(linesOf(bench, "the guest cannot be started")).toEqual([
      { vmi, attempt: 1, retryMs: MINUTE_MS, err },
    ]);
  });
});
