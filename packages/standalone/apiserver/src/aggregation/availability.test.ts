// SPDX-License-Identifier: Apache-2.0
// What the conditions of APIServices report of their servers.
import type { Server } from "node:http";
import { describe, expect, test } from "vitest";
import type { KubeObject } from "../objects/object.ts";
import {
  BUCKET,
  NAME,
  SUBSET,
  apiService,
  endpoints,
  putBackend,
  service,
} from "../testing/far-api.ts";
import {
  MemoryConnections,
  type ConnectTarget,
  makeBackendServer,
} from "../testing/memory-network.ts";
import { startControllerTest } from "../testing/test-controllers.ts";
import { type TestServer, runTurns, startTestServer, until } from "../testing/test-server.ts";
import { startAvailability } from "./availability.ts";
import { RemoteDiscovery } from "./remote-discovery.ts";

describe("availability", () => {
  interface Condition {
    readonly type: string;
    readonly status: string;
    readonly reason: string;
    readonly message: string;
    readonly lastTransitionTime: string;
  }

  function available(server: TestServer): Condition | undefined {
    const { conditions } = server.stored(BUCKET, NAME, "")?.["status"] as {
      conditions: Condition[];
    };
    return conditions.find(({ type }) => type === "Available");
  }

  function discovery(): Server {
    return makeBackendServer((request, response) => {
      const key = "apis/far.io/v1";
      const isIndex = request.url === "/openapi/v3";
      response.end(
        JSON.stringify(
          isIndex ? { paths: { [key]: { serverRelativeURL: "/u" } } } : { resources: [1] },
        ),
      );
    }).server;
  }

  const refusing = makeBackendServer((_request, response) => response.writeHead(403).end()).server;
  const where = "https://10.0.0.1:8443/apis/far.io/v1";

  test.each<{
    name: string;
    service?: KubeObject;
    endpoints?: KubeObject;
    reached?: Record<string, ConnectTarget>;
    want: Partial<Condition>;
  }>([
    {
      name: "a missing Service",
      want: {
        status: "False",
        reason: "ServiceNotFound",
        message: 'service/far in "default" is not present',
      },
    },
    {
      name: "a Service without the port",
      service: service({ ports: [{ port: 80 }] }),
      want: {
        status: "False",
        reason: "ServicePortError",
        message: 'service/far in "default" is not listening on port 443',
      },
    },
    {
      name: "missing endpoints",
      service: service(),
      want: {
        status: "False",
        reason: "EndpointsNotFound",
        message: 'cannot find endpoints for service/far in "default"',
      },
    },
    {
      name: "endpoints without addresses",
      service: service(),
      endpoints: endpoints({ addresses: [{ ip: "9.9.9.9" }], ports: [{ name: "x", port: 1 }] }),
      want: {
        status: "False",
        reason: "MissingEndpoints",
        message: 'endpoints for service/far in "default" have no addresses with port name "https"',
      },
    },
    {
      name: "a server that refuses connections",
      service: service(),
      endpoints: endpoints(SUBSET),
      want: {
        status: "False",
        reason: "FailedDiscoveryCheck",
        message: `failing or missing response from ${where}: Get "${where}": dial tcp 10.0.0.2:8443: connect: connection refused`,
      },
    },
    {
      name: "a server that answers with an error",
      service: service(),
      endpoints: endpoints(SUBSET),
      reached: { "10.0.0.1:8443": refusing },
      want: {
        status: "False",
        reason: "FailedDiscoveryCheck",
        message: `failing or missing response from ${where}: bad status from ${where}: 403`,
      },
    },
    {
      name: "a server that answers",
      service: service(),
      endpoints: endpoints(SUBSET),
      reached: { "10.0.0.1:8443": discovery() },
      want: { status: "True", reason: "Passed", message: "all checks passed" },
    },
    {
      name: "an external name",
      service: service({ type: "ExternalName", externalName: "far.example" }),
      reached: { "far.example:443": discovery() },
      want: { status: "True", reason: "Passed" },
    },
  ])("is reported for $name", async ({ service: one, endpoints: two, reached = {}, want }) => {
    await using given = await startControllerTest();
    const { server } = given;
    await server.put(BUCKET, apiService({ available: "Unknown" }));
    if (one !== undefined) await server.put("services", one);
    if (two !== undefined) await server.put("endpoints", two);
    const connections = new MemoryConnections(reached);
    const remote = new RemoteDiscovery(server.deps.store);
    await given.start(startAvailability, { connections: connections.asConnections, remote });
    await until("the condition", () => available(server)?.status !== "Unknown");
    expect(available(server)).toMatchObject({
      ...want,
      lastTransitionTime: "1970-01-01T00:00:00Z",
    });
    const known = remote.list()[0];
    expect(known).toMatchObject({
      group: "far.io",
      version: "v1",
      isAvailable: want.status === "True",
    });
    expect(known?.documents).toEqual(
      want.status === "True" ? { resources: { resources: [1] }, openApiUrl: "/u" } : undefined,
    );
    expect(
      connections.attempts.every(({ peer }) => peer.isInsecure === true && peer.caPem === ""),
    ).toBe(true);
  });

  test("of a local version is always True", async () => {
    await using given = await startControllerTest();
    await given.server.put(
      BUCKET,
      apiService({ spec: { service: undefined }, available: "False" }),
    );
    const remote = new RemoteDiscovery(given.server.deps.store);
    const { asConnections: connections } = new MemoryConnections({});
    await given.start(startAvailability, { connections, remote });
    await until("the condition", () => available(given.server)?.status === "True");
    expect(available(given.server)).toMatchObject({ reason: "Local" });
    expect([remote.list(), remote.has("far.io", "v1")]).toEqual([[], false]);
  });

  test("is checked soon after a failure, every 30 s, and on Service or endpoint changes", async () => {
    await using given = await startControllerTest();
    const { server } = given;
    await server.put(BUCKET, apiService());
    await putBackend(server);
    const reached: Record<string, ConnectTarget> = {};
    const connections = new MemoryConnections(reached);
    const remote = new RemoteDiscovery(server.deps.store);
    await given.start(startAvailability, { connections: connections.asConnections, remote });
    await until("the failure", () => available(server)?.status === "False");
    await until("the next attempt", () => server.clock.dueMs.includes(50));
    expect(server.clock.dueMs).toContain(30_000);
    reached["10.0.0.1:8443"] = discovery();
    await server.clock.advance(50);
    await until("the success", () => available(server)?.status === "True");
    // A second attempt may be due: it ends before the server does.
    await server.clock.advance(10_000);
    await runTurns(20);
    delete reached["10.0.0.1:8443"];
    await server.clock.advance(19_950);
    await until("the regular check", () => available(server)?.status === "False");
    await server.deps.store.write((transaction) => {
      transaction.remove({ bucket: "/services", namespace: "default", name: "far" }, service());
    });
    await until("the change of the Service", () => available(server)?.reason === "ServiceNotFound");
    const before = available(server)?.lastTransitionTime;
    expect(before).toBe("1970-01-01T00:00:30Z");
    const revision = server.deps.store.revision();
    await server.put("configmaps", service());
    await runTurns(20);
    expect(server.deps.store.revision()).toBe(revision + 1);
  });

  test("is checked when the APIService's spec changes, not when labels or other backends change", async () => {
    await using given = await startControllerTest();
    const { server } = given;
    await server.put(BUCKET, apiService({ available: "Unknown" }));
    await putBackend(server);
    const connections = new MemoryConnections({ "10.0.0.1:8443": discovery() });
    const remote = new RemoteDiscovery(server.deps.store);
    await given.start(startAvailability, { connections: connections.asConnections, remote });
    await until("the condition", () => available(server)?.status === "True");
    await runTurns(20);
    expect(server.clock.dueMs).toEqual([30_000]);
    const count = connections.attempts.length;
    const one = service();
    await server.put("services", { ...one, metadata: { ...one.metadata, name: "near" } });
    await server.put("services", { ...one, metadata: { ...one.metadata, namespace: "other" } });
    const stored = server.stored(BUCKET, NAME, "") ?? apiService();
    await server.put(BUCKET, { ...stored, metadata: { ...stored.metadata, labels: { a: "b" } } });
    await runTurns(20);
    expect(connections.attempts).toHaveLength(count);
    await server.put(BUCKET, apiService({ spec: { service: undefined } }));
    await until("the change of the spec", () => available(server)?.reason === "Local");
  });

  test("retains other conditions and the last transition time, and is written once", async () => {
    await using given = await startControllerTest();
    const { server } = given;
    const before = apiService({ available: "False" });
    const other = { type: "Other", status: "True" };
    const { conditions } = before["status"] as { conditions: readonly Condition[] };
    await server.put(BUCKET, { ...before, status: { conditions: [other, ...conditions] } });
    const remote = new RemoteDiscovery(server.deps.store);
    const { asConnections } = new MemoryConnections({});
    await given.start(startAvailability, { connections: asConnections, remote });
    await until("the reason", () => available(server)?.reason === "ServiceNotFound");
    expect(server.stored(BUCKET, NAME, "")?.["status"]).toEqual({
      conditions: [
        other,
        {
          type: "Available",
          status: "False",
          reason: "ServiceNotFound",
          message: 'service/far in "default" is not present',
          lastTransitionTime: "2026-01-01T00:00:00Z",
        },
      ],
    });
    expect(server.clock.dueMs).toEqual([30_000]);
    const count = server.webhooks.recorded.length;
    expect(count).toBeGreaterThan(0);
    await server.clock.advance(30_000);
    await runTurns(20);
    expect(server.webhooks.recorded).toHaveLength(count);
  });
});

test("orders remote group versions as their APIServices define", async () => {
  const server = await startTestServer();
  await server.put(BUCKET, apiService());
  const priority = new RemoteDiscovery(server.deps.store).makePriorityLookup();
  expect([priority("far.io", "v1"), priority("new.io", "v1")]).toEqual([
    { group: 2000, version: 15 },
    { group: 1000, version: 100 },
  ]);
  await server.close();
});
