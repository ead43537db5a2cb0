// SPDX-License-Identifier: Apache-2.0
// start, stop and restart, by run strategy and state of the guest.
import {
  VIRTUAL_MACHINE_INSTANCES,
  VIRTUAL_MACHINES,
  type RunStrategy,
  type VirtualMachine,
  type VirtualMachineInstance,
} from "@patchbay/api";
import type { StatusBody } from "@patchbay/api/kubernetes";
import { AppError } from "@patchbay/base";
import { createFakeStore, type FakeStore } from "@patchbay/kube/testing";
import { createSilentLogger } from "@patchbay/telemetry";
import { beforeEach, describe, expect, test } from "vitest";
import { MAC, vmWith } from "../testing/admission.ts";
import { aCall } from "../testing/call.ts";
import { depsOn } from "../testing/deps.ts";
import { aVm, aVmi, KEY } from "../testing/objects.ts";
import { restart, start, stop } from "./change-vm.ts";

const VERBS = { start, stop, restart };
type Verb = keyof typeof VERBS;

/** No VMI, or one whose guest runs, starts, or has ended. */
type Guest = "none" | "Running" | "Scheduled" | "Succeeded" | "Failed" | "Unknown";

let store: FakeStore;

beforeEach(() => {
  store = createFakeStore();
});

function vmiIn(phase: Exclude<Guest, "none">): VirtualMachineInstance {
  return { ...aVmi(), status: { phase } };
}

interface Asked {
  readonly verb: Verb;
  readonly vm: VirtualMachine;
  readonly guest: Guest;
  readonly dryRun: boolean;
  readonly body?: unknown;
}

/** The response, the run strategy, the state change requests, and whether the VMI exists. */
async function perform({ verb, vm, guest, dryRun, body: given }: Asked) {
  store.put(VIRTUAL_MACHINES, vm);
  if (guest !== "none") store.put(VIRTUAL_MACHINE_INSTANCES, vmiIn(guest));
  const logged: string[] = [];
  const log = { ...createSilentLogger(), info: (message: string) => void logged.push(message) };
  const { code, body } = await VERBS[verb](depsOn(store, { log }))(aCall({ dryRun, body: given }));
  const after = await store.find(VIRTUAL_MACHINES, KEY);
  const writes = store.calls.filter((call) => !call.startsWith("get"));
  // Every response is a Status.
  const { message, details } = body as StatusBody;
  return { code, message, details, writes, after, logged };
}

function ask(verb: Verb, vm: VirtualMachine, guest: Guest) {
  return perform({ verb, vm, guest, dryRun: false });
}

const PATCHED = ["patch virtualmachines ns/vm"];
const STOP = { action: "Stop", uid: "vmi-uid" } as const;
const START = { action: "Start" } as const;
const PAUSED = { ...START, data: { paused: "true" } };
const NOW_ASKED = { guest: "none", dryRun: false } as const;

test.each(["Manual", "Halted"] as const)(
  "rejects a start of $0 while another VM with its MAC runs",
  async (runStrategy) => {
    const vm = vmWith({ bridge: {}, macAddress: MAC });
    store.put(VIRTUAL_MACHINES, { ...vm, spec: { ...vm.spec, runStrategy } });
    const other = { namespace: "ns", name: "other", spec: vm.spec.template.spec };
    const deps = depsOn(store, { listMacOwners: () => [other] });
    const { code, body } = await start(deps)(aCall({}));
    expect(code).toBe(422);
    expect((body as StatusBody).message).toContain(
      `MAC address ${MAC} is in use on network ns/blue by VM ns/other`,
    );
    expect(store.calls.filter((call) => call.startsWith("patch"))).toEqual([]);
  },
);

