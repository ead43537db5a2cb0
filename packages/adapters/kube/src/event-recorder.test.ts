// SPDX-License-Identifier: Apache-2.0
import { setImmediate } from "node:timers/promises";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import type { KubeEvent, KubeObject } from "@patchbay/api/kubernetes";
import { AppError } from "@patchbay/base";
import type { Store } from "@patchbay/core/interfaces";
import { type FakeClock, createFakeClock, settle } from "@patchbay/os/testing";
import { type FakeLogger, createFakeLogger } from "@patchbay/telemetry/testing";
import { describe, expect, test } from "vitest";
import { createEventRecorder, type EventRecorder } from "./event-recorder.ts";

/** Source: V8, --expose-gc, which adds `gc` to new contexts. */
function collectGarbage(): void {
  setFlagsFromString("--expose-gc");
  (runInNewContext("gc") as () => void)();
}

const vmi: KubeObject = {
  apiVersion: "kubevirt.io/v1",
  kind: "VirtualMachineInstance",
  metadata: { namespace: "ns", name: "one", uid: "u1" },
};
const note = { type: "Warning", reason: "CniFailed", message: "no lease" } as const;

interface Setting {
  readonly recorder: EventRecorder;
  readonly clock: FakeClock;
  readonly created: readonly KubeEvent[];
  readonly counts: readonly unknown[];
  readonly messages: readonly unknown[];
  readonly refuse: (error: AppError) => void;
  readonly warnings: () => number;
  readonly lines: () => FakeLogger["lines"];
}

function setUp({ host }: { host: string | undefined } = { host: "n1" }): Setting {
  const clock = createFakeClock();
  const logger = createFakeLogger();
  const created: KubeEvent[] = [];
  const counts: unknown[] = [];
  const messages: unknown[] = [];
  const refusals: AppError[] = [];
  const attempt = (): void => {
    const refusal = refusals.shift();
    if (refusal !== undefined) throw refusal;
  };
  const store: Pick<Store, "create" | "patch"> = {
    create: async (_type, object) => {
      await settle();
      attempt();
      created.push(object as unknown as KubeEvent); // the recorder makes nothing else
      return object;
    },
    patch: async (_type, _key, patch) => {
      await settle();
      attempt();
      if (patch.type === "merge") {
        counts.push(patch.fields["count"]);
        messages.push(patch.fields["message"]);
      }
      return vmi as never; // the recorder ignores it
    },
  };
  const recorder = createEventRecorder({
    store: store as Store, // it calls only these two
    clock,
    logger,
    component: "virt-handler",
    ...(host !== undefined && { host }),
  });
  const warnings = (): number => logger.lines.filter(({ level }) => level === "warn").length;
  const refuse = (error: AppError): number => refusals.push(error);
  return {
    recorder,
    clock,
    created,
    counts,
    messages,
    refuse,
    warnings,
    lines: () => logger.lines,
  };
}

async function rest(): Promise<void> {
  await settle();
  await settle();
  await settle();
}

