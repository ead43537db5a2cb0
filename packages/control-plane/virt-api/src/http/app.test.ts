// SPDX-License-Identifier: Apache-2.0
// The complete virt-api over TLS, with a store in memory.
import {
  NETWORK_ATTACHMENT_DEFINITIONS,
  VIRTUAL_MACHINE_INSTANCES,
  VIRTUAL_MACHINES,
} from "@patchbay/api";
import type { StatusBody } from "@patchbay/api/kubernetes";
import { AppError } from "@patchbay/base";
import { createFakeStore, type FakeStore } from "@patchbay/kube/testing";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { startBench, type Answer, type Bench } from "../testing/bench.ts";
import { aVm, aVmi, KEY } from "../testing/objects.ts";
import { IncomingMessage, ServerResponse } from "node:http";
import { Socket } from "node:net";
import { metricNamesOf, samplesIn } from "@patchbay/support";
import { createMetrics } from "@patchbay/telemetry";
import { createDecisionCounter } from "../admission/review.ts";
import { ActiveStreams } from "../streams/active.ts";
import { parseStreamUrl } from "../streams/paths.ts";
import { parseCallName, countRequests } from "./app.ts";

const BASE = "/apis/subresources.kubevirt.io/v1";
const VM_PATH = `${BASE}/namespaces/ns/virtualmachines/vm`;
const VMI_PATH = `${BASE}/namespaces/ns/virtualmachineinstances`;
const NAD_FIELD = "networkAttachmentDefinitionName";
const ADD_BLUE = { [NAD_FIELD]: "blue", name: "nic1" };

let store: FakeStore;
let bench: Bench;

beforeAll(async () => {
  bench = await startBench(() => store);
});

afterAll(async () => {
  await bench.stop();
});

beforeEach(() => {
  store = createFakeStore();
  store.put(VIRTUAL_MACHINES, aVm());
  store.put(VIRTUAL_MACHINE_INSTANCES, aVmi());
  store.put(VIRTUAL_MACHINE_INSTANCES, aVmi("lone"));
  store.put(NETWORK_ATTACHMENT_DEFINITIONS, {
    apiVersion: "k8s.cni.cncf.io/v1",
    kind: "NetworkAttachmentDefinition",
    metadata: { namespace: "ns", name: "blue" },
  });
});

function put(path: string, body?: unknown): Promise<Answer> {
  return bench.send("PUT", path, body === undefined ? {} : { text: JSON.stringify(body) });
}

async function ifaceNames(): Promise<readonly string[]> {
  const vm = await store.find(VIRTUAL_MACHINES, KEY);
  return (vm?.spec.template.spec.domain.devices?.interfaces ?? []).map(({ name }) => name);
}

function writes(): readonly string[] {
  return store.calls.filter((call) => !call.startsWith("get"));
}

test("changes count for the rate of their user, and reads and dry runs do not", async () => {
  const before = bench.limitedKeys.length;
  await bench.send("GET", `${VMI_PATH}/vm/guestosinfo`);
  await put(`${VM_PATH}/addinterface?dryRun=All`, ADD_BLUE);
  await put(`${VM_PATH}/addinterface`, ADD_BLUE);
  expect(bench.limitedKeys.slice(before)).toEqual(["user alice"]);
});

describe("authentication", () => {
  test.each([
    { name: "a client without a certificate", as: "anonymous" as const },
    { name: "a client certificate of another CA", as: "otherCa" as const },
    { name: "a certificate of the same CA for another purpose", as: "webhooks" as const },
    { name: "a server's certificate of the same authority and name", as: "server" as const },
  ])("responds with 401 to $name, whatever user the header names", async ({ as }) => {
    const answer = await bench.send("PUT", `${VM_PATH}/addinterface`, { as });
    expect(answer).toMatchObject({ code: 401, body: { kind: "Status", reason: "Unauthorized" } });
    for (const path of ["/apis", "/openapi/v2", `${BASE}/version`]) {
      expect(await bench.send("GET", path, { as })).toMatchObject({ code: 401 });
    }
  });

  test.each(["apiserver", "server", "otherCa", "anonymous"] as const)(
    "rejects %s at the webhooks",
    async (as) => {
      for (const path of ["/mutate", "/validate"]) {
        expect(await bench.send("POST", path, { text: "{}", as })).toMatchObject({ code: 401 });
      }
    },
  );

  test.each(["/healthz", "//healthz"])("serves %s without authentication", async (path) => {
    expect(await bench.send("GET", path, { as: "anonymous" })).toMatchObject({
      code: 200,
      body: { apiserver: { connectivity: "ok" }, "config-resource-version": "7" },
    });
  });
});