describe("start", () => {
  test.each<{ strategy: RunStrategy; guest: Guest; requests?: readonly object[] }>([
    { strategy: "Halted", guest: "none" },
    { strategy: "Halted", guest: "Succeeded" },
    { strategy: "Manual", guest: "none", requests: [START] },
    { strategy: "Manual", guest: "Succeeded", requests: [STOP, START] },
    { strategy: "RerunOnFailure", guest: "Succeeded", requests: [STOP, START] },
    { strategy: "Manual", guest: "Failed", requests: [STOP, START] },
    { strategy: "Manual", guest: "Unknown", requests: [START] },
  ])("of $strategy with a guest $guest", async ({ strategy, guest, requests }) => {
    const told = await ask("start", aVm({ runStrategy: strategy }), guest);
    expect(told).toMatchObject({ code: 202, message: "the virtual machine will be started" });
    expect(told.logged).toEqual([told.message]);
    expect(told.writes).toEqual(PATCHED);
    expect(told.after?.spec.runStrategy).toBe(requests === undefined ? "Always" : strategy);
    expect(told.after?.status?.stateChangeRequests).toEqual(requests);
  });

  test.each<{ strategy: RunStrategy; guest: Guest; message: string }>([
    { strategy: "Halted", guest: "Running", message: "VM is already running" },
    { strategy: "Manual", guest: "Scheduled", message: "VM is already running" },
    { strategy: "Always", guest: "none", message: "Always does not support manual start requests" },
    { strategy: "Once", guest: "none", message: "Once does not support manual start requests" },
    {
      strategy: "RerunOnFailure",
      guest: "Failed",
      message: "RerunOnFailure does not support starting VM from failed state",
    },
  ])(
    "of $strategy with a guest $guest fails with 409: $message",
    async ({ strategy, guest, message }) => {
      const told = await ask("start", aVm({ runStrategy: strategy }), guest);
      expect(told).toMatchObject({ code: 409, message, writes: [], logged: [] });
    },
  );
});

describe("stop", () => {
  const MANUAL = aVm({ runStrategy: "Manual" });
  const WAITING: VirtualMachine = { ...MANUAL, status: { stateChangeRequests: [START] } };

  test.each<{ strategy: RunStrategy; guest: Guest; requests?: readonly object[] }>([
    { strategy: "Always", guest: "Running" },
    { strategy: "Always", guest: "none" },
    { strategy: "Once", guest: "Running" },
    { strategy: "Manual", guest: "Running", requests: [STOP] },
    { strategy: "RerunOnFailure", guest: "Scheduled", requests: [STOP] },
  ])("of $strategy with a guest $guest", async ({ strategy, guest, requests }) => {
    const told = await ask("stop", aVm({ runStrategy: strategy }), guest);
    expect(told).toMatchObject({ code: 202, message: "the virtual machine will be stopped" });
    expect(told.writes).toEqual(PATCHED);
    expect(told.after?.spec.runStrategy).toBe(requests === undefined ? "Halted" : strategy);
    expect(told.after?.status?.stateChangeRequests).toEqual(requests);
  });

  test.each<Guest>(["none", "Succeeded"])("cancels a pending start: %s", async (guest) => {
    const told = await ask("stop", WAITING, guest);
    expect(told).toMatchObject({ code: 202, writes: PATCHED });
    expect(told.after?.status?.stateChangeRequests).toEqual([]);
  });

  test("ends a running guest, whatever requests are pending", async () => {
    const told = await ask("stop", WAITING, "Running");
    expect(told.after?.status?.stateChangeRequests).toEqual([STOP]);
  });

  test.each<{ strategy: RunStrategy; guest: Guest; message: string }>([
    { strategy: "Halted", guest: "none", message: "VM is not running" },
    { strategy: "Halted", guest: "Failed", message: "VM is not running" },
    {
      strategy: "Halted",
      guest: "Running",
      message: "Halted only supports manual stop requests with a shorter graceperiod",
    },
    { strategy: "Manual", guest: "none", message: "VM is not running" },
    { strategy: "Manual", guest: "Succeeded", message: "VM is not running" },
  ])(
    "of $strategy with a guest $guest fails with 409: $message",
    async ({ strategy, guest, message }) => {
      const told = await ask("stop", aVm({ runStrategy: strategy }), guest);
      expect(told).toMatchObject({ code: 409, message, writes: [] });
    },
  );

  test("cancels a pending restart of a guest", async () => {
    const vm: VirtualMachine = { ...MANUAL, status: { stateChangeRequests: [STOP] } };
    expect(await ask("stop", vm, "Succeeded")).toMatchObject({ code: 409, writes: [] });
  });
});

