// SPDX-License-Identifier: Apache-2.0
// Discovery, OpenAPI, and every documented path.
import { CLUSTER_INSTANCETYPES, VIRTUAL_MACHINES } from "@patchbay/api";
import { createFakeStore, type FakeStore } from "@patchbay/kube/testing";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { ROUTES, VERSIONS, type Method } from "../routes/table.ts";
import { startBench, type Bench } from "../testing/bench.ts";
import { aVm } from "../testing/objects.ts";

const GROUP = "subresources.kubevirt.io";
const GROUP_PATH = `/apis/${GROUP}`;
const WHERE: Readonly<Record<string, string>> = { namespace: "ns", name: "vm" };

/** The tested part of an OpenAPI document. */
interface Document {
  readonly paths: Readonly<Record<string, Readonly<Record<string, Operation>>>>;
}

interface Operation {
  readonly operationId: string;
  readonly parameters: readonly { readonly name: string }[];
}

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
});

async function get(path: string, accept?: string) {
  return bench.send("GET", path, accept === undefined ? {} : { accept });
}

function ask(method: Method, path: string) {
  const options = { get: {}, put: { text: "{}" } };
  return bench.send(method.toUpperCase(), path, options[method]);
}

/** The path with a value for each parameter. */
function filled(path: string): string {
  return path.replaceAll(/\{(\w+)\}/g, (_whole, name: string) => WHERE[name] ?? "1");
}

describe("discovery", () => {
  test("names the group and both versions, the newer one first", async () => {
    const versions = VERSIONS.map((version) => ({ groupVersion: `${GROUP}/${version}`, version }));
    const group = { name: GROUP, versions, preferredVersion: versions[0] };
    expect(await get("/apis")).toMatchObject({ code: 200, body: { groups: [group] } });
    expect(await get(GROUP_PATH)).toMatchObject({ body: { kind: "APIGroup", ...group } });
  });

  test.each(VERSIONS)("of %s lists supported subresources only", async (version) => {
    const { body } = await get(`${GROUP_PATH}/${version}`);
    expect(body).toMatchObject({ kind: "APIResourceList", groupVersion: `${GROUP}/${version}` });
    const { resources } = body as { resources: readonly { name: string; verbs: string[] }[] };
    expect(resources.map(({ name, verbs }) => `${verbs.join()} ${name}`)).toEqual([
      "update virtualmachines/addinterface",
      "update virtualmachines/evacuate/cancel",
      "get virtualmachines/expand-spec",
      "update virtualmachines/migrate",
      "get virtualmachines/portforward",
      "update virtualmachines/removeinterface",
      "update virtualmachines/restart",
      "update virtualmachines/start",
      "update virtualmachines/stop",
      "update virtualmachineinstances/addinterface",
      "get virtualmachineinstances/capture",
      "get virtualmachineinstances/console",
      "update virtualmachineinstances/evacuate/cancel",
      "get virtualmachineinstances/doctor",
      "get virtualmachineinstances/filesystemlist",
      "get virtualmachineinstances/guestosinfo",
      "get virtualmachineinstances/interfacetraffic",
      "update virtualmachineinstances/pause",
      "get virtualmachineinstances/portforward",
      "update virtualmachineinstances/removeinterface",
      "update virtualmachineinstances/reset",
      "update virtualmachineinstances/softreboot",
      "update virtualmachineinstances/unpause",
      "get virtualmachineinstances/userlist",
      "get virtualmachineinstances/vnc",
      "get virtualmachineinstances/vnc/screenshot",
      "update expand-vm-spec",
    ]);
  });

  test.each([
    {
      version: "v2",
      accept: "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList",
    },
    {
      version: "v2beta1",
      accept:
        "application/json;v=v2beta1; g=apidiscovery.k8s.io;as=APIGroupDiscoveryList,application/json",
    },
  ])("returns the requested aggregated $version", async ({ version, accept }) => {
    const { body, contentType } = await get("/apis", accept);
    const type = `application/json;g=apidiscovery.k8s.io;v=${version};as=APIGroupDiscoveryList`;
    expect(contentType.replaceAll(" ", "").replace(";charset=utf-8", "")).toBe(type);
    expect(body).toMatchObject({
      kind: "APIGroupDiscoveryList",
      apiVersion: `apidiscovery.k8s.io/${version}`,
      items: [
        {
          metadata: { name: GROUP },
          versions: VERSIONS.map((each) => ({
            version: each,
            freshness: "Current",
            resources: [
              { resource: "virtualmachines", verbs: [] },
              {
                resource: "virtualmachineinstances",
                subresources: expect.arrayContaining([
                  expect.objectContaining({ subresource: "addinterface", verbs: ["update"] }),
                  expect.objectContaining({ subresource: "userlist", verbs: ["get"] }),
                ]) as unknown,
              },
              { resource: "expand-vm-spec", responseKind: { version: each } },
            ],
          })),
        },
      ],
    });
  });

  test.each([
    "application/json",
    "application/json;g=apidiscovery.k8s.io;v=v3;as=APIGroupDiscoveryList",
    "application/json;g=apidiscovery.k8s.io;v=v2;as=Table",
    "application/json;v=v2;as=APIGroupDiscoveryList",
  ])("is not aggregated for Accept: %s", async (accept) => {
    expect(await get("/apis", accept)).toMatchObject({ body: { kind: "APIGroupList" } });
  });
});

