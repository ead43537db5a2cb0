// SPDX-License-Identifier: Apache-2.0
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { createProgram } from "./program.ts";

const VMS = "/apis/kubevirt.io/v1/namespaces/blue/virtualmachines";
const VMIS = "/apis/kubevirt.io/v1/namespaces/blue/virtualmachineinstances";
const SUBRESOURCES = "/apis/subresources.kubevirt.io/v1/namespaces/blue";

type Phases = readonly { readonly phase: string; readonly reason?: string }[];

/** A machine with one namespace, whose VMI goes through phases once something is asked of it. */
class Machine {
  readonly asked: { readonly method: string; readonly path: string; readonly body: string }[] = [];
  objects: Readonly<Record<string, object>> = {};
  /** Versions of the VMI `one` after a request; undefined: it is gone. */
  after: readonly (object | undefined)[] = [];
  refusal: { readonly code: number; readonly body: object } | undefined;
  readonly #watches: ServerResponse[] = [];
  readonly #server: Server;

  constructor() {
    this.#server = createServer((request, response) => {
      let body = "";
      request.on("data", (chunk: Buffer) => (body += chunk.toString()));
      request.on("end", () => {
        const url = new URL(request.url ?? "/", "http://machine");
        this.asked.push({ method: request.method ?? "", path: url.pathname, body });
        if (request.method === "PUT") this.#change(response);
        else if (url.searchParams.has("watch")) this.#watch(response);
        else this.#read(url, response);
      });
    });
  }

  async start(directory: string): Promise<string> {
    await new Promise<void>((resolve) => this.#server.listen(0, "127.0.0.1", resolve));
    const { port } = this.#server.address() as AddressInfo; // it listens on TCP
    const path = join(directory, "config");
    writeFileSync(
      path,
      JSON.stringify({
        "current-context": "a",
        contexts: [{ name: "a", context: { cluster: "a", user: "a", namespace: "blue" } }],
        clusters: [{ name: "a", cluster: { server: `http://127.0.0.1:${String(port)}` } }],
        users: [{ name: "a", user: {} }],
      }),
    );
    return path;
  }

  async stop(): Promise<void> {
    this.#server.closeAllConnections();
    await new Promise((resolve) => this.#server.close(resolve));
  }

  #answer(response: ServerResponse, code: number, body: object): void {
    response.writeHead(code, { "content-type": "application/json" }).end(JSON.stringify(body));
  }

  #read(url: URL, response: ServerResponse): void {
    if (url.searchParams.has("fieldSelector")) {
      const vmi = this.objects[`${VMIS}/one`];
      const items = vmi === undefined ? [] : [vmi];
      this.#answer(response, 200, { metadata: { resourceVersion: "1" }, items });
      return;
    }
    const object = this.objects[url.pathname];
    const details = { name: url.pathname };
    const missing = { kind: "Status", reason: "NotFound", code: 404, message: "gone", details };
    this.#answer(response, object === undefined ? 404 : 200, object ?? missing);
  }

  #watch(response: ServerResponse): void {
    response.writeHead(200);
    response.flushHeaders();
    this.#watches.push(response);
    this.#tell();
  }

  #change(response: ServerResponse): void {
    if (this.refusal !== undefined) {
      this.#answer(response, this.refusal.code, this.refusal.body);
      return;
    }
    this.#isAsked = true;
    response.writeHead(202).end();
    this.#tell();
  }

  #isAsked = false;

  /** Tells the versions once somebody watches and something was asked. */
  #tell(): void {
    const [watch] = this.#watches;
    if (watch === undefined || !this.#isAsked) return;
    for (const version of this.after) {
      const type = version === undefined ? "DELETED" : "MODIFIED";
      watch.write(`${JSON.stringify({ type, object: version ?? vmiOf("gone") })}\n`);
    }
    this.after = [];
  }
}

function vmiOf(resourceVersion: string, more: object = {}): object {
  const metadata = { namespace: "blue", name: "one", uid: "u1", resourceVersion };
  return { metadata, spec: { domain: {} }, status: { phase: "Running" }, ...more };
}

function plugged(resourceVersion: string, hotplug: Phases[number]): object {
  const interfaces = [{ name: "red", hotplug: { type: "Plug", ...hotplug } }];
  return vmiOf(resourceVersion, { status: { phase: "Running", interfaces } });
}

const vm = {
  metadata: { namespace: "blue", name: "one" },
  spec: { template: { spec: { domain: {} } } },
};

let directory = "";
let machine = new Machine();
let kubeconfig = "";
beforeEach(async () => {
  directory = mkdtempSync(join(tmpdir(), "patchbay-request-"));
  machine = new Machine();
  machine.objects = { [`${VMS}/one`]: vm, [`${VMIS}/one`]: vmiOf("1") };
  kubeconfig = await machine.start(directory);
});
afterEach(async () => {
  await machine.stop();
  rmSync(directory, { recursive: true, force: true });
});

interface Ended {
  readonly out: string;
  readonly error: unknown;
}

async function patchbay(...args: readonly string[]): Promise<Ended> {
  let out = "";
  const program = createProgram({
    out: { write: (text) => (out += text) },
    err: { write: () => undefined },
    environment: {},
    version: "1.2.3",
    signal: new AbortController().signal,
  });
  try {
    await program.parseAsync([...args, "--kubeconfig", kubeconfig], { from: "user" });
    return { out, error: undefined };
  } catch (error) {
    return { out, error };
  }
}

