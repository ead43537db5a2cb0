// SPDX-License-Identifier: Apache-2.0
// Objects beyond a limit.
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { aPod, widgetDefinition } from "../testing/objects.ts";
import { ADMIN, type TestServer, startTestServer } from "../testing/test-server.ts";

const PODS = "/api/v1/namespaces/default/pods";
const SERVICES = "/api/v1/namespaces/default/services";
const WIDGETS = "/apis/test.io/v1/namespaces/default/widgets";
const SERVICE_ACCOUNT = { name: "system:serviceaccount:patchbay:virt-controller" };

let server: TestServer;
let asked: string[];

beforeAll(async () => {
  server = await startTestServer();
  await server.put("apiextensions.k8s.io/customresourcedefinitions", widgetDefinition());
});

beforeEach(() => {
  asked = [];
  server.webhooks.onRequest = (request) => {
    asked.push(JSON.stringify(request));
  };
});

afterAll(() => server.close());

function many(count: number, build: (name: string) => unknown): readonly unknown[] {
  return Array.from({ length: count }, (_unused, index) => build(`n${String(index)}`));
}

function podWith(name: string, spec: object): object {
  const metadata = { name };
  const containers = [{ name: "c", image: "i" }];
  return { apiVersion: "v1", kind: "Pod", metadata, spec: { containers, ...spec } };
}

describe("a new object beyond a limit is refused with one cause", () => {
  test.each([
    {
      name: "2,000 emptyDirs",
      path: PODS,
      body: podWith("p", { volumes: many(2000, (name) => ({ name, emptyDir: {} })) }),
      want: "spec.volumes: Too many: 2000: must have at most 64 items",
    },
    {
      name: "8,000 pull secrets",
      path: PODS,
      body: podWith("p", { imagePullSecrets: many(8000, (name) => ({ name })) }),
      want: "spec.imagePullSecrets: Too many: 8000: must have at most 64 items",
    },
    {
      name: "200 sources of a projected volume",
      path: PODS,
      body: podWith("p", {
        volumes: [
          {
            name: "v",
            projected: { sources: many(200, (name) => ({ configMap: { name, optional: true } })) },
          },
        ],
      }),
      want: "spec.volumes[0].projected.sources: Too many: 200: must have at most 64 items",
    },
    {
      name: "250 containers, which are invalid too",
      path: PODS,
      body: podWith("p", { containers: many(250, (name) => ({ name: `${name}!` })) }),
      want: "spec.containers: Too many: 250: must have at most 64 items",
    },
    {
      name: "a grace period of 9e12 s",
      path: PODS,
      body: podWith("p", { terminationGracePeriodSeconds: 9e12 }),
      want: "spec.terminationGracePeriodSeconds: Invalid value: 9000000000000: must be less than or equal to 2147483647",
    },
    {
      name: "6,000 ports",
      path: SERVICES,
      body: {
        apiVersion: "v1",
        kind: "Service",
        metadata: { name: "s" },
        spec: { ports: many(6000, (name) => ({ name, port: 1 })) },
      },
      want: "spec.ports: Too many: 6000: must have at most 256 items",
    },
    {
      name: "an event of 200 kB",
      path: "/api/v1/namespaces/default/events",
      body: {
        apiVersion: "v1",
        kind: "Event",
        metadata: { name: "e" },
        involvedObject: { namespace: "default" },
        message: "x".repeat(200_000),
      },
      want: "message: Too long: must have at most 8192 bytes",
    },
    {
      name: "5,000 finalizers of a custom object",
      path: WIDGETS,
      body: {
        apiVersion: "test.io/v1",
        kind: "Widget",
        metadata: { name: "w", finalizers: many(5000, (name) => `a.io/${name}`) },
      },
      want: "metadata.finalizers: Too many: 5000: must have at most 4096 items",
    },
  ])("$name", async ({ path, body, want }) => {
    const { code, body: status } = await server.send("POST", path, { body });
    expect(code).toBe(422);
    expect(status.details.causes?.map((cause) => `${cause.field ?? ""}: ${cause.message}`)).toEqual(
      [want],
    );
    expect(asked).toEqual([]);
  });
});

test("services of Patchbay write launcher pods of any size", async () => {
  const spec = { volumes: many(65, (name) => ({ name, emptyDir: {} })) };
  const user = { ...ADMIN, ...SERVICE_ACCOUNT };
  const body = podWith("launcher", spec);
  expect(await server.send("POST", PODS, { body, user })).toMatchObject({ code: 201 });
});

describe("a stored object beyond a limit", () => {
  const volumes = many(70, (name) => ({ name, emptyDir: {} }));
  const patch = (body: object) => server.send("PATCH", `${PODS}/stored`, { body });

  beforeAll(() => server.put("pods", aPod("stored", { spec: { volumes } })));

  test("can be changed elsewhere", async () => {
    expect(await patch({ metadata: { labels: { a: "b" } } })).toMatchObject({ code: 200 });
  });

  test("cannot grow, or go beyond another limit", async () => {
    const more = [...volumes, { name: "more", emptyDir: {} }];
    expect(await patch({ spec: { volumes: more } })).toMatchObject({
      code: 422,
      body: { details: { causes: [{ field: "spec.volumes" }] } },
    });
    const finalizers = many(5000, (name) => `a.io/${name}`);
    expect(await patch({ metadata: { finalizers } })).toMatchObject({
      code: 422,
      body: { details: { causes: [{ field: "metadata.finalizers" }] } },
    });
  });
});

test("a refusal quotes long values in part, and names eight of many labels", async () => {
  const labels = Object.fromEntries(
    many(100, (name) => [name, "x y".repeat(700)]) as readonly (readonly [string, string])[],
  );
  const body = { ...podWith("long", {}), metadata: { name: "long", labels } };
  const { body: status } = await server.send("POST", PODS, { body });
  expect(status.details.causes).toHaveLength(8);
  expect(status.message.length).toBeLessThan(16_384);
});
