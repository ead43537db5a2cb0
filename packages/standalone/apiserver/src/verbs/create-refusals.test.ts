// SPDX-License-Identifier: Apache-2.0
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { widgetDefinition } from "../testing/objects.ts";
import { type TestServer, startTestServer } from "../testing/test-server.ts";

const MAPS = "/api/v1/namespaces/default/configmaps";
const WIDGETS = "/apis/test.io/v1/namespaces/default/widgets";
const DEFINITIONS = "apiextensions.k8s.io/customresourcedefinitions";

let server: TestServer;

beforeAll(async () => {
  server = await startTestServer();
  await server.put(DEFINITIONS, widgetDefinition());
  await server.put("namespaces", {
    apiVersion: "v1",
    kind: "Namespace",
    metadata: { name: "ending", deletionTimestamp: "1970-01-01T00:00:00Z" },
  });
});

beforeEach(() => {
  server.webhooks.onRequest = undefined;
});

afterAll(async () => {
  await server.close();
});

function aMap(name: string, change: object = {}) {
  return { apiVersion: "v1", kind: "ConfigMap", metadata: { name, ...change }, data: { k: "v" } };
}

describe("a claim that waits for an upload", () => {
  const CLAIMS = "/api/v1/namespaces/default/persistentvolumeclaims";
  const UPLOAD = "cdi.kubevirt.io/storage.upload.target";
  const spec = { accessModes: ["ReadWriteOnce"], resources: { requests: { storage: "1Gi" } } };
  const claim = (name: string, annotations: Readonly<Record<string, string>> = {}) => ({
    apiVersion: "v1",
    kind: "PersistentVolumeClaim",
    spec,
    metadata: { name, annotations },
  });
  const refusal = {
    code: 422,
    body: {
      details: {
        causes: [
          {
            field: `metadata.annotations[${UPLOAD}]`,
            message: expect.stringMatching(
              /^Patchbay does not have the Containerized Data Importer/,
            ) as string,
          },
        ],
      },
    },
  };

  test("is rejected while no server handles CDI's kinds, and is not stored", async () => {
    const body = claim("up", { [UPLOAD]: "" });
    expect(await server.send("POST", CLAIMS, { body })).toMatchObject(refusal);
    expect(await server.send("GET", `${CLAIMS}/up`)).toMatchObject({ code: 404 });
    await server.send("POST", CLAIMS, { body: claim("old") });
    const patch = { body: { metadata: { annotations: { [UPLOAD]: "" } } } };
    expect(await server.send("PATCH", `${CLAIMS}/old`, patch)).toMatchObject(refusal);
  });

  test.each([
    {
      name: "rejected if Patchbay's own DataVolumes are served",
      owner: "patchbay",
      code: 422,
    },
    { name: "left to CDI where that is installed", owner: "cdi", code: 201 },
  ])("is $name", async ({ owner, code }) => {
    await server.put(DEFINITIONS, {
      apiVersion: "apiextensions.k8s.io/v1",
      kind: "CustomResourceDefinition",
      metadata: {
        name: "datavolumes.cdi.kubevirt.io",
        labels: { "app.kubernetes.io/part-of": owner },
      },
    });
    const body = claim(`for-${owner}`, { [UPLOAD]: "" });
    expect(await server.send("POST", CLAIMS, { body })).toMatchObject({ code });
  });
});