describe("a network in another namespace", () => {
  test("is plugged if the user may read it; a rejection writes nothing", async () => {
    const refused = { ...ADD_BLUE, [NAD_FIELD]: "secret/blue" };
    expect(await put(`${VM_PATH}/addinterface`, refused)).toMatchObject({
      code: 403,
      body: {
        reason: "Forbidden",
        message: expect.stringMatching(
          /^network secret\/blue .*User "alice" cannot get .* in the namespace "secret"$/,
        ) as string,
      },
    });
    expect(store.calls).toEqual([]);
    const shared = { ...ADD_BLUE, [NAD_FIELD]: "shared/blue" };
    store.put(NETWORK_ATTACHMENT_DEFINITIONS, {
      apiVersion: "k8s.cni.cncf.io/v1",
      kind: "NetworkAttachmentDefinition",
      metadata: { namespace: "shared", name: "blue" },
    });
    expect(await put(`${VM_PATH}/addinterface`, shared)).toMatchObject({ code: 202 });
  });
});

describe("interfaces", () => {
  test("are added to and removed from a VM with one write each", async () => {
    expect(await put(`${VM_PATH}/addinterface`, ADD_BLUE)).toMatchObject({
      code: 202,
      body: {
        status: "Success",
        message: "interface 'nic1' will be plugged into the running guest",
      },
    });
    expect(await ifaceNames()).toEqual(["default", "nic1"]);
    expect(await put(`${VM_PATH}/addinterface`, ADD_BLUE)).toMatchObject({ code: 202 });
    expect(writes()).toEqual(["patch virtualmachines ns/vm"]);
    expect(await put(`${VM_PATH}/removeinterface`, { name: "nic1" })).toMatchObject({ code: 202 });
    const vm = await store.find(VIRTUAL_MACHINES, KEY);
    expect(vm?.spec.template.spec.domain.devices?.interfaces?.[1]).toEqual({
      name: "nic1",
      bridge: {},
      state: "absent",
    });
  });

  test("of a VM's VMI are written to the VM", async () => {
    expect(await put(`${VMI_PATH}/vm/addinterface`, ADD_BLUE)).toMatchObject({ code: 202 });
    expect(writes()).toEqual(["patch virtualmachines ns/vm"]);
  });

  test("of a VMI without a VM are written to the VMI", async () => {
    expect(await put(`${VMI_PATH}/lone/addinterface`, ADD_BLUE)).toMatchObject({ code: 202 });
    expect(writes()).toEqual(["patch virtualmachineinstances ns/lone"]);
  });

  test("are not lost on a concurrent write", async () => {
    store.beforeNextWrite(() => {
      const spec = aVm().spec.template.spec;
      const interfaces = [
        { name: "default", bridge: {} },
        { name: "theirs", bridge: {} },
      ];
      const networks = [
        { name: "default", pod: {} },
        { name: "theirs", multus: { networkName: "x" } },
      ];
      const template = { spec: { ...spec, domain: { devices: { interfaces } }, networks } };
      store.put(VIRTUAL_MACHINES, aVm({ template }));
    });
    expect(await put(`${VM_PATH}/addinterface`, ADD_BLUE)).toMatchObject({ code: 202 });
    expect(await ifaceNames()).toEqual(["default", "theirs", "nic1"]);
  });

  test.each([
    ["in the query", `${VM_PATH}/addinterface?dryRun=All`, ADD_BLUE],
    ["in the body", `${VM_PATH}/addinterface`, { ...ADD_BLUE, dryRun: ["All"] }],
  ])("are only validated with dryRun %s", async (_where, path, body) => {
    expect(await put(path, body)).toMatchObject({
      code: 202,
      body: { message: "interface 'nic1' will be plugged into the running guest" },
    });
    expect(await ifaceNames()).toEqual(["default"]);
  });
});