const ADD = ["addinterface", "one", "--name", "red"] as const;
const ADD_RED = [...ADD, "--network-attachment-definition-name", "nets/red"] as const;

/** The text without times. */
function timeless(text: string): string {
  return text.replace(/\d+\.\d{3}/g, "T").replace(/^ +/gm, "");
}

function changes(): readonly { readonly path: string; readonly body: unknown }[] {
  return machine.asked
    .filter(({ method }) => method === "PUT")
    .map(({ path, body }) => ({ path, body: JSON.parse(body) as unknown }));
}

describe("addinterface", () => {
  test("asks the VM's subresource", async () => {
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

  test("asks the VMI's where there is no VM of that name, or when it is told to", async () => {
    await patchbay(...ADD_RED, "--vmi");
    machine.objects = { [`${VMIS}/one`]: vmiOf("1") };
    await patchbay(...ADD_RED);
    const path = `${SUBRESOURCES}/virtualmachineinstances/one/addinterface`;
    expect(changes().map((change) => change.path)).toEqual([path, path]);
  });

  test("waits and shows each phase as it passes", async () => {
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
    expect(timeless(out)).toBe(
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

  test("gives the steps to programs too", async () => {
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

  test("waits for nothing when the VM does not run", async () => {
    machine.objects = { [`${VMS}/one`]: vm };
    const { out } = await patchbay(...ADD_RED, "--wait");
    expect(out).toContain("requested; the VM is not running: it comes with its next start");
  });

  test("says where it got to when it takes too long", async () => {
    machine.after = [plugged("2", { phase: "Attaching", reason: "NoFreePciePort" })];
    const { error } = await patchbay(...ADD_RED, "--wait", "--timeout", "300ms");
    expect(error).toMatchObject({
      code: "KUBE_WAIT_TIMED_OUT",
      details: { timeoutMs: 300, state: "Attaching (NoFreePciePort)" },
    });
  });

  test("passes a refusal on, with its causes", async () => {
    const causes = [{ reason: "FieldValueDuplicate", field: "name", message: "is taken" }];
    const status = { kind: "Status", reason: "Conflict", message: "cannot plug", code: 409 };
    machine.refusal = { code: 409, body: { ...status, details: { causes } } };
    const { error } = await patchbay(...ADD_RED, "--wait");
    expect(error).toMatchObject({
      code: "KUBE_CONFLICT",
      details: { message: "cannot plug", causes: "name: is taken" },
    });
  });

  test("asks nothing of a VM that is not there", async () => {
    machine.objects = {};
    const { error } = await patchbay(...ADD_RED);
    expect(error).toMatchObject({ code: "KUBE_NOT_FOUND", details: { object: "blue/one" } });
    expect(changes()).toEqual([]);
  });
});

describe("removeinterface", () => {
  test("waits until nothing is left of the interface", async () => {
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
    expect(timeless(out)).toBe(
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

describe("start, stop and restart", () => {
  test("start waits until the guest runs", async () => {
    machine.objects = { [`${VMS}/one`]: vm };
    machine.after = [vmiOf("2", { status: {} }), vmiOf("3")];
    const { out } = await patchbay("start", "one", "--wait");
    expect(timeless(out)).toBe(
      "T s  Pending\nT s  Running\nvirtualmachine one: start done after T s\n",
    );
    expect(changes()[0]?.path).toBe(`${SUBRESOURCES}/virtualmachines/one/start`);
  });

  test("stop waits until the VMI is gone", async () => {
    const metadata = { name: "one", namespace: "blue", uid: "u1", deletionTimestamp: "t" };
    machine.after = [vmiOf("2", { metadata }), undefined];
    const { out } = await patchbay("stop", "one", "--wait");
    expect(timeless(out)).toBe("T s  Stopping\nvirtualmachine one: stop done after T s\n");
  });

  test("restart waits for another guest", async () => {
    const metadata = { name: "one", namespace: "blue", uid: "u2", resourceVersion: "4" };
    machine.after = [vmiOf("2"), undefined, vmiOf("4", { metadata, status: {} })];
    machine.after = [
      ...machine.after,
      vmiOf("5", { metadata: { ...metadata, resourceVersion: "5" } }),
    ];
    const { out, error } = await patchbay("restart", "one", "--wait");
    expect(error).toBeUndefined();
    expect(timeless(out)).toContain("T s  Pending\nT s  Running\n");
  });

  test("there is no starting a VMI without a VM", async () => {
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
    expect(out).toContain("next:   virt-handler makes bridge and tap");
  });

  test("an interface that is not there is named", async () => {
    const { error } = await patchbay("explain", "one", "green");
    expect(error).toMatchObject({
      message: "interface green of virtualmachine blue/one is not there",
    });
  });
});

describe("console", () => {
  test.each([
    { name: "does not run", vmi: undefined, reason: "it is not running" },
    { name: "has no pod yet", vmi: vmiOf("1"), reason: "it has no pod yet" },
    {
      name: "runs elsewhere",
      vmi: vmiOf("1", { status: { nodeName: "n2", activePods: { p1: "n2" } } }),
      reason: "it runs on node n2, and there is no console of it below",
    },
  ])("of a VM that $name says so", async ({ vmi, reason }) => {
    machine.objects = { [`${VMS}/one`]: vm, ...(vmi !== undefined && { [`${VMIS}/one`]: vmi }) };
    const { error } = await patchbay("console", "one", "--data-dir", directory);
    expect(error).toMatchObject({
      code: "LAUNCHER_UNREACHABLE",
      message: expect.stringContaining(reason) as string,
    });
  });
});
