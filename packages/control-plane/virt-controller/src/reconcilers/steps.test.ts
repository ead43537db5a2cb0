// SPDX-License-Identifier: Apache-2.0
// Failed steps: reports, backoff, and errors that end the pass.
import {
  PODS,
  VIRTUAL_MACHINE_INSTANCES,
  VIRTUAL_MACHINES,
  type VirtualMachine,
} from "@patchbay/api";
import { aVm, aVmi } from "@patchbay/support";
import { AppError, type ErrorCode } from "@patchbay/base";
import { findSyncError } from "@patchbay/core/status";
import { beforeEach, describe, expect, test } from "vitest";
import { Bench } from "../testing/bench.ts";
import { launcher, STARTED } from "../testing/launched-vmi.ts";

const CREATE = "create virtualmachineinstances";
const CREATED = `${CREATE} default/vm1`;
/** First delay, milliseconds. */
const FIRST_MS = 1000;

let bench: Bench;

beforeEach(async () => {
  bench = new Bench();
  await bench.put(VIRTUAL_MACHINES, aVm());
});

async function told(): Promise<string | undefined> {
  return findSyncError((await bench.vm())?.status?.conditions)?.message;
}

/** Runs a pass; returns whether it tried to create the VMI. */
async function tries(): Promise<boolean> {
  await bench.catchUp();
  await bench.passVm();
  return bench.calls.includes(CREATED);
}

describe("a step that the server rejects", () => {
  beforeEach(() => {
    bench.refuse(CREATE, "KUBE_FORBIDDEN");
  });

  test("is reported and retried with growing delays", async () => {
    expect(await bench.passVm()).toEqual({ kind: "after", ms: FIRST_MS });
    expect(await told()).toContain("refused");
    expect(bench.lines).toEqual([
      expect.stringMatching(
        /^step failed .*"object":"default\/vm1","step":"createVmi","code":"KUBE_FORBIDDEN"/,
      ),
    ]);
    bench.nowMs += FIRST_MS - 1;
    expect(await tries()).toBe(false);
    expect(await bench.passVm()).toEqual({ kind: "after", ms: 1 });
    expect(await told()).toContain("refused");
    bench.nowMs += 1;
    expect(await tries()).toBe(true);
    await bench.catchUp();
    expect(await bench.passVm()).toEqual({ kind: "after", ms: 2 * FIRST_MS });
  });

  test("is retried at once after a change of the VM", async () => {
    await bench.passVm();
    const vm = aVm();
    await bench.put(VIRTUAL_MACHINES, { ...vm, metadata: { ...vm.metadata, generation: 2 } });
    expect(await tries()).toBe(true);
  });

  test("runs again after it has succeeded", async () => {
    await bench.passVm();
    bench.refuse(CREATE, undefined);
    bench.nowMs += FIRST_MS;
    expect(await tries()).toBe(true);
    expect(await told()).toBeUndefined();
  });

  test("has the first delay again after it has succeeded", async () => {
    await bench.passVm();
    bench.refuse(CREATE, undefined);
    bench.nowMs += FIRST_MS;
    expect(await tries()).toBe(true);
    await bench.server.delete(VIRTUAL_MACHINE_INSTANCES, { namespace: "default", name: "vm1" });
    bench.refuse(CREATE, "KUBE_FORBIDDEN");
    await bench.catchUp();
    expect(await bench.passVm()).toEqual({ kind: "after", ms: FIRST_MS });
  });

  test("is forgotten when the plan no longer contains it", async () => {
    await bench.passVm();
    const halted: VirtualMachine = aVm({ runStrategy: "Halted" });
    await bench.put(VIRTUAL_MACHINES, halted);
    expect(await bench.passVm()).toEqual({ kind: "done" });
    expect(await told()).toBeUndefined();
    await bench.put(VIRTUAL_MACHINES, aVm());
    expect(await tries()).toBe(true);
  });
});

test.each<ErrorCode>([
  "KUBE_CONFLICT",
  "KUBE_NOT_FOUND",
  "KUBE_EXPIRED",
  "KUBE_UNREACHABLE",
  "KUBE_UNAUTHORIZED",
])("%s is transient: the pass fails and the status is written", async (code) => {
  bench.refuse(CREATE, code);
  await expect(bench.passVm()).rejects.toMatchObject({ code });
  expect(await told()).toBeUndefined();
  expect((await bench.vm())?.status?.printableStatus).toBe("Starting");
  expect(await tries().catch(() => bench.calls.includes(CREATED))).toBe(true);
});

test("an unexpected error does not back off", async () => {
  bench.refuseWith(CREATE, new TypeError("a fault"));
  await expect(bench.passVm()).rejects.toThrow("a fault");
  expect(await told()).toBeUndefined();
});

test("the failed step that is due first determines the next pass", async () => {
  const vmi = aVmi({ nics: [{ name: "one", mac: "02:00:00:00:00:01" }], status: STARTED });
  let refused = ["VirtualMachineInstance"];
  // The label is rejected, but a status is not.
  bench.judgePatch(({ kind, metadata: { labels } }) =>
    refused.includes(kind) && (kind === "Pod" || labels !== undefined) ? "KUBE_REFUSED" : undefined,
  );
  await bench.put(VIRTUAL_MACHINE_INSTANCES, vmi);
  await bench.put(PODS, launcher());
  expect(await bench.passVmi()).toEqual({ kind: "after", ms: FIRST_MS });
  refused = ["VirtualMachineInstance", "Pod"];
  await bench.put(PODS, launcher());
  bench.nowMs += FIRST_MS;
  expect(await bench.passVmi()).toEqual({ kind: "after", ms: FIRST_MS });
  await bench.catchUp();
  bench.nowMs += FIRST_MS - 1;
  expect(await bench.passVmi()).toEqual({ kind: "after", ms: 1 });
});

test.each<ErrorCode>(["CNI_NETWORK_NOT_FOUND", "API_INVALID"])(
  "%s, which only a change can fix, backs off for at least a minute",
  async (code) => {
    bench.refuseWith(CREATE, new AppError(code));
    expect(await bench.passVm()).toEqual({ kind: "after", ms: 60_000 });
    bench.nowMs += 59_999;
    expect(await tries()).toBe(false);
    bench.nowMs += 1;
    expect(await tries()).toBe(true);
  },
);

test("the first of several failures is reported", async () => {
  const refusals = [new AppError("KUBE_REFUSED", { message: "too many" }), new Error("other")];
  bench.refuseWith(CREATE, new AggregateError(refusals, "some changes were rejected"));
  expect(await bench.passVm()).toEqual({ kind: "after", ms: FIRST_MS });
  expect(await told()).toContain("too many");
});