describe("OpenAPI", () => {
  test("in v2 has all paths of both versions, with unique operation names", async () => {
    const { body } = await get("/openapi/v2");
    expect(body).toMatchObject({ swagger: "2.0", info: { version: "v1.2.3" } });
    const { paths } = body as Document; // the requested document
    const want = VERSIONS.flatMap((version) =>
      ROUTES.map(({ path, method }) => `${method} ${GROUP_PATH}/${version}/${path}`),
    );
    const have = Object.entries(paths).flatMap(([path, operations]) =>
      Object.keys(operations).map((method) => `${method} ${path}`),
    );
    expect(have).toEqual(want);
    const operations = Object.values(paths).flatMap((each) => Object.values(each));
    expect(new Set(operations.map(({ operationId }) => operationId)).size).toBe(want.length);
  });

  test("in v3 has one document for each version, at the listed address", async () => {
    const { body } = await get("/openapi/v3");
    const { paths } = body as { paths: Record<string, { serverRelativeURL: string }> };
    expect(Object.keys(paths)).toEqual(VERSIONS.map((version) => `apis/${GROUP}/${version}`));
    const path = paths[`apis/${GROUP}/v1alpha3`]?.serverRelativeURL ?? "";
    expect(path).toMatch(
      /^\/openapi\/v3\/apis\/subresources\.kubevirt\.io\/v1alpha3\?hash=\w{32}$/,
    );
    const document = (await get(path)).body as Document; // the requested document
    expect(document).toMatchObject({ openapi: "3.0.0" });
    expect(Object.keys(document.paths)).toEqual(
      ROUTES.map((route) => `${GROUP_PATH}/v1alpha3/${route.path}`),
    );
  });

  test("names the parameters of a path", async () => {
    const { body } = await get(`/openapi/v3${GROUP_PATH}/v1`);
    const path = `${GROUP_PATH}/v1/namespaces/{namespace}/virtualmachines/{name}/start`;
    const { paths } = body as Document; // the requested document
    expect(paths[path]?.["put"]).toMatchObject({
      operationId: "v1PutNamespaceVirtualmachinesNameStart",
      parameters: [{ name: "namespace" }, { name: "name" }],
      "x-kubernetes-group-version-kind": { group: GROUP, version: "v1", kind: "VirtualMachine" },
    });
  });
});

describe("documented paths", () => {
  const rows = VERSIONS.flatMap((version) => ROUTES.map((route) => ({ ...route, version })));

  test.each(rows)("serves $version $method $path", async ({ version, method, path }) => {
    const at = `${GROUP_PATH}/${version}/${filled(path)}`;
    const { code } = await ask(method, at);
    expect([200, 202, 400, 403, 404, 409, 422]).toContain(code);
    expect(await bench.send("PATCH", at)).toMatchObject({
      code: 405,
      body: { kind: "Status", reason: "MethodNotAllowed" },
    });
  });

  test.each(ROUTES.filter(({ isRefused }) => isRefused))(
    "rejects $path as missing feature $description, without requests",
    async ({ method, path, description }) => {
      const at = `${GROUP_PATH}/v1/${filled(path)}`;
      expect(await ask(method, at)).toMatchObject({
        code: 400,
        body: {
          kind: "Status",
          status: "Failure",
          reason: "BadRequest",
          message: `Patchbay does not have ${description}; nothing was changed`,
        },
      });
      expect(store.calls).toEqual([]);
    },
  );

  test("responds with 404 and a Status to other paths", async () => {
    const path = `${GROUP_PATH}/v1/namespaces/ns/virtualmachines/vm/sing`;
    expect(await get(path)).toMatchObject({ code: 404, body: { kind: "Status" } });
  });
});