describe("restart", () => {
  test("deletes the VMI of a VM with strategy Always", async () => {
    const told = await ask("restart", aVm(), "Running");
    expect(told).toMatchObject({ code: 202, message: "the virtual machine will be restarted" });
    expect(told.writes).toEqual(["delete virtualmachineinstances ns/vm"]);
  });

  test("deletes the VMI by its uid", async () => {
    store.beforeNextWrite(() => {
      const next = vmiIn("Running");
      const metadata = { ...next.metadata, uid: "next-uid" };
      store.put(VIRTUAL_MACHINE_INSTANCES, { ...next, metadata });
    });
    const told = await ask("restart", aVm(), "Running");
    expect(told.code).toBe(202);
    // The first VMI is deleted already, so the next attempt reads a new one.
    expect(told.writes).toHaveLength(2);
  });

  test.each<{ strategy: RunStrategy; guest: Guest }>([
    { strategy: "Manual", guest: "Running" },
    { strategy: "Manual", guest: "Succeeded" },
    { strategy: "RerunOnFailure", guest: "Failed" },
  ])(
    "of $strategy with a guest $guest writes two state change requests",
    async ({ strategy, guest }) => {
      const told = await ask("restart", aVm({ runStrategy: strategy }), guest);
      expect(told).toMatchObject({ code: 202, writes: PATCHED });
      expect(told.after?.status?.stateChangeRequests).toEqual([STOP, START]);
    },
  );

  test.each<{ strategy: RunStrategy; guest: Guest; message: string }>([
    { strategy: "Always", guest: "none", message: "VM is not running" },
    {
      strategy: "Halted",
      guest: "none",
      message: "RunStategy Halted does not support manual restart requests",
    },
  ])(
    "of $strategy with a guest $guest fails with 409: $message",
    async ({ strategy, guest, message }) => {
      const told = await ask("restart", aVm({ runStrategy: strategy }), guest);
      expect(told).toMatchObject({ code: 409, message, writes: [] });
    },
  );
});

describe("a request after failed starts", () => {
  const startFailure = {
    consecutiveFailCount: 3,
    lastFailedVMIUID: "earlier",
    retryAfterTimestamp: "2026-01-01T00:00:00Z",
  };

  test.each<{ verb: Verb; strategy: RunStrategy; guest: Guest }>([
    { verb: "start", strategy: "RerunOnFailure", guest: "none" },
    { verb: "restart", strategy: "Always", guest: "Failed" },
    { verb: "restart", strategy: "RerunOnFailure", guest: "Failed" },
    { verb: "stop", strategy: "RerunOnFailure", guest: "Running" },
  ])("$verb of $strategy ends the backoff", async ({ verb, strategy, guest }) => {
    const told = await ask(
      verb,
      { ...aVm({ runStrategy: strategy }), status: { startFailure } },
      guest,
    );
    expect(told.code).toBe(202);
    expect(told.after?.status).not.toHaveProperty("startFailure");
  });
});

describe("with a dry run", () => {
  test.each<{ verb: Verb; strategy: RunStrategy; guest: Guest }>([
    { verb: "start", strategy: "Halted", guest: "none" },
    { verb: "start", strategy: "Manual", guest: "none" },
    { verb: "stop", strategy: "Always", guest: "Running" },
    { verb: "stop", strategy: "Manual", guest: "Running" },
    { verb: "restart", strategy: "Always", guest: "Running" },
    { verb: "restart", strategy: "Manual", guest: "Running" },
  ])("$verb of $strategy changes nothing and is not logged", async ({ verb, strategy, guest }) => {
    const vm = aVm({ runStrategy: strategy });
    const told = await perform({ verb, vm, guest, dryRun: true });
    expect(told).toMatchObject({ code: 202, logged: [] });
    expect(told.after?.spec).toEqual(vm.spec);
    expect(told.after?.status).toBeUndefined();
    const vmi = await store.find(VIRTUAL_MACHINE_INSTANCES, KEY);
    expect(vmi === undefined).toBe(guest === "none");
  });
});