describe("bad requests", () => {
  const add = `${VM_PATH}/addinterface`;
  test.each<{ name: string; path: string; body: unknown; code: number; fields: readonly string[] }>(
    [
      { name: "no body", path: add, body: undefined, code: 400, fields: [] },
      {
        name: "a missing field",
        path: add,
        body: { name: "nic1" },
        code: 400,
        fields: [NAD_FIELD],
      },
      {
        name: "an unknown network",
        path: add,
        body: { name: "nic1", [NAD_FIELD]: "nowhere" },
        code: 422,
        fields: [NAD_FIELD],
      },
      {
        name: "an invalid interface name",
        path: add,
        body: { ...ADD_BLUE, name: "a.b" },
        code: 422,
        fields: ["name"],
      },
      {
        name: "a name in use",
        path: add,
        body: { ...ADD_BLUE, name: "default" },
        code: 409,
        fields: ["name"],
      },
      {
        name: "an unknown interface",
        path: `${VM_PATH}/removeinterface`,
        body: { name: "green" },
        code: 422,
        fields: ["name"],
      },
      {
        name: "the interface on the pod network",
        path: `${VM_PATH}/removeinterface`,
        body: { name: "default" },
        code: 422,
        fields: ["name"],
      },
      {
        name: "an unknown VM",
        path: `${BASE}/namespaces/ns/virtualmachines/none/addinterface`,
        body: ADD_BLUE,
        code: 404,
        fields: [],
      },
    ],
  )("$name: responds with $code and changes nothing", async ({ path, body, code, fields }) => {
    const answer = await put(path, body);
    // Every rejection is a Status.
    const status = answer.body as StatusBody;
    expect(status).toMatchObject({ kind: "Status", apiVersion: "v1", status: "Failure", code });
    expect(answer.code).toBe(code);
    expect((status.details?.causes ?? []).map(({ field }) => field)).toEqual(fields);
    expect(writes()).toEqual([]);
  });

  test("responds with 400 to a body that is not JSON", async () => {
    const answer = await bench.send("PUT", add, { text: "{" });
    expect(answer).toMatchObject({ code: 400, body: { reason: "BadRequest" } });
  });

  test("responds with 409 for a VMI that does not run, also with a VM", async () => {
    store.put(VIRTUAL_MACHINE_INSTANCES, aVmi("vm", "Scheduled"));
    expect(await put(`${VMI_PATH}/vm/addinterface`, ADD_BLUE)).toMatchObject({
      code: 409,
      body: { reason: "Conflict", message: "VMI is not running" },
    });
  });

  test("responds like the API server for an unknown VM", async () => {
    const answer = await put(`${BASE}/namespaces/ns/virtualmachines/none/start`);
    expect(answer.body).toMatchObject({
      reason: "NotFound",
      message: 'virtualmachines.kubevirt.io "none" not found',
      details: { name: "none", group: "kubevirt.io", kind: "virtualmachines" },
    });
  });
});

test.each(["start", "stop", "restart"])("%s is served", async (verb) => {
  store.put(VIRTUAL_MACHINES, aVm({ runStrategy: "Manual" }));
  await store.delete(VIRTUAL_MACHINE_INSTANCES, KEY);
  const code = verb === "start" ? 202 : 409;
  expect(await put(`${VM_PATH}/${verb}`)).toMatchObject({ code });
});

describe("errors", () => {
  test.each([
    { name: "here", error: new TypeError("a fault"), code: 500, message: "internal error" },
    {
      name: "an API server error",
      error: new AppError("KUBE_REFUSED", { status: 418, message: "I am a teapot" }),
      code: 418,
      message: "I am a teapot",
    },
  ])("$name: responds with $code", async ({ error, code, message }) => {
    store = { ...store, find: () => Promise.reject(error) };
    const answer = await put(`${VM_PATH}/start`);
    expect(answer).toMatchObject({ code, body: { kind: "Status", code, message } });
  });

  test("reports a body that is too long as the client's fault", async () => {
    const text = " ".repeat(8 * 1024 * 1024 + 1);
    expect(await bench.send("PUT", `${VM_PATH}/addinterface`, { text })).toMatchObject({
      code: 413,
      body: { reason: "RequestEntityTooLarge" },
    });
  });

  test.each([`${VM_PATH}/start`, "/apis/other.group", "/other"])(
    "POST %s fails with a Status",
    async (path) => {
      const { code, body } = await bench.send("POST", path);
      expect([404, 405]).toContain(code);
      expect(body).toMatchObject({ kind: "Status", status: "Failure", code });
    },
  );
});

describe("a dry run", () => {
  test.each([
    { where: "?dryRun=All", body: ADD_BLUE },
    { where: "", body: { ...ADD_BLUE, dryRun: "All" } },
    { where: "?dryRun=All&dryRun=All", body: ADD_BLUE },
  ])("is requested by $where and $body", async ({ where, body }) => {
    expect(await put(`${VM_PATH}/addinterface${where}`, body)).toMatchObject({ code: 202 });
    expect(await ifaceNames()).toEqual(["default"]);
  });

  test.each([
    { where: "?dryRun=None", body: ADD_BLUE },
    { where: "", body: { ...ADD_BLUE, dryRun: [] } },
  ])("is not requested by $where and $body", async ({ where, body }) => {
    expect(await put(`${VM_PATH}/addinterface${where}`, body)).toMatchObject({ code: 202 });
    expect(await ifaceNames()).toEqual(["default", "nic1"]);
  });
});

