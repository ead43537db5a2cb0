// SPDX-License-Identifier: Apache-2.0
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { printError } from "../print/error.ts";
import { FakeMachine, plugged, SUBRESOURCES, VMIS, vmiOf, VMS } from "../testing/fake-machine.ts";
import { runPatchbay, maskTimes, type Ended } from "../testing/run-patchbay.ts";

const vm = {
  metadata: { namespace: "blue", name: "one" },
  spec: { template: { spec: { domain: {} } } },
};

let directory = "";
let machine = new FakeMachine();
let kubeconfig = "";
beforeEach(async () => {
  directory = mkdtempSync(join(tmpdir(), "patchbay-request-"));
  machine = new FakeMachine();
  machine.objects = { [`${VMS}/one`]: vm, [`${VMIS}/one`]: vmiOf("1") };
  kubeconfig = await machine.start(directory);
});
afterEach(async () => {
  await machine.stop();
  rmSync(directory, { recursive: true, force: true });
});

let interrupted = new AbortController();
beforeEach(() => {
  interrupted = new AbortController();
});

function patchbay(...args: readonly string[]): Promise<Ended> {
  return runPatchbay([...args, "--kubeconfig", kubeconfig], interrupted.signal);
}

const DELETED = {
  name: "one",
  namespace: "blue",
  uid: "u1",
  resourceVersion: "2",
  deletionTimestamp: "2026-01-01T00:00:00Z",
};
const ADD = ["addinterface", "one", "--name", "red"] as const;
const ADD_RED = [...ADD, "--network-attachment-definition-name", "nets/red"] as const;

function changes(): readonly { readonly path: string; readonly body: unknown }[] {
  return machine.requests
    .filter(({ method }) => method === "PUT")
    .map(({ path, body }) => ({ path, body: JSON.parse(body) as unknown }));
}