describe("the installation", () => {
  test("serves its version", async () => {
    expect(await get(`${GROUP_PATH}/v1/version`)).toMatchObject({
      code: 200,
      body: { gitVersion: "v1.2.3" },
    });
  });

  test("is healthy while the API server responds", async () => {
    const path = `${GROUP_PATH}/v1alpha3/healthz`;
    expect(await get(path)).toMatchObject({
      code: 200,
      body: {
        apiserver: { connectivity: "ok", version: "v1.2.3" },
        "config-resource-version": "7",
      },
    });
    store = { ...store, list: () => Promise.reject(new Error("no answer")) };
    expect(await get(path)).toMatchObject({
      code: 500,
      body: { apiserver: { connectivity: "failed", error: "no answer" } },
    });
  });

  test("has no image of libguestfs, and explains how to name one", async () => {
    expect(await get(`${GROUP_PATH}/v1/guestfs`)).toMatchObject({
      code: 400,
      body: { message: expect.stringContaining("--image") as string },
    });
  });
});

describe("expansion of a VM", () => {
  const path = `${GROUP_PATH}/v1/namespaces/ns`;
  const SIZED = { ...aVm(), spec: { ...aVm().spec, instancetype: { name: "small" } } };

  test("returns a VM without instancetype unchanged", async () => {
    const answer = await get(`${path}/virtualmachines/vm/expand-spec`);
    expect(answer).toMatchObject({ code: 200, body: { spec: aVm().spec } });
    expect(await get(`${path}/virtualmachines/none/expand-spec`)).toMatchObject({ code: 404 });
  });

  test("applies the instancetype to a stored or sent VM", async () => {
    const small = {
      apiVersion: "instancetype.kubevirt.io/v1beta1",
      kind: CLUSTER_INSTANCETYPES.kind,
      metadata: { name: "small" },
      spec: { cpu: { guest: 2 }, memory: { guest: "1Gi" } },
    };
    store.put(CLUSTER_INSTANCETYPES, small);
    store.put(VIRTUAL_MACHINES, SIZED);
    const domain = { cpu: { sockets: 2, cores: 1, threads: 1 }, memory: { guest: "1Gi" } };
    const stored = await get(`${path}/virtualmachines/vm/expand-spec`);
    expect(stored).toMatchObject({ code: 200, body: { spec: { template: { spec: { domain } } } } });
    expect(stored.body).not.toHaveProperty("spec.instancetype");
    const nicless = { ...SIZED, spec: { ...SIZED.spec, template: { spec: { domain: {} } } } };
    const sent = await bench.send("PUT", `${path}/expand-vm-spec`, {
      text: JSON.stringify(nicless),
    });
    const devices = { interfaces: [{ name: "default", bridge: {} }] };
    expect(sent).toMatchObject({
      code: 200,
      body: { spec: { template: { spec: { domain: { ...domain, devices } } } } },
    });
    const clash = { template: { spec: { domain: { cpu: { cores: 1 } } } } };
    const refused = { ...SIZED, spec: { ...SIZED.spec, ...clash } };
    const field = "spec.template.spec.domain.cpu.cores";
    expect(
      await bench.send("PUT", `${path}/expand-vm-spec`, { text: JSON.stringify(refused) }),
    ).toMatchObject({
      code: 400,
      body: { message: `VM field(s) ${field} conflicts with selected instance type` },
    });
  });

  test.each([
    { name: "its own name and namespace", body: aVm(), code: 200 },
    { name: "a missing instancetype", body: SIZED, code: 400 },
    {
      name: "another namespace",
      body: { ...aVm(), metadata: { name: "vm", namespace: "other" } },
      code: 400,
    },
    {
      name: "an invalid spec",
      body: { ...SIZED, spec: { ...SIZED.spec, runStrategy: 1 } },
      code: 400,
    },
    { name: "kind Pod", body: { kind: "Pod" }, code: 400 },
    { name: "nothing", body: undefined, code: 400 },
  ])("responds to a sent VM with $name: $code", async ({ body, code }) => {
    const text = body === undefined ? "" : JSON.stringify(body);
    const answer = await bench.send("PUT", `${path}/expand-vm-spec`, { text });
    expect(answer).toMatchObject(
      code === 200 ? { code, body } : { code, body: { kind: "Status" } },
    );
  });
});