describe("an event", () => {
  test("names the object, the source and the action", async () => {
    const { recorder, created } = setUp();
    recorder.record(vmi, note);
    await rest();
    expect(created).toHaveLength(1);
    expect(created[0]).toMatchObject({
      involvedObject: { kind: "VirtualMachineInstance", namespace: "ns", name: "one", uid: "u1" },
      ...note,
      count: 1,
      firstTimestamp: "1970-01-01T00:00:00Z",
      source: { component: "virt-handler", host: "n1" },
    });
    expect(created[0]?.metadata.namespace).toBe("ns");
  });

  test("that repeats is counted, in one write for all repeats of five seconds", async () => {
    const { recorder, clock, created, counts } = setUp();
    for (let i = 0; i < 10; i += 1) recorder.record(vmi, note);
    await rest();
    await clock.advance(5000);
    await rest();
    expect(created).toHaveLength(1);
    expect(counts).toEqual([10]);
  });

  test("with another reason is a separate event", async () => {
    const { recorder, created } = setUp();
    recorder.record(vmi, note);
    recorder.record(vmi, { ...note, reason: "GuestRefused" });
    await rest();
    expect(created.map(({ reason }) => reason)).toEqual(["CniFailed", "GuestRefused"]);
    expect(new Set(created.map(({ metadata }) => metadata.name)).size).toBe(2);
  });

  test("whose message differs each time is one event, with the latest message", async () => {
    const { recorder, clock, created, counts, messages } = setUp();
    for (let mac = 0; mac < 100; mac += 1) {
      recorder.record(vmi, { ...note, message: `MAC 02:00:00:00:00:${String(mac)} not set` });
      await clock.advance(100);
    }
    await rest();
    await clock.advance(10_000);
    await rest();
    expect(created).toHaveLength(1);
    expect(counts.at(-1)).toBe(100);
    expect(messages.at(-1)).toBe("MAC 02:00:00:00:00:99 not set");
  });

  test("about another part of the object is a separate event", async () => {
    const { recorder, created } = setUp();
    for (const about of ["net1", "net2", "net1"]) recorder.record(vmi, { ...note, about });
    await rest();
    expect(created).toHaveLength(2);
    expect(created[0]).not.toHaveProperty("about");
  });

  test("that repeats for an hour is written with growing intervals", async () => {
    const { recorder, clock, created, counts } = setUp();
    for (let second = 0; second < 3600; second += 1) {
      recorder.record(vmi, note);
      await clock.advance(1000);
      await settle();
    }
    expect(created).toHaveLength(1);
    expect(counts.length).toBeLessThan(20);
  });

  test("of type Normal is dropped if its object has had more of them than a VM has NICs", async () => {
    const { recorder, created } = setUp();
    for (let i = 0; i < 200; i += 1) {
      recorder.record(vmi, { ...note, type: "Normal", about: `net${String(i)}` });
    }
    await rest();
    expect(created).toHaveLength(128);
  });

  test("is dropped if its object has had too many events; other objects are not affected", async () => {
    const { recorder, clock, created } = setUp();
    for (let i = 0; i < 1000; i += 1) recorder.record(vmi, { ...note, about: `net${String(i)}` });
    await rest();
    expect(created).toHaveLength(25);
    recorder.record({ ...vmi, metadata: { ...vmi.metadata, uid: "u2" } }, note);
    await clock.advance(300_000);
    recorder.record(vmi, { ...note, about: "later" });
    await rest();
    expect(created).toHaveLength(27);
  });

  test("that recurs after ten minutes is a new event", async () => {
    const { recorder, clock, created } = setUp();
    recorder.record(vmi, note);
    await rest();
    await clock.advance(600_000);
    recorder.record(vmi, note);
    await rest();
    expect(created).toHaveLength(2);
  });

  test("that cannot be written is logged and does not fail the caller", async () => {
    const { recorder, created, refuse, warnings } = setUp();
    refuse(new AppError("KUBE_FORBIDDEN", { message: "no" }));
    recorder.record(vmi, note);
    await rest();
    expect(created).toEqual([]);
    expect(warnings()).toBe(1);
  });

  test("that has expired on the server is created again", async () => {
    const { recorder, clock, created, refuse } = setUp();
    recorder.record(vmi, note);
    await rest();
    refuse(new AppError("KUBE_NOT_FOUND"));
    recorder.record(vmi, note);
    await clock.advance(5000);
    await rest();
    expect(created.map(({ count }) => count)).toEqual([1, 2]);
  });

  test("of a cluster-scoped object is in the default namespace and omits unknown fields", async () => {
    const { recorder, created } = setUp({ host: undefined });
    const message = "x".repeat(2000);
    recorder.record(
      { apiVersion: "v1", kind: "Node", metadata: { name: "n1" } },
      { ...note, message },
    );
    await rest();
    expect(created).toStrictEqual([
      {
        apiVersion: "v1",
        kind: "Event",
        metadata: { namespace: "default", name: "n1.00001" },
        involvedObject: { apiVersion: "v1", kind: "Node", name: "n1" },
        ...note,
        message: "x".repeat(1024),
        count: 1,
        firstTimestamp: "1970-01-01T00:00:00Z",
        lastTimestamp: "1970-01-01T00:00:00Z",
        source: { component: "virt-handler" },
      },
    ]);
  });

  test("that is not written is logged with its reason", async () => {
    const { recorder, lines, refuse } = setUp();
    refuse(new AppError("KUBE_NOT_FOUND", { message: "no namespace" }));
    recorder.record(vmi, note);
    await rest();
    expect(lines()).toMatchObject([
      { level: "warn", fields: { event: "CniFailed", reason: expect.any(String) as string } },
    ]);
  });

  test("is not created again if the server rejects the new count", async () => {
    const { recorder, clock, created, refuse, warnings } = setUp();
    recorder.record(vmi, note);
    await rest();
    refuse(new AppError("KUBE_FORBIDDEN", { message: "no" }));
    recorder.record(vmi, note);
    await clock.advance(5000);
    await rest();
    expect(created).toHaveLength(1);
    expect(warnings()).toBe(1);
  });

  test("that did not repeat for five minutes is counted soon again", async () => {
    const { recorder, clock, counts } = setUp();
    const repeat = async (waitMs: number): Promise<void> => {
      recorder.record(vmi, note);
      await rest();
      await clock.advance(waitMs);
      await rest();
    };
    await repeat(0);
    for (const waitMs of [5000, 10_000, 20_000]) await repeat(waitMs);
    expect(counts).toEqual([2, 3, 4]);
    await clock.advance(300_000);
    await repeat(5000);
    expect(counts).toEqual([2, 3, 4, 5]);
  });

  test("is counted correctly when it repeats without end while new events are dropped", async () => {
    const { recorder, clock, created, counts } = setUp();
    recorder.record(vmi, note);
    await rest();
    for (let i = 0; i < 30; i += 1) recorder.record(vmi, { ...note, about: `net${String(i)}` });
    await rest();
    expect(created).toHaveLength(25);
    recorder.record(vmi, note);
    await clock.advance(5000);
    await rest();
    expect(counts).toEqual([2]);
  });

  test("is evicted when there are a thousand, least recently reported first", async () => {
    const { recorder, created } = setUp();
    const warn = async (uid: string): Promise<void> => {
      recorder.record({ ...vmi, metadata: { ...vmi.metadata, uid } }, note);
      await settle();
    };
    for (let i = 0; i < 1000; i += 1) await warn(`u${String(i)}`);
    await warn("u0");
    await warn("one more"); // in place of u1
    expect(created).toHaveLength(1001);
    await warn("u0");
    expect(created).toHaveLength(1001);
    await warn("u1");
    await rest();
    expect(created).toHaveLength(1002);
    await recorder.flush();
  });

  test("retains no object", async () => {
    const { recorder } = setUp();
    const record = (): WeakRef<object> => {
      const object = { ...vmi, metadata: { ...vmi.metadata, annotations: { note: "long" } } };
      recorder.record(object, note);
      return new WeakRef(object.metadata.annotations);
    };
    const annotations = record();
    await rest();
    // A WeakRef holds its target until the end of the task that created it.
    await setImmediate();
    collectGarbage();
    expect(annotations.deref()).toBeUndefined();
  });

  test("that is pending is written by a flush", async () => {
    const { recorder, counts } = setUp();
    recorder.record(vmi, note);
    await rest();
    recorder.record(vmi, note);
    await recorder.flush();
    expect(counts).toEqual([2]);
  });
});