describe("addinterface", () => {
  test("requests the VM's subresource", async () => {
    const { out, error } = await patchbay(...ADD_RED, "--mac-address", "02:00:00:00:00:07");
    expect(error).toBeUndefined();
    expect(out).toBe("virtualmachine one: plug of interface red requested\n");
    expect(changes()).toEqual([
      {
        path: `${SUBRESOURCES}/virtualmachines/one/addinterface`,
        body: {
          networkAttachmentDefinitionName: "nets/red",
          name: "red",
          macAddress: "02:00:00:00:00:07",
        },
      },
    ]);
  });

  test("requests the VMI's subresource without a VM of that name, or with --vmi", async () => {
    await patchbay(...ADD_RED, "--vmi");
    machine.objects = { [`${VMIS}/one`]: vmiOf("1") };
    await patchbay(...ADD_RED);
    const path = `${SUBRESOURCES}/virtualmachineinstances/one/addinterface`;
    expect(changes().map((change) => change.path)).toEqual([path, path]);
  });

  test("waits and prints each phase", async () => {
    machine.after = [
      plugged("2", { phase: "Pending" }),
      plugged("3", { phase: "PodAttaching" }),
      plugged("4", { phase: "PodAttaching", reason: "CniFailed" }),
      plugged("5", { phase: "PodAttaching", reason: "CniFailed" }),
      plugged("6", { phase: "Wiring" }),
      plugged("7", { phase: "Ready" }),
    ];
    const { out, error } = await patchbay(...ADD_RED, "--wait");
    expect(error).toBeUndefined();
    expect(maskTimes(out)).toBe(
      [
        "T s  Pending",
        "T s  PodAttaching",
        "T s  PodAttaching (CniFailed)",
        "T s  Wiring",
        "T s  Ready",
        "virtualmachine one: plug of interface red done after T s",
        "",
      ].join("\n"),
    );
  });

  test("includes the steps in JSON output", async () => {
    machine.after = [plugged("2", { phase: "Ready" })];
    const { out } = await patchbay(...ADD_RED, "--wait", "-o", "json");
    expect(JSON.parse(out)).toMatchObject({
      kind: "virtualmachine",
      name: "one",
      action: "addinterface",
      interface: "red",
      result: "done",
      steps: [{ phase: "Ready" }],
    });
  });

  test("does not wait if the VM is stopped", async () => {
    machine.objects = { [`${VMS}/one`]: vm };
    const { out } = await patchbay(...ADD_RED, "--wait");
    expect(out).toContain(
      "requested; the VM is not running: the interface is plugged at its next start",
    );
  });

  test.each([
    {
      name: "is being stopped",
      version: vmiOf("2", { metadata: { ...DELETED } }),
      note: "the VM is stopping",
    },
    { name: "is stopped", version: undefined, note: "the VM has stopped" },
    {
      name: "was shut down by its guest",
      version: vmiOf("2", { status: { phase: "Succeeded" } }),
      note: "the VM has stopped",
    },
  ])(
    "stops waiting when the VM $name, and reports that the change is pending",
    async ({ version, note }) => {
      machine.after = [version];
      const { out, error } = await patchbay(...ADD_RED, "--wait");
      expect(error).toBeUndefined();
      expect(out).toContain(`requested; ${note}: the interface is plugged at its next start`);
    },
  );

  test("fails when a VMI without a VM is deleted", async () => {
    machine.objects = { [`${VMIS}/one`]: vmiOf("1") };
    machine.after = [undefined];
    const { error } = await patchbay(...ADD_RED, "--wait");
    expect(error).toMatchObject({ code: "KUBE_WAIT_FAILED" });
    expect(String(error)).toContain("the VMI has stopped");
  });

  test.each([
    {
      name: "its image is missing",
      condition: { type: "Ready", reason: "ErrImageNeverPull", message: "image x is not there" },
      want: "the VM does not start: ErrImageNeverPull: image x is not there",
    },
    {
      name: "its specification is invalid",
      condition: { type: "Synchronized", reason: "UnsupportedSpec", message: "spec.domain.tpm" },
      want: "the VM does not start: UnsupportedSpec: spec.domain.tpm",
    },
    {
      name: "its pod cannot be created",
      condition: { type: "Ready", reason: "ContainerCreating", message: "no bridge" },
      want: "the VM does not start: ContainerCreating: no bridge",
    },
    {
      name: "its disks cannot be prepared",
      condition: { type: "Ready", reason: "PodInitializing", message: "disk full" },
      want: "the VM does not start: PodInitializing: disk full",
    },
  ])("fails at once if $name", async ({ condition, want }) => {
    const status = { phase: "Scheduling", conditions: [{ status: "False", ...condition }] };
    machine.objects = { ...machine.objects, [`${VMIS}/one`]: vmiOf("1", { status }) };
    const { error } = await patchbay(...ADD_RED, "--wait");
    expect(String(error)).toContain(want);
  });

  test.each([
    { phase: "Scheduled", reason: "GuestNotRunning", message: "x" },
    { phase: "Scheduling", reason: "ContainerCreating", message: "" },
    { phase: "Scheduling", reason: "PodInitializing", message: "" },
  ])("continues to wait while the VM starts: $reason", async ({ phase, reason, message }) => {
    const conditions = [{ type: "Ready", status: "False", reason, message }];
    const status = { phase, conditions };
    machine.objects = { ...machine.objects, [`${VMIS}/one`]: vmiOf("1", { status }) };
    machine.after = [plugged("2", { phase: "Ready" })];
    expect((await patchbay(...ADD_RED, "--wait")).error).toBeUndefined();
  });

  test("fails at once if the interface was already failing", async () => {
    const failing = plugged("1", { phase: "PodAttaching", reason: "CniFailed" });
    machine.objects = { ...machine.objects, [`${VMIS}/one`]: failing };
    const { error } = await patchbay(...ADD_RED, "--wait");
    expect(String(error)).toContain("the interface was already failing: PodAttaching (CniFailed)");
  });

  test("reports after an interrupt that the request continues", async () => {
    machine.after = [plugged("2", { phase: "Wiring" })];
    const args = [...ADD_RED, "--wait", "--kubeconfig", kubeconfig];
    const { out, error } = await runPatchbay(args, interrupted.signal, (text) => {
      if (text.includes("Wiring")) interrupted.abort(new Error("interrupted by SIGINT"));
    });
    expect(maskTimes(out)).toBe("T s  Wiring\n");
    expect(String(error)).toContain(
      "virtualmachine one: plug of interface red was requested and is still in progress; it is Wiring",
    );
  });

  test("reports the last phase on a timeout", async () => {
    machine.after = [plugged("2", { phase: "Attaching", reason: "NoFreePciePort" })];
    const { error } = await patchbay(...ADD_RED, "--wait", "--timeout", "300ms");
    expect(error).toMatchObject({
      code: "KUBE_WAIT_TIMED_OUT",
      details: { timeoutMs: 300, state: "Attaching (NoFreePciePort)" },
    });
  });

  test("prints a rejection with its causes", async () => {
    const causes = [{ reason: "FieldValueDuplicate", field: "name", message: "is taken" }];
    const status = { kind: "Status", reason: "Conflict", message: "cannot plug", code: 409 };
    machine.refusal = { code: 409, body: { ...status, details: { causes } } };
    const { error } = await patchbay(...ADD_RED, "--wait");
    expect(error).toMatchObject({
      code: "KUBE_CONFLICT",
      details: { message: "cannot plug", causes: "name: is taken" },
    });
  });

  test("sends no change for a VM that does not exist", async () => {
    machine.objects = {};
    const { error } = await patchbay(...ADD_RED);
    expect(error).toMatchObject({ code: "KUBE_NOT_FOUND", details: { object: "blue/one" } });
    expect(changes()).toEqual([]);
  });
});