describe("options in the body", () => {
  async function graceOfVmi(): Promise<number | undefined> {
    const vmi = await store.find(VIRTUAL_MACHINE_INSTANCES, KEY);
    return vmi?.spec.terminationGracePeriodSeconds;
  }

  test("requests a paused start before it sets the run strategy", async () => {
    const vm = aVm({ runStrategy: "Halted" });
    const told = await perform({ ...NOW_ASKED, verb: "start", vm, body: { paused: true } });
    expect(told).toMatchObject({ code: 202, writes: [...PATCHED, ...PATCHED] });
    expect(told.after?.spec.runStrategy).toBe("Always");
    expect(told.after?.status?.stateChangeRequests).toEqual([PAUSED]);
  });

  test("a plain start cancels an earlier paused start", async () => {
    const status = { stateChangeRequests: [PAUSED] };
    const vm = { ...aVm({ runStrategy: "Halted" }), status };
    const told = await perform({ ...NOW_ASKED, verb: "start", vm, body: { paused: false } });
    expect(told.after?.status?.stateChangeRequests).toEqual([]);
  });

  test("adds a start request for a paused start with strategy Manual", async () => {
    const vm = aVm({ runStrategy: "Manual" });
    const told = await perform({ ...NOW_ASKED, verb: "start", vm, body: { paused: true } });
    expect(told.after?.status?.stateChangeRequests).toEqual([PAUSED]);
  });

  test.each<{ verb: Verb; strategy: RunStrategy; body: object; seconds: number }>([
    { verb: "stop", strategy: "Manual", body: { gracePeriod: 3 }, seconds: 3 },
    { verb: "stop", strategy: "Always", body: { gracePeriod: 0 }, seconds: 0 },
    { verb: "restart", strategy: "Manual", body: { gracePeriodSeconds: 0 }, seconds: 0 },
  ])("$verb of $strategy with $body preserves the grace period", async (row) => {
    const { verb, strategy, body, seconds } = row;
    const vm = aVm({ runStrategy: strategy });
    const told = await perform({ verb, vm, guest: "Running", dryRun: false, body });
    expect(told).toMatchObject({ code: 202 });
    expect(told.writes[0]).toBe("patch virtualmachineinstances ns/vm");
    expect(await graceOfVmi()).toBe(seconds);
  });

  test("shortens the grace period of a guest that is stopping, but never extends it", async () => {
    const vm = aVm({ runStrategy: "Halted" });
    const ask = (gracePeriod: number) =>
      perform({ verb: "stop", vm, guest: "Running", dryRun: false, body: { gracePeriod } });
    expect(await ask(0)).toMatchObject({
      code: 202,
      writes: ["patch virtualmachineinstances ns/vm"],
    });
    const spec = { ...vmiIn("Running").spec, terminationGracePeriodSeconds: 5 };
    store.put(VIRTUAL_MACHINE_INSTANCES, { ...vmiIn("Running"), spec });
    const call = aCall({ body: { gracePeriod: 5 } });
    expect(await stop(depsOn(store))(call)).toMatchObject({
      code: 409,
      body: { message: expect.stringContaining("shorter graceperiod") as string },
    });
  });

  test.each<{ verb: Verb; body: unknown; field?: string; message: RegExp }>([
    { verb: "start", body: { paused: "yes" }, field: "paused", message: /true or false/ },
    { verb: "start", body: [], message: /^cannot unmarshal/ },
    { verb: "stop", body: { gracePeriod: -1 }, field: "gracePeriod", message: /greater or equal/ },
    { verb: "stop", body: { gracePeriod: 1.5 }, field: "gracePeriod", message: /integer/ },
    {
      verb: "restart",
      body: { gracePeriodSeconds: 1 },
      field: "gracePeriodSeconds",
      message: /^For force restart, only gracePeriod=0 is supported for now$/,
    },
    {
      verb: "restart",
      body: { gracePeriodSeconds: -1 },
      field: "gracePeriodSeconds",
      message: /greater or equal/,
    },
  ])(
    "$verb with $body fails with 400 and changes nothing",
    async ({ verb, body, field, message }) => {
      const vm = aVm({ runStrategy: "Manual" });
      const told = await perform({ verb, vm, guest: "Running", dryRun: false, body });
      expect(told).toMatchObject({ code: 400, writes: [] });
      expect(told.message).toMatch(message);
      const causes = field === undefined ? [] : [field];
      expect((told.details?.causes ?? []).map((cause) => cause.field)).toEqual(causes);
    },
  );
});

