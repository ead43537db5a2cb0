// SPDX-License-Identifier: Apache-2.0
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { type Answer, type TestServer, startTestServer } from "../testing/test-server.ts";

let server: TestServer;
beforeEach(async () => {
  server = await startTestServer();
});
afterEach(async () => {
  await server.close();
});

function createPod(priorityClassName?: string): Promise<Answer> {
  const containers = [{ name: "c", image: "i" }];
  const body = { metadata: { name: "p" }, spec: { containers, priorityClassName } };
  return server.send("POST", "/api/v1/namespaces/default/pods", { body });
}

describe("the priority of a pod", () => {
  test.each([
    { name: "high", fields: {}, want: { priority: 7, preemptionPolicy: "PreemptLowerPriority" } },
    {
      name: "high",
      fields: { preemptionPolicy: "Never" },
      want: { priority: 7, preemptionPolicy: "Never" },
    },
    { name: "system-node-critical", fields: {}, want: { priority: 2_000_001_000 } },
  ])("is that of class $name with $fields", async ({ name, fields, want }) => {
    const body = { metadata: { name: "high" }, value: 7, ...fields };
    await server.send("POST", "/apis/scheduling.k8s.io/v1/priorityclasses", { body });
    expect(await createPod(name)).toMatchObject({ code: 201, body: { spec: want } });
  });

  test("is unset without a class", async () => {
    const { code, body } = await createPod();
    expect(code).toBe(201);
    expect(body["spec"]).not.toHaveProperty("priority");
  });

  test("needs a class that exists", async () => {
    expect(await createPod("none")).toMatchObject({
      code: 403,
      body: { message: 'pods "p" is forbidden: no PriorityClass with name none was found' },
    });
  });
});

describe("a LimitRange", () => {
  const putRange = (limit: object) =>
    server.put("limitranges", {
      apiVersion: "v1",
      kind: "LimitRange",
      metadata: { name: "r", namespace: "default", uid: "u" },
      spec: { limits: [limit] },
    });

  test("sets defaults in new pods, also in containers that webhooks add", async () => {
    await putRange({ type: "Container", defaultRequest: { cpu: "1" }, default: { cpu: "2" } });
    server.webhooks.change = ({ spec }) => {
      (spec as { containers: object[] }).containers.push({ name: "added", image: "i" });
    };
    const { code, body } = await createPod();
    expect(code).toBe(201);
    const resources = { requests: { cpu: "1" }, limits: { cpu: "2" } };
    expect(body["spec"]).toMatchObject({
      containers: [
        { name: "c", resources },
        { name: "added", resources },
      ],
    });
    expect(body["status"]).toMatchObject({ qosClass: "Burstable" });
  });

  test("rejects a pod beyond its limits", async () => {
    await putRange({ type: "Container", max: { memory: "1Gi" }, default: { memory: "2Gi" } });
    expect(await createPod()).toMatchObject({
      code: 403,
      body: {
        message:
          'pods "p" is forbidden: maximum memory usage per Container is 1Gi, but limit is 2Gi',
      },
    });
  });

  test("judges a claim when it requests a size, not at other changes", async () => {
    const spec = { accessModes: ["ReadWriteOnce"], resources: { requests: { storage: "5Gi" } } };
    const CLAIMS = "/api/v1/namespaces/default/persistentvolumeclaims";
    const post = (name: string) =>
      server.send("POST", CLAIMS, { body: { metadata: { name }, spec } });
    expect((await post("before")).code).toBe(201);
    await putRange({ type: "PersistentVolumeClaim", max: { storage: "2Gi" } });
    expect(await post("after")).toMatchObject({
      code: 403,
      body: {
        message:
          'persistentvolumeclaims "after" is forbidden: maximum storage usage per PersistentVolumeClaim is 2Gi, but request is 5Gi',
      },
    });
    const body = { metadata: { labels: { a: "b" } } };
    expect((await server.send("PATCH", `${CLAIMS}/before`, { body })).code).toBe(200);
  });
});