describe("removeinterface", () => {
  test("waits until the interface is removed from spec and status", async () => {
    machine.objects = { ...machine.objects, [`${VMIS}/one`]: plugged("1", { phase: "Ready" }) };
    const declared = { domain: { devices: { interfaces: [{ name: "red", state: "absent" }] } } };
    machine.after = [
      plugged("2", { phase: "Detaching" }),
      plugged("3", { phase: "PodDetaching" }),
      vmiOf("4", { spec: declared }),
      vmiOf("5"),
    ];
    const { out, error } = await patchbay("removeinterface", "one", "--name", "red", "--wait");
    expect(error).toBeUndefined();
    expect(maskTimes(out)).toBe(
      [
        "T s  Detaching",
        "T s  PodDetaching",
        "virtualmachine one: unplug of interface red done after T s",
        "",
      ].join("\n"),
    );
    expect(changes()[0]?.body).toEqual({ name: "red" });
  });
});

describe("set interface", () => {
  const READY = { type: "Plug", phase: "Ready" };
  const NICS = {
    domain: { devices: { interfaces: [{ name: "red" }] } },
    networks: [{ name: "red", multus: { networkName: "red" } }],
  };

  test("patches the VM and waits until the guest's NIC has the new network and link", async () => {
    const metadata = { namespace: "blue", name: "one" };
    machine.objects = {
      [`${VMS}/one`]: { metadata, spec: { template: { spec: NICS } } },
      [`${VMIS}/one`]: vmiOf("1"),
    };
    const attachments = [
      { name: "red", networkName: "blue/green", podInterfaceName: "pod2", state: "Attached" },
    ];
    const version = (revision: string, hotplug: object, linkState: string) => {
      const interfaces = [{ name: "red", podInterfaceName: "pod2", linkState, hotplug }];
      return vmiOf(revision, { status: { phase: "Running", interfaces, attachments } });
    };
    machine.after = [
      version("2", { type: "Swap", phase: "Switching" }, "up"),
      version("3", READY, "up"),
      version("4", READY, "down"),
    ];
    const words = ["set", "interface", "one", "--name", "red", "--network", "green"];
    const { out, error } = await patchbay(...words, "--link", "down", "--wait");
    expect(error).toBeUndefined();
    expect(maskTimes(out)).toBe(
      "T s  Switching\nT s  Ready\nvirtualmachine one: change of interface red to network green and link down done after T s\n",
    );
    const patches = machine.requests.filter(({ method }) => method === "PATCH");
    expect(patches.map(({ path }) => path)).toEqual([`${VMS}/one`]);
    expect(JSON.parse(patches[0]?.body ?? "")).toHaveLength(4);
  });
});

describe("a dry run", () => {
  test("changes nothing and prints the server's answer and warnings", async () => {
    const message = "interface 'red' will be plugged into the running guest";
    machine.judgement = { body: { kind: "Status", message }, warning: "network red is missing" };
    const { out, error } = await patchbay(...ADD_RED, "--dry-run", "-o", "json");
    expect(error).toBeUndefined();
    expect(JSON.parse(out)).toMatchObject({
      result: "dryRun",
      note: message,
      warnings: ["network red is missing"],
    });
    expect(machine.requests.filter(({ method }) => method === "PUT")).toMatchObject([
      { isDryRun: true },
    ]);
  });

  test("is rejected like the change itself", async () => {
    machine.refusal = { code: 422, body: { kind: "Status", message: "no free PCIe port" } };
    const { error } = await patchbay("removeinterface", "one", "--name", "red", "--dry-run");
    expect(printError(error)).toContain("no free PCIe port");
  });

  test("does not wait", async () => {
    expect((await patchbay(...ADD_RED, "--dry-run", "--wait")).error).toMatchObject({
      code: "commander.conflictingOption",
    });
  });
});