describe("a VM that cannot start", () => {
  const spec = { ...aVm().spec.template.spec, domain: { memory: { hugepages: {} } } };

  test.each<{ verb: Verb; strategy: RunStrategy; guest: Guest }>([
    { verb: "start", strategy: "Halted", guest: "none" },
    { verb: "restart", strategy: "Always", guest: "Running" },
  ])("$verb fails with 422 and names every field", async ({ verb, strategy, guest }) => {
    const told = await ask(verb, aVm({ runStrategy: strategy, template: { spec } }), guest);
    expect(told).toMatchObject({ code: 422, writes: [] });
    expect(told.message).toMatch(/^the VM cannot be started: .*kernelBoot.*memory\.hugepages/);
  });

  test("can be stopped", async () => {
    const told = await ask("stop", aVm({ template: { spec } }), "Running");
    expect(told).toMatchObject({ code: 202, writes: PATCHED });
  });
});

describe("run strategy and running", () => {
  const { template } = aVm().spec;

  test.each<{ name: string; spec: VirtualMachine["spec"]; verb: Verb; want: object }>([
    {
      name: "running",
      spec: { running: false, template },
      verb: "start",
      want: { running: true, template },
    },
    {
      name: "a missing run strategy",
      spec: { template },
      verb: "start",
      want: { runStrategy: "Always", template },
    },
  ])("$name is preserved in its form", async ({ spec, verb, want }) => {
    const told = await ask(verb, { ...aVm(), spec }, "none");
    expect(told).toMatchObject({ code: 202 });
    expect(told.after?.spec).toEqual(want);
  });

  test.each<{ name: string; spec: VirtualMachine["spec"]; theirs: VirtualMachine["spec"] }>([
    {
      name: "running",
      spec: { running: false, template },
      theirs: { running: true, template },
    },
    {
      name: "a run strategy",
      spec: { runStrategy: "Halted", template },
      theirs: { runStrategy: "Once", template },
    },
    { name: "nothing", spec: { template }, theirs: { runStrategy: "Once", template } },
  ])("$name that another client changes meanwhile is planned again", async ({ spec, theirs }) => {
    store.beforeNextWrite(() => {
      store.put(VIRTUAL_MACHINES, { ...aVm(), spec: theirs });
    });
    const told = await ask("start", { ...aVm(), spec }, "none");
    expect(told.code).toBe(409);
    expect(told.after?.spec).toEqual(theirs);
  });
});

test("responds with 404 for a missing VM", async () => {
  const { code } = await start(depsOn(store))(aCall({ name: "none" }));
  expect(code).toBe(404);
});

test("does not retry a rejected write", async () => {
  store.put(VIRTUAL_MACHINES, aVm());
  const patch = () => Promise.reject(new AppError("KUBE_FORBIDDEN", { message: "no" }));
  const find = store.find.bind(store);
  const refused = stop(depsOn({ ...store, find, patch }))(aCall());
  await expect(refused).rejects.toMatchObject({ code: "KUBE_FORBIDDEN" });
});