describe("rejections", () => {
  beforeAll(async () => {
    await server.send("POST", MAPS, { body: aMap("taken") });
  });

  test.each([
    {
      name: "a name in use",
      path: MAPS,
      body: aMap("taken"),
      want: {
        code: 409,
        body: { reason: "AlreadyExists", message: 'configmaps "taken" already exists' },
      },
    },
    {
      name: "a name in use, in a dry run",
      path: `${MAPS}?dryRun=All`,
      body: aMap("taken"),
      want: { code: 409, body: { reason: "AlreadyExists" } },
    },
    {
      name: "another namespace than the path's",
      path: MAPS,
      body: aMap("a", { namespace: "other" }),
      want: {
        code: 400,
        body: {
          message:
            "the namespace of the provided object does not match the namespace sent on the request",
        },
      },
    },
    {
      name: "a resourceVersion",
      path: MAPS,
      body: aMap("a", { resourceVersion: "5" }),
      want: {
        code: 400,
        body: { message: "resourceVersion should not be set on objects to be created" },
      },
    },
    {
      name: "an unknown namespace",
      path: "/api/v1/namespaces/none/configmaps",
      body: aMap("a"),
      want: { code: 404, body: { reason: "NotFound", message: 'namespaces "none" not found' } },
    },
    {
      name: "a namespace that is being deleted",
      path: "/api/v1/namespaces/ending/configmaps",
      body: aMap("a"),
      want: {
        code: 403,
        body: {
          reason: "Forbidden",
          message:
            'configmaps "a" is forbidden: unable to create new content in namespace ending because it is being terminated',
          details: {
            causes: [
              {
                reason: "NamespaceTerminating",
                message: "namespace ending is being terminated",
                field: "metadata.namespace",
              },
            ],
          },
        },
      },
    },
    {
      name: "an empty name and a violation of the kind's rules",
      path: "/apis/coordination.k8s.io/v1/namespaces/default/leases",
      body: { metadata: {}, spec: { leaseDurationSeconds: 0 } },
      want: {
        code: 422,
        body: {
          reason: "Invalid",
          details: {
            group: "coordination.k8s.io",
            kind: "Lease",
            causes: [
              { field: "metadata.name", reason: "FieldValueRequired" },
              { field: "spec.leaseDurationSeconds", reason: "FieldValueInvalid" },
            ],
          },
        },
      },
    },
    {
      name: "a custom resource that its schema refuses",
      path: WIDGETS,
      body: {
        apiVersion: "test.io/v1",
        kind: "Widget",
        metadata: { name: "a" },
        spec: { size: 900 },
      },
      want: { code: 422, body: { details: { causes: [{ field: "spec.size" }] } } },
    },
    { name: "an empty body", path: MAPS, body: undefined, want: { code: 400 } },
  ])("$name: $want.code", async ({ path, body, want }) => {
    const before = server.deps.store.revision();
    expect(await server.send("POST", path, { body })).toMatchObject(want);
    expect(server.deps.store.revision()).toBe(before);
  });

  test("webhooks are not called for an object whose namespace does not exist", async () => {
    const asked = server.webhooks.recorded.length;
    await server.send("POST", "/api/v1/namespaces/none/configmaps", { body: aMap("a") });
    expect(server.webhooks.recorded).toHaveLength(asked);
  });

  test("an empty resourceVersion is accepted", async () => {
    const body = aMap("empty-version", { resourceVersion: "", namespace: "" });
    expect((await server.send("POST", MAPS, { body })).code).toBe(201);
  });

  test("new objects of a definition that is being deleted fail with 405", async () => {
    const own = await startTestServer();
    const ending = widgetDefinition();
    ending.metadata.deletionTimestamp = "1970-01-01T00:00:00Z";
    await own.put(DEFINITIONS, ending);
    expect(
      await own.send("POST", WIDGETS, {
        body: { apiVersion: "test.io/v1", kind: "Widget", metadata: { name: "a" } },
      }),
    ).toMatchObject({ code: 405, body: { reason: "MethodNotAllowed" } });
    await own.close();
  });

  test("a namespace that terminates during webhook calls accepts no new object", async () => {
    await server.put("namespaces", {
      apiVersion: "v1",
      kind: "Namespace",
      metadata: { name: "brief" },
    });
    server.webhooks.onRequest = async ({ phase }) => {
      if (phase !== "validate") return;
      await server.put("namespaces", {
        apiVersion: "v1",
        kind: "Namespace",
        metadata: { name: "brief", deletionTimestamp: "1970-01-01T00:00:00Z" },
      });
    };
    const path = "/api/v1/namespaces/brief/configmaps";
    expect((await server.send("POST", path, { body: aMap("a") })).code).toBe(403);
    expect(server.stored("configmaps", "a", "brief")).toBeUndefined();
  });
});

describe("PUT to an unknown name", () => {
  const LEASES = "/apis/coordination.k8s.io/v1/namespaces/default/leases";
  const role = (name: string, ...verbs: readonly string[]) => ({
    apiVersion: "rbac.authorization.k8s.io/v1",
    kind: "Role",
    metadata: { name, namespace: "default" },
    rules: [{ verbs, apiGroups: ["coordination.k8s.io"], resources: ["leases"] }],
  });
  const binding = (name: string) => ({
    apiVersion: "rbac.authorization.k8s.io/v1",
    kind: "RoleBinding",
    metadata: { name, namespace: "default" },
    roleRef: { apiGroup: "rbac.authorization.k8s.io", kind: "Role", name },
    subjects: [{ kind: "User", name, apiGroup: "rbac.authorization.k8s.io" }],
  });

  beforeAll(async () => {
    await server.put(
      "rbac.authorization.k8s.io/roles",
      role("updater", "update"),
      role("creator", "create", "update"),
    );
    await server.put(
      "rbac.authorization.k8s.io/rolebindings",
      binding("updater"),
      binding("creator"),
    );
  });

  test.each([
    {
      name: "a user with only the update verb",
      user: "updater",
      want: {
        code: 403,
        body: {
          reason: "Forbidden",
          message:
            'leases.coordination.k8s.io "l-updater" is forbidden: User "updater" cannot create resource "leases" in API group "coordination.k8s.io" in the namespace "default"',
        },
      },
    },
    { name: "a user with the create verb", user: "creator", want: { code: 201 } },
  ])("$name: $want.code", async ({ user, want }) => {
    const body = { metadata: { name: `l-${user}` } };
    expect(
      await server.send("PUT", `${LEASES}/l-${user}`, { body, user: { name: user, groups: [] } }),
    ).toMatchObject(want);
  });

  test("a kind that PUT does not create: 404", async () => {
    const answer = await server.send("PUT", `${MAPS}/unknown`, { body: aMap("unknown") });
    expect(answer).toMatchObject({
      code: 404,
      body: { message: 'configmaps "unknown" not found' },
    });
  });
});