describe("start, stop and restart", () => {
  test("start waits until the guest runs", async () => {
    machine.objects = { [`${VMS}/one`]: vm };
    machine.after = [vmiOf("2", { status: {} }), vmiOf("3")];
    const { out } = await patchbay("start", "one", "--wait");
    expect(maskTimes(out)).toBe(
      "T s  Pending\nT s  Running\nvirtualmachine one: start done after T s\n",
    );
    expect(changes()[0]?.path).toBe(`${SUBRESOURCES}/virtualmachines/one/start`);
  });

  const running = { status: { printableStatus: "Running" } };

  test("stop waits until the VM has stopped, not only its guest", async () => {
    const metadata = { name: "one", namespace: "blue", uid: "u1", deletionTimestamp: "t" };
    machine.after = [vmiOf("2", { metadata }), undefined];
    machine.objects = { ...machine.objects, [`${VMS}/one`]: { ...vm, ...running } };
    machine.vmAfter = [{ ...vm, status: { printableStatus: "Stopped" } }];
    const { out } = await patchbay("stop", "one", "--wait");
    expect(maskTimes(out)).toBe("T s  Stopping\nvirtualmachine one: stop done after T s\n");
  });

  test("restart waits for a new guest", async () => {
    const metadata = { name: "one", namespace: "blue", uid: "u2", resourceVersion: "4" };
    machine.after = [vmiOf("2"), undefined, vmiOf("4", { metadata, status: {} })];
    machine.after = [
      ...machine.after,
      vmiOf("5", { metadata: { ...metadata, resourceVersion: "5" } }),
    ];
    const { out, error } = await patchbay("restart", "one", "--wait");
    expect(error).toBeUndefined();
    expect(maskTimes(out)).toContain("T s  Pending\nT s  Running\n");
  });

  test("names the inspection command after a rejection", async () => {
    machine.refusal = { code: 409, body: { kind: "Status", message: "VM is already running" } };
    const { error } = await patchbay("start", "one");
    expect(error).toMatchObject({
      code: "KUBE_CONFLICT",
      details: { inspectCommand: "kubectl describe vm,vmi one -n blue" },
    });
    expect(printError(error)).toContain("hint: show the current state with: kubectl describe");
  });

  test("start rejects a VMI without a VM", async () => {
    machine.objects = { [`${VMIS}/one`]: vmiOf("1") };
    const { error } = await patchbay("start", "one");
    expect(error).toMatchObject({ code: "KUBE_NOT_FOUND" });
  });
});

describe("get interfaces and explain", () => {
  test("read the VM and its VMI", async () => {
    machine.objects = {
      ...machine.objects,
      [`${VMIS}/one`]: plugged("1", { phase: "Wiring", reason: "X" }),
    };
    expect((await patchbay("get", "interfaces", "one")).out).toMatch(/red +- +Wiring +X/);
    expect((await patchbay("get", "ifaces", "one", "-o", "name")).out).toBe("interface/red\n");
    const { out } = await patchbay("explain", "one", "red");
    expect(out).toContain("next:   virt-handler creates the bridge and the tap");
  });

  test("name the missing interface in the error", async () => {
    const { error } = await patchbay("explain", "one", "green");
    expect(error).toMatchObject({
      message: "interface green of virtualmachine blue/one does not exist",
    });
  });
});

test.each([
  { name: "the console", words: ["console", "one"], vmi: undefined },
  { name: "the graphical console", words: ["vnc", "one"], vmi: undefined },
  {
    name: "the graphical console of a guest that has shut down,",
    words: ["vnc", "one"],
    vmi: vmiOf("1", { status: { phase: "Succeeded" } }),
  },
  { name: "a port", words: ["port-forward", "one", "2222:22"], vmi: undefined },
])("$name of a stopped VM is rejected at once", async ({ words, vmi }) => {
  machine.objects = { [`${VMS}/one`]: vm, ...(vmi !== undefined && { [`${VMIS}/one`]: vmi }) };
  const { error } = await patchbay(...words);
  expect(error).toMatchObject({
    code: "LAUNCHER_UNREACHABLE",
    message: expect.stringContaining(
      "it is not running; start it: patchbay start one -n blue",
    ) as string,
  });
});

test("vnc closes its port and fails when the guest ends", async () => {
  machine.after = [vmiOf("2", { status: { phase: "Succeeded" } })];
  const ended = runPatchbay(["vnc", "one", "--kubeconfig", kubeconfig], interrupted.signal, () => {
    void patchbay("removeinterface", "one", "--name", "red");
  });
  expect((await ended).error).toMatchObject({
    code: "LAUNCHER_UNREACHABLE",
    details: { reason: "it has stopped" },
  });
});