test("answers and counts an admission review", async () => {
  const request = {
    uid: "7",
    operation: "CREATE",
    kind: { kind: "VirtualMachine" },
    namespace: "ns",
    object: aVm({ running: true }),
  };
  const text = JSON.stringify({
    apiVersion: "admission.k8s.io/v1",
    kind: "AdmissionReview",
    request,
  });
  expect(await bench.send("POST", "/validate", { text, as: "webhooks" })).toMatchObject({
    code: 200,
    body: { kind: "AdmissionReview", response: { uid: "7", allowed: false } },
  });
  const denied = { webhook: "validate", operation: "CREATE", decision: "denied" };
  expect(bench.decisions.at(-1)).toEqual(denied);
  expect(await bench.send("POST", "/mutate", { text: "{}", as: "webhooks" })).toMatchObject({
    code: 400,
  });
});

test.each([
  {
    name: "an error of the judgment refuses the object",
    error: new RangeError("Invalid string length"),
    want: {
      code: 200,
      body: {
        response: {
          allowed: false,
          status: {
            code: 422,
            message: expect.stringMatching(/^API_CHECK_FAILED: .*Invalid string length/) as string,
          },
        },
      },
    },
    decision: "denied",
  },
  {
    name: "an error of the environment fails the review",
    error: new AppError("KUBE_UNREACHABLE", {}),
    want: { code: 503 },
    decision: "failed",
  },
])("$name", async ({ error, want, decision }) => {
  store = { ...store, find: () => Promise.reject(error) };
  const object = aVm({ instancetype: { name: "small" } });
  const kind = { kind: "VirtualMachine" };
  const request = { uid: "7", operation: "CREATE", kind, namespace: "ns", name: "vm", object };
  const text = JSON.stringify({ request });
  expect(await bench.send("POST", "/validate", { text, as: "webhooks" })).toMatchObject(want);
  expect(bench.decisions.at(-1)).toMatchObject({ decision });
});

const VM = "/apis/subresources.kubevirt.io/v1/namespaces/a/virtualmachines/b";

test.each([
  ["/mutate?timeout=10s", "mutate"],
  ["/validate", "validate"],
  [`${VM}/addinterface`, "addinterface"],
  [`${VM}/removeinterface?dryRun=All`, "removeinterface"],
  [`${VM}/portforward/22/tcp`, "portforward"],
  ["/apis/subresources.kubevirt.io/v1/version", "version"],
  ["/apis/subresources.kubevirt.io/v1/namespaces/a/expand-vm-spec", "expand-vm-spec"],
  [`${VM}/sing`, "other"],
  ["/apis", "other"],
  ["", "other"],
])("%j is %s", (url, want) => {
  expect(parseCallName(url)).toBe(want);
});

/** Metrics of loops and clients, which every service has. */
const OF_EACH = /^(patchbay_(reconcile|api)|kubevirt_workqueue)_/;

test("every documented metric of virt-api changes with a request", async () => {
  const metrics = createMetrics("virt-api");
  const request = Object.assign(new IncomingMessage(new Socket()), { url: "/validate" });
  const names = metricNamesOf("virt-api").filter((name) => !OF_EACH.test(name));
  countRequests(() => undefined, metrics)(request, new ServerResponse(request));
  const question = { webhook: "validate", operation: "CREATE" } as const;
  createDecisionCounter(metrics)({ ...question, decision: "denied" });
  const active = new ActiveStreams();
  metrics.addSource(() => Promise.resolve(active.families()));
  for (const path of ["console", "vnc", "portforward/22", "capture?interface=c"]) {
    const target = parseStreamUrl(
      `${VM.replace("virtualmachines", "virtualmachineinstances")}/${path}`,
    );
    if (target !== undefined) active.register(target);
  }
  const text = await metrics.print();
  expect(names.flatMap((name) => samplesIn(text, name))).toEqual([
    'patchbay_served_total{call="validate"} 1',
    'patchbay_admission_decisions_total{webhook="validate",operation="CREATE",decision="denied"} 1',
    'kubevirt_console_active_connections{namespace="a",vmi="b"} 1',
    'kubevirt_vnc_active_connections{namespace="a",vmi="b"} 1',
    'kubevirt_portforward_active_tunnels{namespace="a",vmi="b"} 1',
    'patchbay_capture_active_connections{namespace="a",vmi="b"} 1',
  ]);
});
